"""The shapes of quote, plan and reconcile (wire contract, beyond)."""

from decimal import Decimal
from typing import Annotated

import msgspec

from giftrail.orders import model as orders
from giftrail.partner_api import shapes

MAX_RECONCILED = 1000
Number = int | Decimal


class QuoteRequest(msgspec.Struct, rename="camel"):
    """As Place an order, without a referenceId."""

    product_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    amount: Decimal
    denomination_details: Annotated[
        list[shapes.DenominationDetail], msgspec.Meta(min_length=1, max_length=orders.MAX_LINES)
    ]
    customer_details: shapes.CustomerDetails | None = None
    delivery_details: shapes.DeliveryDetails | None = None


class QuoteViolation(msgspec.Struct, rename="camel"):
    """Why the order would fail: the code and its words."""

    failure_code: str
    failure_reason: str


class Quote(msgspec.Struct, rename="camel"):
    """What an order would come to now; without violations it would be served, if nothing changes meanwhile."""

    product_id: str
    amount: Number
    discount_percentage: Number
    debit: Number
    balance: Number
    balance_after: Number
    currency: str
    violations: list[QuoteViolation]


class PlanRequest(msgspec.Struct, rename="camel"):
    """An amount to be made up."""

    amount: Decimal


class PlanLine(msgspec.Struct, rename="camel"):
    """So many vouchers of one amount."""

    denomination: Number
    quantity: int


class Plan(msgspec.Struct, rename="camel"):
    """The fewest vouchers, as Place an order takes them; null when nothing makes up the amount within the rules."""

    product_id: str
    amount: Number
    denomination_details: list[PlanLine] | None


class ReconcileLine(msgspec.Struct, rename="camel"):
    """An order as the partner's books have it."""

    reference_id: shapes.ReferenceId
    status: Annotated[str, msgspec.Meta(min_length=1, max_length=20)]
    amount: Decimal


class ReconcileRequest(msgspec.Struct, rename="camel"):
    """Each referenceId once."""

    orders: Annotated[list[ReconcileLine], msgspec.Meta(min_length=1, max_length=MAX_RECONCILED)]


class Difference(msgspec.Struct, rename="camel"):
    """One member that differs; `orderId` when we have no such order."""

    reference_id: str
    order_id: str | None
    member: str
    yours: str | None
    ours: str | None


class Reconciliation(msgspec.Struct, rename="camel"):
    """How many orders are the same in both books, and what differs."""

    matched: int
    differences: list[Difference]
