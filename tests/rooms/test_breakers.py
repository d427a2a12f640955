"""A provider that fails is left alone for a brand, probed, and asked again (engines, fulfilment; wire contract, §3)."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import counter
from giftrail.breakers import health, model, record, store
from giftrail.calls import model as calls
from giftrail.calls import store as call_store
from giftrail.catalog import edit
from giftrail.db import changes, pool
from giftrail.leases import store as lease_store
from giftrail.orders import asking, batch, fulfil, place
from giftrail.orders import model as orders
from giftrail.providers import protocol
from house import House, PartnerProgram

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
VENDOR = "vendor"
PATIENCE_SECONDS = 10.0


@dataclass
class Fuse:
    """The breaker of one provider and brand in a real database, and a clock that a test moves."""

    url: str
    conn: pool.Connection
    database: pool.Database
    at: datetime = START
    brand_id: str = field(default_factory=lambda: f"brand-{uuid.uuid4().hex[:10]}")

    def now(self) -> datetime:
        """The test's time."""
        return self.at

    async def call(self, *, failed: bool, times: int = 1) -> None:
        """So many calls that were answered, or failed."""
        for _ in range(times):
            async with self.conn.transaction():
                await record.record_call(self.conn, provider=VENDOR, brand_id=self.brand_id, failed=failed, now=self.at)

    async def may_ask(self, conn: pool.Connection | None = None) -> bool:
        """Whether the provider may be asked now."""
        conn = conn or self.conn
        async with conn.transaction():
            return await record.may_ask(conn, provider=VENDOR, brand_id=self.brand_id, now=self.at)

    async def find(self) -> model.Breaker | None:
        """The breaker, unless it is closed."""
        found = await store.list_breakers(self.conn)
        return next((one for one in found if (one.provider, one.brand_id) == (VENDOR, self.brand_id)), None)

    async def open_seconds(self) -> float | None:
        """For how long it is open still; None when it is closed."""
        found = await self.find()
        return (found.open_until - self.at).total_seconds() if found else None

    async def blow(self) -> None:
        """Ten calls fail."""
        await self.call(failed=True, times=10)
        assert await self.open_seconds() == 30


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Fuse]:
    database = await pool.open_database(url, read_connections=4, write_connections=4, statement_timeout_seconds=5)
    try:
        async with pool.connect(url) as conn:
            yield Fuse(url, conn, database)
    finally:
        database.terminate()


@pytest.mark.parametrize(
    ("answered", "failed", "opens"),
    [(0, 9, False), (0, 10, True), (5, 5, True), (6, 5, False), (6, 4, False), (4, 5, False), (50, 49, False),
     (50, 50, True)],
)  # fmt: skip
async def test_it_opens_at_ten_calls_of_which_half_fail(
    database_url: str,
    answered: int,
    failed: int,
    opens: bool,  # noqa: FBT001 — a row of the table
) -> None:
    async with opened(database_url) as fuse:
        await fuse.call(failed=False, times=answered)
        await fuse.call(failed=True, times=failed - 1)
        assert await fuse.open_seconds() is None
        await fuse.call(failed=True)
        assert await fuse.open_seconds() == (30 if opens else None)
        assert await fuse.may_ask() is not opens


async def test_only_the_last_five_minutes_count(database_url: str) -> None:
    async with opened(database_url) as fuse:
        await fuse.call(failed=True, times=9)
        fuse.at += 6 * MINUTE
        await fuse.call(failed=True, times=9)
        assert await fuse.open_seconds() is None
        fuse.at += 4 * MINUTE
        await fuse.call(failed=True)
        assert await fuse.open_seconds() == 30


async def test_answers_long_ago_do_not_outweigh_failures_now(database_url: str) -> None:
    async with opened(database_url) as fuse:
        await fuse.call(failed=False, times=100)
        fuse.at += 6 * MINUTE
        await fuse.blow()


async def test_another_brand_and_another_provider_are_not_concerned(database_url: str) -> None:
    async with opened(database_url) as fuse:
        await fuse.blow()
        for provider, brand_id in ((VENDOR, "another"), ("another", fuse.brand_id)):
            assert await record.may_ask(fuse.conn, provider=provider, brand_id=brand_id, now=fuse.at)


async def test_it_stays_open_for_longer_and_longer(database_url: str) -> None:
    async with opened(database_url) as fuse:
        await fuse.blow()
        seconds: list[float | None] = []
        for _ in range(7):
            fuse.at += timedelta(seconds=await fuse.open_seconds() or 0)
            assert await fuse.may_ask()
            await fuse.call(failed=True)
            seconds.append(await fuse.open_seconds())
        assert seconds == [60, 120, 240, 480, 900, 900, 900]


async def test_nobody_asks_while_it_is_open_and_one_does_when_it_is_half_open(database_url: str) -> None:
    async with opened(database_url) as fuse:
        await fuse.blow()
        fuse.at += timedelta(seconds=30) - timedelta(microseconds=1)
        assert not await fuse.may_ask()
        fuse.at += timedelta(microseconds=1)
        async with contextlib.AsyncExitStack() as stack:
            conns = [await stack.enter_async_context(pool.connect(fuse.url)) for _ in range(8)]
            assert sum(await asyncio.gather(*map(fuse.may_ask, conns))) == 1
        assert not await fuse.may_ask()


async def test_a_probe_that_does_not_come_back_lets_another_try(database_url: str) -> None:
    async with opened(database_url) as fuse:
        await fuse.blow()
        fuse.at += timedelta(seconds=30)
        assert await fuse.may_ask()
        fuse.at += timedelta(seconds=record.PROBE_SECONDS) - timedelta(microseconds=1)
        assert not await fuse.may_ask()
        fuse.at += timedelta(microseconds=1)
        assert await fuse.may_ask()
        assert not await fuse.may_ask()


async def test_a_probe_that_is_answered_closes_it_and_what_was_is_forgotten(database_url: str) -> None:
    async with opened(database_url) as fuse:
        await fuse.blow()
        fuse.at += timedelta(seconds=30)
        assert await fuse.may_ask()
        await fuse.call(failed=False)
        assert await fuse.find() is None
        assert await fuse.may_ask()
        await fuse.call(failed=True, times=9)
        assert await fuse.find() is None
        await fuse.call(failed=True)
        assert await fuse.open_seconds() == 30, "openings in a row are counted anew"


@pytest.mark.parametrize("failed", [True, False])
async def test_what_was_asked_before_it_opened_does_not_change_it(
    database_url: str,
    failed: bool,  # noqa: FBT001 — both are shown
) -> None:
    async with opened(database_url) as fuse:
        await fuse.blow()
        before = await fuse.find()
        fuse.at += timedelta(seconds=10)
        await fuse.call(failed=failed, times=20)
        assert await fuse.find() == before


async def test_a_pause_lasts_until_it_is_resumed(database_url: str) -> None:
    async with opened(database_url) as fuse:
        paused = {"provider": VENDOR, "brand_id": fuse.brand_id}
        assert not await record.resume(fuse.conn, **paused)
        await record.pause(fuse.conn, **paused, now=fuse.at)
        for failed in (True, False):
            await fuse.call(failed=failed, times=20)
        fuse.at += timedelta(days=3650)
        assert not await fuse.may_ask()
        found = await fuse.find()
        assert found is not None
        assert found.is_paused
        assert await record.resume(fuse.conn, **paused)
        assert await fuse.may_ask()
        assert await fuse.find() is None


async def test_a_breaker_that_opened_by_itself_can_be_paused_and_resumed(database_url: str) -> None:
    async with opened(database_url) as fuse:
        await fuse.blow()
        await record.pause(fuse.conn, provider=VENDOR, brand_id=fuse.brand_id, now=fuse.at)
        fuse.at += timedelta(days=1)
        assert not await fuse.may_ask()
        assert await record.resume(fuse.conn, provider=VENDOR, brand_id=fuse.brand_id)
        await fuse.blow()


async def test_every_change_is_told_to_the_other_processes(database_url: str) -> None:
    async with opened(database_url) as fuse:
        known = health.Health(fuse.database)
        watcher = changes.Watcher(fuse.database, poll_seconds=1, stale_after_seconds=5, clock=time.monotonic)
        watcher.subscribe("breakers", known.refresh)

        async def seen() -> tuple[bool, datetime | None]:
            await watcher.look()
            return (
                known.is_open(VENDOR, fuse.brand_id, now=fuse.at),
                known.closed_to_calls_until(VENDOR, fuse.brand_id, now=fuse.at),
            )

        assert await seen() == (False, None)
        await fuse.blow()
        until = fuse.at + timedelta(seconds=30)
        assert await seen() == (True, until)
        fuse.at = until
        assert await seen() == (False, None)
        assert await fuse.may_ask()
        assert await seen() == (False, fuse.at + timedelta(seconds=record.PROBE_SECONDS))
        await fuse.call(failed=True)
        assert await seen() == (True, fuse.at + timedelta(seconds=60))
        assert await record.resume(fuse.conn, provider=VENDOR, brand_id=fuse.brand_id)
        assert await seen() == (False, None)
        await record.pause(fuse.conn, provider=VENDOR, brand_id=fuse.brand_id, now=fuse.at)
        assert await seen() == (True, model.FOR_EVER)


# With orders.


@dataclass
class Vendor:
    """A provider that answers what it is told to, and counts."""

    outcome: protocol.Outcome | None = None  # None: it does not answer
    replays: bool = False
    finds: bool = False
    name: str = VENDOR
    max_vouchers: int = 100
    timeout_seconds: float = 5.0
    asks: int = 0

    async def issue(self, request: protocol.Request) -> protocol.Outcome:
        self.asks += 1
        if self.outcome is None:
            raise ConnectionError(request.key)
        return self.outcome

    async def look_up(self, request: protocol.Request) -> protocol.Outcome:
        return await self.issue(request)

    async def void(
        self, request: protocol.Request, *, provider_voucher_ids: Sequence[str]
    ) -> protocol.Voided | protocol.VoidRefused | protocol.Pending:
        raise AssertionError(request, provider_voucher_ids)

    async def close(self) -> None:
        """There is nothing to let go of."""


@dataclass
class Shop:
    """Orders of one brand of the vendor, and a worker."""

    fuse: Fuse
    vendor: Vendor
    fulfiller: fulfil.Fulfiller
    draft: orders.Draft

    async def place(self) -> str:
        """An order that the vendor will be asked for."""
        now = self.fuse.at
        draft = counter.draft(
            self.draft.partner_id, self.draft.brand, remote=frozenset({VENDOR}), placed_at=now, part_vouchers=100
        )
        [answer] = await place.place_orders(self.fuse.conn, [draft], keys=counter.KEYS, now=now)
        assert isinstance(answer, orders.Receipt)
        assert answer.order.status.value == "PROCESSING"
        return answer.order.order_id

    async def work(self) -> None:
        """Go on with everything that is due."""
        for claim in await lease_store.claim(
            self.fuse.database.read, asking.WORK, rows=100, now=self.fuse.at, lease_until=self.fuse.at + MINUTE
        ):
            await self.fulfiller.advance(claim)

    async def call(self, order_id: str) -> calls.Call:
        """The one call of an order."""
        partner_id = self.draft.partner_id
        [call] = (await call_store.list_calls(self.fuse.conn, partner_id=partner_id, order_ids=[order_id]))[order_id]
        return call


@contextlib.asynccontextmanager
async def trading(url: str, **vendor: Any) -> AsyncIterator[Shop]:
    async with opened(url) as fuse:
        brand = replace(counter.brand(fuse.brand_id), providers=(VENDOR,))
        async with fuse.conn.transaction():
            await edit.upsert_brands(fuse.conn, [brand], now=fuse.at)
        partner = await counter.new_partner(fuse.conn)
        gatherer = batch.Gatherer(
            fuse.database,
            keys=counter.KEYS,
            limits=batch.Limits(
                writers=2,
                batch_orders=128,
                batch_vouchers=2_000,
                waiting_orders=1_024,
                crowded_orders=48,
                patience_seconds=5.0,
            ),
            clock=time.monotonic,
            now=fuse.now,
        )
        made = Vendor(**vendor)
        fulfiller = fulfil.Fulfiller(
            fuse.database,
            providers={VENDOR: made},
            health_=health.Health(fuse.database),
            settle_order=gatherer.settle,
            keys=counter.KEYS,
            deadline_seconds=780,
            now=fuse.now,
        )
        yield Shop(fuse, made, fulfiller, counter.draft(partner.partner_id, brand))


async def test_orders_wait_for_an_open_breaker_and_one_of_them_probes(database_url: str) -> None:
    async with trading(database_url, outcome=protocol.Unavailable("away", 1)) as shop:
        for _ in range(30):
            await shop.place()
        await shop.work()
        assert shop.vendor.asks == 10
        assert await shop.fuse.open_seconds() == 30
        shop.fuse.at += timedelta(seconds=30)
        await shop.work()
        assert shop.vendor.asks == 11, "one probe"
        assert await shop.fuse.open_seconds() == 60
        shop.vendor.outcome = protocol.Refused("no")
        shop.fuse.at += timedelta(seconds=60)
        await shop.work()
        assert await shop.fuse.find() is None
        assert shop.vendor.asks > 12, "the probe was answered: the others are asked for at once"


async def test_a_call_nobody_made_is_not_counted_as_answered(database_url: str) -> None:
    async with trading(database_url) as shop:
        order_id = await shop.place()
        part = calls.Part(1, 1, 100_00, 1)
        partner_id = shop.draft.partner_id
        # The key was committed, then the worker died: nobody can find out but the operator.
        await call_store.commit_key(
            shop.fuse.conn, partner_id=partner_id, order_id=order_id, part=part, provider=VENDOR, now=shop.fuse.at
        )
        await shop.fuse.blow()
        shop.fuse.at += timedelta(seconds=30)
        await shop.work()
        assert shop.vendor.asks == 0
        assert (await shop.call(order_id)).state is calls.State.UNKNOWN
        assert await shop.fuse.find() is not None, "nobody has heard of the provider, and still its breaker is closed"


# Through HTTP.


@contextlib.contextmanager
def _paused(house: House, brand_id: str, *names: str) -> Any:
    """The providers are left alone for the brand."""
    for name in names:

        async def pause(conn: pool.Connection, name: str = name) -> None:
            await record.pause(conn, provider=name, brand_id=brand_id, now=datetime.now(UTC))

        house.do(pause)
    try:
        yield
    finally:
        for name in names:

            async def resume(conn: pool.Connection, name: str = name) -> None:
                assert await record.resume(conn, provider=name, brand_id=brand_id)

            house.do(resume)


def _brand(house: House, brand_id: str, *providers: str) -> PartnerProgram:
    house.brand(brand_id, providers=list(providers))
    return house.partner(brands=[brand_id])


def test_a_brand_whose_providers_are_all_left_alone_is_e100_until_one_is_back(house: House) -> None:
    brand_id = "sandbox-after-0-seconds"
    partner = _brand(house, brand_id, "sandbox", "sandbox-second")
    body = partner.order_body(brand_id)
    with _paused(house, brand_id, "sandbox"):
        assert partner.place(product_id=brand_id).json()["status"] == "SUCCESS"
        with _paused(house, brand_id, "sandbox-second"):
            failed = partner.place(body)
            assert failed.status_code == 200
            order = failed.json()
            assert (order["status"], order["failureCode"]) == ("FAILED", "E100")
            assert order["failureReason"] == "Brand not available"
            assert partner.get(f"/products/{brand_id}").json()["status"] == "ACTIVE"
            wallet = partner.get("/wallet/balance").json()
            assert (wallet["balance"], wallet["held"]) == (100_000 - 100, 0)
        assert partner.place(product_id=brand_id).json()["status"] == "SUCCESS"
    replayed = partner.place(body)
    assert (replayed.json(), replayed.headers["Idempotent-Replayed"]) == (order, "true")


def test_stock_serves_a_brand_whose_remote_provider_is_left_alone(house: House) -> None:
    brand_id = "sandbox-after-1-seconds"
    partner = _brand(house, brand_id, "sandbox", "stock")
    with _paused(house, brand_id, "sandbox"):
        empty = partner.place(product_id=brand_id).json()
        assert (empty["status"], empty["failureCode"]) == ("FAILED", "E150")
        house.stock(brand_id, 100, 1)
        assert partner.place(product_id=brand_id).json()["status"] == "SUCCESS"


def test_a_provider_that_is_away_is_asked_ten_times_then_orders_are_e100(house: House) -> None:
    brand_id = "sandbox-away"
    partner = _brand(house, brand_id, "sandbox")
    placed = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        order = partner.post("/orders", partner.order_body(brand_id), headers={"Prefer": "wait=0"}).json()
        if order["status"] == "FAILED":
            break
        placed.append(order["id"])
        time.sleep(0.02)
    assert (order["status"], order["failureCode"]) == ("FAILED", "E100")
    assert len(placed) >= 10
    for order_id in placed:
        assert partner.post(f"/orders/{order_id}/cancel").json()["status"] == "CANCELLED"
    assert partner.balance() == 100_000
