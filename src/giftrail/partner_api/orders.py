"""Orders (specification, Place an order, Get an order, Get a voucher; wire contract, reads)."""

from datetime import UTC, datetime, timedelta
from urllib.parse import unquote_to_bytes

from giftrail.db import pool
from giftrail.delivery import model as delivery
from giftrail.kit import ids
from giftrail.orders import endings, read, resend, states, store, undo
from giftrail.partner_api import placement, problems, queries, requests, shapes, wire
from giftrail.partner_api.endpoints import Answer, Call, Endpoint, Parameter

MAX_LIMIT = 200
DEFAULT_LIMIT = 50
_ONE_MILLISECOND = timedelta(milliseconds=1)
_END_OF_TIME = datetime.max.replace(tzinfo=UTC) - _ONE_MILLISECOND
# Slashes of /v1/partners/orders/by-reference/; what stands behind them is the reference, slashes and all.
_SEGMENTS_BEFORE = "/v1/partners/orders/by-reference/".count("/")


async def get_order(call: Call) -> Answer:
    """An order by id."""
    return await _answer(call, call.path_values["order_id"])


async def get_order_by_reference(call: Call) -> Answer:
    """An order by the partner's referenceId, percent-decoded once from the path as it was sent."""
    try:
        reference_id = unquote_to_bytes(call.raw_path.decode("ascii").split("/", _SEGMENTS_BEFORE)[-1]).decode("utf-8")
    except UnicodeDecodeError:
        raise problems.invalid_member("referenceId", "is not percent-encoded UTF-8") from None
    order = await read.read_order_by_reference(
        call.around.database.read,
        partner_id=call.partner.partner_id,
        reference_id=reference_id,
        ring=call.around.keys.ring,
    )
    return Answer(wire.encode(wire.order(order)))


async def get_voucher(call: Call) -> Answer:
    """A voucher by id."""
    voucher = await read.read_voucher(
        call.around.database.read,
        partner_id=call.partner.partner_id,
        voucher_id=call.path_values["voucher_id"],
        ring=call.around.keys.ring,
    )
    return Answer(wire.encode(wire.voucher(voucher)))


async def list_orders(call: Call) -> Answer:
    """The partner's orders, newest first, without vouchers."""
    query = call.query
    limit = min(query.number("limit") or DEFAULT_LIMIT, MAX_LIMIT)
    created_from = query.moment("from")
    created_to = query.moment("to")
    statuses = query.choices("status", list(states.Status))
    before_id = query.cursor(r"ord_[0-9a-f]{32}")
    query.check()
    if created_to is not None:
        # No order created before `to` sorts at or behind this bound, so the walk starts there.
        ceiling = ids.floor("ord", at=min(created_to, _END_OF_TIME) + _ONE_MILLISECOND)
        before_id = min(before_id or ceiling, ceiling)
    found = await store.list_orders(
        call.around.database.read,
        partner_id=call.partner.partner_id,
        statuses=statuses or None,
        created_from=created_from,
        created_to=created_to,
        floor_id=ids.floor("ord", at=created_from) if created_from else "",
        before_id=before_id,
        limit=limit + 1,
    )
    more = len(found) > limit
    page = await read.with_deliveries(call.around.database.read, found[:limit], partner_id=call.partner.partner_id)
    body = shapes.OrderList(
        data=[wire.listed_order(order) for order in page],
        next_cursor=queries.write_cursor(found[limit - 1].order_id) if more else None,
    )
    return Answer(wire.encode(body))


async def cancel_order(call: Call) -> Answer:
    """Cancel an order that no provider has been asked for yet."""
    order_id = call.path_values["order_id"]
    await call.around.gatherer.settle(endings.Cancel(call.partner.partner_id, order_id))
    call.around.bell.ring("orders")
    return await _answer(call, order_id)


async def reverse_order(call: Call) -> Answer:
    """Take a delivered order back, when its brand and its provider allow it."""
    wanted, violations = requests.read_struct(call.body, shapes.ReverseRequest)
    if wanted is None:
        raise problems.invalid(violations)
    order_id, partner_id = call.path_values["order_id"], call.partner.partner_id
    async with call.around.database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
        order = await undo.request_reversal(
            conn, partner_id=partner_id, order_id=order_id, reason=wanted.reason, now=call.now
        )
    if not order.reversal_pending:
        return await _answer(call, order_id)
    call.around.bell.ring("reversal")
    order, headers = await placement.wait_for_end(call, order)
    if order.status is states.Status.SUCCESS and not order.reversal_pending:
        await undo.explain(call.around.database.read, partner_id=partner_id, order_id=order_id)
    return Answer(wire.encode(wire.order(order)), headers=headers)


async def resend_delivery(call: Call) -> Answer:
    """Deliver the vouchers to the order's recipients once more."""
    wanted, violations = requests.read_struct(call.body, shapes.ResendRequest)
    known = [channel.value for channel in delivery.Channel]
    if wanted is not None:
        violations += [
            problems.SubError(f"channels[{place}]", f"{requests.show(name)} is none of {', '.join(known)}")
            for place, name in enumerate(wanted.channels or ())
            if name not in known
        ]
    if wanted is None or violations:
        raise problems.invalid(violations)
    settings, order_id = call.around.settings, call.path_values["order_id"]
    async with call.around.database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
        await resend.resend(
            conn,
            partner_id=call.partner.partner_id,
            order_id=order_id,
            channels=None if wanted.channels is None else {delivery.Channel(name) for name in wanted.channels},
            cooldown_seconds=settings.resend_cooldown_seconds,
            most_a_day=settings.resends_per_day,
            now=call.now,
        )
    call.around.bell.ring("recipients")
    return await _answer(call, order_id)


async def _answer(call: Call, order_id: str) -> Answer:
    order = await read.read_order(
        call.around.database.read,
        partner_id=call.partner.partner_id,
        order_id=order_id,
        ring=call.around.keys.ring,
    )
    return Answer(wire.encode(wire.order(order)))


_ORDER_ERRORS = (
    problems.Code.NOT_FOUND,
    problems.Code.REFERENCE_ID_CONFLICT,
    problems.Code.ORDER_AMOUNT_MISMATCH,
    problems.Code.SPENDING_LIMIT_EXCEEDED,
)

ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/v1/partners/orders",
        operation="placeOrder",
        summary="Place an order; the same referenceId with the same content is answered with the same order",
        handle=placement.place_order,
        admit=placement.check_room,
        request=shapes.OrderRequest,
        response=shapes.Order,
        parameters=(Parameter("Prefer", "header", "wait=N: how long to wait for a remote provider, in seconds"),),
        errors=_ORDER_ERRORS,
        secret=True,
    ),
    Endpoint(
        method="GET",
        path="/v1/partners/orders",
        operation="listOrders",
        summary="List the partner's orders, newest first, without vouchers",
        handle=list_orders,
        response=shapes.OrderList,
        parameters=(
            Parameter("status", "query", "repeatable", {"enum": [*states.Status]}),
            Parameter("from", "query", "created at or after", {"type": "string", "format": "date-time"}),
            Parameter("to", "query", "created before", {"type": "string", "format": "date-time"}),
            Parameter("limit", "query", f"at most {MAX_LIMIT}", {"type": "integer", "minimum": 1}),
            Parameter("cursor", "query", "the nextCursor of the page before"),
        ),
    ),
    Endpoint(
        method="GET",
        path="/v1/partners/orders/by-reference/{reference_id:path}",
        operation="getOrderByReference",
        summary="Get an order by the partner's referenceId",
        handle=get_order_by_reference,
        response=shapes.Order,
        parameters=(Parameter("reference_id", "path", "percent-encoded, slashes too", required=True),),
        errors=(problems.Code.NOT_FOUND,),
        secret=True,
    ),
    Endpoint(
        method="GET",
        path="/v1/partners/orders/vouchers/{voucher_id}",
        operation="getVoucher",
        summary="Get a voucher",
        handle=get_voucher,
        response=shapes.Voucher,
        parameters=(Parameter("voucher_id", "path", "the voucher's id", required=True),),
        errors=(problems.Code.NOT_FOUND,),
        secret=True,
    ),
    Endpoint(
        method="GET",
        path="/v1/partners/orders/{order_id}",
        operation="getOrder",
        summary="Get an order",
        handle=get_order,
        response=shapes.Order,
        parameters=(Parameter("order_id", "path", "the order's id", required=True),),
        errors=(problems.Code.NOT_FOUND,),
        secret=True,
    ),
    Endpoint(
        method="POST",
        path="/v1/partners/orders/{order_id}/cancel",
        operation="cancelOrder",
        summary="Cancel a PROCESSING order that no provider was asked for yet",
        handle=cancel_order,
        request=shapes.CancelRequest,
        response=shapes.Order,
        parameters=(Parameter("order_id", "path", "the order's id", required=True),),
        errors=(problems.Code.NOT_FOUND, problems.Code.INVALID_ORDER_STATE),
        body_required=False,
        secret=True,
    ),
    Endpoint(
        method="POST",
        path="/v1/partners/orders/{order_id}/reverse",
        operation="reverseOrder",
        summary="Take a SUCCESS order back; while its provider is still asked, reversalPending is true",
        handle=reverse_order,
        request=shapes.ReverseRequest,
        response=shapes.Order,
        parameters=(
            Parameter("order_id", "path", "the order's id", required=True),
            Parameter("Prefer", "header", "wait=N: how long to wait for the provider, in seconds"),
        ),
        errors=(problems.Code.NOT_FOUND, problems.Code.INVALID_ORDER_STATE),
        body_required=False,
        secret=True,
    ),
    Endpoint(
        method="POST",
        path="/v1/partners/orders/{order_id}/resend-delivery",
        operation="resendDelivery",
        summary="Deliver the vouchers to the order's recipients once more",
        handle=resend_delivery,
        request=shapes.ResendRequest,
        response=shapes.Order,
        parameters=(Parameter("order_id", "path", "the order's id", required=True),),
        errors=(problems.Code.NOT_FOUND, problems.Code.INVALID_ORDER_STATE),
        body_required=False,
        secret=True,
    ),
)
