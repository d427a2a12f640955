"""An endpoint of a partner (wire contract, webhooks)."""

from dataclasses import dataclass
from datetime import datetime

from giftrail.events import model as events

MAX_ENDPOINTS = 20  # of a partner
MAX_URL_CHARACTERS = 2000
MAX_DESCRIPTION_CHARACTERS = 200
MIN_SECRET_CHARACTERS = 32
MAX_SECRET_CHARACTERS = 200
SECRET_PREFIX = "whsec_"  # noqa: S105 — the prefix of all of them
SECRET_BYTES = 32
# How long the secret before a promotion still signs beside the new one.
OLD_SECRET_SECONDS = 24 * 3600.0
# What an endpoint gets when it does not say; ORDER_STATUS_CHANGED is opt-in.
DEFAULT_KINDS = (
    events.Kind.BRAND_UPDATED,
    events.Kind.WALLET_LOW_BALANCE,
    events.Kind.ORDER_TERMINAL_STATE,
    events.Kind.BRAND_DISCOUNT_UPDATED,
)
KINDS = (*DEFAULT_KINDS, events.Kind.ORDER_STATUS_CHANGED)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a partner is called. Secrets are opened; they are never told but once."""

    partner_id: str
    endpoint_id: str
    url: str
    description: str | None
    kinds: tuple[str, ...]
    secret: str
    staged_secret: str | None
    old_secret: str | None
    old_secret_until: datetime | None
    rate_per_second: int | None
    disabled_at: datetime | None
    disabled_why: str | None
    last_success_at: datetime | None
    created_at: datetime
    deleted_at: datetime | None

    @property
    def is_enabled(self) -> bool:
        """Whether it is called."""
        return self.disabled_at is None and self.deleted_at is None

    def __repr__(self) -> str:
        """Without its secrets."""
        return f"Endpoint({self.partner_id}/{self.endpoint_id}, {self.url})"


class EndpointUnknown(Exception):
    """The partner has no such endpoint."""


class EndpointInvalid(ValueError):
    """A url, secret, description or list of events that an endpoint cannot have; the message names it."""

    def __init__(self, member: str, message: str) -> None:
        self.member = member
        self.message = message
        super().__init__(f"{member}: {message}")
