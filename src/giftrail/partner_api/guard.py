"""The guard: who calls, from where, how often, with what (wire contract, every request but login).

Order of checks: 405, 503 when this process cannot know, 401, 403, 429, 503 when no more orders may wait, then 400, 415,
413 and the body.
"""

import asyncio
import re
import time
import uuid
from collections.abc import Mapping
from datetime import datetime

import structlog
from starlette.types import Message, Receive, Scope, Send

from giftrail.partner_api import problems, queries, requests
from giftrail.partner_api.address import client_address
from giftrail.partner_api.connection import BODY_IS_WHOLE
from giftrail.partner_api.endpoints import Answer, Call, Endpoint, Surroundings
from giftrail.partner_api.headers import Headers
from giftrail.partners import login
from giftrail.partners import model as partners
from giftrail.settings import Environment

MAX_BODY_BYTES = 256 * 1024
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

NO_PATH_VALUES: Mapping[str, str] = {}
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_NEVER_STORED = (b"cache-control", b"no-store")
METHODS_WITH_BODY = frozenset({"POST", "PATCH"})

_log = structlog.get_logger()


class Door:
    """The ASGI application of one path: its endpoints by method."""

    def __init__(self, around: Surroundings, endpoints: Mapping[str, Endpoint]) -> None:
        self._around = around
        self._endpoints = dict(endpoints)
        if "GET" in self._endpoints:
            self._endpoints["HEAD"] = self._endpoints["GET"]
        self._allowed = sorted(self._endpoints)
        self._path = next(iter(endpoints.values())).path

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, path_values: Mapping[str, str] = NO_PATH_VALUES
    ) -> None:
        """Answer one request, whose path holds those values."""
        started = time.perf_counter()
        request = _Request(self._around, scope, receive, path_values)
        endpoint = self._endpoints.get(scope["method"])
        try:
            answer = await request.answer(endpoint, allowed=self._allowed)
        except Exception as error:
            answer = request.refuse(error)
        await send_answer(send, answer, request.extra_headers(endpoint, answer))
        request.tell(self._path, answer.status, started)


async def send_answer(send: Send, answer: Answer, headers: list[tuple[bytes, bytes]]) -> None:
    """Send an answer with its own and the given headers."""
    headers.append(_NO_SNIFFING)
    for name, value in answer.headers.items():
        headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))
    if answer.status != 304:
        headers.append((b"content-type", answer.content_type))
        headers.append((b"content-length", b"%d" % len(answer.body)))
    start: Message = {"type": "http.response.start", "status": answer.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": answer.body})


async def answer_unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    """404 for what is no path of the service."""
    if scope["type"] != "http":
        return
    del receive
    sent_id = Headers(scope["headers"]).get("x-request-id") or ""
    request_id = sent_id if _UUID.fullmatch(sent_id) else str(uuid.uuid4())
    problem = problems.Problem(problems.Code.NOT_FOUND, f"there is no path {requests.show(scope['path'])}")
    headers = [(b"x-request-id", request_id.encode("latin-1"))]
    await send_answer(send, Answer(problem.body(request_id), status=404), headers)


class _Request:
    """One request on its way through the guard."""

    def __init__(self, around: Surroundings, scope: Scope, receive: Receive, path_values: Mapping[str, str]) -> None:
        self._around = around
        self._scope = scope
        self._receive = receive
        self._path_values = path_values
        self._headers = Headers(scope["headers"])
        sent_id = self._headers.get("x-request-id")
        self._id_is_sound = sent_id is not None and _UUID.fullmatch(sent_id) is not None
        self._sent_id = sent_id
        self.request_id = sent_id if sent_id is not None and self._id_is_sound else str(uuid.uuid4())
        self._partner: partners.Partner | None = None
        self._rate_headers: Mapping[str, str] = {}

    async def answer(self, endpoint: Endpoint | None, *, allowed: list[str]) -> Answer:
        around = self._around
        if endpoint is None:
            method = requests.show(self._scope["method"])
            raise problems.Problem(
                problems.Code.METHOD_NOT_ALLOWED,
                f"{method} is not a method of this path, but {', '.join(allowed)}",
                headers={"Allow": ", ".join(allowed)},
            )
        arrived = around.clock()
        client = self._scope.get("client")
        address = client_address(
            client[0] if client else None,
            forwarded=self._headers.get("x-forwarded-for"),
            trusted_proxies=around.settings.trusted_proxies,
        )
        now = around.now()
        await self._admit(endpoint, address, now)
        if self._partner is not None:
            self._limit(self._partner)
            if endpoint.admit is not None:
                endpoint.admit(around, self._partner)
        self._check_request_id(endpoint)
        if b"%00" in self._scope["raw_path"]:
            raise problems.not_found()  # no id holds a NUL, and PostgreSQL takes none
        sent: bytes | None = None
        if endpoint.method in METHODS_WITH_BODY:
            known = around.watcher.seen.get("partners")
            sent = await self._read_body(endpoint)
            now = around.now()
            if around.watcher.seen.get("partners") != known:
                await self._admit(endpoint, address, now)  # who was revoked meanwhile is refused
        body = {} if sent is None else requests.read_json(sent)
        query = queries.Query(self._scope["query_string"])
        if query.raw and not endpoint.reads_query:
            query.read()
        call = Call(
            around=around,
            raw_path=self._scope["raw_path"],
            path_values=self._path_values,
            query=query,
            headers=self._headers,
            body=body,
            plain=sent is not None and requests.is_plain(sent),
            address=address,
            now=now,
            arrived=arrived,
            caller=self._partner,
            request_id=self.request_id,
        )
        return await endpoint.handle(call)

    def refuse(self, error: Exception) -> Answer:
        problem = problems.from_exception(error)
        if problem is None:
            _log.error("request failed", exc_info=error, request_id=self.request_id)
            problem = problems.Problem(
                problems.Code.INTERNAL_ERROR, "the service failed; tell its support the requestId"
            )
        return Answer(problem.body(self.request_id), status=problem.code.status, headers=problem.headers)

    def extra_headers(self, endpoint: Endpoint | None, answer: Answer) -> list[tuple[bytes, bytes]]:
        headers = [(b"x-request-id", self.request_id.encode("latin-1"))]
        for name, value in self._rate_headers.items():
            if name not in answer.headers:
                headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))
        if endpoint is not None and endpoint.secret:
            headers.append(_NEVER_STORED)
        return headers

    def tell(self, path: str, status: int, started: float) -> None:
        method = self._scope["method"] if status != 405 else "(other)"
        self._around.metrics.count_request(route=path, method=method, status=status, started=started)
        wanted = self._around.settings.access_log
        if wanted == "all" or (wanted == "errors" and status >= 500):
            _log.info(
                "request",
                request_id=self.request_id,
                partner=self._partner.partner_id if self._partner else None,
                method=method,
                route=path,
                status=status,
                ms=round((time.perf_counter() - started) * 1000, 2),
            )

    async def _admit(self, endpoint: Endpoint, address: partners.Address | None, now: datetime) -> None:
        if not self._around.watcher.is_fresh():
            raise problems.unavailable("this process cannot reach the database just now")
        if endpoint.authenticated:
            self._partner = await self._authenticate(now)
            check_address(self._around, self._partner, address)

    async def _authenticate(self, now: datetime) -> partners.Partner:
        scheme, _, token = (self._headers.get("authorization") or "").partition(" ")
        if scheme.lower() != "bearer":
            raise _unauthorized("send the header Authorization: Bearer <token>, with a token from login")
        try:
            claims = self._around.tokens.verify(token.strip(" "), now=now)
        except login.TokenRefused:
            raise _unauthorized("the token is expired or not one of this environment; log in again") from None
        directory = self._around.directory
        partner = directory.find(claims.partner_id)
        if partner is None or (claims.credential_id not in partner.credentials and not partner.suspended_at):
            # Made a moment ago, perhaps, and not seen by this process yet.
            partner = await directory.find_fresh(claims.partner_id)
        if partner is None or partner.suspended_at or claims.credential_id not in partner.credentials:
            raise _unauthorized("the token is no longer valid; log in again")
        return partner

    def _limit(self, partner: partners.Partner) -> None:
        settings = self._around.settings
        rate = settings.rate_per_second if partner.rate_per_second is None else partner.rate_per_second
        burst = settings.rate_burst if partner.rate_burst is None else partner.rate_burst
        verdict = self._around.buckets.take(
            partner.partner_id,
            per_second=rate / settings.processes,
            burst=max(1, burst // settings.processes),
        )
        if verdict is None:
            return
        self._rate_headers = verdict.headers("default")
        if not verdict.allowed:
            raise problems.Problem(
                problems.Code.RATE_LIMITED,
                f"more than {rate} requests a second; wait as long as Retry-After says",
            )

    def _check_request_id(self, endpoint: Endpoint) -> None:
        if self._id_is_sound:
            return
        if self._sent_id is not None:
            raise problems.invalid_member("X-REQUEST-ID", f"{requests.show(self._sent_id)} is not a UUID")
        generate = self._partner is None or self._partner.request_id_mode is partners.RequestIdMode.GENERATE
        if endpoint.authenticated and not generate:
            raise problems.invalid_member("X-REQUEST-ID", "is missing: send a new UUID with each request")

    async def _read_body(self, endpoint: Endpoint) -> bytes | None:
        declared = self._headers.get("content-length") or "0"
        if declared == "0" and not endpoint.body_required and self._headers.get("transfer-encoding") is None:
            return None
        media_type = (self._headers.get("content-type") or "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            sent = requests.show(media_type) if media_type else "nothing"
            raise problems.Problem(
                problems.Code.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type is {sent}, not application/json"
            )
        if not declared.isdecimal() or len(declared) > 18 or int(declared) > MAX_BODY_BYTES:
            raise _too_large()
        if BODY_IS_WHOLE in self._scope["state"]:
            return await self._receive_body()
        try:
            async with asyncio.timeout(self._around.settings.body_timeout_seconds):
                return await self._receive_body()
        except TimeoutError:
            problem = problems.invalid_member("body", "did not arrive in time")
            problem.headers = {"Connection": "close"}
            raise problem from None

    async def _receive_body(self) -> bytes:
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise problems.invalid_member("body", "ended before it was complete")
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                raise _too_large()
            if not message.get("more_body", False):
                return bytes(body)


def check_address(around: Surroundings, partner: partners.Partner, address: partners.Address | None) -> None:
    """In production only addresses in the partner's list may call. Raises Problem (403)."""
    if around.settings.environment is Environment.PRODUCTION and (address is None or not partner.allows(address)):
        raise problems.Problem(
            problems.Code.ADDRESS_NOT_ALLOWED, f"the address {address} is not in this partner's list"
        )


def _unauthorized(message: str) -> problems.Problem:
    return problems.Problem(problems.Code.UNAUTHORIZED, message, headers={"WWW-Authenticate": "Bearer"})


def _too_large() -> problems.Problem:
    return problems.Problem(problems.Code.BODY_TOO_LARGE, f"the body is larger than {MAX_BODY_BYTES} bytes")
