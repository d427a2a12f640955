"""The shapes of webhooks and of the event feed (wire contract, webhooks)."""

from datetime import datetime
from typing import Annotated

import msgspec

from giftrail.webhooks import model as webhooks

Secret = (
    Annotated[str, msgspec.Meta(min_length=webhooks.MIN_SECRET_CHARACTERS, max_length=webhooks.MAX_SECRET_CHARACTERS)]
    | None
)


Status = Annotated[str, msgspec.Meta(pattern=r"^(ENABLED|DISABLED)$", description="ENABLED or DISABLED")] | None


class WebhookRequest(msgspec.Struct, rename="camel"):
    """Wire contract, webhooks: registration. Without `events`, all but the opt-in ORDER_STATUS_CHANGED."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=webhooks.MAX_URL_CHARACTERS)]
    events: list[str] | None = None
    description: Annotated[str, msgspec.Meta(max_length=webhooks.MAX_DESCRIPTION_CHARACTERS)] | None = None
    secret: Secret = None


class WebhookChange(msgspec.Struct, rename="camel"):
    """What is given is changed; `status` is ENABLED or DISABLED."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=webhooks.MAX_URL_CHARACTERS)] | None = None
    events: list[str] | None = None
    description: Annotated[str, msgspec.Meta(max_length=webhooks.MAX_DESCRIPTION_CHARACTERS)] | None = None
    status: Status = None


class SecretRequest(msgspec.Struct, rename="camel"):
    """A secret of the partner's own; without it one is drawn."""

    secret: Secret = None


class Webhook(msgspec.Struct, rename="camel"):
    """An endpoint. `secret` is told once; `standardSecret` is the same for Standard Webhooks libraries."""

    id: str
    url: str
    events: list[str]
    description: str | None
    status: str
    disabled_reason: str | None
    secret_staged: bool
    secret: str | None
    standard_secret: str | None
    created_at: datetime


class WebhookList(msgspec.Struct, rename="camel"):
    """All endpoints."""

    data: list[Webhook]
    next_cursor: str | None


class TestSent(msgspec.Struct, rename="camel"):
    """The test event that is on its way."""

    event_id: str


class Attempt(msgspec.Struct, rename="camel"):
    """One attempt; `error` is its class when there was no answer, `answer` its first 2 KiB."""

    attempt: int
    at: datetime
    status: int | None
    error: str | None
    latency_ms: int
    answer: str


class Delivery(msgspec.Struct, rename="camel"):
    """An event on its way to an endpoint: DUE, DELIVERED, EXHAUSTED or HELD."""

    event_id: str
    event_type: str | None
    status: str
    attempts: list[Attempt]
    next_attempt_at: datetime | None


class DeliveryList(msgspec.Struct, rename="camel"):
    """Deliveries, newest event first."""

    data: list[Delivery]
    next_cursor: str | None


class ReplayRequest(msgspec.Struct, rename={"from_": "from"}):
    """What happened from (inclusive) to (exclusive, now when absent)."""

    from_: datetime
    to: datetime | None = None


class Replayed(msgspec.Struct, rename="camel"):
    """How many events are on their way again."""

    events: int


class Redelivered(msgspec.Struct, rename="camel"):
    """To how many endpoints the event is on its way again."""

    endpoints: int


class Event(msgspec.Struct, rename="camel"):
    """An event in the feed: the members of its kind, and these."""

    event_id: str
    event_type: str
    occurred_at: datetime
    sequence: int


class EventList(msgspec.Struct, rename="camel"):
    """Wire contract, webhooks: the feed; `nextCursor` is the event to go on after."""

    data: list[Event]
    next_cursor: str | None
