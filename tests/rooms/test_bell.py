"""The bell: heard across connections, also by who begins to listen when it has been running for long."""

import asyncio

from giftrail.db import bell, pool

PATIENCE_SECONDS = 10.0


async def test_a_ring_is_heard_by_others_and_by_who_came_late(database_url: str) -> None:
    one, other = bell.Bell(database_url), bell.Bell(database_url)
    early = other.heard("orders")
    running = [asyncio.create_task(each.run()) for each in (one, other)]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await early.wait()  # set once it listens: something may have been rung before
            early.clear()
            late = other.heard("events")
            one.ring("orders")
            one.ring("events")
            await early.wait()
            await late.wait()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_a_bell_whose_connection_is_cut_rings_again(database_url: str) -> None:
    one = bell.Bell(database_url)
    heard = one.heard("orders")
    running = asyncio.create_task(one.run())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await heard.wait()
            async with pool.connect(database_url) as conn:
                await conn.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            heard.clear()
            await heard.wait()  # it listens again
            heard.clear()
            one.ring("orders")
            await heard.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
