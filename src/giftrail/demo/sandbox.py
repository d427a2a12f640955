"""The sandbox brands of every installation but production: the sandbox provider's, and one for each E-code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from giftrail.breakers import record
from giftrail.catalog import edit, rows
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.orders import limit
from giftrail.partners import model as partners
from giftrail.providers import protocol, sandbox
from giftrail.spending import model as spending

DENOMINATIONS = (100, 250, 500, 1000)
E013, E100, E101 = "sandbox-e013", "sandbox-e100", "sandbox-e101"


@dataclass(frozen=True, slots=True)
class Row:
    """A brand of the sandbox and what an order of it meets; `members` differ from those of the others."""

    brand_id: str
    does: str
    members: Mapping[str, Any] = field(default_factory=dict)


def _row(behaviour: sandbox.Behaviour) -> Row:
    members: dict[str, Any] = {"providers": list(behaviour.providers)}
    if behaviour.brand_id in {"sandbox-reversible", "sandbox-void-refused"}:
        members["reversible"] = True
    return Row(behaviour.brand_id, behaviour.does, members)


_FLEXIBLE = {
    "denominationType": "FLEXIBLE", "denominations": None, "minVoucherAmount": Decimal(10),
    "maxVoucherAmount": Decimal(1000),
}  # fmt: skip

TABLE: tuple[Row, ...] = (
    *map(_row, sandbox.TABLE),
    Row(E013, "HTTP 429 E013: no order is allowed in a day", {}),
    Row(E100, "FAILED E100: its provider is paused", {"providers": [sandbox.FIRST]}),
    Row(E101, "FAILED E101: not enabled", {}),
    Row("sandbox-e102", "FAILED E102: INACTIVE", {"status": "INACTIVE"}),
    Row("sandbox-e150", "FAILED E150: from stock, and the stock is empty", {"providers": [protocol.STOCK]}),
    Row(
        "sandbox-e152",
        "FAILED E152: an order is at least 900,000,000",
        {"minOrderAmount": Decimal(900_000_000), "maxOrderAmount": Decimal(1_000_000_000)},
    ),
    Row("sandbox-e153", "FAILED E153 with two denominations", {"maxDenominationsPerOrder": Decimal(1)}),
    Row(
        "sandbox-e154", "FAILED E154 with two vouchers of one denomination", {"maxVouchersPerDenomination": Decimal(1)}
    ),
    Row("sandbox-e155", "FAILED E155 below 10 and above 1000: FLEXIBLE", _FLEXIBLE),
    Row("sandbox-e156", "FAILED E156 with two vouchers", {"maxVouchersPerOrder": Decimal(1)}),
    Row(
        "sandbox-e300",
        "FAILED E300: its only voucher, of 9,000,000,000, is more than any wallet of the sandbox holds",
        {"denominations": [Decimal(9_000_000_000)], "maxOrderAmount": Decimal(9_000_000_000_000)},
    ),
)


def make_brands(*, currency: str = "INR") -> list[catalog.Brand]:
    """The brands of the table, not stored."""
    brands = []
    for line, row in enumerate(TABLE, 1):
        values = _values(row, currency=currency)
        read = rows.Row(line, {name: value for name, value in values.items() if value is not None})
        brands.append(read.brand(protocol.AT_ONCE | frozenset(sandbox.NAMES)))
        if read.problems:
            raise AssertionError(f"the sandbox's own table is wrong: {read.problems[0]}")
    return brands


def _values(row: Row, *, currency: str) -> dict[str, Any]:
    return {
        "id": row.brand_id,
        "title": row.brand_id.replace("-", " ").capitalize(),
        "brandDescription": row.does,
        "category": ["Sandbox"],
        "tags": ["sandbox"],
        "denominationType": "FIXED",
        "denominations": [Decimal(denomination) for denomination in DENOMINATIONS],
        "maxOrderAmount": Decimal(1_000_000),
        "redemptionType": "ONLINE",
        "cardType": "CARD_AND_PIN_NO_SECURED",
        "currency": currency,
        "providers": ["generator"],
        "thumbnailUrl": "https://assets.giftrail.example/sandbox.png",
    } | dict(row.members)


async def furnish_sandbox(conn: pool.Connection, owners: Sequence[partners.Partner], *, now: datetime) -> list[str]:
    """Store the brands and let the partners order them, inside the caller's transaction; returns the brands' ids."""
    brands = make_brands()
    await edit.upsert_brands(conn, brands, now=now)
    await record.pause(conn, provider=sandbox.FIRST, brand_id=E100, now=now)
    enabled = [brand.brand_id for brand in brands if brand.brand_id != E101]
    for owner in owners:
        await edit.set_enabled(conn, partner=owner, brand_ids=enabled, enabled=True, now=now)
        nothing = spending.SpendingLimit(owner.partner_id, E013, spending.Period.DAY, None, max_orders=0, set_at=now)
        await limit.set_limit(conn, nothing, now=now)
    return [brand.brand_id for brand in brands]


def draw() -> str:
    """The table as Markdown, for the documents."""
    lines = ["| brand | what an order of it meets |", "| --- | --- |"]
    return "\n".join(lines + [f"| `{row.brand_id}` | {row.does} |" for row in TABLE])
