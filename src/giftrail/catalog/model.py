"""A brand, and a partner's entitlement to it (specification, Brand; wire contract, reads)."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from giftrail.events import model as events
from giftrail.kit import money

MAX_DISCOUNT_PERCENTAGE = 100
MAX_DISCOUNT_DECIMALS = 4


class Status(StrEnum):
    """Whether vouchers can be generated (specification, Brand, status rules)."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"


class DenominationType(StrEnum):
    """Whether amounts are chosen from a list or between two bounds (specification, Brand, denomination rules)."""

    FIXED = "FIXED"
    FLEXIBLE = "FLEXIBLE"


class RedemptionType(StrEnum):
    """Where the voucher is redeemed."""

    OFFLINE = "OFFLINE"
    ONLINE = "ONLINE"
    ONLINE_AND_OFFLINE = "ONLINE_AND_OFFLINE"


class CardType(StrEnum):
    """Which fields of a voucher are shown (specification, Voucher, display rule)."""

    CARD_NUMBER_SECURED = "CARD_NUMBER_SECURED"
    PIN_NO_SECURED = "PIN_NO_SECURED"
    CARD_AND_PIN_NO_SECURED = "CARD_AND_PIN_NO_SECURED"

    @property
    def shows_number(self) -> bool:
        """Whether vouchers of this type have a card number."""
        return self is not CardType.PIN_NO_SECURED

    @property
    def shows_pin(self) -> bool:
        """Whether vouchers of this type have a PIN."""
        return self is not CardType.CARD_NUMBER_SECURED


@dataclass(frozen=True, slots=True)
class Brand:
    """A brand as the operator keeps it; amounts in minor units of its currency.

    `providers` are asked for codes in their order. A limit that is None does not limit.
    """

    brand_id: str
    status: Status
    title: str
    description: str | None
    category: tuple[str, ...]
    tags: tuple[str, ...]
    denomination_type: DenominationType
    redemption_type: RedemptionType
    card_type: CardType
    currency: str
    denominations_minor: tuple[int, ...]
    min_order_minor: int
    max_order_minor: int
    min_voucher_minor: int
    max_voucher_minor: int
    max_vouchers_per_order: int | None
    max_vouchers_per_denomination: int | None
    max_denominations_per_order: int | None
    thumbnail_url: str
    icon_image_url: str
    logo_url: str | None
    tnc_url: str | None
    terms: tuple[str, ...]
    how_to_use: tuple[dict[str, Any], ...]
    voucher_expiry_months: int | None
    providers: tuple[str, ...]
    reversible: bool
    reversal_window_hours: int
    version: int
    updated_at: datetime

    def restricts_like(self, other: "Brand") -> bool:
        """Whether partners need not be told: status, denominations and amount restrictions are the same."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in (
                "status", "denomination_type", "denominations_minor", "min_order_minor", "max_order_minor",
                "min_voucher_minor", "max_voucher_minor", "max_vouchers_per_order",
                "max_vouchers_per_denomination", "max_denominations_per_order",
            )
        )  # fmt: skip

    def updated_body(self) -> dict[str, Any]:
        """The body of the Brand Updated event."""

        def major(minor: int) -> int | Decimal:
            return money.to_major(minor, currency=self.currency)

        return events.brand_updated(
            brand_id=self.brand_id,
            denomination_type=self.denomination_type.value,
            status=self.status.value,
            denominations=[major(denomination) for denomination in self.denominations_minor],
            restrictions={
                "minOrderAmount": major(self.min_order_minor),
                "maxOrderAmount": major(self.max_order_minor),
                "minVoucherAmount": major(self.min_voucher_minor),
                "maxVoucherAmount": major(self.max_voucher_minor),
            },
        )


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What a partner may do with a brand: order it when enabled, at a discount in percent."""

    brand_id: str
    enabled: bool
    discount_percentage: Decimal
    updated_at: datetime
