"""Place an order (specification, Place an order; wire contract, Place Order): from the body to a draft."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from giftrail.catalog import model as catalog
from giftrail.catalog import rules
from giftrail.delivery import model as delivery_model
from giftrail.delivery.recipients import find_recipients
from giftrail.kit import ids, money
from giftrail.orders import fingerprint, model, read, states, store
from giftrail.partner_api import problems, requests, shapes, wire
from giftrail.partner_api.endpoints import Answer, Call, Surroundings
from giftrail.partners import model as partners
from giftrail.providers import protocol

# Prefer: wait=N (RFC 7240), in seconds.
_PREFER_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,9})\s*(?:$|[,;])", re.ASCII | re.IGNORECASE)
MAX_WAIT_SECONDS = 30


async def place_order(call: Call) -> Answer:
    """Place an order, or answer the one that has this referenceId and content already."""
    wanted = read_order(call, call.body)
    brand = call.around.catalog.find_brand(wanted.order.product_id)
    if brand is None or wanted.dynamic:
        # A replay is answered the same after partner or catalogue have changed: the reference is looked up first.
        receipt = await _replay(call, wanted)
    else:
        draft = await _draft(call, wanted, brand)
        receipt = await call.around.gatherer.submit(draft, arrived=call.arrived)
    call.around.metrics.count_receipt(receipt)
    order, headers = receipt.order, {}
    if order.deliveries:
        call.around.bell.ring("recipients")
    if receipt.replayed:
        headers["Idempotent-Replayed"] = "true"
    elif order.status is states.Status.PROCESSING:
        call.around.bell.ring("fulfilment")
        order, headers = await wait_for_end(call, order)
    return Answer(wire.encode(wire.order(order)), headers=headers)


def check_room(around: Surroundings, partner: partners.Partner) -> None:
    """Refuse while no more orders may wait on the wallet, before anything else is done for them."""
    around.gatherer.check_room(partner.partner_id)


async def wait_for_end(call: Call, order: model.Order) -> tuple[model.Order, dict[str, str]]:
    """The order when it has ended, or as it is after the synchronous window; and the header that tells the window."""
    wanted = _PREFER_WAIT.search(call.headers.get("prefer") or "")
    seconds = float(min(int(wanted[1]), MAX_WAIT_SECONDS)) if wanted else call.around.settings.synchronous_seconds
    await call.around.waiters.wait(partner_id=order.partner_id, order_id=order.order_id, seconds=seconds)
    ended = await read.read_order(
        call.around.database.read, partner_id=order.partner_id, order_id=order.order_id, ring=call.around.keys.ring
    )
    return ended, {"Preference-Applied": f"wait={seconds:.0f}"} if wanted else {}


class Wanted(msgspec.Struct, frozen=True):
    """A request that is sound in itself. `dynamic` are violations of what can change, told unless it is a replay."""

    order: shapes.OrderRequest
    amount_minor: int
    lines: Mapping[int, int]
    customer: Mapping[str, str] | None
    delivery: Mapping[str, str] | None
    fingerprint: bytes
    dynamic: list[problems.SubError]
    recipients: tuple[delivery_model.Recipient, ...] = ()


def read_order(call: Call, body: Mapping[str, Any]) -> Wanted:
    """What is asked for. Raises Problem with every violation of the request in itself."""
    order, violations = requests.read_partly(body, shapes.OrderRequest, plain=call.plain)
    currency = call.partner.currency
    amount_minor = _positive_amount(order.amount, "amount", currency, violations)
    lines = _read_lines(order.denomination_details, currency, violations)
    if violations:
        customer = _members(order.customer_details) if requests.is_sound(order.customer_details) else None
        raise problems.invalid([*violations, *_missing_customer(call.partner, customer, violations)])
    total = sum(denomination * quantity for denomination, quantity in lines.items())
    if total != amount_minor:
        message = (
            f"amount is {requests.show(order.amount)} but the denominations add up to"
            f" {money.to_major(total, currency=currency)}"
        )
        raise problems.Problem(problems.Code.ORDER_AMOUNT_MISMATCH, message, [problems.SubError("amount", message)])
    customer, delivery = _members(order.customer_details), _members(order.delivery_details)
    dynamic = _missing_customer(call.partner, customer, [])
    recipients: Sequence[delivery_model.Recipient] = ()
    if call.partner.delivery is not None:
        recipients, complaints = find_recipients(
            customer, delivery, region=call.partner.region, channels=call.around.channels.keys()
        )
        dynamic += [problems.SubError(name, complaint) for name, complaint in complaints]
    return Wanted(
        order=order,
        amount_minor=amount_minor,
        lines=lines,
        customer=customer,
        delivery=delivery,
        fingerprint=fingerprint.fingerprint(
            brand_id=order.product_id,
            amount_minor=amount_minor,
            lines=lines,
            customer=customer,
            delivery=delivery,
        ),
        dynamic=dynamic,
        recipients=tuple(recipients),
    )


class Terms(msgspec.Struct, frozen=True):
    """What a partner has agreed for a brand, and who of its remote providers is well."""

    enabled: bool
    discount_percentage: Decimal
    remote: frozenset[str]


async def read_terms(call: Call, brand: catalog.Brand) -> Terms:
    """The terms as this process knows them."""
    entitlement = (await call.around.catalog.read_entitlements(call.partner.partner_id)).get(brand.brand_id)
    providers, health = call.around.providers, call.around.health
    return Terms(
        enabled=entitlement is not None and entitlement.enabled,
        discount_percentage=entitlement.discount_percentage if entitlement else Decimal(0),
        remote=frozenset(
            name
            for name in brand.providers
            if name in providers and not health.is_open(name, brand.brand_id, now=call.now)
        ),
    )


async def _replay(call: Call, wanted: Wanted) -> model.Receipt:
    """The order that has the reference. Raises ReferenceConflict, or Problem when the reference is free."""
    database, partner_id = call.around.database.read, call.partner.partner_id
    reference_id = wanted.order.reference_id
    known = await store.find_order_by_reference(database, partner_id=partner_id, reference_id=reference_id)
    if known is None:
        if wanted.dynamic:
            raise problems.invalid(wanted.dynamic)
        raise problems.Problem(
            problems.Code.NOT_FOUND,
            f"productId {requests.show(wanted.order.product_id)} is no brand of the catalogue",
        )
    if known.fingerprint != wanted.fingerprint:
        raise model.ReferenceConflict(reference_id=reference_id, order_id=known.order_id)
    order = await read.read_order(database, partner_id=partner_id, order_id=known.order_id, ring=call.around.keys.ring)
    return model.Receipt(order, replayed=True)


async def _draft(call: Call, wanted: Wanted, brand: catalog.Brand) -> model.Draft:
    partner, order = call.partner, wanted.order
    terms = await read_terms(call, brand)
    return model.Draft(
        order_id=ids.new("ord", now=call.now),
        partner_id=partner.partner_id,
        reference_id=order.reference_id,
        fingerprint=wanted.fingerprint,
        brand=brand,
        lines=wanted.lines,
        amount_minor=wanted.amount_minor,
        discount_percentage=terms.discount_percentage,
        debit_minor=money.discounted(wanted.amount_minor, percentage=terms.discount_percentage),
        customer=_json(wanted.customer),
        delivery=_json(wanted.delivery),
        refusal=rules.judge(
            brand, enabled=terms.enabled, lines=wanted.lines, known_providers=protocol.AT_ONCE | terms.remote
        ),
        placed_at=call.now,
        remote=terms.remote,
        recipients=wanted.recipients,
        # Also of those that rest just now: they may be well again when they are asked.
        part_vouchers=min(
            (call.around.providers[name].max_vouchers for name in brand.providers if name in call.around.providers),
            default=model.MAX_VOUCHERS,
        ),
    )


def _read_lines(
    details: list[shapes.DenominationDetail], currency: str, violations: list[problems.SubError]
) -> dict[int, int]:
    lines: dict[int, int] = {}
    for place, detail in enumerate(details if requests.is_sound(details) else ()):
        if requests.is_sound(detail):
            name = f"denominationDetails[{place}]"
            denomination = _positive_amount(detail.denomination, f"{name}.denomination", currency, violations)
            quantity = _quantity(detail.quantity, f"{name}.quantity", violations)
            lines[denomination] = lines.get(denomination, 0) + quantity
    if (vouchers := sum(lines.values())) > model.MAX_VOUCHERS:
        message = f"{vouchers} vouchers in all, more than {model.MAX_VOUCHERS}"
        violations.append(problems.SubError("denominationDetails", message))
    return lines


def _missing_customer(
    partner: partners.Partner, customer: Mapping[str, str] | None, known: list[problems.SubError]
) -> list[problems.SubError]:
    """What a B2C partner must say of its customer and does not; nothing of what is `known` to be wrong."""
    if partner.kind is partners.Kind.B2B or any(error.field_name.startswith("customerDetails") for error in known):
        return []
    if customer is None:
        return [problems.SubError("customerDetails", "is missing: a B2C partner names the customer of each order")]
    missing = []
    if not customer.get("name"):
        missing.append(problems.SubError("customerDetails.name", "is missing"))
    if not customer.get("phoneNumber") and not customer.get("email"):
        missing.append(problems.SubError("customerDetails", "has neither phoneNumber nor email"))
    return missing


def _positive_amount(amount: Decimal, name: str, currency: str, violations: list[problems.SubError]) -> int:
    if not requests.is_sound(amount):
        return 0
    try:
        minor = money.to_minor(amount, currency=currency)
    except money.AmountRefused as refused:
        violations.append(problems.SubError(name, f"{requests.show(amount)} {refused}"))
        return 0
    if minor <= 0:
        violations.append(problems.SubError(name, f"{requests.show(amount)} is not more than 0"))
    return minor


def _quantity(quantity: Decimal, name: str, violations: list[problems.SubError]) -> int:
    if not requests.is_sound(quantity):
        return 0
    if not 1 <= quantity <= model.MAX_VOUCHERS or quantity != quantity.to_integral_value():
        message = f"{requests.show(quantity)} is not a whole number from 1 to {model.MAX_VOUCHERS}"
        violations.append(problems.SubError(name, message))
        return 0
    return int(quantity)


def _members(details: msgspec.Struct | None) -> Mapping[str, str] | None:
    """The members that are given, as they are spelt on the wire; None when there are none."""
    if details is None:
        return None
    members = {field.encode_name: getattr(details, field.name) for field in requests.fields(type(details))}
    return {name: value for name, value in members.items() if value is not None} or None


def _json(members: Mapping[str, str] | None) -> str | None:
    return msgspec.json.encode(members).decode() if members else None
