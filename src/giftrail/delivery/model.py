"""What is delivered to whom (specification, deliveryDetails; wire contract, Place Order)."""

from datetime import datetime
from enum import StrEnum

import msgspec

MAX_REASON_CHARACTERS = 300


class Channel(StrEnum):
    """How a message goes to a recipient."""

    EMAIL = "EMAIL"
    SMS = "SMS"


class Outcome(StrEnum):
    """What became of a message. BOUNCED: the recipient's address does not exist, or does not take it."""

    PENDING = "PENDING"
    SENT = "SENT"
    FAILED = "FAILED"
    BOUNCED = "BOUNCED"


class Recipient(msgspec.Struct, frozen=True, array_like=True):
    """An address of a channel: an e-mail address, or a phone number in E.164."""

    channel: Channel
    address: str


class Delivery(msgspec.Struct, frozen=True):
    """A message on its way to a recipient."""

    partner_id: str
    delivery_id: str
    order_id: str
    channel: Channel
    address: str
    outcome: Outcome
    reason: str | None
    tries: int
    created_at: datetime
    sent_at: datetime | None


class Reveal(msgspec.Struct, frozen=True):
    """Somebody looked at the codes of an order."""

    at: datetime
    address: str | None


class DeliveryUnknown(Exception):
    """The order has no such delivery."""


class TooSoon(Exception):
    """The order was delivered by this channel a short while ago, or often enough today."""

    def __init__(self, message: str, *, retry_after_seconds: int) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)
