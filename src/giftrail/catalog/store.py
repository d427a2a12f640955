"""SQL of brands and entitlements."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

import msgspec

from giftrail.catalog import model
from giftrail.db import pool


async def list_brands(conn: pool.Connection | pool.Pool, *, changed_since_version: int = -1) -> list[model.Brand]:
    """The brands edited after the version, by title and id."""
    rows = await conn.fetch(
        'SELECT * FROM brand WHERE version > $1 ORDER BY title COLLATE "C", brand_id', changed_since_version
    )
    return [_brand(row) for row in rows]


async def find_brand(conn: pool.Connection | pool.Pool, *, brand_id: str) -> model.Brand | None:
    """The brand of that id."""
    row = await conn.fetchrow("SELECT * FROM brand WHERE brand_id = $1", brand_id)
    return _brand(row) if row else None


async def lock_brands(conn: pool.Connection, *, brand_ids: Sequence[str]) -> dict[str, model.Brand]:
    """Those of the brands that exist, locked in the order of their ids until the transaction ends."""
    rows = await conn.fetch(
        "SELECT * FROM brand WHERE brand_id = ANY($1::text[]) ORDER BY brand_id FOR UPDATE", list(brand_ids)
    )
    return {row["brand_id"]: _brand(row) for row in rows}


async def upsert_brands(conn: pool.Connection, brands: Sequence[model.Brand]) -> None:
    """Insert each brand, or replace all of it but its id and its creation."""
    columns = _COLUMNS
    assignments = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns if name != "brand_id")
    places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    await conn.executemany(
        f"INSERT INTO brand ({', '.join(columns)}, created_at) VALUES ({places}, ${len(columns)})"
        f" ON CONFLICT (brand_id) DO UPDATE SET {assignments}",
        [[_column(brand, field) for field in _COLUMNS] for brand in brands],
    )


async def list_entitlements(conn: pool.Connection | pool.Pool, *, partner_id: str) -> list[model.Entitlement]:
    """All entitlements of a partner, enabled or not."""
    rows = await conn.fetch(
        "SELECT brand_id, enabled, discount_percentage, updated_at FROM entitlement WHERE partner_id = $1",
        partner_id,
    )
    return [_entitlement(row) for row in rows]


async def list_partners_entitled_since(conn: pool.Connection | pool.Pool, *, version: int) -> list[str]:
    """The partners of whose entitlements one was edited after the version."""
    rows = await conn.fetch("SELECT DISTINCT partner_id FROM entitlement WHERE version > $1", version)
    return [row["partner_id"] for row in rows]


async def list_enabled_partners(conn: pool.Connection, *, brand_ids: Sequence[str]) -> list[tuple[str, str]]:
    """(brand, partner) for each partner for which one of the brands is enabled."""
    rows = await conn.fetch(
        "SELECT brand_id, partner_id FROM entitlement WHERE brand_id = ANY($1::text[]) AND enabled"
        " ORDER BY brand_id, partner_id",
        list(brand_ids),
    )
    return [(row["brand_id"], row["partner_id"]) for row in rows]


async def find_entitlement(conn: pool.Connection, *, partner_id: str, brand_id: str) -> model.Entitlement | None:
    """The partner's entitlement to the brand."""
    row = await conn.fetchrow(
        "SELECT brand_id, enabled, discount_percentage, updated_at FROM entitlement"
        " WHERE partner_id = $1 AND brand_id = $2",
        partner_id, brand_id,
    )  # fmt: skip
    return _entitlement(row) if row else None


async def set_enabled(
    conn: pool.Connection,
    *,
    partner_id: str,
    brand_ids: Sequence[str],
    enabled: bool,
    version: int,
    now: datetime,
) -> None:
    """Enable or disable the brands for the partner; discounts stay as they are."""
    await conn.execute(
        "INSERT INTO entitlement (partner_id, brand_id, enabled, version, updated_at)"
        " SELECT $1, brand_id, $3, $4, $5 FROM unnest($2::text[]) AS brand_id"
        " ON CONFLICT (partner_id, brand_id) DO UPDATE SET enabled = $3, version = $4, updated_at = $5"
        " WHERE entitlement.enabled <> $3",
        partner_id, list(brand_ids), enabled, version, now,
    )  # fmt: skip


async def set_discount(
    conn: pool.Connection, *, partner_id: str, brand_id: str, percentage: Decimal, version: int, now: datetime
) -> None:
    """Set the partner's discount for the brand, enabled or not."""
    await conn.execute(
        "INSERT INTO entitlement (partner_id, brand_id, enabled, discount_percentage, version, updated_at)"
        " VALUES ($1, $2, false, $3, $4, $5)"
        " ON CONFLICT (partner_id, brand_id) DO UPDATE SET discount_percentage = $3, version = $4, updated_at = $5",
        partner_id, brand_id, percentage, version, now,
    )  # fmt: skip


# The model is named as the table is: its fields are the columns, but for created_at.
_COLUMNS = tuple(model.Brand.__dataclass_fields__)


def _column(brand: model.Brand, field: str) -> object:
    value = getattr(brand, field)
    if field == "how_to_use":
        return msgspec.json.encode(value).decode()
    return list(value) if isinstance(value, tuple) else value


def _brand(row: pool.Record) -> model.Brand:
    values = {name: row[name] for name in _COLUMNS}
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    return model.Brand(
        **values
        | {
            "status": model.Status(row["status"]),
            "denomination_type": model.DenominationType(row["denomination_type"]),
            "redemption_type": model.RedemptionType(row["redemption_type"]),
            "card_type": model.CardType(row["card_type"]),
            "how_to_use": tuple(msgspec.json.decode(row["how_to_use"])),
        }
    )


def _entitlement(row: pool.Record) -> model.Entitlement:
    return model.Entitlement(
        brand_id=row["brand_id"],
        enabled=row["enabled"],
        discount_percentage=row["discount_percentage"],
        updated_at=row["updated_at"],
    )
