"""Sending on demand: a test event, a range once more, one event once more."""

from datetime import datetime

from giftrail.attempts import store
from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids
from giftrail.webhooks import model as webhooks


class EventUnknown(Exception):
    """The partner has no such event, or it is no longer kept."""


async def send_test(conn: pool.Connection, endpoint: webhooks.Endpoint, *, now: datetime) -> events.Event:
    """An event of the kind TEST on its way to this endpoint alone, inside the caller's transaction."""
    if not endpoint.is_enabled:
        raise webhooks.EndpointInvalid("status", "the endpoint is disabled: enable it first")
    event = events.Event(
        partner_id=endpoint.partner_id,
        event_id=ids.new("evt", now=now),
        kind=events.Kind.TEST,
        body={"message": "a test of this endpoint"},
        occurred_at=now,
    )
    await outbox.append_events(conn, [event])
    await store.append_delivery(
        conn, partner_id=event.partner_id, endpoint_id=endpoint.endpoint_id, event_id=event.event_id, now=now
    )
    return event


async def replay(
    conn: pool.Connection,
    endpoint: webhooks.Endpoint,
    *,
    occurred_from: datetime,
    occurred_to: datetime,
    now: datetime,
) -> int:
    """Send what happened in the range to the endpoint again, a new round each; returns how many events.

    Raises EndpointInvalid when the endpoint is switched off.
    """
    if not endpoint.is_enabled:
        raise webhooks.EndpointInvalid("status", "the endpoint is disabled: enable it first")
    return await store.replay(
        conn,
        partner_id=endpoint.partner_id,
        endpoint_id=endpoint.endpoint_id,
        occurred_from=occurred_from,
        occurred_to=occurred_to,
        now=now,
    )


async def redeliver(conn: pool.Connection, *, partner_id: str, event_id: str, now: datetime) -> int:
    """Send one event to every enabled endpoint that wants it, once more; returns how many. Raises EventUnknown."""
    if await outbox.find_event(conn, partner_id=partner_id, event_id=event_id) is None:
        raise EventUnknown(f"there is no event {event_id!r}")
    return await store.replay(conn, partner_id=partner_id, endpoint_id=None, event_id=event_id, now=now)
