"""An order: as it is asked for, as it stands, and what the caller is told (specification, Order)."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

import msgspec

from giftrail.catalog import model as catalog
from giftrail.catalog import rules
from giftrail.delivery import model as delivery_model
from giftrail.orders import states
from giftrail.vouchers import model as voucher_model

MAX_REFERENCE_CHARACTERS = 40
MAX_LINES = 100
MAX_VOUCHERS = 1_000


class Draft(msgspec.Struct, frozen=True):
    """An order that is sound and not yet placed.

    `lines` maps each denomination in minor units to its quantity, in the order asked for; `customer` and `delivery`
    are JSON texts; `refusal` is what the brand's rules say; `placed_at` is when it arrived. `remote` are those of the
    brand's providers that are asked over the network and well; they are asked for `part_vouchers` at most at once.
    `recipients` are those to whom the service delivers the vouchers.
    """

    order_id: str
    partner_id: str
    reference_id: str
    fingerprint: bytes
    brand: catalog.Brand
    lines: Mapping[int, int]
    amount_minor: int
    discount_percentage: Decimal
    debit_minor: int
    customer: str | None
    delivery: str | None
    refusal: rules.Refusal | None
    placed_at: datetime
    remote: frozenset[str] = frozenset()
    part_vouchers: int = MAX_VOUCHERS
    recipients: tuple[delivery_model.Recipient, ...] = ()

    @property
    def vouchers_count(self) -> int:
        """How many vouchers it asks for."""
        return sum(self.lines.values())


class Order(msgspec.Struct, frozen=True):
    """An order as it stands. `vouchers` is empty unless it is SUCCESS, and in lists; so are `deliveries`."""

    order_id: str
    partner_id: str
    reference_id: str
    fingerprint: bytes
    brand_id: str
    status: states.Status
    failure_code: str | None
    currency: str
    amount_minor: int
    discount_percentage: Decimal
    debit_minor: int
    created_at: datetime
    updated_at: datetime
    vouchers: tuple[voucher_model.Voucher, ...] = ()
    reversal_pending: bool = False
    recipients: tuple[delivery_model.Recipient, ...] = ()
    deliveries: tuple[delivery_model.Delivery, ...] = ()


class Details(msgspec.Struct, frozen=True):
    """Of an order that is delivered: whether it is a gift, for whom, from whom, and what is wished."""

    is_gift: bool
    recipient_name: str | None
    sender_name: str | None
    wish: str | None


class Receipt(msgspec.Struct, frozen=True):
    """The answer to a placement: the order, and whether it had been placed before."""

    order: Order
    replayed: bool


class ReferenceConflict(Exception):
    """The reference belongs to an order of other content (wire contract, replay)."""

    def __init__(self, *, reference_id: str, order_id: str) -> None:
        self.reference_id = reference_id
        self.order_id = order_id
        super().__init__(f"referenceId {reference_id!r} belongs to order {order_id}, whose content is another")


class WrongState(Exception):
    """The order cannot be cancelled or reversed now; the message says why (wire contract, cancel and reverse)."""


class OrderUnknown(Exception):
    """The partner has no such order or voucher."""


class Unavailable(Exception):
    """The placement could not be done now; the message says why. Unless `outcome_unknown`, nothing was stored."""

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        self.outcome_unknown = outcome_unknown
        super().__init__(message)
