"""The fake's door: who is let in, and how it is answered, behind an httpx transport."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx

from giftrail_client.testing import parameters, problems, reading, routes, writing
from giftrail_client.testing.calls import Call, Route

if TYPE_CHECKING:
    from giftrail_client.testing.service import FakeService

METHODS_WITH_BODY = frozenset({"POST", "PATCH"})
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def answer(service: FakeService, request: httpx.Request) -> httpx.Response:
    """The answer to a request, its body read."""
    ids, methods = routes.find(request.url.path) or ((), {})
    route = methods.get(request.method)
    kept = {"Cache-Control": "no-store"} if route is not None and route.secret else {}
    try:
        if route is None:
            raise _no_route(request, methods)
        content, headers = _answer(service, request, route, ids)
    except problems.Refused as refused:
        return refuse(request, refused, headers=kept)
    return _respond(request, 200, content, {"X-REQUEST-ID": _request_id(request), **kept, **headers})


def refuse(
    request: httpx.Request, refused: problems.Refused, *, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """An error answer."""
    request_id = _request_id(request)
    content = writing.encode(refused.members(request_id))
    return _respond(
        request, refused.status, content, {"X-REQUEST-ID": request_id, **(headers or {}), **refused.headers}
    )


def _answer(
    service: FakeService, request: httpx.Request, route: Route, ids: tuple[str, ...]
) -> tuple[bytes, dict[str, str]]:
    if route.authenticated:
        service.check_token(request.headers.get("authorization", ""))
    _check_request_id(request, route)
    raw_path = request.url.raw_path.decode("ascii").split("?")[0]
    if "%00" in raw_path:
        raise problems.not_found()
    body = _read_body(request, route) if route.method in METHODS_WITH_BODY else {}
    query, prefer = parameters.Query(request.url.query), request.headers.get("prefer", "")
    call = Call(service, ids, raw_path, query, prefer, body)
    content = writing.encode(route.handle(call))
    if route.tagged:
        tag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
        call.headers |= {"ETag": tag, "Cache-Control": "private, no-cache"}
    return content, call.headers


def _respond(request: httpx.Request, status: int, content: bytes, headers: Mapping[str, str]) -> httpx.Response:
    known = re.findall(r'\*|"[^"]*"', request.headers.get("if-none-match", ""))
    more = {"X-Content-Type-Options": "nosniff", **headers}
    if "ETag" in headers and not {"*", headers["ETag"]}.isdisjoint(known):
        return httpx.Response(304, headers=more, request=request)
    more |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    sent = b"" if request.method == "HEAD" else content
    return httpx.Response(status, headers=more, content=sent, request=request)


def _no_route(request: httpx.Request, methods: Mapping[str, Any]) -> problems.Refused:
    if not methods:
        return problems.not_found(f"there is no path {problems.show(request.url.path)}")
    allowed = ", ".join(sorted(methods))
    message = f"{problems.show(request.method)} is not a method of this path, but {allowed}"
    return problems.Refused("E005", message, headers={"Allow": allowed})


def _request_id(request: httpx.Request) -> str:
    """The one that was sent, or a new one."""
    sent = request.headers.get("x-request-id", "")
    return sent if _UUID.fullmatch(sent) else str(uuid.uuid4())


def _check_request_id(request: httpx.Request, route: Route) -> None:
    sent = request.headers.get("x-request-id")
    if sent is None and route.authenticated:
        raise problems.invalid(("X-REQUEST-ID", "is missing: send a new UUID with each request"))
    if sent is not None and not _UUID.fullmatch(sent):
        raise problems.invalid(("X-REQUEST-ID", f"{problems.show(sent)} is not a UUID"))


def _read_body(request: httpx.Request, route: Route) -> dict[str, Any]:
    headers = request.headers
    sends_nothing = "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"
    if sends_nothing and not route.body_required:
        return {}
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        sent = problems.show(media_type) if media_type else "nothing"
        raise problems.Refused("E007", f"the Content-Type is {sent}, not application/json")
    if len(request.content) > reading.MAX_BODY_BYTES:
        raise problems.Refused("E006", f"the body is larger than {reading.MAX_BODY_BYTES} bytes")
    return reading.read_json(request.content)
