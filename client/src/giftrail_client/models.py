"""What the service tells, typed. Unknown members are kept in `raw`, unknown enum values are plain strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

from giftrail_client import restrictions

T = TypeVar("T")
TERMINAL_STATUSES = frozenset({"SUCCESS", "FAILED", "CANCELLED", "REVERSED"})
_SHOWN = {
    "CARD_AND_PIN_NO_SECURED": ("cardNumber", "cardPin"),
    "CARD_NUMBER_SECURED": ("cardNumber",),
    "PIN_NO_SECURED": ("cardPin",),
}


@dataclass(frozen=True)
class AmountRestrictions:
    """What an order of a brand may add up to; a limit that is None does not limit."""

    min_order_amount: Decimal | None
    max_order_amount: Decimal | None
    min_voucher_amount: Decimal | None
    max_voucher_amount: Decimal | None
    denominations: tuple[Decimal, ...]
    max_vouchers_per_order: int | None = None
    max_vouchers_per_denomination: int | None = None
    max_denominations_per_order: int | None = None


@dataclass(frozen=True)
class Brand:
    """Specification, Brand. `raw` is what was sent, additive members too."""

    id: str
    status: str
    title: str
    description: str | None
    category: tuple[str, ...]
    tags: tuple[str, ...]
    denomination_type: str
    thumbnail_url: str
    amount_restrictions: AmountRestrictions
    redemption_type: str
    card_type: str | None
    currency: str | None
    discount_percentage: Decimal | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def is_active(self) -> bool:
        """Whether it may be displayed and ordered; an INACTIVE brand is never offered."""
        return self.status == "ACTIVE"

    def check(self, denominations: Mapping[Any, int], *, amount: Any = None) -> list[str]:
        """Why the service would refuse an order of `{amount: quantity}`; empty when nothing is known against it."""
        return restrictions.check(self, denominations, amount=amount)

    def plan(self, amount: Any) -> dict[Decimal, int] | None:
        """The fewest vouchers that make up the amount, as `orders.place` takes them; None when nothing does."""
        return restrictions.plan(self, amount)


@dataclass(frozen=True)
class Voucher:
    """Specification, Voucher. Its codes are not in its repr."""

    id: str
    card_type: str
    card_pin: str | None = field(repr=False)
    card_number: str | None = field(repr=False)
    valid_till: date | None
    amount: Decimal

    def display(self) -> dict[str, str]:
        """The fields that its cardType shows, by their wire names; of an unknown cardType, those that are there."""
        values = {"cardNumber": self.card_number, "cardPin": self.card_pin}
        names = _SHOWN.get(self.card_type, tuple(values))
        return {name: value for name in names if (value := values[name]) is not None}


@dataclass(frozen=True)
class RecipientDelivery:
    """The last delivery of an order's vouchers by a channel: PENDING, SENT, FAILED or BOUNCED."""

    channel: str
    state: str
    attempts: int
    sent_at: datetime | None
    reason: str | None


@dataclass(frozen=True)
class Order:
    """Specification, Order. `replayed`: the service had it already under this reference and content.

    `deliveries` is empty unless the service delivers the vouchers to a recipient.
    `request` is the body that `place` sent, `sent_at` when (of the client's clock); None of an order that was read.
    """

    id: str
    reference_id: str
    status: str
    vouchers: tuple[Voucher, ...]
    failure_reason: str | None
    failure_code: str | None
    product_id: str | None
    amount: Decimal | None
    debit: Decimal | None
    created_at: datetime | None
    reversal_pending: bool
    deliveries: tuple[RecipientDelivery, ...] = ()
    replayed: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    request: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    sent_at: float | None = field(default=None, repr=False, compare=False)

    @property
    def is_terminal(self) -> bool:
        """Whether it no longer changes by itself."""
        return self.status in TERMINAL_STATUSES

    @property
    def succeeded(self) -> bool:
        """Whether its vouchers are ready."""
        return self.status == "SUCCESS"

    @property
    def failed(self) -> bool:
        """Whether it failed; retry it with a new reference."""
        return self.status == "FAILED"


@dataclass(frozen=True)
class Balance:
    """The wallet; `balance` is what can still be spent."""

    balance: Decimal
    held: Decimal
    currency: str | None
    threshold: Decimal | None


@dataclass(frozen=True)
class Transaction:
    """A line of the wallet's statement; `amount` is signed, `balance` what could be spent afterwards."""

    id: str
    kind: str
    amount: Decimal
    balance: Decimal
    order_id: str | None
    reference_id: str | None
    note: str | None
    created_at: datetime | None


@dataclass(frozen=True)
class Quote:
    """What an order would come to now; `violations` are (code, words) of everything that stands against it."""

    debit: Decimal
    balance: Decimal
    balance_after: Decimal
    violations: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Difference:
    """One member of an order that differs between your books and the service's."""

    reference_id: str
    order_id: str | None
    member: str
    yours: str | None
    ours: str | None


@dataclass(frozen=True)
class Reconciliation:
    """How many orders are the same in both books, and what differs."""

    matched: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Endpoint:
    """Where the service calls you. `secret` is told once, when it is made or rotated, and is not in the repr."""

    id: str
    url: str
    events: tuple[str, ...]
    status: str
    description: str | None
    disabled_reason: str | None
    secret: str | None = field(repr=False)
    created_at: datetime | None


@dataclass(frozen=True)
class Attempt:
    """One attempt to deliver an event; `error` is its class when there was no answer."""

    attempt: int
    at: datetime | None
    status: int | None
    error: str | None
    latency_ms: int
    answer: str


@dataclass(frozen=True)
class Delivery:
    """An event on its way to an endpoint: DUE, DELIVERED, EXHAUSTED or HELD."""

    event_id: str
    event_type: str | None
    status: str
    attempts: tuple[Attempt, ...]
    next_attempt_at: datetime | None


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list; `next_cursor` is what to ask for next, None at the end."""

    data: tuple[T, ...]
    next_cursor: Any | None
    total: int | None = None


def brand(members: Mapping[str, Any]) -> Brand:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    limits = members.get("amountRestrictions") or {}
    return Brand(
        id=members["id"],
        status=members["status"],
        title=members.get("title") or "",
        description=members.get("brandDescription"),
        category=tuple(members.get("category") or ()),
        tags=tuple(members.get("tags") or ()),
        denomination_type=members.get("denominationType") or "",
        thumbnail_url=members.get("thumbnailUrl") or members.get("iconImageUrl") or "",
        amount_restrictions=AmountRestrictions(
            min_order_amount=_number(limits.get("minOrderAmount")),
            max_order_amount=_number(limits.get("maxOrderAmount")),
            min_voucher_amount=_number(limits.get("minVoucherAmount")),
            max_voucher_amount=_number(limits.get("maxVoucherAmount")),
            denominations=tuple(Decimal(str(one)) for one in limits.get("denominations") or ()),
            max_vouchers_per_order=limits.get("maxVouchersPerOrder"),
            max_vouchers_per_denomination=limits.get("maxVouchersPerDenomination"),
            max_denominations_per_order=limits.get("maxDenominationsPerOrder"),
        ),
        redemption_type=members.get("redemptionType") or "",
        card_type=members.get("cardType"),
        currency=members.get("currency"),
        discount_percentage=_number(members.get("discountPercentage")),
        raw=members,
    )


def voucher(members: Mapping[str, Any]) -> Voucher:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    valid_till = members.get("validTill")
    return Voucher(
        id=members["id"],
        card_type=members.get("cardType") or "",
        card_pin=members.get("cardPin"),
        card_number=members.get("cardNumber"),
        valid_till=date.fromisoformat(valid_till[:10]) if valid_till else None,
        amount=Decimal(str(members["amount"])),
    )


def order(members: Mapping[str, Any], *, replayed: bool = False) -> Order:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    return Order(
        id=members["id"],
        reference_id=members.get("referenceId") or "",
        status=members["status"],
        vouchers=tuple(voucher(one) for one in members.get("vouchers") or ()),
        failure_reason=members.get("failureReason"),
        failure_code=members.get("failureCode"),
        product_id=members.get("productId"),
        amount=_number(members.get("amount")),
        debit=_number(members.get("debit")),
        created_at=moment(members.get("createdAt")),
        reversal_pending=bool(members.get("reversalPending")),
        deliveries=tuple(
            RecipientDelivery(
                channel=one["channel"],
                state=one["state"],
                attempts=one.get("attempts") or 0,
                sent_at=moment(one.get("sentAt")),
                reason=one.get("reason"),
            )
            for one in (members.get("delivery") or {}).get("channels") or ()
        ),
        replayed=replayed,
        raw=members,
    )


def balance(members: Mapping[str, Any]) -> Balance:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    return Balance(
        balance=Decimal(str(members["balance"])),
        held=_number(members.get("held")) or Decimal(0),
        currency=members.get("currency"),
        threshold=_number(members.get("threshold")),
    )


def transaction(members: Mapping[str, Any]) -> Transaction:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    return Transaction(
        id=members["id"],
        kind=members["kind"],
        amount=Decimal(str(members["amount"])),
        balance=Decimal(str(members["balance"])),
        order_id=members.get("orderId"),
        reference_id=members.get("referenceId"),
        note=members.get("note"),
        created_at=moment(members.get("createdAt")),
    )


def quote(members: Mapping[str, Any]) -> Quote:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    return Quote(
        debit=Decimal(str(members["debit"])),
        balance=Decimal(str(members["balance"])),
        balance_after=Decimal(str(members["balanceAfter"])),
        violations=tuple((one["failureCode"], one["failureReason"]) for one in members["violations"]),
    )


def reconciliation(members: Mapping[str, Any]) -> Reconciliation:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    return Reconciliation(
        matched=members["matched"],
        differences=tuple(
            Difference(one["referenceId"], one.get("orderId"), one["member"], one.get("yours"), one.get("ours"))
            for one in members["differences"]
        ),
    )


def endpoint(members: Mapping[str, Any]) -> Endpoint:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    return Endpoint(
        id=members["id"],
        url=members["url"],
        events=tuple(members.get("events") or ()),
        status=members.get("status") or "",
        description=members.get("description"),
        disabled_reason=members.get("disabledReason"),
        secret=members.get("secret"),
        created_at=moment(members.get("createdAt")),
    )


def delivery(members: Mapping[str, Any]) -> Delivery:
    """From the wire. Raises KeyError, TypeError, ValueError."""
    return Delivery(
        event_id=members["eventId"],
        event_type=members.get("eventType"),
        status=members["status"],
        attempts=tuple(
            Attempt(
                attempt=one["attempt"],
                at=moment(one.get("at")),
                status=one.get("status"),
                error=one.get("error"),
                latency_ms=one.get("latencyMs") or 0,
                answer=one.get("answer") or "",
            )
            for one in members.get("attempts") or ()
        ),
        next_attempt_at=moment(members.get("nextAttemptAt")),
    )


def members(value: Any) -> dict[str, Any]:
    """The value, which is an object. Raises TypeError."""
    if not isinstance(value, dict):
        raise TypeError("the answer is no object")
    return value


def rows(members: Any) -> Sequence[Mapping[str, Any]]:
    """The rows of a list answer, whether it has an envelope or not. Raises TypeError."""
    found = members.get("data") if isinstance(members, dict) else members
    if not isinstance(found, list):
        raise TypeError("the answer is no list")
    return found


def _number(value: Any) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def moment(value: Any) -> datetime | None:
    """A moment as RFC 3339 writes it. Raises ValueError."""
    # Python 3.10 does not read the Z of RFC 3339.
    return datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else None
