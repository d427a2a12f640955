"""Webhooks over plain ASGI: an application to mount where the service calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from giftrail_client.router import MAX_BODY_BYTES, Answer, WebhookRouter
from giftrail_client.webhooks import Headers

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


def application(router: WebhookRouter) -> Application:
    """Make an ASGI application that takes POST at any path.

    With Starlette: `Mount("/hooks", asgi.application(router))`. Served by itself it starts the
    router with the server and stops it with it. Mounted, do that in the lifespan of your application with
    `async with asgi.running(router)`; otherwise the router starts with the first request.
    """

    async def call(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(router, receive, send)
        elif scope["type"] != "http":
            raise ValueError(f"webhooks come over HTTP, not over {scope['type']}")
        elif scope["method"] != "POST":
            await _send(send, Answer(405, "POST only"), allow=True)
        else:
            try:
                body = await _read(receive)
            except ConnectionError:
                return  # nobody is there to be answered
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            if body is None:
                await _send(send, Answer(413, f"more than {MAX_BODY_BYTES} bytes"))
            else:
                await _send(send, await answer(router, body, headers))

    return call


@asynccontextmanager
async def running(router: WebhookRouter) -> AsyncIterator[None]:
    """The router at work, its async handlers on this loop: what is undone from before is handled at once."""
    router.start(loop=asyncio.get_running_loop())
    try:
        yield
    finally:
        await asyncio.to_thread(router.stop)


async def answer(router: WebhookRouter, raw_body: bytes, headers: Headers) -> Answer:
    """What to answer; async handlers run on this loop, and the inbox does not hold it up."""
    router.run_on(asyncio.get_running_loop())
    return await asyncio.to_thread(router.answer, raw_body, headers)


async def _live(router: WebhookRouter, receive: Receive, send: Send) -> None:
    await receive()
    async with running(router):
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def _read(receive: Receive) -> bytes | None:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the sender went away")
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _send(send: Send, answer: Answer, *, allow: bool = False) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")] + ([(b"allow", b"POST")] if allow else [])
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.text.encode()})
