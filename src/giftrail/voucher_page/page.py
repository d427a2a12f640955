"""`/v/<token>`: what was given, and, behind a button, its codes.

GET never reveals, because mail scanners follow links; POST does, is recorded and limited.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.delivery import links, words
from giftrail.delivery import store as deliveries
from giftrail.kit import seal
from giftrail.orders import model as orders
from giftrail.orders import read, states
from giftrail.orders import store as order_store
from giftrail.partner_api import address, endpoints
from giftrail.partners import model as partners
from giftrail.voucher_page import render

# Tokens that lead nowhere, from one address: 20 at once, then one every 3 seconds.
WRONG_TOKENS_PER_SECOND, WRONG_TOKENS_BURST = 1 / 3, 20
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_ASSETS = {"voucher.css": "text/css; charset=utf-8", "voucher.js": "text/javascript; charset=utf-8"}

Handle = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a token leads to."""

    order: orders.Order
    brand: catalog.Brand
    partner: partners.Partner
    details: orders.Details
    has_picture: bool

    @property
    def valid_till(self) -> date | None:
        """The last day on which one of the vouchers is valid; None when one is valid for ever."""
        days = [voucher.code.valid_till for voucher in self.order.vouchers]
        return max((day for day in days if day is not None), default=None) if None not in days else None


def routes(around: endpoints.Surroundings) -> list[BaseRoute]:
    """The page, its button, the brand's picture, and the assets."""
    pages = _Pages(around)
    return [
        _route("/v/assets/{name}", {"GET": _asset}),
        _route("/v/{token}", {"GET": pages.guarded(pages.show)}),
        # A browser that opens the revealed page's address again is led back: nothing is shown unasked.
        _route("/v/{token}/reveal", {"POST": pages.guarded(pages.reveal), "GET": _lead_back}),
        _route("/v/{token}/picture", {"GET": pages.guarded(pages.picture)}),
    ]


def _route(path: str, handles: Mapping[str, Handle]) -> Route:
    async def answer(request: Request) -> Response:
        handle = handles.get("GET" if request.method == "HEAD" else request.method)
        if handle is None:
            return Response(status_code=405, headers={**HEADERS, "Allow": ", ".join(handles)})
        return await handle(request)

    return Route(path, answer, methods=list(_METHODS))


async def _lead_back(request: Request) -> Response:
    return Response(status_code=303, headers={**HEADERS, "Location": f"/v/{request.path_params['token']}"})


class _Pages:
    """The handlers over their surroundings."""

    def __init__(self, around: endpoints.Surroundings) -> None:
        self._around = around

    def guarded(self, handle: Callable[[Request, _Opened], Awaitable[Response]]) -> Handle:
        """The handler behind a look for its token, and a limit for those who try tokens out."""

        async def answer(request: Request) -> Response:
            key = str(self._address(request))
            buckets = self._around.page_buckets
            verdict = buckets.take(key, per_second=WRONG_TOKENS_PER_SECOND, burst=WRONG_TOKENS_BURST)
            if verdict is not None and not verdict.allowed:
                return _answer(render.too_often(), 429, {"Retry-After": str(verdict.retry_after_seconds)})
            try:
                opened = await self._open(request.path_params["token"])
                if opened is None:
                    return _answer(render.nothing_here(), 404)
                buckets.put_back(key, burst=WRONG_TOKENS_BURST)  # it was no guess
                return await handle(request, opened)
            except pool.UNAVAILABLE:
                return _answer(render.not_now(), 503, {"Retry-After": "5"})

        return answer

    async def show(self, request: Request, opened: _Opened) -> Response:
        """What was given; no code."""
        gone = self._gone(opened)
        if gone is not None:
            return gone
        return _answer(render.closed(self._sheet(request, opened)), 200)

    async def reveal(self, request: Request, opened: _Opened) -> Response:
        """The codes, recorded first."""
        gone = self._gone(opened)
        if gone is not None:
            return gone
        around = self._around
        async with around.database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
            may = await links.reveal(
                conn,
                partner_id=opened.order.partner_id,
                order_id=opened.order.order_id,
                address=self._address(request),
                most=around.settings.reveals_per_hour,
                now=around.now(),
            )
        if not may:
            return _answer(render.too_often(opened.partner), 429, {"Retry-After": "3600"})
        # Beside the loop: pictures of many codes take a while.
        html = await asyncio.to_thread(render.opened, self._sheet(request, opened), opened.order.vouchers)
        return _answer(html, 200)

    async def picture(self, _: Request, opened: _Opened) -> Response:
        """The brand's picture, from here."""
        found = await deliveries.find_picture(self._around.database.read, brand_id=opened.brand.brand_id)
        if found is None:
            return _answer(render.nothing_here(), 404)
        media_type, content = found
        return Response(content, media_type=media_type, headers={**HEADERS, "Cache-Control": "private, max-age=3600"})

    async def _open(self, token: str) -> _Opened | None:
        around = self._around
        async with around.database.read.acquire() as conn:
            found = await links.find_order(conn, token)
            if found is None:
                return None
            partner_id, order_id = found
            try:
                order = await read.read_order(conn, partner_id=partner_id, order_id=order_id, ring=around.keys.ring)
            except (orders.OrderUnknown, seal.CannotOpen):
                return None
            details = await order_store.read_details(conn, partner_id=partner_id, order_id=order_id)
            has_picture = await deliveries.find_picture(conn, brand_id=order.brand_id) is not None
        brand = around.catalog.find_brand(order.brand_id)
        partner = around.directory.find(partner_id) or await around.directory.find_fresh(partner_id)
        if brand is None or partner is None or partner.suspended_at is not None:
            return None
        return _Opened(order, brand, partner, details, has_picture)

    def _gone(self, opened: _Opened) -> Response | None:
        if opened.order.status is not states.Status.SUCCESS or opened.order.reversal_pending:
            return _answer(render.taken_back(opened.partner), 410)
        last = opened.valid_till
        if last is not None and last < self._around.now().date():
            return _answer(render.expired(opened.partner, last), 410)
        return None

    def _sheet(self, request: Request, opened: _Opened) -> dict[str, Any]:
        """What both states of the page show."""
        order, brand, details = opened.order, opened.brand, opened.details
        delivery = opened.partner.delivery or partners.Delivery()
        language = delivery.language
        path = f"/v/{request.path_params['token']}"
        return {
            "language": language,
            "path": path,
            "picture": f"{path}/picture" if opened.has_picture else None,
            "partner": opened.partner.name,
            "brand": brand.title,
            "total": words.amount(language, order.amount_minor, currency=order.currency),
            "count": len(order.vouchers),
            "valid_till": opened.valid_till,
            "is_gift": details.is_gift,
            "sender": details.sender_name,
            "recipient": details.recipient_name,
            "wish": details.wish,
            "how_to_use": [{"title": how["retailModeName"], "lines": how["instructions"]} for how in brand.how_to_use],
            "terms": brand.terms,
        }

    def _address(self, request: Request) -> partners.Address | None:
        return address.client_address(
            request.client.host if request.client else None,
            forwarded=",".join(request.headers.getlist("x-forwarded-for")),
            trusted_proxies=self._around.settings.trusted_proxies,
        )


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        return _answer(render.nothing_here(), 404)
    content = (resources.files("giftrail.voucher_page") / "assets" / name).read_bytes()
    headers = {**HEADERS, "Cache-Control": "public, max-age=3600"}
    return Response(content, media_type=_ASSETS[name], headers=headers)


def _answer(html: str, status: int, more: Mapping[str, str] | None = None) -> Response:
    headers = {**HEADERS, **(more or {})}
    return Response(html, status_code=status, media_type="text/html; charset=utf-8", headers=headers)
