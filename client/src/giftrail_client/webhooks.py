"""Webhooks: the raw body verified, then an event (specification, Webhook authentication, Events)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from giftrail_client import errors, models, wire

# A Standard Webhooks timestamp further from now than this is refused, in seconds.
TOLERANCE_SECONDS = 300.0
# The same bytes without any id are the same event for so long: a balance may be low again later.
UNNAMED_SECONDS = 3600.0
PREFIX = "whsec_"
BRAND_UPDATED = "BRAND_UPDATED"
WALLET_LOW_BALANCE = "WALLET_LOW_BALANCE"
ORDER_TERMINAL_STATE = "ORDER_TERMINAL_STATE"
BRAND_DISCOUNT_UPDATED = "BRAND_DISCOUNT_UPDATED"
ORDER_STATUS_CHANGED = "ORDER_STATUS_CHANGED"
UNKNOWN = "UNKNOWN"
# The specification names no kind inside the body: these members tell it.
_MEMBERS_OF = {
    ORDER_TERMINAL_STATE: {"orderId", "status"},
    WALLET_LOW_BALANCE: {"balance", "threshold"},
    BRAND_UPDATED: {"denominationType", "amountRestrictions"},
    BRAND_DISCOUNT_UPDATED: {"discountPercentage"},
}


class Headers(Protocol):
    """The headers of a request, in any case: a dict, or what a web framework has."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Name and value of each."""
        ...


class VerificationFailed(errors.GiftrailError):
    """The request was not signed with any of the secrets, or is no event. Answer 400 and do nothing."""


@dataclass(frozen=True)
class Event:
    """Something that happened. `id` is the same at each delivery; `body` is what was sent, amounts exact."""

    id: str
    kind: str
    occurred_at: datetime | None
    body: Mapping[str, Any] = field(repr=False)

    @property
    def sequence(self) -> int | None:
        """Of an event from the feed: its number among yours, without gaps."""
        return self.body.get("sequence")

    @property
    def order_id(self) -> str | None:
        """Of an order event: the order to get."""
        return self.body.get("orderId")

    @property
    def reference_id(self) -> str | None:
        """Of an order event: your reference, when the service sends it."""
        return self.body.get("referenceId")

    @property
    def status(self) -> str | None:
        """Of an order event and of Brand Updated: the status now."""
        return self.body.get("status")

    @property
    def brand_id(self) -> str | None:
        """Of a brand event: the brand."""
        return self.body.get("brandId") or (self.body.get("id") if self.kind.startswith("BRAND") else None)


def verify(
    raw_body: bytes,
    headers: Headers,
    secret: str | Sequence[str],
    *,
    now: float | None = None,
) -> Event:
    """The event of a webhook request: the raw bytes are verified before anything is read from them.

    Either signature does: X-Verify, or that of Standard Webhooks. Several secrets may be given while one is rotated.
    Raises VerificationFailed, and nothing else, whatever the bytes and headers are.
    """
    # An empty one, of a setting that was forgotten, could sign anything.
    secrets = [one for one in ([secret] if isinstance(secret, str) else secret) if one.removeprefix(PREFIX)]
    at = time.time() if now is None else now
    # What is no text (half of a surrogate pair) can be no signature.
    given = {str(name).lower(): str(value).encode("utf-8", "replace").decode() for name, value in headers.items()}
    is_standard = _verifies_standard(raw_body, given, secrets, now=at)
    if not _verifies(raw_body, given, secrets) and not is_standard:
        raise VerificationFailed("the request carries no signature made with this secret")
    # X-Verify signs no header: an id that stands there alone is nobody's word.
    event_id = given.get("webhook-id") if is_standard else None
    return read(raw_body, event_id=event_id, kind=given.get("x-event-type"), now=at)


def read(raw_body: bytes, *, event_id: str | None = None, kind: str | None = None, now: float | None = None) -> Event:
    """The event of bytes that were verified before. Raises VerificationFailed."""
    try:
        body = models.members(wire.decode(raw_body))
        occurred_at = models.moment(body.get("occurredAt"))
    except (ValueError, TypeError, RecursionError, ArithmeticError):
        raise VerificationFailed("the body is not a JSON object") from None
    return Event(
        id=_text(body.get("eventId")) or event_id or _name(raw_body, body, time.time() if now is None else now),
        kind=_text(body.get("eventType")) or _kind_of(body) or kind or UNKNOWN,
        occurred_at=occurred_at,
        body=body,
    )


def of_feed(members: Mapping[str, Any]) -> Event:
    """An event as the feed lists it. Raises KeyError, TypeError, ValueError."""
    return Event(
        id=members["eventId"],
        kind=members["eventType"],
        occurred_at=models.moment(members.get("occurredAt")),
        body=members,
    )


def sign(raw_body: bytes, secret: str) -> str:
    """The value of X-Verify: Base64 of HMAC-SHA256 over the raw body, keyed with the whole secret."""
    return base64.b64encode(hmac.digest(secret.encode(), raw_body, hashlib.sha256)).decode()


def sign_standard(raw_body: bytes, secret: str, *, event_id: str, timestamp: int) -> str:
    """One signature of Standard Webhooks, `v1,…`. Raises ValueError when the secret is not Base64 behind whsec_."""
    content = f"{event_id}.{timestamp}.".encode() + raw_body
    return "v1," + base64.b64encode(hmac.digest(_key(secret), content, hashlib.sha256)).decode()


def _key(secret: str) -> bytes:
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret[len(PREFIX) :], validate=True)
    except binascii.Error:
        raise ValueError("the secret is not Base64 behind whsec_") from None


def _verifies(raw_body: bytes, headers: Mapping[str, str], secrets: Sequence[str]) -> bool:
    given = headers.get("x-verify", "").encode()
    # Each is compared, so that the time does not tell which one was right.
    right = [hmac.compare_digest(sign(raw_body, secret).encode(), given) for secret in secrets]
    return any(right)


def _verifies_standard(raw_body: bytes, headers: Mapping[str, str], secrets: Sequence[str], *, now: float) -> bool:
    try:
        timestamp = int(headers.get("webhook-timestamp", ""))
    except ValueError:
        return False
    if abs(now - timestamp) > TOLERANCE_SECONDS:
        return False
    event_id, given = headers.get("webhook-id", ""), headers.get("webhook-signature", "").split(" ")
    right = []
    for secret in secrets:
        try:
            wanted = sign_standard(raw_body, secret, event_id=event_id, timestamp=timestamp).encode()
        except ValueError:
            continue
        right += [hmac.compare_digest(wanted, one.encode()) for one in given]
    return any(right)


def _name(raw_body: bytes, body: Mapping[str, Any], now: float) -> str:
    """An id for an event that has none: the same for the same bytes; where they name no order, within an hour."""
    digest = hashlib.sha256(raw_body).hexdigest()
    return digest if "orderId" in body else f"{digest}-{int(now // UNNAMED_SECONDS)}"


def _kind_of(body: Mapping[str, Any]) -> str | None:
    for kind, members in _MEMBERS_OF.items():
        if members <= body.keys():
            return kind
    return None


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value:
        return None
    # Half of a surrogate pair is no text, and no store takes it.
    return value.encode("utf-8", "replace").decode()
