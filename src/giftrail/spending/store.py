"""SQL of spending limits and what counts against them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from giftrail.db import pool
from giftrail.spending import model

Key = tuple[str, model.Period, datetime]


async def list_limits(conn: pool.Connection | pool.Pool, *, partner_id: str) -> list[model.SpendingLimit]:
    """The partner's limits, those of all brands first, shorter periods first."""
    rows = await conn.fetch(
        "SELECT partner_id, brand_id, period, max_amount_minor, max_orders, set_at"
        " FROM spending_limit WHERE partner_id = $1"
        " ORDER BY brand_id, array_position(ARRAY['HOUR', 'DAY', 'MONTH'], period)",
        partner_id,
    )
    return [
        model.SpendingLimit(
            row["partner_id"],
            row["brand_id"],
            model.Period(row["period"]),
            row["max_amount_minor"],
            row["max_orders"],
            row["set_at"],
        )
        for row in rows
    ]


async def upsert_limit(conn: pool.Connection, limit: model.SpendingLimit) -> None:
    """Set the limit, or set it anew; what it counted since it was first set stays counted."""
    await conn.execute(
        "INSERT INTO spending_limit (partner_id, brand_id, period, max_amount_minor, max_orders, set_at)"
        " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (partner_id, brand_id, period)"
        " DO UPDATE SET max_amount_minor = $4, max_orders = $5",
        limit.partner_id, limit.brand_id, limit.period.value, limit.max_amount_minor, limit.max_orders,
        limit.set_at,
    )  # fmt: skip


async def delete_limit(conn: pool.Connection, *, partner_id: str, brand_id: str, period: model.Period) -> bool:
    """Lift the limit; returns whether there was one. What was counted for it is forgotten."""
    where = "WHERE partner_id = $1 AND brand_id = $2 AND period = $3"
    await conn.execute(f"DELETE FROM spending {where}", partner_id, brand_id, period.value)
    done = await conn.execute(f"DELETE FROM spending_limit {where}", partner_id, brand_id, period.value)
    return done == "DELETE 1"


async def list_spent(conn: pool.Connection, *, partner_id: str, keys: Sequence[Key]) -> dict[Key, model.Spent]:
    """What was spent in each of the windows in which anything was."""
    rows = await conn.fetch(
        "SELECT s.* FROM unnest($2::text[], $3::text[], $4::timestamptz[]) AS k (brand_id, period, window_start)"
        " CROSS JOIN LATERAL (SELECT * FROM spending WHERE partner_id = $1 AND brand_id = k.brand_id"
        " AND period = k.period AND window_start = k.window_start LIMIT 1) s",
        partner_id, [key[0] for key in keys], [key[1].value for key in keys], [key[2] for key in keys],
    )  # fmt: skip
    return {
        (row["brand_id"], model.Period(row["period"]), row["window_start"]): model.Spent(
            row["amount_minor"], row["orders"]
        )
        for row in rows
    }


async def upsert_spent(conn: pool.Connection, *, partner_id: str, spent: Mapping[Key, model.Spent]) -> None:
    """Write what is spent in each window."""
    await conn.execute(
        "INSERT INTO spending (partner_id, brand_id, period, window_start, amount_minor, orders) SELECT $1, * FROM"
        " unnest($2::text[], $3::text[], $4::timestamptz[], $5::bigint[], $6::bigint[])"
        " ON CONFLICT (partner_id, brand_id, period, window_start)"
        " DO UPDATE SET amount_minor = EXCLUDED.amount_minor, orders = EXCLUDED.orders",
        partner_id,
        [key[0] for key in spent],
        [key[1].value for key in spent],
        [key[2] for key in spent],
        [one.amount_minor for one in spent.values()],
        [one.orders for one in spent.values()],
    )


async def delete_windows(conn: pool.Connection | pool.Pool, *, before: datetime) -> None:
    """Forget windows that ended long ago."""
    await conn.fetch("DELETE FROM spending WHERE window_start < $1", before)
