import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from giftrail.db import changes, pool


@dataclass
class Clock:
    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[pool.Database]:
    database = await pool.open_database(url, read_connections=2, write_connections=1, statement_timeout_seconds=5)
    try:
        yield database
    finally:
        database.terminate()


async def test_versions_rise_by_one_for_their_topic_alone(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        before = await changes.read_versions(conn)
        for step in (1, 2, 3):
            async with conn.transaction():
                assert await changes.raise_version(conn, topic="catalog") == before["catalog"] + step
        assert await changes.read_versions(conn) == before | {"catalog": before["catalog"] + 3}


async def test_an_edit_that_is_rolled_back_raises_nothing(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        before = await changes.read_versions(conn)
        transaction = conn.transaction()
        await transaction.start()
        await changes.raise_version(conn, topic="partners")
        await transaction.rollback()
        assert await changes.read_versions(conn) == before


async def test_versions_are_handed_out_in_the_order_of_commits(database_url: str) -> None:
    async with pool.connect(database_url) as first, pool.connect(database_url) as second:
        async with first.transaction():
            earlier = await changes.raise_version(first, topic="catalog")
            waiting = asyncio.create_task(changes.raise_version(second, topic="catalog"))
            await asyncio.sleep(0.1)
            assert not waiting.done(), "a later edit must not be numbered before the earlier one is committed"
        assert await waiting == earlier + 1


async def test_the_watcher_refreshes_what_has_risen_and_only_that(database_url: str) -> None:
    async with opened(database_url) as database, pool.connect(database_url) as conn:
        watcher = changes.Watcher(database, poll_seconds=1, stale_after_seconds=5, clock=Clock())
        told: list[tuple[str, int]] = []

        async def catalog(version: int) -> None:
            told.append(("catalog", version))

        async def partners(version: int) -> None:
            told.append(("partners", version))

        watcher.subscribe("catalog", catalog)
        watcher.subscribe("partners", partners)
        await watcher.look()
        assert sorted(told) == sorted(watcher.seen.items())
        told.clear()
        await watcher.look()
        assert told == []
        raised = await changes.raise_version(conn, topic="partners")
        await watcher.look()
        assert told == [("partners", raised)]
        assert watcher.seen["partners"] == raised


async def test_a_refresh_that_fails_is_tried_again_and_does_not_count_as_a_look(database_url: str) -> None:
    clock = Clock()
    async with opened(database_url) as database:
        watcher = changes.Watcher(database, poll_seconds=1, stale_after_seconds=5, clock=clock)
        attempts: list[int] = []

        async def refresh(version: int) -> None:
            attempts.append(version)
            if len(attempts) == 1:
                raise RuntimeError("not now")

        watcher.subscribe("catalog", refresh)
        with pytest.raises(RuntimeError):
            await watcher.look()
        assert not watcher.is_fresh()
        assert "catalog" not in watcher.seen
        await watcher.look()
        assert len(attempts) == 2
        assert watcher.is_fresh()


async def test_a_process_that_could_not_look_for_five_seconds_is_not_fresh(database_url: str) -> None:
    clock = Clock()
    async with opened(database_url) as database:
        watcher = changes.Watcher(database, poll_seconds=1, stale_after_seconds=5, clock=clock)
        assert not watcher.is_fresh()
        await watcher.look()
        clock.seconds += 4.99
        assert watcher.is_fresh()
        clock.seconds += 0.01
        assert not watcher.is_fresh()


async def test_the_watcher_goes_on_after_its_connection_was_cut(database_url: str) -> None:
    async with opened(database_url) as database, pool.connect(database_url) as conn:
        watcher = changes.Watcher(
            database, poll_seconds=0.01, stale_after_seconds=5, clock=asyncio.get_event_loop().time
        )
        seen = asyncio.Event()
        wanted = (await changes.read_versions(conn))["catalog"] + 1

        async def refresh(version: int) -> None:
            if version == wanted:
                seen.set()

        watcher.subscribe("catalog", refresh)
        await watcher.look()
        running = asyncio.create_task(watcher.run())
        await conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'giftrail'"
        )
        await changes.raise_version(conn, topic="catalog")
        await asyncio.wait_for(seen.wait(), 5)
        running.cancel()
