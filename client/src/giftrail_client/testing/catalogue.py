"""The fake service's brands, and the rules by which an order is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from giftrail_client import wire

# The service gives an order up after 13 minutes, before its partners do.
DEADLINE_SECONDS = 780.0
MAX_PART_VOUCHERS = 50
# The order in which causes are told.
ORDER = ("E102", "E101", "E100", "E156", "E154", "E153", "E150", "E155", "E152", "E300", "E200")
REASONS = {
    "E100": "Brand not available",
    "E101": "Brand not available",
    "E102": "Brand not available",
    "E150": "Denomination not available",
    "E152": "Denomination not available",
    "E153": "Denomination not available",
    "E154": "Denomination not available",
    "E155": "Denomination not available",
    "E156": "Denomination not available",
    "E200": "Voucher generation failed",
    "E300": "Insufficient balance",
}


@dataclass(frozen=True)
class Fate:
    """What a provider makes of an order: it ends after so long, as SUCCESS or FAILED; at once when that is 0."""

    after_seconds: float = 0.0
    succeeds: bool = True
    can_be_cancelled: bool = False


@dataclass(frozen=True)
class FakeBrand:
    """A brand as the fake keeps it: its wire members apart, amounts exact.

    `fate` is what a remote provider makes of an order, for which money is held until it ends; without one the service
    makes the vouchers itself, within the placement.
    """

    id: str
    title: str
    denomination_type: str = "FIXED"
    denominations: tuple[Decimal, ...] = (Decimal(100), Decimal(250), Decimal(500), Decimal(1000))
    min_voucher: Decimal = Decimal(10)
    max_voucher: Decimal = Decimal(1000)
    min_order: Decimal | None = None
    max_order: Decimal = Decimal(1_000_000)
    max_vouchers_per_order: int | None = None
    max_vouchers_per_denomination: int | None = None
    max_denominations_per_order: int | None = None
    card_type: str = "CARD_AND_PIN_NO_SECURED"
    redemption_type: str = "ONLINE"
    category: tuple[str, ...] = ("Sandbox",)
    tags: tuple[str, ...] = ("sandbox",)
    description: str | None = None
    status: str = "ACTIVE"
    enabled: bool = True
    paused: bool = False
    in_stock: bool = True
    reversible: bool = False
    voids: bool = True
    discount_percentage: Decimal = Decimal(0)
    fate: Fate | None = None
    webhook_fault: str | None = None  # LOST or TWICE
    orders_limited: bool = False
    updated_at: datetime | None = None

    def changed(self, **members: Any) -> FakeBrand:
        """The brand with other members; amounts as int, str or Decimal."""
        exact: dict[str, Any] = {
            name: tuple(wire.amount(one) for one in value)
            if name == "denominations"
            else wire.amount(value)
            if name in _AMOUNTS and value is not None
            else value
            for name, value in members.items()
        }
        return replace(self, **exact)

    def bounds(self) -> dict[str, Decimal]:
        """The four amounts of `amountRestrictions`."""
        fixed = self.denomination_type == "FIXED"
        least = min(self.denominations) if fixed else self.min_voucher
        return {
            "minOrderAmount": least if self.min_order is None else self.min_order,
            "maxOrderAmount": self.max_order,
            "minVoucherAmount": least,
            "maxVoucherAmount": max(self.denominations) if fixed else self.max_voucher,
        }

    def shown_denominations(self) -> list[Decimal]:
        """The list of a FIXED brand."""
        return sorted(set(self.denominations)) if self.denomination_type == "FIXED" else []

    def restrictions(self) -> dict[str, Any]:
        """The whole of `amountRestrictions`."""
        return {
            **self.bounds(),
            "denominations": self.shown_denominations(),
            "maxVouchersPerOrder": self.max_vouchers_per_order,
            "maxVouchersPerDenomination": self.max_vouchers_per_denomination,
            "maxDenominationsPerOrder": self.max_denominations_per_order,
        }

    def terms(self) -> tuple[Any, ...]:
        """What partners are told of when it changes."""
        return (self.status, self.denomination_type, self.restrictions())

    def members(self, *, currency: str) -> dict[str, Any]:
        """As the service writes it."""
        image = f"https://assets.giftrail.example/{self.id}.png"
        return {
            "id": self.id, "status": self.status, "title": self.title, "brandDescription": self.description,
            "category": list(self.category), "tags": list(self.tags), "denominationType": self.denomination_type,
            "thumbnailUrl": image, "iconImageUrl": image,
            "amountRestrictions": self.restrictions(),
            "redemptionType": self.redemption_type, "cardType": self.card_type, "logoUrl": None, "tncUrl": None,
            "termsAndConditions": [], "howToUseInstructions": [], "voucherExpiryInMonths": None,
            "discountPercentage": self.discount_percentage, "currency": currency,
            "updatedAt": self.updated_at,
        }  # fmt: skip

    def list_refusals(self, lines: Mapping[Decimal, int]) -> Iterator[str]:
        """The codes that the brand's rules have against an order, in the order in which they are told."""
        bounds = self.bounds()
        total = sum((one * quantity for one, quantity in lines.items()), Decimal(0))
        fixed = self.denomination_type == "FIXED"
        off_list = fixed and any(one not in self.denominations for one in lines)
        checks = [
            ("E102", self.status != "ACTIVE"),
            ("E101", not self.enabled),
            ("E100", self.paused),
            ("E156", _over(sum(lines.values()), self.max_vouchers_per_order)),
            ("E154", _over(max(lines.values()), self.max_vouchers_per_denomination)),
            ("E153", _over(len(lines), self.max_denominations_per_order)),
            ("E150", off_list),
            ("E155", not fixed and not all(self.min_voucher <= one <= self.max_voucher for one in lines)),
            ("E152", not bounds["minOrderAmount"] <= total <= bounds["maxOrderAmount"]),
        ]
        return (code for code, refused in checks if refused)

    def fate_of(self, lines: Mapping[Decimal, int]) -> Fate | None:
        """What a provider makes of an order of these lines; None when none is asked."""
        if self.id == "sandbox-first-part" and (len(lines) > 1 or max(lines.values()) > MAX_PART_VOUCHERS):
            return Fate(succeeds=False)
        return self.fate


_AMOUNTS = frozenset({"min_voucher", "max_voucher", "min_order", "max_order", "discount_percentage"})


def _over(count: int, limit: int | None) -> bool:
    return limit is not None and count > limit
