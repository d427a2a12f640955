"""The flows of single calls: paths, parameters, and how their answers are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote as percent_encoded

from giftrail_client import bodies, errors, flows, models, wire
from giftrail_client import webhooks as signed

T = TypeVar("T")


def brands(*, page_no: int, limit: int, filters: Mapping[str, Any]) -> flows.Flow[models.Page[models.Brand]]:
    """A page of the catalogue; its cursor is the number of the next page."""
    return flows.get("/products", _brand_page, query={"pageNo": page_no, "limit": limit, **filters})


def brands_if_changed(
    *, page_no: int, limit: int, etag: str | None
) -> flows.Flow[tuple[str | None, models.Page[models.Brand]] | None]:
    """A page of the catalogue and its ETag; None when it is still that of `etag`."""
    headers = {} if etag is None else {"If-None-Match": etag}
    reply = yield from flows.call("GET", "/products", query={"pageNo": page_no, "limit": limit}, headers=headers)
    return None if reply.status == 304 else (reply.headers.get("etag"), flows.read(reply, _brand_page))


def _brand_page(members: Any) -> models.Page[models.Brand]:
    data = tuple(models.brand(one) for one in models.rows(members))
    following = members.get("nextCursor") if isinstance(members, dict) else None
    total = members.get("total") if isinstance(members, dict) else None
    return models.Page(data, following["pageNo"] if following else None, total)


def brand(brand_id: str) -> flows.Flow[models.Brand]:
    """One brand."""
    return flows.get(f"/products/{_segment(brand_id)}", models.brand)


def order(order_id: str) -> flows.Flow[models.Order]:
    """One order."""
    return flows.tell_failure((yield from flows.get(f"/orders/{_segment(order_id)}", models.order)))


def order_by_reference(reference_id: str) -> flows.Flow[models.Order]:
    """The order of a reference."""
    return flows.tell_failure((yield from flows.get(flows.by_reference_path(reference_id), models.order)))


def orders(
    *,
    status: str | None,
    created_from: datetime | None,
    created_to: datetime | None,
    limit: int,
    cursor: str | None,
) -> flows.Flow[models.Page[models.Order]]:
    """A page of orders."""
    query = {"status": status, "from": created_from, "to": created_to, "limit": limit, "cursor": cursor}
    return flows.get("/orders", _page(models.order), query=query)


def voucher(voucher_id: str) -> flows.Flow[models.Voucher]:
    """One voucher."""
    return flows.get(f"/orders/vouchers/{_segment(voucher_id)}", models.voucher)


def transactions(
    *, limit: int, cursor: str | None, created_from: datetime | None, created_to: datetime | None
) -> flows.Flow[models.Page[models.Transaction]]:
    """A page of the statement."""
    query = {"limit": limit, "cursor": cursor, "from": created_from, "to": created_to}
    return flows.get("/wallet/transactions", _page(models.transaction), query=query)


def cancel(order_id: str) -> flows.Flow[models.Order]:
    """Cancelling again answers the same, so it is tried again."""
    return flows.post(f"/orders/{_segment(order_id)}/cancel", models.order, is_safe=True)


def reverse(order_id: str, *, reason: str | None) -> flows.Flow[models.Order]:
    """Reversing again answers the same, so it is tried again."""
    body = {"reason": reason} if reason is not None else {}
    return flows.post(f"/orders/{_segment(order_id)}/reverse", models.order, body=body, is_safe=True)


def resend_delivery(order_id: str, *, channels: Sequence[str] | None) -> flows.Flow[models.Order]:
    """Not tried again by itself: a second try would be too soon."""
    body = _given(channels=None if channels is None else list(channels))
    return flows.post(f"/orders/{_segment(order_id)}/resend-delivery", models.order, body=body)


def quote(body: Mapping[str, Any]) -> flows.Flow[models.Quote]:
    """What an order would come to; stores nothing, so it is tried again."""
    without = {name: value for name, value in body.items() if name != "referenceId"}
    return flows.post("/orders/quote", models.quote, body=without, is_safe=True)


def reconcile(orders: Iterable[models.Order | tuple[str, str, Any]]) -> flows.Flow[models.Reconciliation]:
    """Our books against theirs: orders, or (reference, status, amount) of each. Raises ValueError."""
    lines = []
    for one in orders:
        reference_id, status, amount = (
            (one.reference_id, one.status, one.amount) if isinstance(one, models.Order) else one
        )
        lines.append({"referenceId": reference_id, "status": status, "amount": wire.amount(amount)})
    return flows.post("/reconcile", models.reconciliation, body={"orders": lines}, is_safe=True)


def webhooks() -> flows.Flow[tuple[models.Endpoint, ...]]:
    """All endpoints."""
    return flows.get("/webhooks", lambda members: tuple(models.endpoint(one) for one in models.rows(members)))


def webhook(endpoint_id: str) -> flows.Flow[models.Endpoint]:
    """One endpoint."""
    return flows.get(f"/webhooks/{_segment(endpoint_id)}", models.endpoint)


def create_webhook(
    url: str, *, events: Sequence[str] | None, description: str | None, secret: str | None
) -> flows.Flow[models.Endpoint]:
    """Not tried again by itself: a second try would register twice."""
    return flows.post(
        "/webhooks", models.endpoint, body=_given(url=url, events=events, description=description, secret=secret)
    )


def change_webhook(endpoint_id: str, **members: Any) -> flows.Flow[models.Endpoint]:
    """What is given is changed; changing again changes nothing more."""
    return _send("PATCH", f"/webhooks/{_segment(endpoint_id)}", body=_given(**members))


def delete_webhook(endpoint_id: str) -> flows.Flow[models.Endpoint]:
    """Removed once; not tried again by itself."""
    return _send("DELETE", f"/webhooks/{_segment(endpoint_id)}", is_safe=False)


def rotate_webhook(endpoint_id: str, *, secret: str | None) -> flows.Flow[models.Endpoint]:
    """The first step; its answer tells the new secret."""
    return flows.post(f"/webhooks/{_segment(endpoint_id)}/rotate-secret", models.endpoint, body=_given(secret=secret))


def promote_webhook(endpoint_id: str) -> flows.Flow[models.Endpoint]:
    """The second step."""
    return flows.post(f"/webhooks/{_segment(endpoint_id)}/promote-secret", models.endpoint)


def test_webhook(endpoint_id: str) -> flows.Flow[str]:
    """The id of the test event."""
    return flows.post(f"/webhooks/{_segment(endpoint_id)}/test", lambda members: str(members["eventId"]))


def replay_webhook(endpoint_id: str, *, since: datetime, until: datetime | None) -> flows.Flow[int]:
    """How many events are on their way again."""
    body = _given(**{"from": since.isoformat(), "to": until.isoformat() if until else None})
    return flows.post(f"/webhooks/{_segment(endpoint_id)}/replay", lambda members: int(members["events"]), body=body)


def deliveries(
    endpoint_id: str, *, status: str | None, limit: int, cursor: str | None
) -> flows.Flow[models.Page[models.Delivery]]:
    """A page of what was sent to an endpoint."""
    query = {"status": status, "limit": limit, "cursor": cursor}
    return flows.get(f"/webhooks/{_segment(endpoint_id)}/deliveries", _page(models.delivery), query=query)


def events(*, after: str | None, limit: int) -> flows.Flow[models.Page[signed.Event]]:
    """A page of the feed; its cursor is the event to go on after."""
    return flows.get("/events", _page(signed.of_feed), query={"after": after, "limit": limit})


def redeliver(event_id: str) -> flows.Flow[int]:
    """To how many endpoints the event is on its way again."""
    return flows.post(f"/events/{_segment(event_id)}/redeliver", lambda members: int(members["endpoints"]))


def body_of_retry(
    order: models.Order, denominations: bodies.Denominations | None, reference_id: str | None
) -> flows.Flow[dict[str, Any]]:
    """The body of a FAILED order placed anew: its brand read again, a new reference. Raises ValueError, NotFound."""
    if not order.failed or order.product_id is None:
        raise ValueError(f"order {order.id} is {order.status}: only a FAILED order is retried with a new reference")
    if reference_id == order.reference_id:
        raise ValueError(f"{reference_id!r} is the FAILED order's own reference: a retry takes a new one")
    before = order.request or {}
    if denominations is None:
        denominations = {line["denomination"]: line["quantity"] for line in before.get("denominationDetails", ())}
    if not denominations:
        raise ValueError("give the denominations again: the service does not tell those of an order that was read")
    found = yield from brand(order.product_id)
    against = found.check(denominations)
    if against:
        raise ValueError(f"the brand does not allow this order now: {'; '.join(against)}")
    return bodies.order(
        found.id,
        denominations,
        reference_id=reference_id,
        customer=before.get("customerDetails"),
        delivery=before.get("deliveryDetails"),
    )


def unless_failed(order: models.Order, *, raise_failed: bool) -> models.Order:
    """The order. Raises OrderFailed when it is FAILED and that is to be raised."""
    if raise_failed and order.failed:
        raise errors.OrderFailed(order)
    return order


def _page(read: Callable[[Mapping[str, Any]], T]) -> Callable[[Any], models.Page[T]]:
    def read_page(members: Any) -> models.Page[T]:
        following = members.get("nextCursor") if isinstance(members, dict) else None
        return models.Page(tuple(read(one) for one in models.rows(members)), following)

    return read_page


def _segment(text: str) -> str:
    return percent_encoded(text, safe="")


def _send(method: str, path: str, *, body: Any = None, is_safe: bool = True) -> flows.Flow[models.Endpoint]:
    reply = yield from flows.call(method, path, body=body, is_safe=is_safe)
    return flows.read(reply, models.endpoint)


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
