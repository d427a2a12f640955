"""SQL of the outbox."""

from collections.abc import Sequence

import msgspec

from giftrail.db import pool
from giftrail.events import model

_encode = msgspec.json.Encoder(decimal_format="number").encode


async def append_events(conn: pool.Connection, events: Sequence[model.Event]) -> None:
    """Write the events inside the caller's transaction."""
    if not events:
        return
    await conn.execute(
        "INSERT INTO event (partner_id, event_id, kind, body, occurred_at)"
        " SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::timestamptz[])",
        [event.partner_id for event in events],
        [event.event_id for event in events],
        [event.kind.value for event in events],
        [_encode(event.body).decode() for event in events],
        [event.occurred_at for event in events],
    )


async def list_events(conn: pool.Connection, *, partner_id: str) -> list[model.Event]:
    """A partner's events, oldest first."""
    rows = await conn.fetch(
        "SELECT event_id, kind, body, occurred_at FROM event WHERE partner_id = $1 ORDER BY event_id",
        partner_id,
    )
    return [
        model.Event(
            partner_id=partner_id,
            event_id=row["event_id"],
            kind=model.Kind(row["kind"]),
            body=msgspec.json.decode(row["body"]),
            occurred_at=row["occurred_at"],
        )
        for row in rows
    ]
