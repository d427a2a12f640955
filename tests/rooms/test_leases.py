"""Rows as work: claimed by one at a time, given back or taken over, never lost (engines, work rows)."""

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from giftrail.db import pool
from giftrail.leases import loop, model, store
from giftrail.orders import store as orders

WORK = model.Table("fulfilment", ("partner_id", "order_id"))
START = datetime(2026, 1, 31, 12, tzinfo=UTC)
LEASE = timedelta(seconds=90)
LIMITS = model.Limits(claim_rows=5, in_flight=10, lease_seconds=90, renew_seconds=15, poll_seconds=0.02, stop_seconds=5)
PATIENCE_SECONDS = 10.0


@dataclass
class Bench:
    """A table of work over a real database, and a clock that a test moves."""

    url: str
    database: pool.Database
    conn: pool.Connection
    at: datetime = START
    partner_id: str = field(default_factory=lambda: f"prt_{uuid.uuid4().hex}")

    def now(self) -> datetime:
        """The test's time."""
        return self.at

    async def put(self, *names: str, due_in_seconds: float = 0) -> None:
        """New work of these names."""
        next_at = self.at + timedelta(seconds=due_in_seconds)
        rows = [(self.partner_id, name, 1) for name in names]
        await orders.append_fulfilments(self.conn, orders=rows, now=next_at)

    async def claim(self, rows: int = 100, *, conn: pool.Connection | None = None) -> dict[str, model.Claim]:
        """By name, what a worker gets."""
        claims = await store.claim(
            conn or self.database.read, WORK, rows=rows, now=self.at, lease_until=self.at + LEASE
        )
        assert {claim.key[0] for claim in claims} <= {self.partner_id}
        return {claim.key[1]: claim for claim in claims}

    async def row(self, name: str) -> dict[str, Any]:
        """The row as it stands."""
        found = await self.conn.fetchrow("SELECT * FROM fulfilment WHERE order_id = $1", name)
        assert found is not None
        return dict(found)

    async def states(self) -> Counter[str]:
        """How many rows are in which state."""
        return Counter(row["state"] for row in await self.conn.fetch("SELECT state FROM fulfilment"))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await holds():  # noqa: ASYNC110 — the database tells it by no event
                await asyncio.sleep(0.01)

    async def finish(self, claim: model.Claim) -> None:
        """Work that is done at once."""
        await store.finish(self.database.read, WORK, claim=claim)

    def loop(self, work: Callable[[model.Claim], Awaitable[None]], **limits: Any) -> loop.Loop:
        """A worker over the table."""
        return loop.Loop(
            self.database, WORK, work=work, limits=replace(LIMITS, **limits), woken=asyncio.Event(), now=self.now
        )


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Bench]:
    database = await pool.open_database(url, read_connections=8, write_connections=1, statement_timeout_seconds=5)
    try:
        async with pool.connect(url) as conn:
            yield Bench(url, database, conn)
    finally:
        database.terminate()


@contextlib.asynccontextmanager
async def working(*loops: loop.Loop) -> AsyncIterator[None]:
    """The loops run; at the end they stop cleanly."""
    tasks = [asyncio.create_task(one.run()) for one in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * len(tasks)


class Fixed(Exception):
    """Something that is wrong with the work."""


# Claims.


async def test_what_is_due_is_claimed_longest_due_first_and_once(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("later", due_in_seconds=-1)
        await bench.put("first", due_in_seconds=-9)
        await bench.put("now")
        await bench.put("not yet", due_in_seconds=0.001)
        assert set(await bench.claim(2)) == {"first", "later"}
        assert set(await bench.claim()) == {"now"}
        assert await bench.claim() == {}
        row = await bench.row("now")
        assert (row["state"], row["next_at"], row["lease_until"]) == ("DUE", START + LEASE, START + LEASE)


async def test_a_claim_skips_rows_that_another_transaction_holds(database_url: str) -> None:
    async with opened(database_url) as bench, pool.connect(bench.url) as other:
        await bench.put("held", "free")
        async with other.transaction():
            await other.execute("SELECT FROM fulfilment WHERE order_id = 'held' FOR UPDATE")
            assert set(await bench.claim()) == {"free"}
        assert set(await bench.claim()) == {"held"}


async def test_two_that_claim_at_once_never_get_the_same_row(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put(*(f"work {n}" for n in range(200)))
        shares = await asyncio.gather(*(bench.claim(10) for _ in range(40)))
        names = [name for share in shares for name in share]
        assert len(names) == len(set(names))
        rest = await bench.claim(200)
        assert sorted([*names, *rest]) == sorted(f"work {n}" for n in range(200))


async def test_an_expired_lease_is_claimed_again_under_another_token_and_counted(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        tokens = set()
        for attempts in (1, 2, 3):
            claim = (await bench.claim())["work"]
            assert claim.attempts == attempts
            tokens.add(claim.token)
            bench.at += LEASE - timedelta(microseconds=1)
            assert await bench.claim() == {}
            bench.at += timedelta(microseconds=1)
        assert len(tokens) == 3


async def test_a_renewed_lease_lasts_longer_and_a_lost_one_is_not_renewed(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("kept", "lost", "done")
        claims = await bench.claim()
        await bench.finish(claims["done"])
        bench.at += LEASE
        taken = await bench.claim(1)  # of one of the two, whose worker is too late to renew
        lost = next(iter(taken))
        kept = ({"kept", "lost"} - {lost}).pop()
        renewed = await store.renew(
            bench.database.read, WORK, claims=list(claims.values()), lease_until=bench.at + LEASE
        )
        assert renewed == {claims[kept].token}
        bench.at += LEASE - timedelta(microseconds=1)
        assert await bench.claim() == {}
        await bench.finish(claims[kept])
        assert (await bench.row("done"))["state"] == (await bench.row(kept))["state"] == "DONE"


async def test_finished_work_is_never_claimed_again(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        await bench.finish((await bench.claim())["work"])
        row = await bench.row("work")
        assert (row["state"], row["attempts"], row["lease_token"], row["lease_until"]) == ("DONE", 0, None, None)
        bench.at += timedelta(days=365)
        assert await bench.claim() == {}


async def test_postponed_work_is_due_at_its_moment_and_its_attempts_are_forgotten_or_kept(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        for attempts, counted in ((0, 1), (7, 8), (2, 3)):
            claim = (await bench.claim())["work"]
            moment = bench.at + timedelta(seconds=30)
            await store.postpone(bench.database.read, WORK, claim=claim, next_at=moment, attempts=attempts)
            assert (await bench.row("work"))["lease_until"] is None
            bench.at = moment - timedelta(microseconds=1)
            assert await bench.claim() == {}
            bench.at = moment
            claim = (await bench.claim())["work"]
            assert claim.attempts == counted
            await store.postpone(bench.database.read, WORK, claim=claim, next_at=bench.at)


@pytest.mark.parametrize("how_lost", ["taken over", "finished", "postponed"])
@pytest.mark.parametrize("deed", ["finish", "postpone", "hold"])
async def test_a_stale_worker_changes_nothing(database_url: str, how_lost: str, deed: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        stale = (await bench.claim())["work"]
        if how_lost == "taken over":
            bench.at += LEASE
            assert set(await bench.claim()) == {"work"}
        elif how_lost == "finished":
            await bench.finish(stale)
        else:
            await store.postpone(bench.conn, WORK, claim=stale, next_at=bench.at)
        before = await bench.row("work")
        deeds = {
            "finish": lambda: bench.finish(stale),
            "postpone": lambda: store.postpone(bench.conn, WORK, claim=stale, next_at=bench.at + LEASE),
            "hold": lambda: store.hold(bench.conn, WORK, claim=stale),
        }
        with pytest.raises(model.LeaseLost):
            await deeds[deed]()
        assert await bench.row("work") == before


async def test_a_lease_that_ended_is_still_held_while_nobody_took_it(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        claim = (await bench.claim())["work"]
        bench.at += 2 * LEASE
        async with bench.conn.transaction():
            await store.hold(bench.conn, WORK, claim=claim)
            assert await bench.claim() == {}, "held: nobody can take it over in the middle of a transaction"
        await bench.finish(claim)


async def test_leases_that_ended_long_ago_are_listed(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("dropped", "done", "waiting")
        claims = await bench.claim()
        await bench.finish(claims["done"])
        await store.postpone(bench.conn, WORK, claim=claims["waiting"], next_at=bench.at)
        assert await store.list_overdue(bench.conn, WORK, before=START + LEASE) == []
        [overdue] = await store.list_overdue(bench.conn, WORK, before=START + LEASE + timedelta(microseconds=1))
        assert tuple(overdue) == (bench.partner_id, "dropped")


# Loops.


async def test_a_loop_works_on_all_that_is_due(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put(*(f"work {n}" for n in range(50)))
        async with working(bench.loop(bench.finish)):

            async def is_done() -> bool:
                return await bench.states() == {"DONE": 50}

            await bench.until(is_done)


async def test_a_loop_takes_no_more_than_it_may_have_in_flight(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put(*(f"work {n}" for n in range(30)))
        in_flight, most, let_go = 0, 0, asyncio.Event()

        async def work(claim: model.Claim) -> None:
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            await let_go.wait()
            in_flight -= 1
            await bench.finish(claim)

        async with working(bench.loop(work)):

            async def is_full() -> bool:
                return in_flight == LIMITS.in_flight

            await bench.until(is_full)
            await asyncio.sleep(0.1)
            claimed = await bench.conn.fetchval("SELECT count(*) FROM fulfilment WHERE lease_token IS NOT NULL")
            assert (in_flight, claimed) == (LIMITS.in_flight, LIMITS.in_flight)
            let_go.set()

            async def is_done() -> bool:
                return await bench.states() == {"DONE": 30}

            await bench.until(is_done)
        assert most == LIMITS.in_flight


async def test_two_loops_share_a_table_and_never_a_row(database_url: str) -> None:
    async with opened(database_url) as here, opened(database_url) as there:
        names = [f"work {n}" for n in range(300)]
        await here.put(*names)
        seen: list[tuple[str, str]] = []

        def worker(bench: Bench, name: str) -> loop.Loop:
            async def work(claim: model.Claim) -> None:
                seen.append((claim.key[1], name))
                await asyncio.sleep(0)
                await bench.finish(claim)

            return bench.loop(work)

        async with working(worker(here, "here"), worker(there, "there")):

            async def is_done() -> bool:
                return await here.states() == {"DONE": 300}

            await here.until(is_done)
        assert sorted(work for work, _ in seen) == sorted(names)
        assert {name for _, name in seen} == {"here", "there"}


async def test_a_clean_stop_lets_what_is_in_flight_end(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put(*(f"work {n}" for n in range(5)))
        begun, let_go = asyncio.Semaphore(0), asyncio.Event()

        async def work(claim: model.Claim) -> None:
            begun.release()
            await let_go.wait()
            await bench.finish(claim)

        running = asyncio.create_task(bench.loop(work).run())
        for _ in range(5):
            await asyncio.wait_for(begun.acquire(), PATIENCE_SECONDS)
        running.cancel()
        await asyncio.sleep(0.05)
        assert not running.done(), "it waits for what is in flight"
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, PATIENCE_SECONDS)
        assert await bench.states() == {"DONE": 5}


async def test_a_clean_stop_gives_back_what_does_not_end_in_time(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("quick", "slow")
        begun, cancelled = asyncio.Semaphore(0), asyncio.Event()

        async def work(claim: model.Claim) -> None:
            begun.release()
            try:
                await asyncio.sleep(0.05 if claim.key[1] == "quick" else 3600)
            except asyncio.CancelledError:
                cancelled.set()
                raise
            await bench.finish(claim)

        async with working(bench.loop(work, stop_seconds=0.5)):
            for _ in range(2):
                await asyncio.wait_for(begun.acquire(), PATIENCE_SECONDS)
        assert cancelled.is_set()
        assert (await bench.row("quick"))["state"] == "DONE"
        slow = await bench.row("slow")
        assert (slow["state"], slow["attempts"], slow["lease_token"]) == ("DUE", 0, None)
        claim = (await bench.claim())["slow"]
        assert claim.attempts == 1, "who stopped cleanly did not die of it"


async def test_work_that_fails_is_put_off_and_counted(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        attempts: list[int] = []

        async def work(claim: model.Claim) -> None:
            attempts.append(claim.attempts)
            if len(attempts) < 3:
                raise Fixed
            await bench.finish(claim)

        async with working(bench.loop(work)):
            for failures in (1, 2):

                async def is_put_off(failures: int = failures) -> bool:
                    row = await bench.row("work")
                    return row["lease_token"] is None and row["attempts"] == failures

                await bench.until(is_put_off)
                assert (await bench.row("work"))["next_at"] == bench.at + timedelta(seconds=loop.AFTER_FAILURE_SECONDS)
                bench.at += timedelta(seconds=loop.AFTER_FAILURE_SECONDS)

            async def is_done() -> bool:
                return await bench.states() == {"DONE": 1}

            await bench.until(is_done)
        assert attempts == [1, 2, 3]


async def test_work_that_the_database_cut_off_is_put_off_and_not_counted(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        attempts: list[int] = []

        async def work(claim: model.Claim) -> None:
            attempts.append(claim.attempts)
            if len(attempts) < 4:
                raise ConnectionResetError
            await bench.finish(claim)

        async with working(bench.loop(work)):

            async def is_done() -> bool:
                bench.at += timedelta(seconds=loop.AFTER_OUTAGE_SECONDS)
                return await bench.states() == {"DONE": 1}

            await bench.until(is_done)
        assert attempts == [1, 1, 1, 1]


async def test_one_that_fails_holds_nobody_up(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put(*(f"work {n}" for n in range(40)))

        async def work(claim: model.Claim) -> None:
            if claim.key[1] == "work 7":
                raise Fixed
            await bench.finish(claim)

        async with working(bench.loop(work)):

            async def all_others_are_done() -> bool:
                return await bench.states() == {"DONE": 39, "DUE": 1}

            await bench.until(all_others_are_done)


async def test_a_loop_renews_the_leases_of_what_it_works_on(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def work(claim: model.Claim) -> None:
            begun.set()
            await let_go.wait()
            await bench.finish(claim)

        async with working(bench.loop(work, renew_seconds=0.02)):
            await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
            for _ in range(5):
                bench.at += LEASE - timedelta(seconds=1)

                async def is_renewed() -> bool:
                    renewed: bool = (await bench.row("work"))["lease_until"] == bench.at + LEASE
                    return renewed

                await bench.until(is_renewed)
            assert await bench.claim() == {}
            let_go.set()
        assert await bench.states() == {"DONE": 1}


async def test_what_a_worker_dropped_is_taken_over_by_another(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        dropped = (await bench.claim())["work"]
        attempts: list[int] = []

        async def work(claim: model.Claim) -> None:
            attempts.append(claim.attempts)
            await bench.finish(claim)

        async with working(bench.loop(work)):
            await asyncio.sleep(0.1)
            assert attempts == []
            bench.at += LEASE

            async def is_done() -> bool:
                return await bench.states() == {"DONE": 1}

            await bench.until(is_done)
        assert attempts == [2]
        with pytest.raises(model.LeaseLost):
            await bench.finish(dropped)


async def test_a_worker_that_lost_its_lease_leaves_the_row_to_the_other(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def work(claim: model.Claim) -> None:
            begun.set()
            await let_go.wait()
            await bench.finish(claim)

        async with working(bench.loop(work)):
            await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
            bench.at += LEASE
            other = (await bench.claim())["work"]
            let_go.set()
            await asyncio.sleep(0.1)
            assert (await bench.row("work"))["lease_token"] == other.token
        await bench.finish(other)


async def test_a_bell_wakes_a_loop_that_polls_rarely(database_url: str) -> None:
    async with opened(database_url) as bench:
        woken = asyncio.Event()
        limits = replace(LIMITS, poll_seconds=3600)
        rare = loop.Loop(bench.database, WORK, work=bench.finish, limits=limits, woken=woken, now=bench.now)
        async with working(rare):
            await asyncio.sleep(0.1)
            await bench.put("work")
            woken.set()

            async def is_done() -> bool:
                return await bench.states() == {"DONE": 1}

            await bench.until(is_done)


async def test_a_loop_goes_on_after_the_database_cut_its_connections(database_url: str) -> None:
    async with opened(database_url) as bench:
        names = [f"work {n}" for n in range(200)]
        await bench.put(*names)

        async def cut() -> None:
            await bench.conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'giftrail'"
            )

        async with working(bench.loop(bench.finish, renew_seconds=0.02)):
            for _ in range(10):
                await cut()
                await asyncio.sleep(0.02)

            async def is_done() -> bool:
                bench.at += timedelta(seconds=30)  # what was cut off in the middle is put off, or its lease ends
                return await bench.states() == {"DONE": 200}

            await bench.until(is_done)


async def test_a_loop_waits_out_a_database_that_lets_nobody_in(server_url: str, database_url: str) -> None:
    name = database_url.rpartition("/")[2].partition("?")[0]
    async with opened(database_url) as bench, pool.connect(server_url) as operator:
        await bench.put("before", "meanwhile")
        begun, let_go = asyncio.Semaphore(0), asyncio.Event()

        async def work(claim: model.Claim) -> None:
            if claim.attempts == 1:
                begun.release()
                await let_go.wait()
            await bench.finish(claim)

        async with working(bench.loop(work, renew_seconds=0.02)):
            for _ in range(2):
                await asyncio.wait_for(begun.acquire(), PATIENCE_SECONDS)
            await operator.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
            await operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
            let_go.set()
            await asyncio.sleep(0.2)
            await operator.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
            async with pool.connect(database_url) as bench.conn:

                async def is_done() -> bool:
                    bench.at += timedelta(seconds=30)
                    return await bench.states() == {"DONE": 2}

                await bench.until(is_done)


async def test_a_loop_claims_and_renews_again_after_errors_of_any_kind(database_url: str) -> None:
    async with opened(database_url) as bench:
        await bench.put("work")
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def work(claim: model.Claim) -> None:
            begun.set()
            await let_go.wait()
            await bench.finish(claim)

        # Each failure is logged with its traceback.
        with structlog.testing.capture_logs():
            running = asyncio.create_task(bench.loop(work, renew_seconds=0.02).run())
            await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
            await bench.conn.execute("ALTER TABLE fulfilment RENAME TO elsewhere")
            await asyncio.sleep(0.2)
            await bench.conn.execute("ALTER TABLE elsewhere RENAME TO fulfilment")
            bench.at += LEASE - timedelta(seconds=1)

            async def is_renewed() -> bool:
                renewed: bool = (await bench.row("work"))["lease_until"] == bench.at + LEASE
                return renewed

            try:
                await bench.until(is_renewed)
            finally:
                let_go.set()
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
