"""What every source of codes delivers, and how a remote one is asked (engines, fulfilment)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol

import msgspec

from giftrail.kit import seal

STOCK = "stock"
GENERATOR = "generator"
# The sources that serve an order inside the request. A brand names some of them, in the order they are asked.
AT_ONCE = frozenset({STOCK, GENERATOR})


class Code(msgspec.Struct, frozen=True):
    """A card number, a PIN or both, and until when it is valid (None: for ever).

    `digest` finds the code without reading it. `stock_id` is set when it was taken from stock.
    """

    card_number: str | None
    card_pin: str | None
    valid_till: date | None
    digest: bytes
    stock_id: str | None = None

    def __repr__(self) -> str:
        """Nothing that could be spent."""
        return "Code(…)"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the codes: a ring that seals them, and a key that finds them."""

    ring: seal.KeyRing
    index_key: bytes

    def digest(self, *, source: str, card_number: str | None, card_pin: str | None) -> bytes:
        """What is unique of a code within its source: the card number, or the PIN where there is no number."""
        return seal.digest(self.index_key, source, card_number or card_pin or "")


@dataclass(frozen=True, slots=True)
class Demand:
    """So many codes of one denomination of a brand."""

    brand_id: str
    denomination_minor: int
    quantity: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """What was found for a demand: codes that are ours until the transaction ends.

    `contended` says that there are unsold codes besides, which another transaction holds just now.
    """

    codes: Sequence[Code]
    contended: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A part of an order as one remote provider is asked for it: so many vouchers of one amount.

    `key` is deterministic, at most 40 characters, committed before the first ask: whoever sends it again means the same
    vouchers. `asked_at` is when it was first committed, `asks` how often it has been asked, this one included.
    """

    key: str
    brand_id: str
    denomination_minor: int
    currency: str
    quantity: int
    shows_number: bool
    shows_pin: bool
    asked_at: datetime
    asks: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Issued:
    """One voucher as a provider hands it over; its id is unique within the provider."""

    provider_voucher_id: str
    card_number: str | None
    card_pin: str | None
    valid_till: date | None

    def __repr__(self) -> str:
        """Nothing that could be spent."""
        return f"Issued({self.provider_voucher_id!r}, …)"


@dataclass(frozen=True, slots=True)
class Delivered:
    """The vouchers of the request, all of them; one that stands there twice counts once."""

    vouchers: Sequence[Issued]


@dataclass(frozen=True, slots=True)
class Pending:
    """The provider took the request and is still at it: ask again after so many seconds."""

    retry_after_seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """Definitely not created, and asking again would not help: another provider may be asked."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Definitely not created, for now: another provider may be asked, or this one again later."""

    reason: str
    retry_after_seconds: float | None = None


Outcome = Delivered | Pending | Refused | Unavailable


@dataclass(frozen=True, slots=True)
class Voided:
    """The vouchers of the request can no longer be redeemed."""


@dataclass(frozen=True, slots=True)
class VoidRefused:
    """They stay valid: the provider does not take them back."""

    reason: str


class Provider(Protocol):
    """A remote source of codes. Its methods may raise anything and take any time: then the outcome is unknown.

    After an unknown outcome the same key is looked up when `finds`, else asked again when `replays`, else left to the
    operator. A provider must never issue twice for one key when it `replays`.
    """

    name: str
    max_vouchers: int  # in one request
    timeout_seconds: float
    replays: bool
    finds: bool

    async def issue(self, request: Request) -> Outcome:
        """Ask for the vouchers of the request."""
        ...

    async def look_up(self, request: Request) -> Outcome:
        """What became of the request, without asking for anything; Unavailable or Refused when it was not created."""
        ...

    async def void(self, request: Request, *, provider_voucher_ids: Sequence[str]) -> Voided | VoidRefused | Pending:
        """Take the vouchers of the request back; asked again with the same key it answers the same."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
