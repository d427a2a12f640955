"""The flows of single calls: paths, parameters, and how their answers are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from giftrail_client import bodies, errors, flows, models

T = TypeVar("T")


def brands(*, page_no: int, limit: int, filters: Mapping[str, Any]) -> flows.Flow[models.Page[models.Brand]]:
    """A page of the catalogue; its cursor is the number of the next page."""

    def read(members: Any) -> models.Page[models.Brand]:
        data = tuple(models.brand(one) for one in models.rows(members))
        following = members.get("nextCursor") if isinstance(members, dict) else None
        total = members.get("total") if isinstance(members, dict) else None
        return models.Page(data, following["pageNo"] if following else None, total)

    return flows.get("/products", read, query={"pageNo": page_no, "limit": limit, **filters})


def brand(brand_id: str) -> flows.Flow[models.Brand]:
    """One brand."""
    return flows.get(f"/products/{_segment(brand_id)}", models.brand)


def order(order_id: str) -> flows.Flow[models.Order]:
    """One order."""
    return flows.get(f"/orders/{_segment(order_id)}", models.order)


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


def body_of_retry(order: models.Order, more: Mapping[str, Any]) -> flows.Flow[dict[str, Any]]:
    """The body of a FAILED order placed anew. Raises ValueError, NotFound."""
    if not order.failed or order.product_id is None:
        raise ValueError(f"order {order.id} is {order.status}: only a FAILED order is retried with a new reference")
    if "denominations" not in more:
        raise ValueError("give the denominations again: the service does not tell them")
    found = yield from brand(order.product_id)
    if not found.is_active:
        raise ValueError(f"brand {found.id} is {found.status}: it is not to be offered")
    return bodies.order(
        found.id,
        more["denominations"],
        reference_id=more.get("reference_id"),
        customer=more.get("customer"),
        delivery=more.get("delivery"),
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
    return quote(text, safe="")
