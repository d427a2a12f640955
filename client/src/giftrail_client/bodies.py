"""The bodies of requests, made from what a program has at hand."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from giftrail_client import flows, wire

Denominations = Mapping[Any, int]


def order(
    product_id: str,
    denominations: Denominations,
    *,
    reference_id: str | None,
    customer: Mapping[str, Any] | None,
    delivery: Mapping[str, Any] | None,
    amount: Any = None,
) -> dict[str, Any]:
    """The body of Place an order. `denominations` maps each amount to its quantity. Raises ValueError."""
    lines = [(wire.amount(denomination), quantity) for denomination, quantity in denominations.items()]
    for denomination, quantity in lines:
        if isinstance(quantity, bool) or not isinstance(quantity, int) or quantity < 1:
            raise ValueError(f"{quantity!r} vouchers of {denomination} are not a whole number from 1 on")
    total = sum((denomination * quantity for denomination, quantity in lines), Decimal(0))
    body: dict[str, Any] = {
        "productId": product_id,
        "referenceId": flows.new_reference() if reference_id is None else reference_id,
        "amount": total if amount is None else wire.amount(amount),
        "denominationDetails": [{"denomination": one, "quantity": quantity} for one, quantity in lines],
    }
    if customer is not None:
        body["customerDetails"] = dict(customer)
    if delivery is not None:
        body["deliveryDetails"] = dict(delivery)
    return body
