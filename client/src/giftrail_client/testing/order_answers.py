"""What the fake answers about orders and the wallet."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_to_bytes

from giftrail_client.testing import catalogue, parameters, problems, reading, wanted
from giftrail_client.testing.calls import Call

CHANNELS = ("EMAIL", "SMS")
MAX_REASON_CHARACTERS = 200
STATUSES = ("PROCESSING", "SUCCESS", "FAILED", "CANCELLED", "REVERSED")
# Slashes of /v1/partners/orders/by-reference/; what stands behind them is the reference, slashes and all.
_SEGMENTS_BEFORE = "/v1/partners/orders/by-reference/".count("/")


def place(call: Call) -> dict[str, Any]:
    """Place an order, or answer the one that has this referenceId and content already."""
    service = call.service
    asked = wanted.read_order(call.body, currency=service.books.currency, is_b2c=service.is_b2c)
    known = service.books.by_reference.get(asked.reference_id)
    if known is not None:
        if known.wanted.fingerprint != asked.fingerprint:
            message = f"referenceId {asked.reference_id!r} belongs to order {known.id}, whose content is another"
            raise problems.Refused("E008", message, order_id=known.id)
        call.headers["Idempotent-Replayed"] = "true"
        return known.members()
    asked.check_customer()
    order = service.books.place(asked, service.find_brand(asked.product_id))
    if order.ends_at is not None:
        service.wait_for(order.ends_at, seconds=call.wait_seconds())
    return order.members()


def quote(call: Call) -> dict[str, Any]:
    """What an order would come to, and everything that stands against it."""
    service, books = call.service, call.service.books
    # A quote has no reference: the one put in its place only lets the order be read as an order is.
    asked = wanted.read_order(
        {**call.body, "referenceId": "quote"}, currency=books.currency, is_b2c=service.is_b2c
    )  # fmt: skip
    asked.check_customer()
    brand = service.find_brand(asked.product_id)
    debit = books.debit_of(asked, brand)
    codes = books.list_refusals(asked, brand)
    violations = [{"failureCode": code, "failureReason": catalogue.REASONS[code]} for code in codes]
    if brand.orders_limited:
        violations.append({"failureCode": "E013", "failureReason": "the spending limit of the brand"})
    return {
        "productId": brand.id, "amount": asked.amount, "discountPercentage": brand.discount_percentage,
        "debit": debit, "balance": books.available, "balanceAfter": books.available - debit,
        "currency": books.currency, "violations": violations,
    }  # fmt: skip


def list_orders(call: Call) -> dict[str, Any]:
    """The orders, newest first, without vouchers."""
    query = call.query
    limit, is_in = query.limit(), query.period()
    statuses = query.choices("status", STATUSES)
    before = query.cursor(r"ord_[0-9a-f]{32}")
    query.check()
    found = [
        one
        for one in reversed(call.service.books.orders.values())
        if is_in(one.made_at) and (not statuses or one.status in statuses)
    ]
    page, following = parameters.cut(found, limit=limit, position=lambda one: one.id, before=before)
    return {"data": [one.members(listed=True) for one in page], "nextCursor": following}


def get_order(call: Call) -> dict[str, Any]:
    """An order by id."""
    return call.service.books.find(call.ids[0]).members()


def get_by_reference(call: Call) -> dict[str, Any]:
    """An order by the partner's referenceId, percent-decoded once from the path as it was sent."""
    try:
        reference_id = unquote_to_bytes(call.raw_path.split("/", _SEGMENTS_BEFORE)[-1]).decode()
    except UnicodeDecodeError:
        raise problems.invalid(("referenceId", "is not percent-encoded UTF-8")) from None
    order = call.service.books.by_reference.get(reference_id)
    if order is None:
        raise problems.not_found()
    return order.members()


def get_voucher(call: Call) -> dict[str, Any]:
    """A voucher by id."""
    return call.service.books.find_voucher(call.ids[0])


def cancel(call: Call) -> dict[str, Any]:
    """Cancel an order that no provider was asked for."""
    return call.service.books.cancel(call.ids[0]).members()


def reverse(call: Call) -> dict[str, Any]:
    """Take a delivered order back."""
    sheet = reading.Sheet(call.body)
    sheet.text("reason", most=MAX_REASON_CHARACTERS)
    sheet.check()
    books = call.service.books
    if books.find(call.ids[0]).status == "SUCCESS":
        call.wait_seconds()  # its provider is asked, which takes no time here
    return books.reverse(call.ids[0]).members()


def resend_delivery(call: Call) -> dict[str, Any]:
    """Refused as by a service that does not deliver for the partner."""
    channels = call.body.get("channels")
    if channels is not None and not isinstance(channels, list):
        raise problems.invalid(("channels", f"{channels!r} is not a list"))
    wrong = [
        (f"channels[{place}]", f"{one!r} is none of {', '.join(CHANNELS)}")
        for place, one in enumerate(channels or ())
        if one not in CHANNELS
    ]
    if wrong:
        raise problems.invalid(*wrong)
    order = call.service.books.find(call.ids[0])
    raise problems.Refused("E009", f"order {order.id} is {order.status} and has no recipient by any channel")


def get_balance(call: Call) -> dict[str, Any]:
    """What can still be spent, what is held, and the threshold of the low-balance event."""
    kept = call.service.books
    return {"balance": kept.available, "held": kept.held, "currency": kept.currency, "threshold": kept.threshold}


def list_transactions(call: Call) -> dict[str, Any]:
    """The statement, newest first."""
    query = call.query
    limit, is_in = query.limit(), query.period()
    cursor = query.cursor(r"[0-9]{1,18}")
    query.check()
    numbered = enumerate(call.service.books.transactions, 1)
    found = [(number, one) for number, one in numbered if is_in(one["createdAt"])]
    page, following = parameters.cut(
        found[::-1], limit=limit, position=lambda one: one[0], before=int(cursor) if cursor else None
    )  # fmt: skip
    return {"data": [one for _, one in page], "nextCursor": following}
