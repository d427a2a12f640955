"""Events and the members of their bodies (specification, Events; wire contract, webhooks)."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kinds of event; the four of the specification and the opt-in fifth."""

    BRAND_UPDATED = "BRAND_UPDATED"
    WALLET_LOW_BALANCE = "WALLET_LOW_BALANCE"
    ORDER_TERMINAL_STATE = "ORDER_TERMINAL_STATE"
    BRAND_DISCOUNT_UPDATED = "BRAND_DISCOUNT_UPDATED"
    ORDER_STATUS_CHANGED = "ORDER_STATUS_CHANGED"
    TEST = "TEST"  # sent to one endpoint when its owner asks for it


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a partner. `body` holds the specification's members, never a code or PIN."""

    partner_id: str
    event_id: str
    kind: Kind
    body: dict[str, Any]
    occurred_at: datetime
    fault: str | None = None  # LOST or TWICE: what the sandbox does to its webhook


def wallet_low_balance(*, balance: int | Decimal, threshold: int | Decimal) -> dict[str, Any]:
    """The body of Wallet Low Balance, amounts in the major unit."""
    return {"balance": balance, "threshold": threshold}


def brand_updated(
    *,
    brand_id: str,
    denomination_type: str,
    status: str,
    denominations: list[int | Decimal],
    restrictions: dict[str, int | Decimal],
) -> dict[str, Any]:
    """The body of Brand Updated; `restrictions` has the specification's four members, amounts in the major unit."""
    return {
        "id": brand_id,
        "denominationType": denomination_type,
        "status": status,
        "denominations": denominations,
        "amountRestrictions": restrictions,
    }


def brand_discount_updated(*, brand_id: str, discount: int | Decimal, previous: int | Decimal) -> dict[str, Any]:
    """The body of Brand Discount Update (wire contract, wallet and discounts)."""
    return {
        "id": brand_id,
        "brandId": brand_id,
        "discountPercentage": discount,
        "previousDiscountPercentage": previous,
        "subventionPercentage": discount,
    }


def order_changed(*, order_id: str, reference_id: str, status: str) -> dict[str, Any]:
    """The body of Order Reached Terminal State, and of the opt-in Order Status Changed."""
    return {"id": order_id, "orderId": order_id, "referenceId": reference_id, "status": status}
