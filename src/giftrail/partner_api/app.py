"""The door's ASGI application: the route table in the order of the specification, and what looks inside."""

from collections.abc import Awaitable, Callable, Sequence
from importlib import resources

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from giftrail.db import migrate, pool
from giftrail.partner_api import (
    address,
    beyond,
    brands,
    guard,
    login,
    metrics,
    openapi,
    orders,
    problems,
    wallet,
    webhooks,
)
from giftrail.partner_api.endpoints import Endpoint, Surroundings

ENDPOINTS: tuple[Endpoint, ...] = (
    *login.ENDPOINTS,
    *brands.ENDPOINTS,
    *beyond.ENDPOINTS,  # its paths are narrower than those of orders
    *orders.ENDPOINTS,
    *wallet.ENDPOINTS,
    *webhooks.ENDPOINTS,
)

_ASSETS = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "start.js": "text/javascript",
}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'"
)


def create_app(around: Surroundings, *, beside: Sequence[BaseRoute] = ()) -> ASGIApp:
    """The application over its surroundings, which the caller opens and closes; `beside` are routes of other doors."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    doors = {path: guard.Door(around, endpoints) for path, endpoints in by_path.items()}
    with_values = [(compile_path(path)[0], door) for path, door in doors.items() if "{" in path]
    document = msgspec.json.encode(openapi.document(ENDPOINTS))
    routes: list[BaseRoute] = [
        Route("/openapi.json", _fixed(document, "application/json")),
        Route("/docs", _fixed(openapi.PAGE, "text/html; charset=utf-8", policy=_PAGE_POLICY)),
        *(Route(f"/docs/{name}", _fixed(_asset(name), kind)) for name, kind in _ASSETS.items()),
        Route("/livez", _fixed(b'{"status":"ok"}', "application/json")),
        Route("/readyz", _readiness(around)),
        Route("/metrics", _metrics(around)),
        *beside,
    ]
    router = Router(routes, redirect_slashes=False, default=guard.answer_unknown_path)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        door = doors.get(path)
        if door is not None:
            await door(scope, receive, send)
            return
        for pattern, other in with_values:
            if found := pattern.fullmatch(path):
                await other(scope, receive, send, found.groupdict())
                return
        await router(scope, receive, send)

    return answer


def _asset(name: str) -> bytes:
    return (resources.files("giftrail.partner_api") / "assets" / name).read_bytes()


def _fixed(
    body: bytes, media_type: str, *, policy: str = "default-src 'none'"
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
        return Response(body, media_type=media_type, headers=headers)

    return answer


def _readiness(around: Surroundings) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        why = None
        try:
            async with around.database.read.acquire() as conn:
                await migrate.check(conn)
        except (migrate.SchemaDiffers, migrate.MigrationEdited) as error:
            why = str(error)
        except pool.UNAVAILABLE:
            why = "the database cannot be reached"
        if why is None and not around.watcher.is_fresh():
            why = "changes of catalogue and partners have not been seen lately"
        body: dict[str, object] = {"status": "ok", "seen": around.watcher.seen}
        if why is not None:
            body = {"status": "unavailable", "message": why}
        return Response(msgspec.json.encode(body), status_code=503 if why else 200, media_type="application/json")

    return answer


def _metrics(around: Surroundings) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        networks = around.settings.metrics_networks
        client = address.client_address(
            request.client.host if request.client else None,
            forwarded=",".join(request.headers.getlist("x-forwarded-for")),
            trusted_proxies=around.settings.trusted_proxies,
        )
        if client is None or not any(client in network for network in networks):
            problem = problems.Problem(problems.Code.ADDRESS_NOT_ALLOWED, "metrics are not for this address")
            return Response(problem.body(""), status_code=403, media_type="application/json")
        return Response(around.metrics.render(around.database), media_type=metrics.CONTENT_TYPE)

    return answer
