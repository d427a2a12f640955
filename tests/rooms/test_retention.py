"""What is forgotten when it is old, and the alarm when webhooks are late."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

import counter
from giftrail.attempts import courier, forget, store
from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids
from giftrail.webhooks import manage
from giftrail.webhooks import model as webhooks
from giftrail.workers import housekeeping

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Nobody:
    """A courier that sends nothing."""

    open_breakers = 0


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[pool.Database]:
    made = await pool.open_database(database_url, read_connections=2, write_connections=2, statement_timeout_seconds=10)
    yield made
    await made.close()


async def told(database: pool.Database, *, days_ago: list[int]) -> tuple[webhooks.Endpoint, list[str]]:
    """An endpoint, and events of so many days ago that are on their way there."""
    async with database.write.acquire() as conn:
        partner = await counter.new_partner(conn, money_minor=0)
        async with conn.transaction():
            endpoint = await manage.create_endpoint(
                conn, partner_id=partner.partner_id, url="https://hooks.example/", kinds=None, description=None,
                secret=None, allowlist=(), ring=counter.KEYS.ring, now=NOW,
            )  # fmt: skip
            made = [
                events.Event(
                    partner_id=partner.partner_id,
                    event_id=ids.new("evt", now=NOW - timedelta(days=days)),
                    kind=events.Kind.WALLET_LOW_BALANCE,
                    body=events.wallet_low_balance(balance=1, threshold=2),
                    occurred_at=NOW - timedelta(days=days),
                )
                for days in days_ago
            ]
            await outbox.append_events(conn, made)
            assert await store.fan_out(conn, limit=1000, now=NOW) == len(days_ago)
    return endpoint, [event.event_id for event in made]


async def deliveries(database: pool.Database, endpoint: webhooks.Endpoint) -> list[Any]:
    return await store.list_deliveries(
        database.read, partner_id=endpoint.partner_id, endpoint_id=endpoint.endpoint_id, state=None, before_id=None,
        limit=200,
    )  # fmt: skip


async def test_events_are_forgotten_with_their_deliveries(
    database: pool.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "ROWS_AT_ONCE", 2)
    endpoint, event_ids = await told(database, days_ago=[200, 150, 100, 91, 89, 1])
    await forget.forget_events(database.read, before=NOW - timedelta(days=90))
    kept = await outbox.list_feed(database.read, partner_id=endpoint.partner_id, after_sequence=0, limit=100)
    assert [row["event_id"] for row in kept] == event_ids[4:]
    assert [row["sequence"] for row in kept] == [5, 6], "the numbers go on"
    assert [row["event_id"] for row in await deliveries(database, endpoint)] == event_ids[:3:-1]


async def test_attempts_are_forgotten_before_their_deliveries(database: pool.Database) -> None:
    endpoint, event_ids = await told(database, days_ago=[40])
    for number, days in enumerate((40, 31, 29), 1):
        await database.read.fetch(
            "INSERT INTO webhook_attempt VALUES ($1, $2, $3, $4, $5, 500, NULL, 1, '')",
            endpoint.partner_id, endpoint.endpoint_id, event_ids[0], number, NOW - timedelta(days=days),
        )  # fmt: skip
    await forget.forget_attempts(database.read, before=NOW - timedelta(days=30))
    (row,) = await deliveries(database, endpoint)
    assert '"attempt": 3' in row["attempts"]
    assert '"attempt": 2' not in row["attempts"]


@pytest.mark.parametrize(("seconds", "alarms"), [(0, 0), (59, 0), (61, 1)])
async def test_webhooks_that_are_late_are_an_error_in_the_log(
    database: pool.Database, seconds: int, alarms: int
) -> None:
    await told(database, days_ago=[0])
    nobody = cast(courier.Courier, Nobody())
    with capture_logs() as logs:
        late = await housekeeping.look_at_webhooks(database, nobody, now=NOW + timedelta(seconds=seconds))
    assert late == seconds
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["webhooks are late"] * alarms
