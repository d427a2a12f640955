"""What a test of a room needs without a server: partners, brands, stock and drafts, made by the rooms' own deeds."""

import os
import uuid
from decimal import Decimal
from typing import Any

from giftrail import app
from giftrail.catalog import edit, rows
from giftrail.catalog import model as catalog
from giftrail.catalog import store as catalog_store
from giftrail.db import pool
from giftrail.kit import ids, seal
from giftrail.orders import model as orders
from giftrail.partners import model as partners
from giftrail.providers import importing as stock_importing
from giftrail.providers import protocol, sandbox
from giftrail.wallet import ledger, onboard
from house import brand_row, iter_lines

KEYS = protocol.Keys(ring=seal.KeyRing([("k1", os.urandom(32))]), index_key=os.urandom(32))


async def new_partner(
    conn: pool.Connection, *, money_minor: int = 100_000_000, currency: str = "INR"
) -> partners.Partner:
    """A partner of that currency with that money."""
    now = app.now()
    name = f"partner {uuid.uuid4().hex}"
    async with conn.transaction():
        made = await onboard.create_partner(conn, name=name, kind=partners.Kind.B2B, currency=currency, now=now)
        if money_minor:
            wallet = await ledger.open_wallet(conn, partner_id=made.partner_id)
            wallet.top_up(money_minor, note=None, now=now)
            await ledger.close_wallet(conn, wallet, now=now)
    return made


def brand(brand_id: str, **members: Any) -> catalog.Brand:
    """A brand that nobody stored: FIXED, INR, 100, 250 and 500 from the generator, with changes."""
    row = rows.Row(1, brand_row(brand_id, **members))
    made = row.brand(protocol.AT_ONCE | frozenset(sandbox.NAMES))
    assert row.problems == []
    return made


async def new_brand(conn: pool.Connection, /, *, brand_id: str = "", **members: Any) -> catalog.Brand:
    """Such a brand, stored; under an id of its own unless one is given."""
    made = brand(brand_id or f"brand-{uuid.uuid4().hex[:10]}", **members)
    async with conn.transaction():
        await edit.upsert_brands(conn, [made], now=app.now())
    stored = await catalog_store.find_brand(conn, brand_id=made.brand_id)
    assert stored is not None
    return stored


def shape(of: catalog.Brand) -> stock_importing.Shape:
    """What the brand asks of its codes."""
    fixed = of.denomination_type is catalog.DenominationType.FIXED
    return stock_importing.Shape(
        brand_id=of.brand_id,
        currency=of.currency,
        shows_number=of.card_type.shows_number,
        shows_pin=of.card_type.shows_pin,
        denominations_minor=of.denominations_minor if fixed else None,
    )


async def put_stock(conn: pool.Connection, of: catalog.Brand, denomination: int, count: int) -> None:
    """So many new codes into the brand's stock."""
    lines = ["denomination,cardNumber,cardPin,validTill"]
    for _ in range(count):
        number = uuid.uuid4().hex if of.card_type.shows_number else ""
        pin = uuid.uuid4().hex[:12] if of.card_type.shows_pin else ""
        lines.append(f"{denomination},{number},{pin},")
    async with conn.transaction():
        await stock_importing.import_stock(conn, iter_lines(lines), shape=shape(of), keys=KEYS, now=app.now())


def draft(partner_id: str, of: catalog.Brand, lines: dict[int, int] | None = None, **changes: Any) -> orders.Draft:
    """A sound order of one voucher of 100, with changes; `lines` in the major unit."""
    minor = {denomination * 100: quantity for denomination, quantity in (lines or {100: 1}).items()}
    amount = sum(denomination * quantity for denomination, quantity in minor.items())
    now = app.now()
    values: dict[str, Any] = {
        "order_id": ids.new("ord", now=now),
        "partner_id": partner_id,
        "reference_id": f"ref-{uuid.uuid4().hex}",
        "fingerprint": b"\x01" + bytes(32),
        "brand": of,
        "lines": minor,
        "amount_minor": amount,
        "discount_percentage": Decimal(0),
        "debit_minor": amount,
        "customer": None,
        "delivery": None,
        "refusal": None,
        "placed_at": now,
    }
    return orders.Draft(**values | changes)
