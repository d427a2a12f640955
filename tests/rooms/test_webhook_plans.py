"""What the courier and the dispatcher ask of the database, when there are many events: never by reading them all."""

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from conftest import new_database
from giftrail.attempts import plan, store
from giftrail.db import pool
from giftrail.events import store as outbox
from house import execute

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PARTNERS, ENDPOINTS = 5, 4
EVENTS = 4_000  # of each partner
BACKLOG = 2_000  # of one endpoint
UNSENT = 20
BUSY = ("prt_1", "whk_1")

FILL = f"""
INSERT INTO webhook_endpoint (partner_id, endpoint_id, url, kinds, secret, version, created_at, updated_at)
  SELECT 'prt_' || p, 'whk_' || w, 'https://hooks.example/', '{{ORDER_TERMINAL_STATE}}', '', 1, '{NOW}', '{NOW}'
  FROM generate_series(1, {PARTNERS}) p, generate_series(1, {ENDPOINTS}) w;
INSERT INTO event (partner_id, event_id, kind, rendered, occurred_at, sequence, endpoints)
  SELECT 'prt_' || p, 'evt_' || lpad(n::text, 32, '0'), 'ORDER_TERMINAL_STATE', convert_to(rpad(n::text, 300), 'UTF8'),
    '{NOW}'::timestamptz - n * interval '1 s', CASE WHEN n > {UNSENT} THEN n END, 4
  FROM generate_series(1, {PARTNERS}) p, generate_series(1, {EVENTS}) n;
INSERT INTO event_counter SELECT 'prt_' || p, {EVENTS} FROM generate_series(1, {PARTNERS}) p;
INSERT INTO webhook_delivery (partner_id, endpoint_id, event_id, state, next_at, tries, created_at)
  SELECT e.partner_id, w.endpoint_id, e.event_id,
    CASE WHEN (e.partner_id, w.endpoint_id) = ('{BUSY[0]}', '{BUSY[1]}') AND e.sequence <= {BACKLOG} THEN 'DUE'
      WHEN e.sequence % 300 = 0 THEN 'DUE' ELSE 'DELIVERED' END,
    '{NOW}'::timestamptz + (e.sequence % 7 - 3) * interval '1 min', 1, e.occurred_at
  FROM event e JOIN webhook_endpoint w USING (partner_id) WHERE e.sequence IS NOT NULL;
INSERT INTO webhook_attempt (partner_id, endpoint_id, event_id, try, at, status, milliseconds, answer)
  SELECT partner_id, endpoint_id, event_id, 1, created_at, 200, 5, '' FROM webhook_delivery WHERE endpoint_id = 'whk_2';
ANALYZE event; ANALYZE webhook_delivery; ANALYZE webhook_attempt; ANALYZE webhook_endpoint; ANALYZE event_counter;
"""


class Reader:
    """Stands where a connection is expected: explains what it is asked while it is run, and keeps the plans."""

    def __init__(self, conn: pool.Connection) -> None:
        self._conn = conn
        self.nodes: list[dict[str, Any]] = []

    async def fetch(self, query: str, *values: object) -> list[pool.Record]:
        explained = self._conn.transaction()
        await explained.start()
        plan = json.loads(await self._conn.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", *values))
        await explained.rollback()
        self.nodes += _nodes(plan[0]["Plan"])
        return await self._conn.fetch(query, *values)

    async def fetchrow(self, query: str, *values: object) -> pool.Record | None:
        rows = await self.fetch(query, *values)
        return rows[0] if rows else None

    async def execute(self, query: str, *values: object) -> None:
        await self.fetch(query, *values)

    async def fetchval(self, query: str, *values: object) -> Any:
        return await self._conn.fetchval(query, *values)

    @property
    def indexes(self) -> set[str]:
        """The indexes that were read."""
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def read_through(self) -> set[str]:
        """The tables that were read from end to end, but for the few endpoints and counters."""
        found = {node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan"}
        return found - {"webhook_endpoint", "event_counter"}

    @property
    def rows(self) -> float:
        """How many rows its nodes looked at, those they threw away too."""
        looked_at = 0.0
        for node in self.nodes:
            thrown_away = sum(count for name, count in node.items() if name.startswith("Rows Removed"))
            looked_at += (node["Actual Rows"] + thrown_away) * node["Actual Loops"]
        return looked_at


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(inner for child in node.get("Plans", ()) for inner in _nodes(child))]


@pytest.fixture(scope="module")
def full_url(server_url: str) -> str:
    """The address of a database full of events."""
    url = new_database(server_url)
    execute(url, FILL)
    return url


@pytest.fixture
async def conn(full_url: str) -> AsyncIterator[pool.Connection]:
    """A connection to it, inside a transaction that comes to nothing."""
    async with pool.connect(full_url) as opened:
        transaction = opened.transaction()
        await transaction.start()
        yield opened
        await transaction.rollback()


Ask = Callable[[pool.Connection], Awaitable[object]]


def claim(conn: pool.Connection, *, room: int = 20) -> Awaitable[object]:
    everybody = [(f"prt_{p}", f"whk_{w}", room) for p in range(1, PARTNERS + 1) for w in range(1, ENDPOINTS + 1)]
    return store.claim(conn, endpoints=everybody, now=NOW, lease_until=NOW + timedelta(seconds=60), limit=500)


def fan_out(conn: pool.Connection) -> Awaitable[object]:
    return store.fan_out(conn, limit=1000, now=NOW)


def feed(conn: pool.Connection) -> Awaitable[object]:
    return outbox.list_feed(conn, partner_id=BUSY[0], after_sequence=1000, limit=50)


def oldest_due(conn: pool.Connection) -> Awaitable[object]:
    return store.find_oldest_due(conn, now=NOW)


def page(conn: pool.Connection) -> Awaitable[object]:
    return store.list_deliveries(
        conn, partner_id=BUSY[0], endpoint_id=BUSY[1], state=None, before_id="evt_" + "9" * 32, limit=50
    )


def page_of_exhausted(conn: pool.Connection) -> Awaitable[object]:
    return store.list_deliveries(
        conn, partner_id=BUSY[0], endpoint_id=BUSY[1], state=plan.State.EXHAUSTED, before_id=None, limit=50
    )


def redeliver(conn: pool.Connection) -> Awaitable[object]:
    event_id = f"evt_{1000:032}"
    return store.replay(conn, partner_id=BUSY[0], endpoint_id=None, event_id=event_id, now=NOW)


def give_back(conn: pool.Connection) -> Awaitable[object]:
    claimed = store.Claimed(*BUSY, f"evt_{1000:032}", "", b"", NOW, None, 1, 1, uuid.uuid4())
    return store.give_back(conn, [claimed], now=NOW)


def forget_events(conn: pool.Connection) -> Awaitable[object]:
    return store.delete_events(conn, before=NOW - timedelta(seconds=EVENTS - 10), limit=1000)


def forget_attempts(conn: pool.Connection) -> Awaitable[object]:
    return store.delete_attempts(conn, before=NOW - timedelta(seconds=EVENTS - 10), limit=1000)


@pytest.mark.parametrize(
    ("ask", "indexes", "most_rows"),
    [
        (claim, {"webhook_delivery_due", "event_pkey"}, 15_000),
        (fan_out, {"event_unsent", "event_pkey"}, 20_000),
        (feed, {"event_sequence"}, 200),
        (oldest_due, {"webhook_delivery_due"}, 10_000),
        (page, {"webhook_delivery_pkey", "webhook_attempt_pkey", "event_pkey"}, 1_000),
        (page_of_exhausted, {"webhook_delivery_unsent"}, 10),
        (redeliver, {"event_pkey"}, 200),
        (forget_events, {"event_occurred"}, 5_000),
        (forget_attempts, {"webhook_attempt_at"}, 5_000),
        (give_back, {"webhook_delivery_due"}, 10_000),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_it_goes_by_its_indexes(conn: pool.Connection, ask: Ask, indexes: set[str], most_rows: int) -> None:
    reader = Reader(conn)
    await ask(cast(pool.Connection, reader))
    assert reader.read_through == set()
    assert indexes <= reader.indexes
    assert reader.rows <= most_rows


async def test_a_claim_for_one_reads_nothing_of_anothers_backlog(conn: pool.Connection) -> None:
    reader = Reader(conn)
    await store.claim(
        cast(pool.Connection, reader),
        endpoints=[("prt_2", "whk_2", 20)],
        now=NOW,
        lease_until=NOW + timedelta(seconds=60),
        limit=500,
    )
    assert reader.rows < BACKLOG / 2


async def test_an_event_costs_no_more_to_fan_out_the_more_there_are(conn: pool.Connection) -> None:
    """Rows looked at per event: a busy second must not cost the square of a quiet one."""
    looked_at = []
    for events in (25, 100):
        await conn.execute(
            "UPDATE event SET sequence = right(event_id, 9)::integer WHERE partner_id <> 'prt_2' AND sequence IS NULL;"
            "DELETE FROM webhook_delivery WHERE partner_id = 'prt_2';"
            "UPDATE event SET sequence = nullif(greatest(right(event_id, 9)::integer,"
            f" {events}), {events}) WHERE partner_id = 'prt_2'"
        )
        reader = Reader(conn)
        await fan_out(cast(pool.Connection, reader))
        looked_at.append(reader.rows / events)
    assert looked_at[1] <= 2 * looked_at[0], looked_at
