"""Set and lift spending limits: what was ordered in the running window counts from the start."""

from datetime import datetime

from giftrail.db import pool
from giftrail.kit import ids
from giftrail.orders import store
from giftrail.spending import model as spending
from giftrail.spending import store as spending_store
from giftrail.wallet import ledger


class LimitInvalid(ValueError):
    """A limit that limits nothing, or by a negative number."""


async def set_limit(conn: pool.Connection, limit: spending.SpendingLimit, *, now: datetime) -> None:
    """Set a limit, inside the caller's transaction; it binds from its commit on. Raises LimitInvalid, WalletUnknown."""
    if limit.max_amount_minor is None and limit.max_orders is None:
        raise LimitInvalid("a limit names an amount, a number of orders, or both")
    if (limit.max_amount_minor or 0) < 0 or (limit.max_orders or 0) < 0:
        raise LimitInvalid("a limit is not negative")
    # The wallet's lock keeps every placement of the partner out until the count stands.
    wallet = await ledger.open_wallet(conn, partner_id=limit.partner_id)
    wallet.set_limited(True)
    await ledger.close_wallet(conn, wallet, now=now)
    start = limit.period.window_start(now)
    amount, orders = await store.sum_placed(
        conn,
        partner_id=limit.partner_id,
        brand_id=limit.brand_id or None,
        placed_from=start,
        floor_id=ids.floor("ord", at=start),
    )
    await spending_store.upsert_limit(conn, limit)
    key = (limit.brand_id, limit.period, start)
    await spending_store.upsert_spent(conn, partner_id=limit.partner_id, spent={key: spending.Spent(amount, orders)})


async def lift_limit(
    conn: pool.Connection, *, partner_id: str, brand_id: str, period: spending.Period, now: datetime
) -> bool:
    """Lift a limit; returns whether there was one. Raises WalletUnknown."""
    wallet = await ledger.open_wallet(conn, partner_id=partner_id)
    done = await spending_store.delete_limit(conn, partner_id=partner_id, brand_id=brand_id, period=period)
    wallet.set_limited(bool(await spending_store.list_limits(conn, partner_id=partner_id)))
    await ledger.close_wallet(conn, wallet, now=now)
    return done
