"""The fake's events, webhook endpoints and deliveries: signed as the service signs, sent to who listens."""

from __future__ import annotations

import base64
import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from giftrail_client import webhooks, wire
from giftrail_client.router import Answer
from giftrail_client.testing import reading

DEFAULT_KINDS = (
    webhooks.BRAND_UPDATED,
    webhooks.WALLET_LOW_BALANCE,
    webhooks.ORDER_TERMINAL_STATE,
    webhooks.BRAND_DISCOUNT_UPDATED,
)
KINDS = (*DEFAULT_KINDS, webhooks.ORDER_STATUS_CHANGED)
TEST = "TEST"
MAX_ENDPOINTS = 20
MIN_SECRET_CHARACTERS, MAX_SECRET_CHARACTERS = 32, 200
OLD_SECRET_HOURS = 24
# When the next attempt is made, in seconds after the last.
DELAYS = (5, 30, 120, 300, 900, 1800, 3600, 7200, 18000, 36000, 50400, 72000, 72000)

# Takes the raw body and the headers of a webhook and answers, as `WebhookRouter.answer` does.
Receiver = Callable[[bytes, webhooks.Headers], Answer]


@dataclass
class FakeEvent:
    """An event; its bytes are the same at each delivery."""

    id: str
    kind: str
    at: datetime
    members: Mapping[str, Any]
    raw_body: bytes
    sequence: int | None


@dataclass
class FakeDelivery:
    """An event on its way to an endpoint."""

    event: FakeEvent
    state: str
    next_at: datetime | None
    attempts: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class FakeEndpoint:
    """A registered address."""

    id: str
    url: str
    kinds: tuple[str, ...]
    description: str | None
    secret: str
    made_at: datetime
    is_enabled: bool = True
    disabled_reason: str | None = None
    staged: str | None = None
    old: str | None = None
    old_until: datetime | None = None
    deliveries: list[FakeDelivery] = field(default_factory=list)

    def members(self, *, secret: str | None = None, status: str | None = None) -> dict[str, Any]:
        """As the service writes it; the secret only when it is told."""
        standard = secret
        if secret is not None and not secret.startswith(webhooks.PREFIX):
            standard = webhooks.PREFIX + base64.b64encode(secret.encode()).decode()
        return {
            "id": self.id, "url": self.url, "events": list(self.kinds), "description": self.description,
            "status": status or ("ENABLED" if self.is_enabled else "DISABLED"),
            "disabledReason": self.disabled_reason, "secretStaged": self.staged is not None, "secret": secret,
            "standardSecret": standard, "createdAt": self.made_at.isoformat(),
        }  # fmt: skip

    def sign(self, event: FakeEvent, *, at: datetime, attempt: int) -> dict[str, str]:
        """The headers of an attempt."""
        old = self.old if self.old_until is not None and at < self.old_until else None
        keys = [key for key in (self.secret, self.staged, old) if key is not None]
        timestamp = int(at.timestamp())
        return {
            "Content-Type": "application/json",
            "X-Verify": webhooks.sign(event.raw_body, self.secret),
            "webhook-id": event.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(
                webhooks.sign_standard(event.raw_body, key, event_id=event.id, timestamp=timestamp) for key in keys
            ),
            "X-Event-Type": event.kind,
            "X-Delivery-Attempt": str(attempt),
        }


class Teller:
    """Keeps events and endpoints, and delivers what is due when it is told the time."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.events: list[FakeEvent] = []
        self.endpoints: dict[str, FakeEndpoint] = {}
        self.receivers: dict[str, Receiver] = {}

    def append(self, kind: str, members: Mapping[str, Any], *, fault: str | None = None) -> None:
        """Something happened: it is in the feed, and on its way to every endpoint that wants its kind."""
        event = self._make(kind, members, sequence=len(self.events) + 1)
        self.events.append(event)
        for endpoint in self.endpoints.values():
            if kind in endpoint.kinds and fault != "LOST":
                for _ in range(2 if fault == "TWICE" else 1):
                    self._send(endpoint, event)

    def deliver(self) -> None:
        """Attempt every delivery that is due."""
        for endpoint in list(self.endpoints.values()):
            for delivery in list(endpoint.deliveries):
                while delivery.state == "DUE" and delivery.next_at is not None and delivery.next_at <= self._now():
                    self._attempt(endpoint, delivery)

    def next_at(self) -> datetime | None:
        """When the next attempt is due."""
        due = [one.next_at for endpoint in self.endpoints.values() for one in endpoint.deliveries if one.state == "DUE"]
        return min((at for at in due if at is not None), default=None)

    def create(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """Register an endpoint."""
        sheet = reading.Sheet(members)
        url = _read_url(sheet, required=True)
        kinds = sheet.texts("events", known=KINDS)
        description = sheet.text("description", most=200)
        secret = _read_secret(sheet)
        if len(self.endpoints) >= MAX_ENDPOINTS:
            sheet.note("url", f"the partner has {MAX_ENDPOINTS} endpoints already")
        sheet.check()
        made = FakeEndpoint(
            f"whk_{uuid.uuid4().hex}", url or "", tuple(kinds or DEFAULT_KINDS), description, secret or _draw(),
            self._now(),
        )  # fmt: skip
        self.endpoints[made.id] = made
        return made.members(secret=made.secret)

    def find(self, endpoint_id: str) -> FakeEndpoint:
        """An endpoint. Raises Refused."""
        if endpoint_id not in self.endpoints:
            raise reading.not_found()
        return self.endpoints[endpoint_id]

    def change(self, endpoint_id: str, members: Mapping[str, Any]) -> dict[str, Any]:
        """Change what is given."""
        endpoint, sheet = self.find(endpoint_id), reading.Sheet(members)
        url = _read_url(sheet, required=False)
        kinds = sheet.texts("events", known=KINDS)
        description = sheet.text("description", most=200)
        status = sheet.text("status", most=20)
        if status not in {None, "ENABLED", "DISABLED"}:
            sheet.note("status", f"{status!r} is not ENABLED or DISABLED")
        sheet.check()
        endpoint.url, endpoint.kinds = url or endpoint.url, tuple(kinds or endpoint.kinds)
        endpoint.description = endpoint.description if description is None else description
        if status is not None:
            endpoint.is_enabled = status == "ENABLED"
            endpoint.disabled_reason = None if endpoint.is_enabled else "by its partner"
        return endpoint.members()

    def delete(self, endpoint_id: str) -> dict[str, Any]:
        """Remove an endpoint."""
        endpoint = self.find(endpoint_id)
        del self.endpoints[endpoint_id]
        return endpoint.members(status="DELETED")

    def test(self, endpoint_id: str) -> dict[str, Any]:
        """Send a test event; it is not in the feed."""
        endpoint = self.find(endpoint_id)
        event = self._make(TEST, {"message": "This is a test."}, sequence=None)
        self._send(endpoint, event)
        return {"eventId": event.id}

    def rotate(self, endpoint_id: str, members: Mapping[str, Any]) -> dict[str, Any]:
        """Stage a second secret."""
        endpoint, sheet = self.find(endpoint_id), reading.Sheet(members)
        secret = _read_secret(sheet)
        sheet.check()
        endpoint.staged = secret or _draw()
        return endpoint.members(secret=endpoint.staged)

    def promote(self, endpoint_id: str) -> dict[str, Any]:
        """Put the staged secret in force."""
        endpoint = self.find(endpoint_id)
        if endpoint.staged is None:
            raise reading.invalid(("secret", "none is staged: rotate first"))
        endpoint.old, endpoint.old_until = endpoint.secret, self._now() + timedelta(hours=OLD_SECRET_HOURS)
        endpoint.secret, endpoint.staged = endpoint.staged, None
        return endpoint.members()

    def replay(self, endpoint_id: str, members: Mapping[str, Any]) -> dict[str, Any]:
        """Send the events of a range again."""
        endpoint, sheet = self.find(endpoint_id), reading.Sheet(members)
        since, until = sheet.moment("from", required=True), sheet.moment("to")
        sheet.check()
        until = until or self._now()
        found = [one for one in self.events if since and since <= one.at < until and one.kind in endpoint.kinds]
        for event in found:
            self._send(endpoint, event)
        return {"events": len(found)}

    def redeliver(self, event_id: str) -> dict[str, Any]:
        """Send one event to every endpoint that wants it."""
        event = next((one for one in self.events if one.id == event_id), None)
        if event is None:
            raise reading.not_found()
        wanting = [one for one in self.endpoints.values() if one.is_enabled and event.kind in one.kinds]
        for endpoint in wanting:
            self._send(endpoint, event)
        return {"endpoints": len(wanting)}

    def feed(self, event: FakeEvent) -> dict[str, Any]:
        """An event as the feed lists it."""
        return {**wire.decode(event.raw_body), "sequence": event.sequence}

    def _make(self, kind: str, members: Mapping[str, Any], *, sequence: int | None) -> FakeEvent:
        at, event_id = self._now(), f"evt_{uuid.uuid4().hex}"
        body = {**members, "eventId": event_id, "eventType": kind, "occurredAt": at.isoformat()}
        return FakeEvent(event_id, kind, at, members, wire.encode(body), sequence)

    def _send(self, endpoint: FakeEndpoint, event: FakeEvent) -> None:
        now = self._now()
        endpoint.deliveries.append(
            FakeDelivery(event, "DUE" if endpoint.is_enabled else "HELD", now if endpoint.is_enabled else None)
        )

    def _attempt(self, endpoint: FakeEndpoint, delivery: FakeDelivery) -> None:
        now, number = self._now(), len(delivery.attempts) + 1
        answer, error = Answer(0, ""), None
        receive = self.receivers.get(endpoint.url)
        if receive is None:
            error = "CONNECT"
        else:
            answer = receive(delivery.event.raw_body, endpoint.sign(delivery.event, at=now, attempt=number))
        delivery.attempts.append({
            "attempt": number, "at": now.isoformat(), "status": answer.status or None, "error": error, "latencyMs": 0,
            "answer": answer.text[:2048],
        })  # fmt: skip
        if 200 <= answer.status < 300:
            delivery.state, delivery.next_at = "DELIVERED", None
        elif answer.status == 410:
            endpoint.is_enabled, endpoint.disabled_reason = False, "answered 410"
            delivery.state, delivery.next_at = "HELD", None
        elif number > len(DELAYS):
            delivery.state, delivery.next_at = "EXHAUSTED", None
        else:
            delivery.next_at = now + timedelta(seconds=DELAYS[number - 1])


def order_members(order_id: str, reference_id: str, status: str) -> dict[str, Any]:
    """The body of an order event."""
    return {"id": order_id, "orderId": order_id, "referenceId": reference_id, "status": status}


def discount_members(brand_id: str, percentage: Decimal, before: Decimal) -> dict[str, Any]:
    """The body of Brand Discount Update."""
    return {
        "id": brand_id, "brandId": brand_id, "discountPercentage": percentage,
        "previousDiscountPercentage": before, "subventionPercentage": percentage,
    }  # fmt: skip


def _read_url(sheet: reading.Sheet, *, required: bool) -> str | None:
    url = sheet.text("url", most=2000, required=required)
    if url is not None and not url.startswith(
        ("https://", "http://localhost", "http://127.0.0.1", "http://testserver")
    ):
        sheet.note("url", f"{url!r} is not an https address")
    return url


def _read_secret(sheet: reading.Sheet) -> str | None:
    secret = sheet.text("secret", most=MAX_SECRET_CHARACTERS)
    if secret is not None and len(secret) < MIN_SECRET_CHARACTERS:
        sheet.note("secret", f"has {len(secret)} characters, fewer than {MIN_SECRET_CHARACTERS}")
    return secret


def _draw() -> str:
    return webhooks.PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
