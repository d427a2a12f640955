"""A past: as many orders as wanted, written slice by slice with set-based SQL so that the books are right.

Half of the orders are one partner's, the others share the rest. Their codes are bytes of the real length that no key
opens. On top, by the service's own deeds: a few orders that failed long ago, and work and webhooks that are due.
"""

import asyncio
import hashlib
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks import market, stage

from giftrail import app
from giftrail.attempts import store as attempts
from giftrail.catalog import model as catalog
from giftrail.catalog import rules
from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids
from giftrail.orders import model, place
from giftrail.providers import protocol, sandbox

AMOUNT_MINOR = market.DENOMINATION * 100
SLOW = "bench-slow"
DAYS = 60
SLICE_ORDERS = 50_000
# Due work, as much in a small past as in a large one; and orders that failed at its beginning.
DUE_ORDERS, DUE_EVENTS, FAILED_ORDERS = 1_000, 1_000, 20
BATCH = 100
_SQL = (stage.HERE / "past.sql").read_text()


@dataclass(slots=True)
class Past:
    """A database with a past. `partners` begins with the big one; `made_at` is when what is due was written."""

    name: str
    url: str
    orders: int
    partners: list[str]
    endpoints: list[tuple[str, str]]
    brand: catalog.Brand
    slow: catalog.Brand
    keys: protocol.Keys
    begin: datetime
    made_at: datetime
    fill_seconds: float = 0.0
    vacuum_seconds: float = 0.0
    gigabytes: float = 0.0

    @property
    def big(self) -> str:
        return self.partners[0]

    def draft(self, *, remote: bool = False, **changes: Any) -> model.Draft:
        """A new order of the big partner."""
        return _draft(self.big, self.slow if remote else self.brand, remote=remote, **changes)

    def any_reference(self, choice: random.Random) -> tuple[str, str]:
        """Partner and reference of an order, drawn from all of the past."""
        number = choice.randrange(self.orders)
        at = 0 if number % 2 == 0 else 1 + (number // 2) % (len(self.partners) - 1)
        return self.partners[at], "ref-" + hashlib.md5(str(number).encode()).hexdigest()


async def make_past(url: str, folder: Path, *, name: str, orders: int, others: int) -> Past:
    """A database with so many orders, of one big partner and of others."""
    database = await stage.new_database(url, name)
    keys = market.keys_of(folder)
    async with pool.connect(database) as conn:
        past = await _furnish(conn, name, database, orders, others, keys)
        started = time.monotonic()
        for first in range(0, orders, SLICE_ORDERS):
            last = min(orders, first + SLICE_ORDERS) - 1
            async with conn.transaction():
                await conn.execute(_fill_in(_SQL, past, others=others, first=first, last=last))
            stage.tell(f"{name}: {last + 1} of {orders} orders, {time.monotonic() - started:.0f} s")
        await conn.execute(_fill_in(_CLOSE, past, others=others))
        past.fill_seconds = time.monotonic() - started
        await _add_due(conn, past)
        started = time.monotonic()
        await conn.execute("VACUUM (FREEZE, ANALYZE)")
        await conn.execute("CHECKPOINT")
        past.vacuum_seconds = time.monotonic() - started
        past.gigabytes = await conn.fetchval("SELECT pg_database_size(current_database())") / 2**30
    return past


_CLOSE = """
UPDATE wallet w SET posted_minor = :money - n * :amount::bigint, version = 1 + n + n / 10
  FROM (SELECT partner_id, CASE place WHEN 0 THEN (:orders + 1) / 2
    ELSE :orders / 2 / :others + (place <= :orders / 2 % :others)::int END AS n FROM past_partner) p
  WHERE w.partner_id = p.partner_id;
INSERT INTO event_counter (partner_id, last_sequence)
  SELECT partner_id, max(sequence) FROM event WHERE sequence IS NOT NULL GROUP BY partner_id;
"""


def _fill_in(sql: str, past: Past, *, others: int, first: int = 0, last: int = 0) -> str:
    values: Mapping[str, object] = {
        "first": first,
        "last": last,
        "orders": past.orders,
        "others": others,
        "money": market.MONEY_MINOR,
        "amount": AMOUNT_MINOR,
        "begin": past.begin.isoformat(),
        "end": past.made_at.isoformat(),
        "customer": json.dumps(market.CUSTOMER),
        "sealed_bytes": len(past.keys.ring.seal(bytes(29), bound_to="")),  # a number and a PIN, packed
    }
    return re.sub(r"(?<!:):([a-z_]+)", lambda found: str(values[found[1]]), sql)


async def _furnish(  # noqa: PLR0917 — private, called once just above
    conn: pool.Connection, name: str, url: str, orders: int, others: int, keys: protocol.Keys
) -> Past:
    endpoints = []
    async with conn.transaction():
        rows = [market.brand_row(market.BRAND), market.brand_row(SLOW, providers=[sandbox.FIRST])]
        brand, slow = await market.make_brands(conn, rows)
        traders = [
            await market.make_partner(conn, f"Past {number}", brand_ids=[market.BRAND, SLOW])
            for number in range(others + 1)
        ]
        for trader in traders:
            endpoint = await market.make_endpoint(conn, trader.partner, "http://127.0.0.1:9/hook", ring=keys.ring)
            endpoints.append((trader.partner.partner_id, endpoint.endpoint_id))
    await conn.execute("CREATE TEMP TABLE past_partner (place bigint, partner_id text, endpoint_id text)")
    await conn.executemany(
        "INSERT INTO past_partner VALUES ($1, $2, $3)", [(place, *one) for place, one in enumerate(endpoints)]
    )
    now = app.now()
    begin = now - timedelta(days=DAYS)
    past = Past(
        name=name, url=url, orders=orders, partners=[partner_id for partner_id, _ in endpoints], endpoints=endpoints,
        brand=brand, slow=slow, keys=keys, begin=begin, made_at=now - timedelta(minutes=1),
    )  # fmt: skip
    refusal = rules.Refusal.NOT_ACTIVE
    await _place(conn, past, [past.draft(refusal=refusal, placed_at=begin) for _ in range(FAILED_ORDERS)])
    return past


async def _add_due(conn: pool.Connection, past: Past) -> None:
    """Orders that a provider must be asked for and events that must be sent, all of them now."""
    past.made_at = app.now()
    for _ in range(0, DUE_ORDERS, BATCH):
        await _place(conn, past, [past.draft(remote=True) for _ in range(BATCH)])
    made = [new_event(past.partners[number % len(past.partners)]) for number in range(DUE_EVENTS)]
    async with conn.transaction():
        await outbox.append_events(conn, made)
        await attempts.fan_out(conn, limit=DUE_EVENTS, now=past.made_at)


def new_event(partner_id: str) -> events.Event:
    """Something that a partner must be told."""
    now = app.now()
    return events.Event(
        partner_id=partner_id,
        event_id=ids.new("evt", now=now),
        kind=events.Kind.BRAND_DISCOUNT_UPDATED,
        body=events.brand_discount_updated(brand_id=market.BRAND, discount=2, previous=1),
        occurred_at=now,
    )


async def _place(conn: pool.Connection, past: Past, drafts: Sequence[model.Draft]) -> None:
    await place.place_orders(conn, drafts, keys=past.keys, now=app.now())


def _draft(partner_id: str, brand: catalog.Brand, *, remote: bool, **changes: Any) -> model.Draft:
    placed_at = changes.get("placed_at") or app.now()
    order_id = ids.new("ord", now=placed_at)
    values: dict[str, Any] = {
        "order_id": order_id,
        "partner_id": partner_id,
        "reference_id": f"ref-{hashlib.md5(order_id.encode()).hexdigest()}",
        "fingerprint": b"\x01" + hashlib.sha256(order_id.encode()).digest(),
        "brand": brand,
        "lines": {AMOUNT_MINOR: 1},
        "amount_minor": AMOUNT_MINOR,
        "discount_percentage": Decimal(0),
        "debit_minor": AMOUNT_MINOR,
        "customer": json.dumps(market.CUSTOMER),
        "delivery": None,
        "refusal": None,
        "placed_at": placed_at,
        "remote": frozenset({sandbox.FIRST}) if remote else frozenset(),
    }
    return model.Draft(**values | changes)


def make_pasts(url: str, folder: Path, sizes: Mapping[str, int], *, others: int) -> list[Past]:
    """A past for each name and size."""
    return [
        asyncio.run(make_past(url, folder, name=name, orders=orders, others=others)) for name, orders in sizes.items()
    ]
