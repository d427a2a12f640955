"""The vouchers of an order are delivered once more (wire contract, beyond)."""

from collections.abc import Set as AbstractSet
from datetime import datetime

from giftrail.db import pool
from giftrail.delivery import begin
from giftrail.delivery import model as delivery
from giftrail.orders import model, states, store


async def resend(
    conn: pool.Connection,
    *,
    partner_id: str,
    order_id: str,
    channels: AbstractSet[delivery.Channel] | None,
    cooldown_seconds: float,
    most_a_day: int,
    now: datetime,
) -> list[delivery.Delivery]:
    """Deliver again by these channels, or by all that the order has, inside the caller's transaction.

    Locks the order. Raises OrderUnknown, WrongState, delivery.TooSoon.
    """
    locked = (await store.lock_orders(conn, partner_id=partner_id, order_ids=[order_id])).get(order_id)
    if locked is None:
        raise model.OrderUnknown
    order = locked[0]
    if order.status is not states.Status.SUCCESS:
        raise model.WrongState(f"the order is {order.status}; only the vouchers of a SUCCESS order are delivered")
    wanted = [one for one in order.recipients if channels is None or one.channel in channels]
    missing = (channels or set()) - {one.channel for one in wanted}
    if missing or not wanted:
        names = ", ".join(sorted(missing)) or "any channel"
        raise model.WrongState(f"the order has no recipient by {names}")
    return await begin.begin_again(
        conn,
        partner_id=partner_id,
        order_id=order_id,
        recipients=wanted,
        cooldown_seconds=cooldown_seconds,
        most_a_day=most_a_day,
        now=now,
    )
