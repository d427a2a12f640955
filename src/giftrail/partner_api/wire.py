"""The wire: domain → camelCase. Here and in the shapes a brand is called a product, nowhere else."""

from decimal import Decimal
from typing import Any

import msgspec

from giftrail.catalog import snapshot
from giftrail.kit import money
from giftrail.orders import failures, states
from giftrail.orders import model as orders
from giftrail.partner_api import shapes
from giftrail.vouchers import model as vouchers
from giftrail.wallet import model as wallet

_encoder = msgspec.json.Encoder(decimal_format="number")


def encode(body: Any) -> bytes:
    """JSON bytes; Decimals become JSON numbers, exactly."""
    return _encoder.encode(body)


def brand(offer: snapshot.Offer) -> shapes.Brand:
    """A brand as one partner sees it."""
    kept = offer.brand
    return shapes.Brand(
        id=kept.brand_id,
        status=kept.status.value,
        title=kept.title,
        brand_description=kept.description,
        category=kept.category,
        tags=kept.tags,
        denomination_type=kept.denomination_type.value,
        thumbnail_url=kept.thumbnail_url,
        icon_image_url=kept.icon_image_url,
        amount_restrictions=shapes.AmountRestrictions(
            min_order_amount=_major(kept.min_order_minor, kept.currency),
            max_order_amount=_major(kept.max_order_minor, kept.currency),
            min_voucher_amount=_major(kept.min_voucher_minor, kept.currency),
            max_voucher_amount=_major(kept.max_voucher_minor, kept.currency),
            denominations=[_major(minor, kept.currency) for minor in kept.denominations_minor],
            max_vouchers_per_order=kept.max_vouchers_per_order,
            max_vouchers_per_denomination=kept.max_vouchers_per_denomination,
            max_denominations_per_order=kept.max_denominations_per_order,
        ),
        redemption_type=kept.redemption_type.value,
        card_type=kept.card_type.value,
        logo_url=kept.logo_url,
        tnc_url=kept.tnc_url,
        terms_and_conditions=kept.terms,
        how_to_use_instructions=[
            shapes.Instructions(how["retailMode"], how["retailModeName"], how["instructions"])
            for how in kept.how_to_use
        ],
        voucher_expiry_in_months=kept.voucher_expiry_months,
        discount_percentage=money.plain(offer.discount_percentage),
        currency=kept.currency,
        updated_at=offer.updated_at,
    )


def order(placed: orders.Order) -> shapes.Order:
    """An order with its vouchers."""
    return shapes.Order(**_members(placed), vouchers=[voucher(issued) for issued in placed.vouchers])


def listed_order(placed: orders.Order) -> shapes.ListedOrder:
    """An order without its vouchers."""
    return shapes.ListedOrder(**_members(placed))


def voucher(issued: vouchers.Voucher) -> shapes.Voucher:
    """A voucher with its code."""
    return shapes.Voucher(
        id=issued.voucher_id,
        card_type=issued.card_type,
        card_pin=issued.code.card_pin,
        card_number=issued.code.card_number,
        valid_till=issued.code.valid_till,
        amount=_major(issued.amount_minor, issued.currency),
    )


def balance(kept: wallet.Wallet) -> shapes.Balance:
    """A wallet's balance."""
    threshold = kept.low_threshold_minor
    return shapes.Balance(
        balance=_major(kept.available_minor, kept.currency),
        held=_major(kept.held_minor, kept.currency),
        currency=kept.currency,
        threshold=None if threshold is None else _major(threshold, kept.currency),
    )


def transaction(moved: wallet.Transfer, *, currency: str) -> shapes.Transaction:
    """A line of the wallet's statement."""
    return shapes.Transaction(
        id=moved.transfer_id,
        kind=moved.kind.value,
        amount=_major(moved.amount_minor, currency),
        balance=_major(moved.available_after_minor, currency),
        order_id=moved.order_id,
        reference_id=moved.reference_id,
        note=moved.note,
        created_at=moved.created_at,
    )


def _members(placed: orders.Order) -> dict[str, Any]:
    return {
        "id": placed.order_id,
        "reference_id": placed.reference_id,
        "status": placed.status.value,
        "failure_reason": failures.REASONS[placed.failure_code].value if placed.failure_code else None,
        "product_id": placed.brand_id,
        "amount": _major(placed.amount_minor, placed.currency),
        "failure_code": placed.failure_code,
        "debit": _major(placed.debit_minor, placed.currency),
        "created_at": placed.created_at,
        "updated_at": placed.updated_at,
        "delivery": _delivery(placed),
        "reversal_pending": placed.reversal_pending,
    }


def _delivery(placed: orders.Order) -> shapes.OrderDelivery | None:
    """Of each channel the last one; of an order that is PROCESSING, what will be begun."""
    if placed.status is states.Status.PROCESSING:
        waiting = [shapes.DeliveryOnChannel(one.channel.value, "PENDING", 0, None, None) for one in placed.recipients]
        return shapes.OrderDelivery(waiting) if waiting else None
    last = {one.channel: one for one in placed.deliveries}
    channels = [
        shapes.DeliveryOnChannel(one.channel.value, one.outcome.value, one.tries, one.sent_at, one.reason)
        for one in last.values()
    ]
    return shapes.OrderDelivery(channels) if channels else None


def plain(number: Decimal) -> shapes.Number:
    """A number as it stands on the wire, without trailing zeros."""
    return money.plain(number)


def _major(minor: int, currency: str) -> shapes.Number:
    return money.to_major(minor, currency=currency)
