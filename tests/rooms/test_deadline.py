"""The deadline, with a clock that is moved: 13 minutes, the last ask, 14 minutes, and codes that come too late."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import counter
from giftrail import app
from giftrail.audit import findings as audit
from giftrail.breakers import health
from giftrail.calls import store as call_store
from giftrail.db import pool
from giftrail.kit import seal
from giftrail.leases import store as lease_store
from giftrail.orders import asking, endings, fulfil, place, settle, store
from giftrail.orders import model as orders
from giftrail.providers import sandbox


class Clock:
    """A time of day that stands until it is moved."""

    def __init__(self) -> None:
        self.at = app.now()

    def __call__(self) -> Any:
        return self.at

    def move(self, **units: float) -> None:
        self.at += timedelta(**units)


class Shop:
    """One order of a sandbox brand, and a worker that looks when it is told to."""

    def __init__(self, database: pool.Database, conn: pool.Connection) -> None:
        self.database, self.conn, self.clock = database, conn, Clock()
        self.worker = fulfil.Fulfiller(
            database,
            providers={name: sandbox.Sandbox(name) for name in sandbox.NAMES},
            health_=health.Health(database),
            settle_order=self.settle,
            keys=counter.KEYS,
            deadline_seconds=780,
            now=self.clock,
        )

    async def settle(self, wanted: endings.Settlement) -> Any:
        (answer,) = await settle.settle_orders(self.conn, [wanted], keys=counter.KEYS, now=self.clock.at)
        return answer

    async def place(self, brand_id: str) -> orders.Draft:
        partner = await counter.new_partner(self.conn)
        made = await counter.new_brand(self.conn, brand_id=brand_id, providers=[sandbox.FIRST])
        wanted = counter.draft(
            partner.partner_id, made, remote=frozenset({sandbox.FIRST}), part_vouchers=50, placed_at=self.clock.at
        )
        await place.place_orders(self.conn, [wanted], keys=counter.KEYS, now=self.clock.at)
        return wanted

    async def work(self) -> int:
        """Take what is due as far as it goes; returns how many rows were due."""
        claims = await lease_store.claim(
            self.conn, asking.WORK, rows=10, now=self.clock.at, lease_until=self.clock.at + timedelta(seconds=90)
        )
        for claim in claims:
            await self.worker.advance(claim)
        return len(claims)

    async def status(self, draft: orders.Draft) -> tuple[str, str | None]:
        order = await store.find_order(self.conn, partner_id=draft.partner_id, order_id=draft.order_id)
        assert order is not None
        return order.status.value, order.failure_code


@pytest.fixture
async def shop(database_url: str) -> AsyncIterator[Shop]:
    database = await pool.open_database(
        database_url, read_connections=2, write_connections=2, statement_timeout_seconds=10
    )
    async with pool.connect(database_url) as conn:
        made = Shop(database, conn)
        yield made
        assert await audit.list_findings(conn, now=made.clock.at) == []
    await database.close()


async def test_an_order_that_never_ends_fails_at_its_deadline(shop: Shop) -> None:
    draft = await shop.place("sandbox-never")
    await shop.work()
    for _ in range(12):
        shop.clock.move(minutes=1)
        await shop.work()
        assert await shop.status(draft) == ("PROCESSING", None)
    shop.clock.move(seconds=59)
    await shop.work()
    assert await shop.status(draft) == ("PROCESSING", None)
    shop.clock.move(seconds=1)
    await shop.work()
    assert await shop.status(draft) == ("FAILED", "E200")


async def test_a_last_ask_at_the_deadline_can_still_succeed(shop: Shop) -> None:
    draft = await shop.place("sandbox-after-779-seconds")
    await shop.work()
    shop.clock.move(minutes=13)
    await shop.work()
    assert (await shop.status(draft))[0] == "SUCCESS"


async def test_what_is_delivered_after_14_minutes_fails_and_is_set_aside(shop: Shop) -> None:
    draft = await shop.place("sandbox-after-60-seconds")
    await shop.work()
    shop.clock.move(minutes=14)
    await shop.work()
    assert await shop.status(draft) == ("FAILED", "E200")
    assert len(await call_store.list_aside(shop.conn, brand_id=draft.brand.brand_id)) == 1


async def test_a_code_that_comes_later_is_kept_for_the_operator(shop: Shop) -> None:
    draft = await shop.place("sandbox-too-late")
    await shop.work()
    shop.clock.move(minutes=13)
    await shop.work()
    assert await shop.status(draft) == ("FAILED", "E200")
    assert await call_store.list_aside(shop.conn, brand_id=draft.brand.brand_id) == []
    for _ in range(3):
        shop.clock.move(minutes=2)
        await shop.work()
    assert len(await call_store.list_aside(shop.conn, brand_id=draft.brand.brand_id)) == 1
    assert await shop.status(draft) == ("FAILED", "E200")
    shop.clock.move(days=2)
    assert await shop.work() == 0, "nothing is left to be heard of"


async def test_a_delivered_code_that_cannot_be_opened_does_not_keep_an_order_for_ever(shop: Shop) -> None:
    draft = await shop.place("sandbox-first-part")
    settle_nothing, shop.worker._settle = shop.worker._settle, give_up_settling
    with pytest.raises(ConnectionError):
        await shop.work()
    shop.worker._settle = settle_nothing
    await shop.conn.execute("UPDATE delivered_code SET sealed = 'damaged'::bytea WHERE order_id = $1", draft.order_id)
    shop.clock.move(minutes=2)
    with pytest.raises(seal.CannotOpen):
        await shop.work()
    assert await shop.status(draft) == ("PROCESSING", None)
    shop.clock.move(minutes=13)
    await shop.work()
    assert await shop.status(draft) == ("FAILED", "E200")
    assert [row["order_id"] for row in await call_store.list_aside(shop.conn, brand_id=None)] == [draft.order_id]


async def give_up_settling(_: endings.Settlement) -> Any:
    raise ConnectionError
