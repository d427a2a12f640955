"""SQL of deliveries and their attempts."""

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from giftrail.attempts import plan
from giftrail.db import pool

# Behind every id, as "C" sorts them.
_BEHIND_ALL_IDS = "~"
# Whoever fans out is alone: the numbers it gives have no gaps.
FAN_OUT_LOCK = 0x67696674_7261696C


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that is ours until its lease ends, with what is to be sent."""

    partner_id: str
    endpoint_id: str
    event_id: str
    kind: str
    body: bytes
    occurred_at: datetime
    fault: str | None
    tries: int
    round_tries: int
    token: uuid.UUID


@dataclass(frozen=True, slots=True)
class Attempted:
    """What came of a claimed delivery. `next_at` is None when it has ended, in the given state."""

    claimed: Claimed
    result: plan.Result
    state: plan.State
    next_at: datetime
    at: datetime


async def fan_out(conn: pool.Connection, *, limit: int, now: datetime) -> int:
    """Number events that are committed and give each to the endpoints that want it; returns how many events.

    0 when another process is at it. Inside the caller's transaction.
    """
    if not await conn.fetchval("SELECT pg_try_advisory_xact_lock($1)", FAN_OUT_LOCK):
        return 0
    picked = await conn.fetch(
        "SELECT partner_id, event_id, kind, fault FROM event WHERE sequence IS NULL ORDER BY event_id LIMIT $1", limit
    )
    if not picked:
        return 0
    events_of = Counter(row["partner_id"] for row in picked)
    counters = await conn.fetch(
        "INSERT INTO event_counter AS c (partner_id, last_sequence) SELECT * FROM unnest($1::text[], $2::bigint[])"
        " ON CONFLICT (partner_id) DO UPDATE SET last_sequence = c.last_sequence + EXCLUDED.last_sequence"
        " RETURNING partner_id, last_sequence",
        list(events_of), list(events_of.values()),
    )  # fmt: skip
    # Numbered here: PostgreSQL cannot know how many are picked, and would join each event with each counter.
    numbers = {row["partner_id"]: count(row["last_sequence"] - events_of[row["partner_id"]] + 1) for row in counters}
    await conn.execute(
        "WITH picked AS MATERIALIZED (SELECT * FROM"
        "   unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])"
        "   AS p (partner_id, event_id, kind, fault, sequence)),"
        " given AS (INSERT INTO webhook_delivery (partner_id, endpoint_id, event_id, state, next_at, created_at)"
        "   SELECT w.partner_id, w.endpoint_id, p.event_id,"
        "     CASE WHEN w.disabled_at IS NULL AND p.fault IS DISTINCT FROM 'LOST' THEN 'DUE' ELSE 'HELD' END, $6, $6"
        "   FROM picked p JOIN webhook_endpoint w ON w.partner_id = p.partner_id AND p.kind = ANY (w.kinds)"
        "     AND w.deleted_at IS NULL ON CONFLICT DO NOTHING)"
        # Counted for each event on its own: a join of all with all that were given grows with their square.
        " UPDATE event e SET sequence = p.sequence,"
        "   endpoints = (SELECT count(*) FROM webhook_endpoint w WHERE w.partner_id = p.partner_id"
        "     AND p.kind = ANY (w.kinds) AND w.deleted_at IS NULL)"
        " FROM picked p WHERE e.partner_id = p.partner_id AND e.event_id = p.event_id",
        [row["partner_id"] for row in picked],
        [row["event_id"] for row in picked],
        [row["kind"] for row in picked],
        [row["fault"] for row in picked],
        [next(numbers[row["partner_id"]]) for row in picked],
        now,
    )
    return len(picked)


async def claim(
    conn: pool.Connection | pool.Pool,
    *,
    endpoints: Sequence[tuple[str, str, int]],
    now: datetime,
    lease_until: datetime,
    limit: int,
) -> list[Claimed]:
    """Take deliveries that are due: of each (partner, endpoint) as many as there is room for, those due longest first.

    In all no more than `limit`. A try is counted here, so that none is given the number of another.

    Going by endpoint, a slow one's long queue costs the others nothing.
    """
    rows = await conn.fetch(
        "WITH taken AS (UPDATE webhook_delivery d SET next_at = $5, lease_until = $5,"
        "   lease_token = gen_random_uuid(), attempts = attempts + 1, tries = tries + 1"
        "   FROM (SELECT k.* FROM unnest($1::text[], $2::text[], $3::int[]) AS w (partner_id, endpoint_id, room)"
        "     CROSS JOIN LATERAL (SELECT partner_id, endpoint_id, event_id FROM webhook_delivery"
        "       WHERE partner_id = w.partner_id AND endpoint_id = w.endpoint_id AND state = 'DUE' AND next_at <= $4"
        "       ORDER BY next_at LIMIT w.room FOR UPDATE SKIP LOCKED) k LIMIT $6) due"
        "   WHERE d.partner_id = due.partner_id AND d.endpoint_id = due.endpoint_id AND d.event_id = due.event_id"
        "   RETURNING d.partner_id, d.endpoint_id, d.event_id, d.tries, d.round_tries, d.lease_token)"
        " SELECT t.*, e.kind, e.rendered, e.occurred_at, e.fault"
        " FROM taken t JOIN event e USING (partner_id, event_id)",
        [partner_id for partner_id, _, _ in endpoints],
        [endpoint_id for _, endpoint_id, _ in endpoints],
        [room for _, _, room in endpoints],
        now,
        lease_until,
        limit,
    )
    return [
        Claimed(
            partner_id=row["partner_id"],
            endpoint_id=row["endpoint_id"],
            event_id=row["event_id"],
            kind=row["kind"],
            body=row["rendered"],
            occurred_at=row["occurred_at"],
            fault=row["fault"],
            tries=row["tries"],
            round_tries=row["round_tries"] + 1,
            token=uuid.UUID(str(row["lease_token"])),
        )
        for row in rows
    ]


async def record_attempts(conn: pool.Connection | pool.Pool, attempted: Sequence[Attempted]) -> None:
    """Write what came of claimed deliveries; those whose lease was lost are left alone, but their attempt is kept."""
    await conn.fetch(
        "WITH done AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::int[], $6::int[],"
        "   $7::text[], $8::timestamptz[], $9::timestamptz[], $10::int[], $11::text[], $12::int[], $13::bytea[])"
        "   AS a (partner_id, endpoint_id, event_id, token, tries, round_tries, state, next_at, at, status, error,"
        "   milliseconds, answer)),"
        " written AS (INSERT INTO webhook_attempt (partner_id, endpoint_id, event_id, try, at, status, error,"
        "   milliseconds, answer) SELECT partner_id, endpoint_id, event_id, tries, at, status, error, milliseconds,"
        "   answer FROM done ON CONFLICT DO NOTHING),"
        " ended AS (UPDATE webhook_delivery d SET state = a.state, round_tries = a.round_tries,"
        "   next_at = a.next_at, attempts = 0, lease_until = NULL, lease_token = NULL FROM done a"
        "   WHERE d.partner_id = a.partner_id AND d.endpoint_id = a.endpoint_id AND d.event_id = a.event_id"
        "   AND d.lease_token = a.token)"
        " UPDATE webhook_endpoint w SET last_success_at = s.at FROM (SELECT partner_id, endpoint_id, max(at) AS at"
        "   FROM done WHERE state = 'DELIVERED' GROUP BY partner_id, endpoint_id) s"
        " WHERE w.partner_id = s.partner_id AND w.endpoint_id = s.endpoint_id"
        "   AND (w.last_success_at IS NULL OR w.last_success_at < s.at - interval '1 minute')",
        [one.claimed.partner_id for one in attempted],
        [one.claimed.endpoint_id for one in attempted],
        [one.claimed.event_id for one in attempted],
        [one.claimed.token for one in attempted],
        [one.claimed.tries for one in attempted],
        [one.claimed.round_tries for one in attempted],
        [one.state for one in attempted],
        [one.next_at for one in attempted],
        [one.at for one in attempted],
        [one.result.status for one in attempted],
        [one.result.error for one in attempted],
        [one.result.milliseconds for one in attempted],
        [one.result.answer for one in attempted],
    )


async def give_back(conn: pool.Connection | pool.Pool, claimed: Sequence[Claimed], *, now: datetime) -> None:
    """What was claimed and not sent is due again at once."""
    await conn.fetch(
        "UPDATE webhook_delivery SET next_at = $2, attempts = attempts - 1, tries = tries - 1, lease_until = NULL,"
        " lease_token = NULL WHERE lease_token = ANY ($1::uuid[]) AND state = 'DUE'",
        [one.token for one in claimed], now,
    )  # fmt: skip


async def find_last_success(conn: pool.Connection | pool.Pool, *, partner_id: str, endpoint_id: str) -> datetime | None:
    """When something last arrived there, to about a minute; before that, when it was registered."""
    row = await conn.fetchrow(
        "SELECT coalesce(last_success_at, created_at) AS at FROM webhook_endpoint"
        " WHERE partner_id = $1 AND endpoint_id = $2",
        partner_id, endpoint_id,
    )  # fmt: skip
    return row["at"] if row else None


async def replay(
    conn: pool.Connection,
    *,
    partner_id: str,
    endpoint_id: str | None,
    event_id: str | None = None,
    occurred_from: datetime | None = None,
    occurred_to: datetime | None = None,
    now: datetime,
) -> int:
    """Send events again to enabled endpoints that want them (one of them, or all), a new round each; how many."""
    row = await conn.fetchrow(
        "WITH again AS (INSERT INTO webhook_delivery AS d"
        "   (partner_id, endpoint_id, event_id, state, next_at, created_at)"
        "   SELECT e.partner_id, w.endpoint_id, e.event_id, 'DUE', $6, $6 FROM event e JOIN webhook_endpoint w"
        "     ON w.partner_id = e.partner_id AND e.kind = ANY (w.kinds) AND w.disabled_at IS NULL"
        "     AND w.deleted_at IS NULL AND ($2::text IS NULL OR w.endpoint_id = $2)"
        "   WHERE e.partner_id = $1 AND e.sequence IS NOT NULL AND ($3::text IS NULL OR e.event_id = $3)"
        "     AND ($4::timestamptz IS NULL OR e.occurred_at >= $4) AND ($5::timestamptz IS NULL OR e.occurred_at < $5)"
        "   ON CONFLICT (partner_id, endpoint_id, event_id) DO UPDATE SET state = 'DUE', round_tries = 0,"
        "     next_at = $6, lease_until = NULL, lease_token = NULL, attempts = 0 RETURNING 1)"
        " SELECT count(*) AS n FROM again",
        partner_id, endpoint_id, event_id, occurred_from, occurred_to, now,
    )  # fmt: skip
    return row["n"] if row else 0


async def append_delivery(
    conn: pool.Connection, *, partner_id: str, endpoint_id: str, event_id: str, now: datetime
) -> None:
    """Send one event to one endpoint, whatever it wants."""
    await conn.execute(
        "INSERT INTO webhook_delivery (partner_id, endpoint_id, event_id, state, next_at, created_at)"
        " VALUES ($1, $2, $3, 'DUE', $4, $4)",
        partner_id, endpoint_id, event_id, now,
    )  # fmt: skip


async def list_deliveries(
    conn: pool.Connection | pool.Pool,
    *,
    partner_id: str,
    endpoint_id: str,
    state: plan.State | None,
    before_id: str | None,
    limit: int,
) -> list[pool.Record]:
    """What was sent to the endpoint, newest event first, each with its attempts as JSON."""
    # The state stands in the text, so that the few that did not arrive are found by their own index.
    of_state = f" AND d.state = '{state}'" if state else ""
    return await conn.fetch(
        "SELECT d.event_id, e.kind, d.state, d.tries, d.next_at, coalesce((SELECT jsonb_agg(jsonb_build_object("
        "   'attempt', a.try, 'at', a.at, 'status', a.status, 'error', a.error, 'latencyMs', a.milliseconds,"
        "   'answer', encode(a.answer, 'base64')) ORDER BY a.try) FROM webhook_attempt a"
        "   WHERE a.partner_id = d.partner_id AND a.endpoint_id = d.endpoint_id AND a.event_id = d.event_id), '[]')"
        "   AS attempts"
        " FROM webhook_delivery d LEFT JOIN event e USING (partner_id, event_id)"
        f" WHERE d.partner_id = $1 AND d.endpoint_id = $2{of_state}"
        " AND d.event_id < $3 ORDER BY d.event_id DESC LIMIT $4",
        partner_id, endpoint_id, before_id or _BEHIND_ALL_IDS, limit,
    )  # fmt: skip


async def find_oldest_due(conn: pool.Connection | pool.Pool, *, now: datetime) -> datetime | None:
    """Since when the delivery waits that waits longest, whether its endpoint is throttled or not."""
    row = await conn.fetchrow(
        "SELECT min(next_at) AS at FROM webhook_delivery WHERE state = 'DUE' AND next_at <= $1", now
    )
    return row["at"] if row else None


async def delete_events(conn: pool.Connection | pool.Pool, *, before: datetime, limit: int) -> int:
    """Forget events that old with their deliveries, a batch at a time; returns how many events."""
    row = await conn.fetchrow(
        "WITH gone AS (DELETE FROM event WHERE (partner_id, event_id) IN (SELECT partner_id, event_id FROM event"
        "   WHERE occurred_at < $1 AND sequence IS NOT NULL ORDER BY occurred_at LIMIT $2)"
        "   RETURNING partner_id, event_id),"
        " deliveries AS (DELETE FROM webhook_delivery d USING gone g WHERE d.partner_id = g.partner_id"
        "   AND d.event_id = g.event_id) SELECT count(*) AS n FROM gone",
        before, limit,
    )  # fmt: skip
    return row["n"] if row else 0


async def delete_attempts(conn: pool.Connection | pool.Pool, *, before: datetime, limit: int) -> int:
    """Forget attempts that old, a batch at a time; returns how many."""
    rows = await conn.fetch(
        "DELETE FROM webhook_attempt WHERE (partner_id, endpoint_id, event_id, try) IN (SELECT partner_id, endpoint_id,"
        " event_id, try FROM webhook_attempt WHERE at < $1 ORDER BY at LIMIT $2) RETURNING 1",
        before, limit,
    )  # fmt: skip
    return len(rows)
