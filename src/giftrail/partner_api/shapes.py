"""The shapes of requests and answers: the specification's members in its spelling, checked and documented from here."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated

import msgspec

from giftrail.orders import model as orders
from giftrail.reversals import model as reversals

Number = int | Decimal


class LoginRequest(msgspec.Struct, rename="camel"):
    """Specification, Login."""

    client_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    client_secret: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Login(msgspec.Struct, rename="camel"):
    """Specification, Login."""

    token: str
    expires_in_secs: int


Text20 = Annotated[str, msgspec.Meta(max_length=20)] | None
Text100 = Annotated[str, msgspec.Meta(max_length=100)] | None
Text254 = Annotated[str, msgspec.Meta(max_length=254)] | None
Text500 = Annotated[str, msgspec.Meta(max_length=500)] | None
# Patterns are written so that they mean the same here (a full match) and in ECMA-262 (the OpenAPI document).
REFERENCE_PATTERN = r"^(?!\.{1,2}$)[^\x00-\x1f\x7f-\x9f]+$"
ReferenceId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=orders.MAX_REFERENCE_CHARACTERS,
        pattern=REFERENCE_PATTERN,
        description="free of control characters, and neither . nor ..",
    ),
]


class CustomerDetails(msgspec.Struct, rename="camel"):
    """Specification, order request sub-objects; required for a B2C partner, with a name and a phone or e-mail."""

    name: Text100 = None
    phone_number: Text20 = None
    email: Text254 = None


class DeliveryDetails(msgspec.Struct, rename="camel"):
    """Specification, order request sub-objects; `recipientType` is SELF or OTHER."""

    recipient_name: Text100 = None
    recipient_type: Annotated[str, msgspec.Meta(pattern=r"^(SELF|OTHER)$", description="SELF or OTHER")] | None = None
    recipient_phone_number: Text20 = None
    recipient_email: Text254 = None
    sender_name: Text100 = None
    wish_message: Text500 = None


class DenominationDetail(msgspec.Struct, rename="camel"):
    """So many vouchers of one amount; lines of the same denomination are merged."""

    denomination: Decimal
    quantity: Decimal


class OrderRequest(msgspec.Struct, rename="camel"):
    """Specification, Place an order."""

    product_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    reference_id: ReferenceId
    amount: Decimal
    denomination_details: Annotated[list[DenominationDetail], msgspec.Meta(min_length=1, max_length=orders.MAX_LINES)]
    customer_details: CustomerDetails | None = None
    delivery_details: DeliveryDetails | None = None


class AmountRestrictions(msgspec.Struct, rename="camel"):
    """Specification, Brand; a limit that is null does not limit."""

    min_order_amount: Number
    max_order_amount: Number
    min_voucher_amount: Number
    max_voucher_amount: Number
    denominations: list[Number]
    max_vouchers_per_order: int | None
    max_vouchers_per_denomination: int | None
    max_denominations_per_order: int | None


class Instructions(msgspec.Struct, rename="camel"):
    """How to redeem a voucher in one kind of shop."""

    retail_mode: str
    retail_mode_name: str
    instructions: list[str]


class Brand(msgspec.Struct, rename="camel"):
    """Specification, Brand, and the additive members of the wire contract, reads."""

    id: str
    status: str
    title: str
    brand_description: str | None
    category: Sequence[str]
    tags: Sequence[str]
    denomination_type: str
    thumbnail_url: str
    icon_image_url: str
    amount_restrictions: AmountRestrictions
    redemption_type: str
    card_type: str
    logo_url: str | None
    tnc_url: str | None
    terms_and_conditions: Sequence[str]
    how_to_use_instructions: Sequence[Instructions]
    voucher_expiry_in_months: int | None
    discount_percentage: Number
    currency: str
    updated_at: datetime


class PageCursor(msgspec.Struct, rename="camel"):
    """Where the next page is."""

    page_no: int
    limit: int


class BrandPage(msgspec.Struct, rename="camel"):
    """Wire contract, reads: List brands."""

    data: list[Brand]
    page_no: int
    limit: int
    total: int
    next_cursor: PageCursor | None


class Voucher(msgspec.Struct, rename="camel"):
    """Specification, Voucher; the fields that its cardType does not show are null."""

    id: str
    card_type: str
    card_pin: str | None
    card_number: str | None
    valid_till: date | None
    amount: Number


class DeliveryOnChannel(msgspec.Struct, rename="camel"):
    """The last delivery by a channel: PENDING, SENT, FAILED or BOUNCED, and why."""

    channel: str
    state: str
    attempts: int
    sent_at: datetime | None
    reason: str | None


class OrderDelivery(msgspec.Struct, rename="camel"):
    """Wire contract, Place Order: `delivery`, when the service delivers for the partner."""

    channels: list[DeliveryOnChannel]


class ListedOrder(msgspec.Struct, rename="camel"):
    """An order in a list: without its vouchers."""

    id: str
    reference_id: str
    status: str
    failure_reason: str | None
    product_id: str
    amount: Number
    failure_code: str | None
    debit: Number
    created_at: datetime
    updated_at: datetime
    delivery: OrderDelivery | None
    reversal_pending: bool


class ReverseRequest(msgspec.Struct, rename="camel"):
    """Wire contract, cancel and reverse."""

    reason: Annotated[str, msgspec.Meta(max_length=reversals.MAX_REASON_CHARACTERS)] | None = None


class CancelRequest(msgspec.Struct, rename="camel"):
    """Wire contract, cancel and reverse; there is nothing to say."""


class ResendRequest(msgspec.Struct, rename="camel"):
    """Wire contract, beyond: by which channels; by all that the order has when it does not say."""

    channels: list[str] | None = None


class Order(ListedOrder, rename="camel"):
    """Specification, Order, and the additive members of the wire contract, Place Order."""

    vouchers: list[Voucher]


class OrderList(msgspec.Struct, rename="camel"):
    """Wire contract, reads: orders list."""

    data: list[ListedOrder]
    next_cursor: str | None


class Balance(msgspec.Struct, rename="camel"):
    """Wire contract, reads: wallet; `balance` is what can still be spent."""

    balance: Number
    held: Number
    currency: str
    threshold: Number | None


class Transaction(msgspec.Struct, rename="camel"):
    """Wire contract, reads: wallet transactions; `amount` is signed, `balance` what could be spent afterwards."""

    id: str
    kind: str
    amount: Number
    balance: Number
    order_id: str | None
    reference_id: str | None
    note: str | None
    created_at: datetime


class TransactionList(msgspec.Struct, rename="camel"):
    """Wire contract, reads: wallet transactions."""

    data: list[Transaction]
    next_cursor: str | None
