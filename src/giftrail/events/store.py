"""SQL of the outbox."""

from collections.abc import Sequence

import msgspec

from giftrail.db import pool
from giftrail.events import model

_encode = msgspec.json.Encoder(decimal_format="number").encode


async def append_events(conn: pool.Connection, events: Sequence[model.Event]) -> None:
    """Write the events inside the caller's transaction, as the bytes that will be sent."""
    if not events:
        return
    await conn.execute(
        "INSERT INTO event (partner_id, event_id, kind, rendered, order_id, occurred_at, fault)"
        " SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::timestamptz[],"
        " $7::text[])",
        [event.partner_id for event in events],
        [event.event_id for event in events],
        [event.kind.value for event in events],
        [_render(event) for event in events],
        [event.body.get("orderId") for event in events],
        [event.occurred_at for event in events],
        [event.fault for event in events],
    )


async def list_events(conn: pool.Connection | pool.Pool, *, partner_id: str) -> list[model.Event]:
    """A partner's events, oldest first."""
    rows = await conn.fetch(
        "SELECT event_id, kind, rendered, occurred_at FROM event WHERE partner_id = $1 ORDER BY event_id",
        partner_id,
    )
    return [_event(partner_id, row) for row in rows]


async def find_event(conn: pool.Connection | pool.Pool, *, partner_id: str, event_id: str) -> pool.Record | None:
    """kind, rendered, occurred_at and sequence of the partner's event."""
    return await conn.fetchrow(
        "SELECT event_id, kind, rendered, occurred_at, sequence FROM event WHERE partner_id = $1 AND event_id = $2",
        partner_id, event_id,
    )  # fmt: skip


async def list_feed(
    conn: pool.Connection | pool.Pool, *, partner_id: str, after_sequence: int, limit: int
) -> list[pool.Record]:
    """event_id, rendered and sequence of a partner's events by their sequence, from behind the given one."""
    return await conn.fetch(
        "SELECT event_id, rendered, sequence FROM event WHERE partner_id = $1 AND sequence > $2"
        " ORDER BY sequence LIMIT $3",
        partner_id, after_sequence, limit,
    )  # fmt: skip


def _render(event: model.Event) -> bytes:
    members = {
        **event.body, "eventId": event.event_id, "eventType": event.kind.value, "occurredAt": event.occurred_at
    }  # fmt: skip
    return _encode(members)


def _event(partner_id: str, row: pool.Record) -> model.Event:
    body = msgspec.json.decode(row["rendered"])
    for name in ("eventId", "eventType", "occurredAt"):
        body.pop(name, None)
    return model.Event(
        partner_id=partner_id,
        event_id=row["event_id"],
        kind=model.Kind(row["kind"]),
        body=body,
        occurred_at=row["occurred_at"],
    )
