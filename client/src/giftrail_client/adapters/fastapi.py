"""Webhooks in FastAPI: `app.include_router(fastapi.routes(router, "/hooks/giftrail"))`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from giftrail_client.adapters import asgi
from giftrail_client.router import MAX_BODY_BYTES, WebhookRouter


def routes(router: WebhookRouter, path: str) -> APIRouter:
    """The POST route at `path`; the router starts and stops with the application, and is not in its OpenAPI."""

    @asynccontextmanager
    async def live(_: object) -> AsyncIterator[None]:
        async with asgi.running(router):
            yield

    made = APIRouter(lifespan=live)

    async def receive(request: Request) -> Response:
        pieces, size = [], 0
        try:
            async for piece in request.stream():
                pieces.append(piece)
                size += len(piece)
                if size > MAX_BODY_BYTES:
                    return Response(f"more than {MAX_BODY_BYTES} bytes", 413)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        answer = await asgi.answer(router, b"".join(pieces), request.headers)
        return Response(answer.text, answer.status, media_type="text/plain")

    made.add_api_route(path, receive, methods=["POST"], include_in_schema=False, response_model=None)
    return made
