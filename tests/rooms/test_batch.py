import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import asyncpg
import msgspec
import pytest

import counter
from giftrail import app
from giftrail.audit import findings as audit
from giftrail.db import pool
from giftrail.kit import seal
from giftrail.orders import batch
from giftrail.orders import model as orders

LIMITS = batch.Limits(
    writers=2,
    batch_orders=128,
    batch_vouchers=2_000,
    waiting_orders=1_024,
    crowded_orders=48,
    patience_seconds=2.0,
)
Outcome = orders.Receipt | BaseException


@dataclass
class Till:
    """A gatherer over a real database, the sizes of its batches, and a connection beside it."""

    url: str
    database: pool.Database
    gatherer: batch.Gatherer
    conn: pool.Connection
    sizes: list[int] = field(default_factory=list)

    async def submit(self, drafts: Sequence[orders.Draft]) -> list[Outcome]:
        """What becomes of each, all submitted at once."""
        return await asyncio.gather(*map(self.place, drafts), return_exceptions=True)

    async def place(self, draft: orders.Draft) -> orders.Receipt:
        """Submit one order that arrives now."""
        return await self.gatherer.submit(draft, arrived=time.monotonic())

    async def count(self) -> int:
        """How many orders are stored."""
        found: int = await self.conn.fetchval("SELECT count(*) FROM orders")
        return found

    @contextlib.asynccontextmanager
    async def locked(self, statement: str) -> AsyncIterator[None]:
        """A transaction of somebody else that holds these rows."""
        async with pool.connect(self.url) as other, other.transaction():
            await other.execute(statement)
            yield

    async def wait_for_waiters(self) -> None:
        """Until a connection of the gatherer waits for a lock."""
        statement = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'giftrail' AND wait_event_type = 'Lock'"
        )
        async with asyncio.timeout(5):
            while not await self.conn.fetchval(statement):  # noqa: ASYNC110 — the server tells it by no event
                await asyncio.sleep(0.01)

    async def cut(self) -> None:
        """End every connection of the gatherer."""
        await self.conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'giftrail'"
        )


@contextlib.asynccontextmanager
async def opened(url: str, *, writers: int = 2, **limits: Any) -> AsyncIterator[Till]:
    database = await pool.open_database(
        url, read_connections=2, write_connections=writers, statement_timeout_seconds=10
    )
    sizes: list[int] = []
    gatherer = batch.Gatherer(
        database,
        keys=counter.KEYS,
        limits=replace(LIMITS, **limits),
        clock=time.monotonic,
        now=app.now,
        batch_size=sizes.append,
    )
    try:
        async with pool.connect(url) as conn:
            yield Till(url, database, gatherer, conn, sizes)
            await asyncio.wait_for(gatherer.close(), 10)
            assert await audit.list_findings(conn, now=app.now()) == []
    finally:
        database.terminate()


def order_ids(outcomes: Sequence[Outcome]) -> list[str]:
    """The orders of receipts; everything must be one."""
    receipts = [outcome for outcome in outcomes if isinstance(outcome, orders.Receipt)]
    assert len(receipts) == len(outcomes), [outcome for outcome in outcomes if outcome not in receipts]
    return [receipt.order.order_id for receipt in receipts]


async def test_concurrent_orders_of_one_wallet_share_few_transactions(database_url: str) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        drafts = [counter.draft(partner.partner_id, brand) for _ in range(300)]
        outcomes = await till.submit(drafts)
        assert order_ids(outcomes) == [draft.order_id for draft in drafts]
        assert sum(till.sizes) == 300
        assert max(till.sizes) == 128
        assert len(till.sizes) <= 4
        assert await till.count() == 300
        # Arrival order is the wallet's order.
        moved = await till.conn.fetch("SELECT order_id FROM transfer WHERE kind = 'DEBIT' ORDER BY wallet_version")
        assert [row["order_id"] for row in moved] == [draft.order_id for draft in drafts]


async def test_an_idle_wallet_s_order_starts_at_once(database_url: str) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        for _ in range(3):
            order_ids(await till.submit([counter.draft(partner.partner_id, brand)]))
        assert till.sizes == [1, 1, 1]


async def test_orders_that_arrive_while_a_transaction_runs_make_the_next_batch(database_url: str) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        async with till.locked("SELECT FROM wallet FOR UPDATE"):
            first = asyncio.create_task(till.submit([counter.draft(partner.partner_id, brand)]))
            await till.wait_for_waiters()
            rest = asyncio.create_task(till.submit([counter.draft(partner.partner_id, brand) for _ in range(50)]))  # noqa: RUF006 — awaited below
            await asyncio.sleep(0.05)
            assert till.sizes == [1]
        order_ids(await first + await rest)
        assert till.sizes == [1, 50]


async def test_a_batch_holds_so_many_vouchers_and_a_larger_order_goes_alone(database_url: str) -> None:
    async with opened(database_url, batch_vouchers=20) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        quantities = [10, 10, 10, 30, 1, 1]
        drafts = [counter.draft(partner.partner_id, brand, {100: quantity}) for quantity in quantities]
        outcomes = await till.submit(drafts)
        assert order_ids(outcomes) == [draft.order_id for draft in drafts]
        assert till.sizes == [2, 1, 1, 2]


async def test_one_wallet_that_waits_does_not_hold_up_another(database_url: str) -> None:
    async with opened(database_url) as till:
        slow, quick = await counter.new_partner(till.conn), await counter.new_partner(till.conn)
        brand = await counter.new_brand(till.conn)
        async with till.locked(f"SELECT FROM wallet WHERE partner_id = '{slow.partner_id}' FOR UPDATE"):
            waiting = asyncio.create_task(till.submit([counter.draft(slow.partner_id, brand)]))
            await till.wait_for_waiters()
            order_ids(await till.submit([counter.draft(quick.partner_id, brand)]))
            assert not waiting.done()
        order_ids(await waiting)


async def test_more_callers_than_may_wait_are_turned_away(database_url: str) -> None:
    async with opened(database_url, waiting_orders=5) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        outcomes = await till.submit([counter.draft(partner.partner_id, brand) for _ in range(20)])
        order_ids(outcomes[:5])
        for refused in outcomes[5:]:
            assert isinstance(refused, orders.Unavailable)
            assert not refused.outcome_unknown
        assert await till.count() == 5


@pytest.mark.parametrize("place", [0, 7, 19])
async def test_a_poison_order_fails_alone(database_url: str, place: int) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        foreign = await counter.new_brand(till.conn, currency="USD")
        drafts = [counter.draft(partner.partner_id, foreign if n == place else brand) for n in range(20)]
        outcomes = await till.submit(drafts)
        assert isinstance(outcomes.pop(place), AssertionError)
        assert order_ids(outcomes) == [draft.order_id for draft in drafts if draft.brand is brand]
        assert await till.count() == 19


@pytest.mark.parametrize(
    "poison",
    [{"customer": "no JSON"}, {"customer": '{"name": "\\u0000"}'}, {"reference_id": "nul\0"}, {"fingerprint": None}],
    ids=["json", "nul in json", "nul", "null"],
)
async def test_data_that_the_database_refuses_fails_alone(database_url: str, poison: dict[str, Any]) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        drafts = [counter.draft(partner.partner_id, brand, **(poison if n == 3 else {})) for n in range(10)]
        outcomes = await till.submit(drafts)
        refused = outcomes.pop(3)
        assert isinstance(refused, asyncpg.PostgresError | ValueError | TypeError)
        order_ids(outcomes)
        assert await till.count() == 9


async def test_a_placement_that_finds_no_connection_in_time_is_refused_and_never_stored(database_url: str) -> None:
    async with opened(database_url, writers=1, patience_seconds=0.2) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        async with till.database.write.acquire():
            [refused] = await till.submit([counter.draft(partner.partner_id, brand)])
        assert isinstance(refused, orders.Unavailable)
        assert not refused.outcome_unknown
        await till.gatherer.close()
        assert await till.count() == 0


async def test_a_placement_not_begun_in_time_is_refused_and_never_stored(database_url: str) -> None:
    async with opened(database_url, patience_seconds=0.1) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        async with till.locked("SELECT FROM wallet FOR UPDATE"):
            begun = asyncio.create_task(till.submit([counter.draft(partner.partner_id, brand)]))
            await till.wait_for_waiters()
            late = asyncio.create_task(till.submit([counter.draft(partner.partner_id, brand) for _ in range(3)]))  # noqa: RUF006
            await asyncio.sleep(0.15)  # less than a transaction waits for a lock
        order_ids(await begun)
        for refused in await late:
            assert isinstance(refused, orders.Unavailable)
            assert not refused.outcome_unknown
        assert await till.count() == 1


async def test_an_order_whose_wallet_is_held_too_long_is_refused_and_never_stored(database_url: str) -> None:
    async with opened(database_url, patience_seconds=0.5) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        async with till.locked("SELECT FROM wallet FOR UPDATE"):
            [refused] = await till.submit([counter.draft(partner.partner_id, brand)])
        assert isinstance(refused, orders.Unavailable)
        assert not refused.outcome_unknown
        assert await till.count() == 0


async def test_orders_of_many_wallets_share_few_transactions(database_url: str) -> None:
    async with opened(database_url) as till:
        partners = [await counter.new_partner(till.conn) for _ in range(40)]
        brand = await counter.new_brand(till.conn)
        stocked = await counter.new_brand(till.conn, providers=["stock"])
        await counter.put_stock(till.conn, stocked, 100, 40)
        drafts = [counter.draft(one.partner_id, of) for of in (brand, stocked) for one in partners]
        assert order_ids(await till.submit(drafts)) == [draft.order_id for draft in drafts]
        assert sum(till.sizes) == 80
        assert len(till.sizes) <= 6  # of two writers, each with one order in front that starts at once
        again = await till.submit([msgspec.structs.replace(draft, order_id=f"{draft.order_id}x") for draft in drafts])
        assert order_ids(again) == [draft.order_id for draft in drafts]


async def test_a_wallet_in_a_rush_leaves_room_for_the_others_of_its_writer(database_url: str) -> None:
    async with opened(database_url, writers=1, batch_orders=10) as till:
        rush, quiet = await counter.new_partner(till.conn), await counter.new_partner(till.conn)
        brand = await counter.new_brand(till.conn)
        answered: list[str] = []

        async def place(partner_id: str) -> None:
            await till.place(counter.draft(partner_id, brand))
            answered.append(partner_id)

        await asyncio.gather(*(place(rush.partner_id) for _ in range(60)), *(place(quiet.partner_id) for _ in range(5)))
        assert set(answered[20:]) == {rush.partner_id}


async def test_one_reference_makes_one_order_however_often_and_wherever_it_is_sent(database_url: str) -> None:
    async with opened(database_url) as here, opened(database_url) as there:
        partner, brand = await counter.new_partner(here.conn), await counter.new_brand(here.conn)
        same = [counter.draft(partner.partner_id, brand, reference_id="ref") for _ in range(40)]
        other = counter.draft(partner.partner_id, brand, reference_id="ref", fingerprint=b"\x01other")
        outcomes = await asyncio.gather(here.submit(same[:20]), there.submit(same[20:]))
        receipts = [one for each in outcomes for one in each if isinstance(one, orders.Receipt)]
        assert len(receipts) == 40
        assert len({receipt.order.order_id for receipt in receipts}) == 1
        assert [receipt.replayed for receipt in receipts].count(False) == 1
        assert len({receipt.order for receipt in receipts}) == 1
        [conflict] = await here.submit([other])
        assert isinstance(conflict, orders.ReferenceConflict)
        assert conflict.order_id == receipts[0].order.order_id
        assert await here.count() == 1


async def test_money_for_so_many_orders_makes_exactly_so_many(database_url: str) -> None:
    async with opened(database_url) as here, opened(database_url) as there:
        partner = await counter.new_partner(here.conn, money_minor=50 * 10_000)
        brand = await counter.new_brand(here.conn)
        drafts = [counter.draft(partner.partner_id, brand) for _ in range(120)]
        outcomes = await asyncio.gather(here.submit(drafts[:60]), there.submit(drafts[60:]))
        statuses = [one.order.status.value for each in outcomes for one in each if isinstance(one, orders.Receipt)]
        assert sorted(set(statuses)) == ["FAILED", "SUCCESS"]
        assert statuses.count("SUCCESS") == 50
        assert len(statuses) == 120


async def test_a_caller_who_goes_away_leaves_the_order_placed(database_url: str) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        async with till.locked("SELECT FROM wallet FOR UPDATE"):
            gone = asyncio.create_task(till.place(counter.draft(partner.partner_id, brand)))
            await till.wait_for_waiters()
            queued = asyncio.create_task(till.place(counter.draft(partner.partner_id, brand)))
            await asyncio.sleep(0.02)
            for task in (gone, queued):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        order_ids(await till.submit([counter.draft(partner.partner_id, brand)]))
        assert await till.conn.fetchval("SELECT count(*) FROM orders WHERE status = 'SUCCESS'") in {2, 3}


async def test_a_connection_cut_before_the_commit_leaves_nothing_and_says_that_nobody_knows(database_url: str) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        drafts = [counter.draft(partner.partner_id, brand) for _ in range(30)]
        async with till.locked("SELECT FROM wallet FOR UPDATE"):
            placing = asyncio.create_task(till.submit(drafts))
            await till.wait_for_waiters()
            await till.cut()
            outcomes = await placing
        assert {type(outcome) for outcome in outcomes} == {orders.Unavailable}
        assert all(outcome.outcome_unknown for outcome in outcomes if isinstance(outcome, orders.Unavailable))
        assert await till.count() == 0
        order_ids(await till.submit(drafts))
        assert await till.count() == 30


async def test_connections_cut_at_any_moment_never_make_an_order_twice(database_url: str) -> None:
    async with opened(database_url, batch_orders=10) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        drafts = [counter.draft(partner.partner_id, brand) for _ in range(400)]
        cuts = 0

        async def cut_again_and_again() -> None:
            nonlocal cuts
            while True:
                await asyncio.sleep(0.03)
                await till.cut()
                cuts += 1

        cutting = asyncio.create_task(cut_again_and_again())
        left, found = drafts, dict[str, str]()
        async with asyncio.timeout(30):
            while left:
                if cuts >= 15:
                    cutting.cancel()
                outcomes = await till.submit(left)
                for draft, outcome in zip(left, outcomes, strict=True):
                    if isinstance(outcome, orders.Receipt):
                        found[draft.reference_id] = outcome.order.order_id
                    else:
                        assert isinstance(outcome, orders.Unavailable), repr(outcome)
                left = [draft for draft in left if draft.reference_id not in found]
        cutting.cancel()
        await asyncio.gather(cutting, return_exceptions=True)  # it may be using the connection still
        assert cuts > 0
        stored = await till.conn.fetch("SELECT reference_id, order_id FROM orders WHERE status = 'SUCCESS'")
        assert {row["reference_id"]: row["order_id"] for row in stored} == found
        assert len(stored) == 400
        assert await till.conn.fetchval("SELECT count(*) FROM transfer WHERE kind = 'DEBIT'") == 400


async def test_codes_held_by_another_transaction_are_waited_for(database_url: str) -> None:
    async with opened(database_url) as till:
        partner = await counter.new_partner(till.conn)
        brand = await counter.new_brand(till.conn, providers=["stock"])
        await counter.put_stock(till.conn, brand, 100, 1)
        async with till.locked("SELECT FROM stock_code FOR UPDATE"):
            placing = asyncio.create_task(till.submit([counter.draft(partner.partner_id, brand)]))
            async with asyncio.timeout(5):
                while not till.sizes:  # noqa: ASYNC110 — a size is told by no event
                    await asyncio.sleep(0.001)
        [outcome] = await placing
        assert isinstance(outcome, orders.Receipt)
        assert outcome.order.status.value == "SUCCESS"


async def test_codes_that_stay_held_turn_the_order_away_and_store_nothing(database_url: str) -> None:
    async with opened(database_url) as till:
        partner = await counter.new_partner(till.conn)
        brand = await counter.new_brand(till.conn, providers=["stock"])
        await counter.put_stock(till.conn, brand, 100, 1)
        draft = counter.draft(partner.partner_id, brand)
        async with till.locked("SELECT FROM stock_code FOR UPDATE"):
            [refused] = await till.submit([draft])
            assert isinstance(refused, orders.Unavailable)
            assert not refused.outcome_unknown
            assert len(till.sizes) == batch.MAX_ROUNDS + 1
        assert await till.count() == 0
        order_ids(await till.submit([draft]))


async def test_closing_finishes_what_was_taken_and_takes_no_more(database_url: str) -> None:
    async with opened(database_url, batch_orders=10) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        taken = [asyncio.create_task(till.place(counter.draft(partner.partner_id, brand))) for _ in range(45)]
        await asyncio.sleep(0)
        await till.gatherer.close()
        assert all(task.done() for task in taken)
        order_ids([task.result() for task in taken])
        with pytest.raises(orders.Unavailable, match="shutting down"):
            await till.place(counter.draft(partner.partner_id, brand))
        assert await till.count() == 45


async def test_closing_finishes_an_order_that_waits_for_its_codes(database_url: str) -> None:
    async with opened(database_url) as till:
        partner = await counter.new_partner(till.conn)
        brand = await counter.new_brand(till.conn, providers=["stock"])
        await counter.put_stock(till.conn, brand, 100, 1)
        async with till.locked("SELECT FROM stock_code FOR UPDATE"):
            taken = asyncio.create_task(till.place(counter.draft(partner.partner_id, brand)))
            async with asyncio.timeout(5):
                while not till.sizes or any(line or line.task for line in till.gatherer._lines):  # noqa: ASYNC110 — likewise
                    await asyncio.sleep(0)
        assert not taken.done(), "the order must be between two rounds"
        await till.gatherer.close()
        assert taken.done()
        order_ids([taken.result()])


async def test_an_order_that_cannot_be_opened_fails_alone_and_nobody_hangs(database_url: str) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        stocked = await counter.new_brand(till.conn, providers=["stock"])
        await counter.put_stock(till.conn, stocked, 100, 30)
        await till.conn.execute("UPDATE stock_code SET sealed = sealed || 'x'::bytea")
        drafts = [counter.draft(partner.partner_id, stocked if n == 5 else brand) for n in range(10)]
        outcomes = await till.submit(drafts)
        assert isinstance(outcomes.pop(5), seal.CannotOpen)
        order_ids(outcomes)
        assert await till.count() == 9


async def test_a_damaged_code_is_passed_over_and_the_next_is_sold(database_url: str) -> None:
    async with opened(database_url) as till:
        partner = await counter.new_partner(till.conn)
        brand = await counter.new_brand(till.conn, providers=["stock"])
        await counter.put_stock(till.conn, brand, 100, 3)
        await till.conn.execute(
            "UPDATE stock_code SET sealed = sealed || 'x'::bytea"
            " WHERE stock_id = (SELECT min(stock_id) FROM stock_code)"
        )
        receipts = await till.submit([counter.draft(partner.partner_id, brand) for _ in range(3)])
        statuses = [receipt.order.status for receipt in receipts if isinstance(receipt, orders.Receipt)]
        assert sorted(statuses) == ["FAILED", "SUCCESS", "SUCCESS"]


async def test_a_cut_off_batch_is_answered_even_when_an_old_order_cannot_be_read(database_url: str) -> None:
    async with opened(database_url) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        old = counter.draft(partner.partner_id, brand)
        order_ids(await till.submit([old]))
        await till.conn.execute("UPDATE voucher SET sealed = sealed || 'x'::bytea")
        async with till.locked("SELECT FROM wallet FOR UPDATE"):
            replay = counter.draft(partner.partner_id, brand, reference_id=old.reference_id)
            outcomes = await till.submit([replay, counter.draft(partner.partner_id, brand)])
        assert all(isinstance(outcome, orders.Unavailable) for outcome in outcomes)
        async with asyncio.timeout(10):
            await till.gatherer.close()


async def test_a_placement_that_arrived_too_long_ago_is_not_begun(database_url: str) -> None:
    async with opened(database_url, patience_seconds=1.0) as till:
        partner, brand = await counter.new_partner(till.conn), await counter.new_brand(till.conn)
        with pytest.raises(orders.Unavailable):
            await till.gatherer.submit(counter.draft(partner.partner_id, brand), arrived=time.monotonic() - 1.5)
        assert await till.count() == 0
