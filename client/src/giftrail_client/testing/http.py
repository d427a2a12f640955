"""The fake's door: paths, headers, parameters and answers as the service has them, behind an httpx transport."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpx

from giftrail_client import planning, restrictions, wire
from giftrail_client.models import brand as read_brand
from giftrail_client.testing import books, catalogue, reading

if TYPE_CHECKING:
    from giftrail_client.testing.service import FakeService

API = "/v1/partners"
MAX_LIST_LIMIT, DEFAULT_LIST_LIMIT = 200, 50
MAX_PAGE_LIMIT, DEFAULT_PAGE_LIMIT, MAX_WHOLE_LIST = 500, 20, 1000
SYNCHRONOUS_SECONDS, MAX_WAIT_SECONDS = 2.0, 30.0
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PREFER_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,9})", re.IGNORECASE)
_STATUSES = ("SUCCESS", "FAILED", "PROCESSING", "CANCELLED", "REVERSED")


@dataclass
class Call:
    """A request that was let in."""

    service: FakeService
    request: httpx.Request
    ids: tuple[str, ...]
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)  # of the answer

    def number(self, name: str) -> int | None:
        """A whole number from 1 among the parameters. Raises Refused."""
        value = self.request.url.params.get(name)
        if value is None:
            return None
        if not re.fullmatch(r"0*[1-9][0-9]{0,17}", value):
            raise reading.invalid((name, f"{value!r} is not a whole number from 1"))
        return int(value)

    def among(self, name: str, known: tuple[str, ...]) -> list[str]:
        """Known words among the parameters. Raises Refused."""
        values: list[str] = self.request.url.params.get_list(name)
        for value in values:
            if value not in known:
                raise reading.invalid((name, f"{value!r} is none of {', '.join(known)}"))
        return values

    def wait_seconds(self) -> float:
        """How long the caller wants to wait for an order that takes time."""
        wanted = _PREFER_WAIT.search(self.request.headers.get("prefer", ""))
        if wanted is None:
            return SYNCHRONOUS_SECONDS
        seconds = min(float(wanted[1]), MAX_WAIT_SECONDS)
        self.headers["Preference-Applied"] = f"wait={seconds:.0f}"
        return seconds


def answer(service: FakeService, request: httpx.Request) -> httpx.Response:
    """The answer to a request, its body read."""
    sent_id = request.headers.get("x-request-id", "")
    request_id = sent_id if _UUID.fullmatch(sent_id) else str(uuid.uuid4())
    headers = {"X-REQUEST-ID": request_id, "Content-Type": "application/json", "Cache-Control": "no-store"}
    try:
        body, more = _answer(service, request)
        status = 200
    except reading.Refused as refused:
        status, body, more = refused.status, refused.members(request_id), dict[str, str]()
        more |= {"Retry-After": "1"} if status in {429, 503} and refused.id != "E013" else {}
    content = wire.encode(body)
    if (tag := more.get("ETag")) and tag in request.headers.get("if-none-match", ""):
        status, content = 304, b""
    return httpx.Response(status, headers={**headers, **more}, content=content, request=request)


def _answer(service: FakeService, request: httpx.Request) -> tuple[Any, dict[str, str]]:
    raw_path = request.url.raw_path.decode("ascii").split("?")[0]
    if request.method == "POST" and raw_path == f"{API}/auth/login":
        return service.log_in(_read_body(request)), {}
    matched = [(match, methods) for pattern, methods in _PATTERNS if (match := pattern.fullmatch(raw_path))]
    if not matched:
        raise reading.not_found(f"there is no path {raw_path}")
    match, methods = matched[0]
    if request.method not in methods:
        raise reading.Refused("E005", f"{request.method} is not a method of this path, but {', '.join(methods)}")
    service.check_token(request.headers.get("authorization", ""))
    if not _UUID.fullmatch(request.headers.get("x-request-id", "")):
        raise reading.invalid(("X-REQUEST-ID", "is missing or no UUID"))
    body = _read_body(request) if request.method in {"POST", "PATCH"} else {}
    call = Call(service, request, tuple(unquote(one) for one in match.groups()), body)
    return methods[request.method](call), call.headers


def _read_body(request: httpx.Request) -> dict[str, Any]:
    if len(request.content) > reading.MAX_BODY_BYTES:
        raise reading.Refused("E006", f"the body has more than {reading.MAX_BODY_BYTES} bytes")
    if not request.content:
        return {}
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise reading.Refused("E007", "the Content-Type is not application/json")
    return reading.read_json(request.content)


def _list_brands(call: Call) -> dict[str, Any]:
    page_no, limit = call.number("pageNo"), call.number("limit")
    params = call.request.url.params
    words = params.get("q", "").casefold().split()
    categories = {one.casefold() for one in params.get_list("category")}
    tags = {one.casefold() for one in params.get_list("tag")}
    statuses = call.among("status", ("ACTIVE", "INACTIVE"))
    types = call.among("denominationType", ("FIXED", "FLEXIBLE"))

    def keep(brand: catalogue.FakeBrand) -> bool:
        text = "\n".join((brand.title, brand.description or "", *brand.tags)).casefold()
        return (
            all(word in text for word in words)
            and (not categories or not categories.isdisjoint(one.casefold() for one in brand.category))
            and (not tags or not tags.isdisjoint(one.casefold() for one in brand.tags))
            and (not statuses or brand.status in statuses)
            and (not types or brand.denomination_type in types)
        )

    found = sorted(
        (one for one in call.service.brands.values() if one.enabled and keep(one)), key=lambda one: (one.title, one.id)
    )
    if page_no is None and limit is None:
        page_no, limit, following = 1, MAX_WHOLE_LIST, {"pageNo": 3, "limit": MAX_PAGE_LIMIT}
    else:
        page_no, limit = page_no or 1, min(limit or DEFAULT_PAGE_LIMIT, MAX_PAGE_LIMIT)
        following = {"pageNo": page_no + 1, "limit": limit}
    start = (page_no - 1) * limit
    data = [one.members(currency=call.service.books.currency) for one in found[start : start + limit]]
    more = start + limit < len(found)
    page = {
        "data": data, "pageNo": page_no, "limit": limit, "total": len(found), "nextCursor": following if more else None
    }  # fmt: skip
    return _tagged(call, page)


def _get_brand(call: Call) -> dict[str, Any]:
    brand = call.service.brands.get(call.ids[0])
    if brand is None or not brand.enabled:
        raise reading.not_found()
    return _tagged(call, brand.members(currency=call.service.books.currency))


def _tagged(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    call.headers["ETag"] = f'"{hashlib.blake2b(wire.encode(body), digest_size=16).hexdigest()}"'
    call.headers["Cache-Control"] = "private, no-cache"
    return body


def _place(call: Call) -> dict[str, Any]:
    service = call.service
    wanted = reading.read_order(call.body, is_b2c=service.is_b2c)
    known = service.books.by_reference.get(wanted.reference_id)
    if known is not None:
        if known.wanted.fingerprint != wanted.fingerprint:
            message = f"referenceId {wanted.reference_id!r} belongs to order {known.id}, whose content is another"
            raise reading.Refused("E008", message, order_id=known.id)
        call.headers["Idempotent-Replayed"] = "true"
        return known.members()
    brand = service.find_brand(wanted.product_id)
    if brand.orders_limited:
        raise reading.Refused("E013", f"brand {brand.id} may be ordered 0 times in a day, until midnight UTC")
    order = service.books.place(wanted, brand)
    if order.ends_at is not None:
        service.wait_for(order.ends_at, seconds=call.wait_seconds())
    return order.members()


def _list_orders(call: Call) -> dict[str, Any]:
    statuses = call.among("status", _STATUSES)
    orders = [one for one in call.service.books.orders.values() if not statuses or one.status in statuses]
    return _paged(call, [one.members(listed=True) for one in reversed(orders)])


def _paged(call: Call, rows: list[dict[str, Any]], *, key: str = "id") -> dict[str, Any]:
    """A page of rows, newest first; the cursor is the last row's id in disguise, because cursors are opaque."""
    limit = min(call.number("limit") or DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT)
    params = call.request.url.params
    since, until = (reading.Sheet(params), reading.Sheet(params))
    moments = since.moment("from"), until.moment("to")
    reading.Sheet.check(since)
    reading.Sheet.check(until)
    if moments[0] is not None:
        rows = [row for row in rows if row["createdAt"] >= moments[0].isoformat()]
    if moments[1] is not None:
        rows = [row for row in rows if row["createdAt"] < moments[1].isoformat()]
    cursor = params.get("cursor")
    if cursor is not None:
        try:
            last = base64.urlsafe_b64decode(cursor).decode()
        except ValueError:
            last = ""
        ids = [row[key] for row in rows]
        if last not in ids:
            raise reading.invalid(("cursor", f"{cursor!r} is no cursor of this list"))
        rows = rows[ids.index(last) + 1 :]
    following = base64.urlsafe_b64encode(rows[limit - 1][key].encode()).decode() if len(rows) > limit else None
    return {"data": rows[:limit], "nextCursor": following}


def _get_order(call: Call) -> dict[str, Any]:
    return call.service.books.find(call.ids[0]).members()


def _get_by_reference(call: Call) -> dict[str, Any]:
    order = call.service.books.by_reference.get(call.ids[0])
    if order is None:
        raise reading.not_found()
    return order.members()


def _quote(call: Call) -> dict[str, Any]:
    service = call.service
    wanted = reading.read_order(call.body, is_b2c=service.is_b2c, has_reference=False)
    brand = service.find_brand(wanted.product_id)
    debit = service.books.debit_of(wanted, brand)
    codes = service.books.list_refusals(wanted, brand)
    violations = [{"failureCode": code, "failureReason": catalogue.REASONS[code]} for code in codes]
    if brand.orders_limited:
        violations.append({"failureCode": "E013", "failureReason": "the spending limit of the brand"})
    return {
        "productId": brand.id, "amount": wanted.amount, "discountPercentage": brand.discount_percentage,
        "debit": debit, "balance": service.books.available, "balanceAfter": service.books.available - debit,
        "currency": service.books.currency, "violations": violations,
    }  # fmt: skip


def _plan(call: Call) -> dict[str, Any]:
    brand = call.service.find_brand(call.ids[0])
    if not brand.enabled:
        raise reading.not_found()
    sheet = reading.Sheet(call.body)
    amount = sheet.number("amount")
    sheet.check()
    read = read_brand(brand.members(currency=call.service.books.currency))
    try:
        found = restrictions.plan(read, amount)
    except planning.PlanTooLarge as error:
        raise reading.invalid(("amount", str(error))) from None
    lines = None if found is None else [{"denomination": one, "quantity": count} for one, count in found.items()]
    return {"productId": brand.id, "amount": amount, "denominationDetails": lines}


def _balance(call: Call) -> dict[str, Any]:
    kept = call.service.books
    return {"balance": kept.available, "held": kept.held, "currency": kept.currency, "threshold": kept.threshold}


def _deliveries(call: Call) -> dict[str, Any]:
    endpoint = call.service.teller.find(call.ids[0])
    states = call.among("status", ("DUE", "DELIVERED", "EXHAUSTED", "HELD"))
    rows = [
        {
            "eventId": one.event.id, "eventType": one.event.kind, "status": one.state, "attempts": one.attempts,
            "nextAttemptAt": one.next_at.isoformat() if one.next_at else None, "createdAt": one.event.at.isoformat(),
        }
        for one in reversed(endpoint.deliveries)
        if not states or one.state in states
    ]  # fmt: skip
    page = _paged(call, rows, key="eventId")
    page["data"] = [{name: value for name, value in row.items() if name != "createdAt"} for row in page["data"]]
    return page


def _events(call: Call) -> dict[str, Any]:
    events = call.service.teller.events
    limit = min(call.number("limit") or DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT)
    after = call.request.url.params.get("after")
    start = 0
    if after is not None:
        places = [place for place, event in enumerate(events, 1) if event.id == after]
        if not places:
            raise reading.invalid(("after", f"{after!r} is no event of yours that is kept"))
        start = places[0]
    page = events[start : start + limit]
    more = start + limit < len(events)
    return {"data": [call.service.teller.feed(one) for one in page], "nextCursor": page[-1].id if more else None}


Handler = Callable[[Call], Any]
_ID = "([^/]+)"
ROUTES: dict[str, dict[str, Handler]] = {
    "/products": {"GET": _list_brands},
    f"/products/{_ID}": {"GET": _get_brand},
    f"/products/{_ID}/plan": {"POST": _plan},
    "/orders": {"GET": _list_orders, "POST": _place},
    "/orders/quote": {"POST": _quote},
    "/orders/by-reference/(.+)": {"GET": _get_by_reference},
    f"/orders/vouchers/{_ID}": {"GET": lambda call: call.service.books.find_voucher(call.ids[0])},
    f"/orders/{_ID}": {"GET": _get_order},
    f"/orders/{_ID}/cancel": {"POST": lambda call: call.service.books.cancel(call.ids[0]).members()},
    f"/orders/{_ID}/reverse": {"POST": lambda call: call.service.books.reverse(call.ids[0]).members()},
    "/wallet/balance": {"GET": _balance},
    "/wallet/transactions": {"GET": lambda call: _paged(call, call.service.books.transactions[::-1])},
    "/reconcile": {"POST": lambda call: books.reconcile(call.service.books, call.body)},
    "/webhooks": {
        "GET": lambda call: {
            "data": [one.members() for one in call.service.teller.endpoints.values()],
            "nextCursor": None,
        },
        "POST": lambda call: call.service.teller.create(call.body),
    },
    f"/webhooks/{_ID}": {
        "GET": lambda call: call.service.teller.find(call.ids[0]).members(),
        "PATCH": lambda call: call.service.teller.change(call.ids[0], call.body),
        "DELETE": lambda call: call.service.teller.delete(call.ids[0]),
    },
    f"/webhooks/{_ID}/test": {"POST": lambda call: call.service.teller.test(call.ids[0])},
    f"/webhooks/{_ID}/rotate-secret": {"POST": lambda call: call.service.teller.rotate(call.ids[0], call.body)},
    f"/webhooks/{_ID}/promote-secret": {"POST": lambda call: call.service.teller.promote(call.ids[0])},
    f"/webhooks/{_ID}/deliveries": {"GET": _deliveries},
    f"/webhooks/{_ID}/replay": {"POST": lambda call: call.service.teller.replay(call.ids[0], call.body)},
    "/events": {"GET": _events},
    f"/events/{_ID}/redeliver": {"POST": lambda call: call.service.teller.redeliver(call.ids[0])},
}
_PATTERNS = tuple((re.compile(API + path), methods) for path, methods in ROUTES.items())
