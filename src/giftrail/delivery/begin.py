"""A delivery begins: in the transaction that makes the order SUCCESS, or when it is asked for again."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from giftrail.db import pool
from giftrail.delivery import model, store
from giftrail.kit import ids

# A day, for the limit of deliveries asked for again.
DAY = timedelta(days=1)


def make(
    recipients: Iterable[model.Recipient], *, partner_id: str, order_id: str, now: datetime
) -> tuple[model.Delivery, ...]:
    """A delivery to each of an order's recipients, which nobody has tried yet."""
    return tuple(
        model.Delivery(
            partner_id=partner_id,
            delivery_id=ids.new("dlv", now=now),
            order_id=order_id,
            channel=recipient.channel,
            address=recipient.address,
            outcome=model.Outcome.PENDING,
            reason=None,
            tries=0,
            created_at=now,
            sent_at=None,
        )
        for recipient in recipients
    )


async def begin(conn: pool.Connection, deliveries: Sequence[model.Delivery]) -> None:
    """Write the deliveries, inside the caller's transaction."""
    if deliveries:
        await store.append_deliveries(conn, deliveries)


async def begin_again(
    conn: pool.Connection,
    *,
    partner_id: str,
    order_id: str,
    recipients: Iterable[model.Recipient],
    cooldown_seconds: float,
    most_a_day: int,
    now: datetime,
) -> list[model.Delivery]:
    """Deliver again to the recipients; the caller holds the order's lock. Raises TooSoon (wire contract, beyond)."""
    before = await store.list_deliveries(conn, partner_id=partner_id, order_ids=[order_id])
    wanted = list(recipients)
    for channel in {recipient.channel for recipient in wanted}:
        of_channel = [one.created_at for one in before if one.channel is channel]
        _check(of_channel, channel, cooldown_seconds=cooldown_seconds, most_a_day=most_a_day, now=now)
    made = make(wanted, partner_id=partner_id, order_id=order_id, now=now)
    await begin(conn, made)
    return list(made)


def _check(
    begun: Sequence[datetime], channel: model.Channel, *, cooldown_seconds: float, most_a_day: int, now: datetime
) -> None:
    ready_at = max(begun, default=now - DAY) + timedelta(seconds=cooldown_seconds)
    # The first delivery is the order's own; only those that were asked for count.
    today = [at for at in sorted(begun)[1:] if at > now - DAY]
    if len(today) >= most_a_day:
        ready_at = max(ready_at, today[-most_a_day] + DAY if most_a_day else now + DAY)
    if ready_at > now:
        raise model.TooSoon(
            f"the vouchers were sent by {channel} at {max(begun):%Y-%m-%dT%H:%M:%SZ}; again from"
            f" {ready_at:%Y-%m-%dT%H:%M:%SZ} on",
            retry_after_seconds=math.ceil((ready_at - now).total_seconds()),
        )
