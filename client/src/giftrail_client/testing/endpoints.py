"""The fake's webhook endpoints: registered, changed, signed for; and the deliveries on their way to each."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from giftrail_client import webhooks
from giftrail_client.testing import addresses, problems, reading, writing

DEFAULT_KINDS = (
    webhooks.BRAND_UPDATED,
    webhooks.WALLET_LOW_BALANCE,
    webhooks.ORDER_TERMINAL_STATE,
    webhooks.BRAND_DISCOUNT_UPDATED,
)
KINDS = (*DEFAULT_KINDS, webhooks.ORDER_STATUS_CHANGED)
MAX_ENDPOINTS = 20
MAX_URL_CHARACTERS = 2000
MAX_DESCRIPTION_CHARACTERS = 200
MIN_SECRET_CHARACTERS, MAX_SECRET_CHARACTERS = 32, 200
OLD_SECRET_HOURS = 24
_STATUS = re.compile("ENABLED|DISABLED")


@dataclass
class FakeEvent:
    """An event; its bytes are the same at each delivery. `fault` is what becomes of its webhook: LOST or TWICE."""

    id: str
    kind: str
    at: datetime
    raw_body: bytes
    sequence: int
    fault: str | None = None


@dataclass
class FakeDelivery:
    """An event on its way to an endpoint; `round_attempts` are those since it was sent last."""

    event: FakeEvent
    state: str = "HELD"
    next_at: datetime | None = None
    attempts: list[dict[str, Any]] = field(default_factory=list)
    round_attempts: int = 0

    def members(self) -> dict[str, Any]:
        """As the service writes it."""
        return {
            "eventId": self.event.id, "eventType": self.event.kind, "status": self.state, "attempts": self.attempts,
            "nextAttemptAt": self.next_at if self.state == "DUE" else None,
        }  # fmt: skip


@dataclass
class FakeEndpoint:
    """A registered address; its deliveries by the id of their event."""

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
    last_success_at: datetime | None = None
    deliveries: dict[str, FakeDelivery] = field(default_factory=dict)

    def members(self, *, secret: str | None = None, status: str | None = None) -> dict[str, Any]:
        """As the service writes it; the secret only when it is told."""
        standard = secret
        if secret is not None and not secret.startswith(webhooks.PREFIX):
            standard = webhooks.PREFIX + base64.b64encode(secret.encode()).decode()
        return {
            "id": self.id, "url": self.url, "events": list(self.kinds), "description": self.description,
            "status": status or ("ENABLED" if self.is_enabled else "DISABLED"),
            "disabledReason": self.disabled_reason, "secretStaged": self.staged is not None, "secret": secret,
            "standardSecret": standard, "createdAt": self.made_at,
        }  # fmt: skip

    def sign(self, event: FakeEvent, *, at: datetime, attempt: int) -> dict[str, str]:
        """The headers of an attempt."""
        old = self.old if self.old_until is not None and at < self.old_until else None
        keys = [key for key in (self.secret, self.staged, old) if key is not None]
        timestamp = int(at.timestamp())
        return {
            "Content-Type": "application/json",
            "User-Agent": "Giftrail",
            "X-Verify": webhooks.sign(event.raw_body, self.secret),
            "webhook-id": event.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(
                webhooks.sign_standard(event.raw_body, key, event_id=event.id, timestamp=timestamp) for key in keys
            ),
            "X-Event-Type": event.kind,
            "X-Delivery-Attempt": str(attempt),
        }

    def change(self, members: Mapping[str, Any]) -> None:
        """Change what is given. Raises Refused."""
        url, kinds, description = members["url"], members["events"], members["description"]
        changed = (
            self.url if url is None else addresses.check_url(url),
            self.kinds if kinds is None else _check_kinds(kinds),
            self.description if description is None else _check_description(description),
        )
        self.url, self.kinds, self.description = changed
        if members["status"] == "DISABLED":
            self.disable("by its partner")
        elif members["status"] == "ENABLED" and not self.is_enabled:
            self.is_enabled, self.disabled_reason, self.last_success_at = True, None, None

    def disable(self, why: str) -> None:
        """Call it no more; what is on its way is held."""
        if self.is_enabled:
            self.is_enabled, self.disabled_reason = False, why
            for delivery in self.deliveries.values():
                delivery.state = "HELD" if delivery.state == "DUE" else delivery.state

    def check_enabled(self) -> None:
        """Raises Refused when nothing can be sent to it."""
        if not self.is_enabled:
            raise problems.invalid(("status", "the endpoint is disabled: enable it first"))

    def stage(self, secret: str | None) -> str:
        """Let a second secret sign beside the one in force; one is drawn unless it is brought. Raises Refused."""
        self.staged = _draw() if secret is None else _check_secret(secret)
        return self.staged

    def promote(self, *, now: datetime) -> None:
        """Put the staged secret in force. Raises Refused."""
        if self.staged is None:
            raise problems.invalid(("secret", "none is staged: rotate first"))
        self.old, self.old_until = self.secret, now + timedelta(hours=OLD_SECRET_HOURS)
        self.secret, self.staged = self.staged, None

    def send(self, event: FakeEvent, *, now: datetime) -> None:
        """Send an event, or send it again: it is one delivery, with one more round of attempts."""
        delivery = self.deliveries.setdefault(event.id, FakeDelivery(event))
        delivery.state, delivery.next_at, delivery.round_attempts = "DUE", now, 0


def make(members: Mapping[str, Any], *, now: datetime) -> FakeEndpoint:
    """A new endpoint, of members that `read_new` has read. Raises Refused."""
    secret = members["secret"]
    return FakeEndpoint(
        writing.new_id("whk", now=now),
        addresses.check_url(members["url"]),
        description=_check_description(members["description"]),
        kinds=DEFAULT_KINDS if members["events"] is None else _check_kinds(members["events"]),
        secret=_draw() if secret is None else _check_secret(secret),
        made_at=now,
    )


def read_new(members: Mapping[str, Any]) -> dict[str, Any]:
    """What a registration says. Raises Refused."""
    sheet = reading.Sheet(members)
    return _checked(sheet, _read_members(sheet, url_required=True) | {"secret": _read_secret(sheet)})


def read_change(members: Mapping[str, Any]) -> dict[str, Any]:
    """What a change says. Raises Refused."""
    sheet = reading.Sheet(members)
    status = sheet.text("status", shape=_STATUS, means="ENABLED or DISABLED")
    return _checked(sheet, _read_members(sheet, url_required=False) | {"status": status})


def read_secret(members: Mapping[str, Any]) -> str | None:
    """The secret that a partner brings, if it does. Raises Refused."""
    sheet = reading.Sheet(members)
    secret = _read_secret(sheet)
    sheet.check()
    return secret


def _read_members(sheet: reading.Sheet, *, url_required: bool) -> dict[str, Any]:
    return {
        "url": sheet.text("url", least=1, most=MAX_URL_CHARACTERS, required=url_required),
        "events": sheet.texts("events"),
        "description": sheet.text("description", most=MAX_DESCRIPTION_CHARACTERS),
    }


def _read_secret(sheet: reading.Sheet) -> str | None:
    return sheet.text("secret", least=MIN_SECRET_CHARACTERS, most=MAX_SECRET_CHARACTERS)


def _checked(sheet: reading.Sheet, members: dict[str, Any]) -> dict[str, Any]:
    sheet.check()
    return members


def _check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    if not kinds:
        raise problems.invalid(("events", "names no kind of event"))
    for kind in kinds:
        if kind not in KINDS:
            raise problems.invalid(("events", f"{kind!r} is not one of {', '.join(KINDS)}"))
    return tuple(kind for kind in KINDS if kind in kinds)


def _check_description(description: str | None) -> str | None:
    if description is not None and not description.isprintable():
        raise problems.invalid(("description", "is not printable"))
    return description or None


def _check_secret(secret: str) -> str:
    if not secret.isprintable():
        raise problems.invalid(("secret", "is not printable"))
    if secret.startswith(webhooks.PREFIX):
        try:
            base64.b64decode(secret[len(webhooks.PREFIX) :], validate=True)
        except ValueError:
            raise problems.invalid(("secret", "is not Base64 behind whsec_")) from None
    return secret


def _draw() -> str:
    return webhooks.PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
