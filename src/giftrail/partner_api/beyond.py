"""What a partner may ask beyond the specification: quote, plan, reconcile (wire contract, beyond)."""

import asyncio
from collections.abc import AsyncIterator

from giftrail.catalog import model as catalog
from giftrail.catalog import rules
from giftrail.kit import money
from giftrail.orders import failures, store
from giftrail.orders import model as orders
from giftrail.partner_api import beyond_shapes as shapes
from giftrail.partner_api import placement, problems, requests, wire
from giftrail.partner_api.endpoints import Answer, Call, Endpoint, Parameter
from giftrail.providers import protocol
from giftrail.providers import store as stock
from giftrail.spending import book
from giftrail.wallet import ledger
from giftrail_client import planning


async def quote(call: Call) -> Answer:
    """What an order would come to, and everything that stands against it; nothing is stored."""
    # A quote has no reference: the one put in its place only lets the order be read as an order is.
    wanted = placement.read_order(call, {**call.body, "referenceId": "quote"})
    if wanted.dynamic:
        raise problems.invalid(wanted.dynamic)
    brand = _find_brand(call, wanted.order.product_id)
    terms = await placement.read_terms(call, brand)
    currency = call.partner.currency
    debit_minor = money.discounted(wanted.amount_minor, percentage=terms.discount_percentage)
    async with call.around.database.read.acquire() as conn:
        wallet = await ledger.read_wallet(conn, partner_id=call.partner.partner_id)
        limits = await book.open_book(
            conn, partner_id=call.partner.partner_id, limited=wallet.limited, moments=[call.now], currency=currency
        )
    exceeded = limits.find_exceeded(brand_id=brand.brand_id, amount_minor=wanted.amount_minor, at=call.now)
    codes = sorted([code async for code in _list_failures(call, brand, terms, wanted)], key=_ORDER.index)
    if debit_minor > wallet.available_minor:
        codes.append(failures.INSUFFICIENT_BALANCE)
    violations = [shapes.QuoteViolation(code, failures.REASONS[code].value) for code in codes]
    if exceeded is not None:
        violations.append(shapes.QuoteViolation(problems.Code.SPENDING_LIMIT_EXCEEDED.id, str(exceeded)))
    body = shapes.Quote(
        product_id=brand.brand_id,
        amount=money.to_major(wanted.amount_minor, currency=currency),
        discount_percentage=money.plain(terms.discount_percentage),
        debit=money.to_major(debit_minor, currency=currency),
        balance=money.to_major(wallet.available_minor, currency=currency),
        balance_after=money.to_major(wallet.available_minor - debit_minor, currency=currency),
        currency=currency,
        violations=violations,
    )
    return Answer(wire.encode(body))


_ORDER = [str(refusal) for refusal in rules.Refusal]


async def _list_failures(
    call: Call, brand: catalog.Brand, terms: placement.Terms, wanted: placement.Wanted
) -> AsyncIterator[str]:
    """The codes with which the order would fail, in the order in which causes are told."""
    refusals = list(
        rules.list_refusals(
            brand, enabled=terms.enabled, lines=wanted.lines, known_providers=protocol.AT_ONCE | terms.remote
        )
    )
    for refusal in refusals:
        yield refusal
    known = rules.Refusal.DENOMINATION_NOT_AVAILABLE in refusals
    if set(brand.providers) == {protocol.STOCK} and not known:
        demands = [protocol.Demand(brand.brand_id, one, quantity) for one, quantity in wanted.lines.items()]
        async with call.around.database.read.acquire() as conn:
            unsold = await stock.list_unsold(conn, demands=demands, today=call.now.date())
        if any(count < demand.quantity for count, demand in zip(unsold, demands, strict=True)):
            yield rules.Refusal.DENOMINATION_NOT_AVAILABLE


async def plan(call: Call) -> Answer:
    """The fewest vouchers of a brand that make up an amount."""
    wanted, violations = requests.read_struct(call.body, shapes.PlanRequest)
    if wanted is None:
        raise problems.invalid(violations)
    brand = _find_brand(call, call.path_values["product_id"])
    if not (await placement.read_terms(call, brand)).enabled:
        raise problems.not_found()
    try:
        amount_minor = money.to_minor(wanted.amount, currency=brand.currency)
    except money.AmountRefused as refused:
        raise problems.invalid_member("amount", f"{requests.show(wanted.amount)} {refused}") from None
    found = None
    if brand.min_order_minor <= amount_minor <= brand.max_order_minor:
        try:
            # Beside the loop: some brands take some tenths of a second.
            found = await asyncio.to_thread(planning.plan, amount_minor, _planning_rules(brand))
        except planning.PlanTooLarge as error:
            raise problems.invalid_member("amount", str(error)) from None
    body = shapes.Plan(
        product_id=brand.brand_id,
        amount=wire.plain(wanted.amount),
        denomination_details=None
        if found is None
        else [
            shapes.PlanLine(money.to_major(denomination, currency=brand.currency), quantity)
            for denomination, quantity in found.items()
        ],
    )
    return Answer(wire.encode(body))


def _planning_rules(brand: catalog.Brand) -> planning.Rules:
    limit = brand.max_vouchers_per_order
    return planning.Rules(
        denominations=brand.denominations_minor,
        least=brand.min_voucher_minor,
        most=brand.max_voucher_minor,
        max_vouchers=orders.MAX_VOUCHERS if limit is None else min(limit, orders.MAX_VOUCHERS),
        max_of_one=brand.max_vouchers_per_denomination,
        max_denominations=min(brand.max_denominations_per_order or orders.MAX_LINES, orders.MAX_LINES),
    )


async def reconcile(call: Call) -> Answer:
    """What differs between the partner's books and ours."""
    wanted, violations = requests.read_struct(call.body, shapes.ReconcileRequest)
    if wanted is None:
        raise problems.invalid(violations)
    seen: set[str] = set()
    for place, line in enumerate(wanted.orders):
        if line.reference_id in seen:
            violations.append(problems.SubError(f"orders[{place}].referenceId", "stands in the list twice"))
        seen.add(line.reference_id)
    if violations:
        raise problems.invalid(violations)
    found = await store.list_orders_by_reference(
        call.around.database.read, partner_id=call.partner.partner_id, reference_ids=sorted(seen)
    )
    differences = [one for line in wanted.orders for one in _differences(line, found.get(line.reference_id))]
    matched = len(seen) - len({one.reference_id for one in differences})
    return Answer(wire.encode(shapes.Reconciliation(matched=matched, differences=differences)))


def _differences(line: shapes.ReconcileLine, order: orders.Order | None) -> list[shapes.Difference]:
    if order is None:
        return [shapes.Difference(line.reference_id, None, "orderId", None, None)]
    amount = money.to_major(order.amount_minor, currency=order.currency)
    found = []
    if line.status != order.status.value:
        found.append(shapes.Difference(line.reference_id, order.order_id, "status", line.status, order.status.value))
    if line.amount != amount:
        theirs, ours = str(wire.plain(line.amount)), str(amount)
        found.append(shapes.Difference(line.reference_id, order.order_id, "amount", theirs, ours))
    return found


def _find_brand(call: Call, brand_id: str) -> catalog.Brand:
    brand = call.around.catalog.find_brand(brand_id)
    if brand is None:
        raise problems.Problem(
            problems.Code.NOT_FOUND, f"productId {requests.show(brand_id)} is no brand of the catalogue"
        )
    return brand


ENDPOINTS = (
    Endpoint("POST", "/v1/partners/orders/quote", "quoteOrder", "What an order would come to; stores nothing", quote,
             shapes.Quote, request=shapes.QuoteRequest,
             errors=(problems.Code.NOT_FOUND, problems.Code.ORDER_AMOUNT_MISMATCH)),
    Endpoint("POST", "/v1/partners/products/{product_id}/plan", "planOrder",
             "The fewest vouchers that make up an amount", plan, shapes.Plan, request=shapes.PlanRequest,
             parameters=(Parameter("product_id", "path", "the brand's id", required=True),),
             errors=(problems.Code.NOT_FOUND,)),
    Endpoint("POST", "/v1/partners/reconcile", "reconcile", "What differs between your books and ours", reconcile,
             shapes.Reconciliation, request=shapes.ReconcileRequest),
)  # fmt: skip
