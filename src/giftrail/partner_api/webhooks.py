"""Webhooks and the event feed (wire contract, webhooks)."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec

from giftrail.attempts import again, plan
from giftrail.attempts import store as attempts
from giftrail.db import pool
from giftrail.events import store as events
from giftrail.partner_api import problems, queries, requests, wire
from giftrail.partner_api import webhook_shapes as shapes
from giftrail.partner_api.endpoints import Answer, Call, Endpoint, Parameter
from giftrail.webhooks import manage, model, store

MAX_LIMIT = 200
DEFAULT_LIMIT = 50
ENABLED, DISABLED, DELETED = "ENABLED", "DISABLED", "DELETED"


async def create_webhook(call: Call) -> Answer:
    """Register an endpoint; the answer shows its secret, this once."""
    wanted = _read(call, shapes.WebhookRequest)
    async with _transaction(call) as conn:
        made = await manage.create_endpoint(
            conn,
            partner_id=call.partner.partner_id,
            url=wanted.url,
            kinds=wanted.events,
            description=wanted.description,
            secret=wanted.secret,
            allowlist=call.around.settings.webhook_networks,
            ring=call.around.keys.ring,
            now=call.now,
        )
    return _answer(made, secret=made.secret)


async def list_webhooks(call: Call) -> Answer:
    """The partner's endpoints, oldest first."""
    found = await store.list_endpoints(
        call.around.database.read, partner_id=call.partner.partner_id, ring=call.around.keys.ring
    )
    return Answer(wire.encode(shapes.WebhookList([_shape(endpoint) for endpoint in found], None)))


async def get_webhook(call: Call) -> Answer:
    """One endpoint."""
    return _answer(await _find(call, call.around.database.read))


async def change_webhook(call: Call) -> Answer:
    """Change url, events, description or status."""
    wanted = _read(call, shapes.WebhookChange)
    ring = call.around.keys.ring
    async with _transaction(call) as conn:
        changed = await manage.change_endpoint(
            conn,
            await _find(call, conn),
            url=wanted.url,
            kinds=wanted.events,
            description=wanted.description,
            allowlist=call.around.settings.webhook_networks,
            ring=ring,
            now=call.now,
        )
        if wanted.status == DISABLED:
            changed = await manage.disable_endpoint(conn, changed, why="by its partner", ring=ring, now=call.now)
        elif wanted.status == ENABLED and changed.disabled_at is not None:
            changed = await manage.enable_endpoint(conn, changed, ring=ring, now=call.now)
    return _answer(changed)


async def delete_webhook(call: Call) -> Answer:
    """Remove an endpoint."""
    async with _transaction(call) as conn:
        found = await _find(call, conn)
        await manage.delete_endpoint(conn, found, ring=call.around.keys.ring, now=call.now)
    return Answer(wire.encode(_shape(found, status=DELETED)))


async def test_webhook(call: Call) -> Answer:
    """Send a test event; how it went stands in the deliveries."""
    async with _transaction(call) as conn:
        event = await again.send_test(conn, await _find(call, conn), now=call.now)
    call.around.bell.ring("events")
    call.around.bell.ring("deliveries")
    return Answer(wire.encode(shapes.TestSent(event_id=event.event_id)))


async def rotate_secret(call: Call) -> Answer:
    """First step: a second secret signs beside the one in force; the answer shows it, this once."""
    wanted = _read(call, shapes.SecretRequest)
    async with _transaction(call) as conn:
        staged = await manage.stage_secret(
            conn, await _find(call, conn), secret=wanted.secret, ring=call.around.keys.ring, now=call.now
        )
    return _answer(staged, secret=staged.staged_secret)


async def promote_secret(call: Call) -> Answer:
    """Second step: the new secret is in force, the old one signs beside it for a day."""
    async with _transaction(call) as conn:
        promoted = await manage.promote_secret(conn, await _find(call, conn), ring=call.around.keys.ring, now=call.now)
    return _answer(promoted)


async def list_deliveries(call: Call) -> Answer:
    """What was sent to an endpoint and how each attempt went, newest event first."""
    query = call.query
    limit = min(query.number("limit") or DEFAULT_LIMIT, MAX_LIMIT)
    states = query.choices("status", list(plan.State))
    before_id = query.cursor(r"evt_[0-9a-f]{32}")
    query.check()
    endpoint = await _find(call, call.around.database.read)
    rows = await attempts.list_deliveries(
        call.around.database.read,
        partner_id=endpoint.partner_id,
        endpoint_id=endpoint.endpoint_id,
        state=plan.State(states[-1]) if states else None,
        before_id=before_id,
        limit=limit + 1,
    )
    more = len(rows) > limit
    body = shapes.DeliveryList(
        data=[_delivery(row) for row in rows[:limit]],
        next_cursor=queries.write_cursor(rows[limit - 1]["event_id"]) if more else None,
    )
    return Answer(wire.encode(body))


async def replay(call: Call) -> Answer:
    """Send the events of a range again."""
    wanted = _read(call, shapes.ReplayRequest)
    async with _transaction(call) as conn:
        count = await again.replay(
            conn,
            await _find(call, conn),
            occurred_from=wanted.from_,
            occurred_to=wanted.to or call.now,
            now=call.now,
        )
    call.around.bell.ring("deliveries")
    return Answer(wire.encode(shapes.Replayed(events=count)))


async def list_events(call: Call) -> Answer:
    """The partner's events by their sequence, from behind the given one."""
    query = call.query
    limit = min(query.number("limit") or DEFAULT_LIMIT, MAX_LIMIT)
    after = query.text("after")
    query.check()
    database, partner_id = call.around.database.read, call.partner.partner_id
    sequence = 0
    if after is not None:
        known = await events.find_event(database, partner_id=partner_id, event_id=after)
        if known is None or known["sequence"] is None:
            raise problems.invalid_member("after", f"{requests.show(after)} is no event of yours that is kept")
        sequence = known["sequence"]
    rows = await events.list_feed(database, partner_id=partner_id, after_sequence=sequence, limit=limit + 1)
    more = len(rows) > limit
    following = wire.encode(rows[limit - 1]["event_id"]) if more else b"null"
    # Each event is the bytes that were sent, with its sequence.
    data = b",".join(row["rendered"][:-1] + b',"sequence":%d}' % row["sequence"] for row in rows[:limit])
    return Answer(b'{"data":[' + data + b'],"nextCursor":' + following + b"}")


async def redeliver_event(call: Call) -> Answer:
    """Send one event to every enabled endpoint that wants it, once more."""
    async with _transaction(call) as conn:
        count = await again.redeliver(
            conn, partner_id=call.partner.partner_id, event_id=call.path_values["event_id"], now=call.now
        )
    call.around.bell.ring("deliveries")
    return Answer(wire.encode(shapes.Redelivered(endpoints=count)))


@asynccontextmanager
async def _transaction(call: Call) -> AsyncIterator[pool.Connection]:
    async with call.around.database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
        yield conn


async def _find(call: Call, conn: pool.Connection | pool.Pool) -> model.Endpoint:
    return await manage.read_endpoint(
        conn,
        partner_id=call.partner.partner_id,
        endpoint_id=call.path_values["webhook_id"],
        ring=call.around.keys.ring,
    )


def _read(call: Call, type_: type[requests.Struct]) -> requests.Struct:
    wanted, violations = requests.read_struct(call.body, type_)
    if wanted is None:
        raise problems.invalid(violations)
    return wanted


def _answer(endpoint: model.Endpoint, *, secret: str | None = None) -> Answer:
    return Answer(wire.encode(_shape(endpoint, secret=secret)))


def _shape(endpoint: model.Endpoint, *, secret: str | None = None, status: str | None = None) -> shapes.Webhook:
    brought = secret is not None and not secret.startswith(model.SECRET_PREFIX)
    encoded = base64.b64encode((secret or "").encode()).decode()
    return shapes.Webhook(
        id=endpoint.endpoint_id,
        url=endpoint.url,
        events=list(endpoint.kinds),
        description=endpoint.description,
        status=status or (ENABLED if endpoint.disabled_at is None else DISABLED),
        disabled_reason=endpoint.disabled_why,
        secret_staged=endpoint.staged_secret is not None,
        secret=secret,
        standard_secret=(model.SECRET_PREFIX + encoded if brought else secret) if secret is not None else None,
        created_at=endpoint.created_at,
    )


def _delivery(row: pool.Record) -> shapes.Delivery:
    told: list[dict[str, Any]] = msgspec.json.decode(row["attempts"])
    return shapes.Delivery(
        event_id=row["event_id"],
        event_type=row["kind"],
        status=row["state"],
        attempts=[
            shapes.Attempt(
                attempt=one["attempt"],
                at=datetime.fromisoformat(one["at"]),
                status=one["status"],
                error=one["error"],
                latency_ms=one["latencyMs"],
                answer=base64.b64decode(one["answer"]).decode("utf-8", "replace"),
            )
            for one in told
        ],
        next_attempt_at=row["next_at"] if row["state"] == "DUE" else None,
    )


_ID = Parameter("webhook_id", "path", "the endpoint's id", required=True)
_UNKNOWN = (problems.Code.NOT_FOUND,)
_PATH = "/v1/partners/webhooks"

ENDPOINTS = (
    Endpoint("POST", _PATH, "createWebhook", "Register an endpoint; its secret is shown once", create_webhook,
             shapes.Webhook, request=shapes.WebhookRequest, secret=True),
    Endpoint("GET", _PATH, "listWebhooks", "List the endpoints", list_webhooks, shapes.WebhookList),
    Endpoint("GET", f"{_PATH}/{{webhook_id}}", "getWebhook", "Get an endpoint", get_webhook, shapes.Webhook,
             parameters=(_ID,), errors=_UNKNOWN),
    Endpoint("PATCH", f"{_PATH}/{{webhook_id}}", "changeWebhook", "Change an endpoint", change_webhook, shapes.Webhook,
             request=shapes.WebhookChange, parameters=(_ID,), errors=_UNKNOWN),
    Endpoint("DELETE", f"{_PATH}/{{webhook_id}}", "deleteWebhook", "Remove an endpoint", delete_webhook,
             shapes.Webhook, parameters=(_ID,), errors=_UNKNOWN),
    Endpoint("POST", f"{_PATH}/{{webhook_id}}/test", "testWebhook", "Send a test event", test_webhook,
             shapes.TestSent, parameters=(_ID,), errors=_UNKNOWN, body_required=False),
    Endpoint("POST", f"{_PATH}/{{webhook_id}}/rotate-secret", "rotateSecret",
             "Stage a second secret; it is shown once", rotate_secret, shapes.Webhook, request=shapes.SecretRequest,
             parameters=(_ID,), errors=_UNKNOWN, body_required=False, secret=True),
    Endpoint("POST", f"{_PATH}/{{webhook_id}}/promote-secret", "promoteSecret",
             "Put the staged secret in force; the old one signs beside it for a day", promote_secret, shapes.Webhook,
             parameters=(_ID,), errors=_UNKNOWN, body_required=False),
    Endpoint("GET", f"{_PATH}/{{webhook_id}}/deliveries", "listDeliveries",
             "List what was sent to an endpoint and how it went", list_deliveries, shapes.DeliveryList,
             parameters=(_ID,
                         Parameter("status", "query", "only those", {"enum": [*plan.State]}),
                         Parameter("limit", "query", f"at most {MAX_LIMIT}", {"type": "integer", "minimum": 1}),
                         Parameter("cursor", "query", "the nextCursor of the page before")),
             errors=_UNKNOWN),
    Endpoint("POST", f"{_PATH}/{{webhook_id}}/replay", "replayWebhook", "Send the events of a range again", replay,
             shapes.Replayed, request=shapes.ReplayRequest, parameters=(_ID,), errors=_UNKNOWN),
    Endpoint("GET", "/v1/partners/events", "listEvents", "The event feed, by sequence", list_events, shapes.EventList,
             parameters=(Parameter("after", "query", "the id of the last event that you have"),
                         Parameter("limit", "query", f"at most {MAX_LIMIT}", {"type": "integer", "minimum": 1}))),
    Endpoint("POST", "/v1/partners/events/{event_id}/redeliver", "redeliverEvent", "Send one event once more",
             redeliver_event, shapes.Redelivered,
             parameters=(Parameter("event_id", "path", "the event's id", required=True),), errors=_UNKNOWN,
             body_required=False),
)  # fmt: skip
