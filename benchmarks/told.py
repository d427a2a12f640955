"""What the clients of an endurance run were told, and what they were told that cannot be."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from giftrail.orders.states import TRANSITIONS, Status


@dataclass(frozen=True, slots=True)
class Offer:
    """A brand as the clients order it: how often, and what they do afterwards."""

    brand_id: str
    weight: float
    cancels: bool = False
    reverses: bool = False
    voids: bool = False  # a reversal that was promised comes
    ends: bool = True  # before its deadline


@dataclass(frozen=True, slots=True)
class Account:
    """A partner and how it logs in."""

    partner_id: str
    client_id: str
    client_secret: str


@dataclass(slots=True, kw_only=True)
class Kept:
    """What a client knows of one of its orders. `status` is the last that it was told."""

    partner_id: str
    reference_id: str
    offer: Offer
    lines: dict[int, int]
    order_id: str = ""
    status: Status | None = None
    vouchers: dict[str, tuple[str | None, str | None, int]] = field(default_factory=dict)
    cancel_asked: bool = False
    reversal_asked: bool = False
    reversal_pending: bool = False
    given_up: bool = False

    @property
    def amount(self) -> int:
        return sum(denomination * quantity for denomination, quantity in self.lines.items())

    def may_become(self, status: Status) -> bool:
        """Whether the order can be in that status, after what was told and asked."""
        asked = (self.cancel_asked or status is not Status.CANCELLED) and (
            self.reversal_asked or status is not Status.REVERSED
        )
        return self.status is None or self.status is status or (asked and status in _after(self.status))

    def body(self) -> dict[str, Any]:
        """The order as it is sent, the same each time."""
        return {
            "productId": self.offer.brand_id,
            "referenceId": self.reference_id,
            "amount": self.amount,
            "denominationDetails": [{"denomination": d, "quantity": q} for d, q in self.lines.items()],
        }


@dataclass(slots=True)
class Book:
    """What all clients were told, and what they were told that cannot be."""

    orders: list[Kept] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    sold: dict[tuple[str | None, str | None], str] = field(default_factory=dict)
    sold_twice: list[str] = field(default_factory=list)
    recoveries: dict[str, float] = field(default_factory=lambda: {"kill": 0.0, "restart": 0.0})
    disturbed: list[tuple[float, str]] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    def learn(self, kept: Kept, order: dict[str, Any]) -> None:
        """Take in an order as it was answered."""
        status = Status(order["status"])
        if kept.order_id not in {"", order["id"]}:
            self.contradict(kept, f"was {kept.order_id} and is {order['id']}")
        if not kept.may_become(status):
            self.contradict(kept, f"was {kept.status} and is {status}")
        vouchers = {
            one["id"]: (one["cardNumber"], one["cardPin"], int(one["amount"])) for one in order["vouchers"] or ()
        }
        if status is Status.SUCCESS:
            wanted = sorted(d for d, quantity in kept.lines.items() for _ in range(quantity))
            if sorted(amount for _, _, amount in vouchers.values()) != wanted:
                self.contradict(kept, f"has vouchers of {[amount for _, _, amount in vouchers.values()]}")
            if kept.vouchers and kept.vouchers != vouchers:
                self.contradict(kept, "has other vouchers than before")
            kept.vouchers = vouchers
            for voucher_id, (number, pin, _) in vouchers.items():
                if self.sold.setdefault((number, pin), voucher_id) != voucher_id:
                    self.sold_twice.append(f"{voucher_id} and {self.sold[number, pin]} have the same code")
        elif vouchers:
            self.contradict(kept, f"is {status} and shows vouchers")
        kept.order_id, kept.status = order["id"], status
        kept.reversal_pending = bool(order.get("reversalPending"))

    def contradict(self, kept: Kept, what: str) -> None:
        """Note what cannot be."""
        self.contradictions.append(f"{kept.partner_id} {kept.reference_id} of {kept.offer.brand_id}: {what}")

    def disturb(self, kind: str) -> None:
        """From now on it is counted how long it takes until an order can be placed."""
        self.disturbed.append((time.monotonic(), kind))

    def recover(self, begun: float) -> None:
        """A placement that was begun then has just succeeded."""
        for at, kind in self.disturbed:
            if at <= begun:
                self.recoveries[kind] = max(self.recoveries[kind], time.monotonic() - at)
        self.disturbed = [(at, kind) for at, kind in self.disturbed if at > begun]


def _after(status: Status) -> set[Status]:
    """What an order of that status can still become."""
    found = {after for before, after in TRANSITIONS if before is status}
    return found | {later for one in found for later in _after(one)}
