"""An upstream's webhook: verified on its raw bytes, then the orders that wait for it are looked at at once."""

import asyncio

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

import giftrail_client.webhooks as signed
from giftrail.db import pool
from giftrail.orders import hear
from giftrail.partner_api import endpoints
from giftrail.providers import upstream

PATH = "/v1/providers/{name}/webhook"
MAX_BODY_BYTES = 64 * 1024
_KINDS = frozenset({signed.ORDER_TERMINAL_STATE, signed.ORDER_STATUS_CHANGED})

_log = structlog.get_logger()


def route(around: endpoints.Surroundings) -> Route:
    """The endpoint; a provider without a signing secret has none."""

    async def receive(request: Request) -> Response:
        provider = around.providers.get(request.path_params["name"])
        if not isinstance(provider, upstream.Upstream) or provider.signing_secret is None:
            return _answer(404, "there is no such provider")
        body = bytearray()
        try:
            async with asyncio.timeout(around.settings.body_timeout_seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        return _answer(413, "the body is too large")
        except (TimeoutError, ClientDisconnect):
            return _answer(400, "the body did not arrive in time")
        try:
            event = signed.verify(bytes(body), request.headers, provider.signing_secret, now=around.now().timestamp())
        except signed.VerificationFailed as failed:
            return _answer(400, str(failed))
        if event.kind in _KINDS:
            try:
                woken = await hear.hear_from_provider(
                    around.database, provider=provider.name, key=event.reference_id, now=around.now()
                )
            except pool.UNAVAILABLE:
                return _answer(503, "come back: the database cannot be reached just now")
            if woken:
                around.bell.ring("fulfilment")
            _log.info("an upstream told", provider=provider.name, kind=event.kind, orders=woken)
        return _answer(200, "received")

    return Route(PATH, receive, methods=["POST"])


def _answer(status: int, message: str) -> Response:
    body = msgspec.json.encode({"message": message})
    return Response(body, status_code=status, media_type="application/json")
