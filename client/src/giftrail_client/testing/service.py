"""The fake service: what a test does to it, its clock, and its clients."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import httpx

from giftrail_client import aio, sync, webhooks, wire
from giftrail_client.testing import books, catalogue, http, problems, reading, routes, sandbox, telling

BASE_URL = "https://giftrail.fake"
CLIENT_ID, CLIENT_SECRET = "fake-client", "fake-secret"
# What can go wrong with a request, before or after the service did what it asks.
TIME_OUT_BEFORE, TIME_OUT_AFTER, BREAK_AFTER = "TIME_OUT_BEFORE", "TIME_OUT_AFTER", "BREAK_AFTER"
HALF_A_BODY, UNAVAILABLE, UNAVAILABLE_AFTER = "HALF_A_BODY", "UNAVAILABLE", "UNAVAILABLE_AFTER"
RATE_LIMITED, UNAUTHORIZED = "RATE_LIMITED", "UNAUTHORIZED"
FAULTS = (
    TIME_OUT_BEFORE, TIME_OUT_AFTER, BREAK_AFTER, HALF_A_BODY, UNAVAILABLE, UNAVAILABLE_AFTER, RATE_LIMITED,
    UNAUTHORIZED,
)  # fmt: skip
_TOLD = "the fake was told to fail"
_REFUSALS = {
    UNAVAILABLE: problems.Refused("E011", _TOLD, headers={"Retry-After": "1"}),
    RATE_LIMITED: problems.Refused("E010", _TOLD, headers={"Retry-After": "1"}),
    UNAUTHORIZED: problems.unauthorized(_TOLD),
}
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+) *", re.IGNORECASE)


@dataclass
class _Fault:
    kind: str
    method: str
    path: str
    left: int


class FakeService:
    """A gift voucher partner service in this process, for one partner: its brands are those of the sandbox.

    Time stands still but for `advance`, and for the waits of its own clients, which pass at once: an order that
    takes five minutes ends when a client has polled so long, or when the test advances the clock.
    """

    def __init__(
        self,
        *,
        balance: Any = 100_000,
        currency: str = "INR",
        is_b2c: bool = False,
        token_seconds: int = 3600,
        starts_at: datetime | None = None,
    ) -> None:
        self._time = (starts_at or datetime.fromtimestamp(int(time.time()), timezone.utc)).timestamp()
        self._lock = threading.RLock()
        self._token_seconds = token_seconds
        self._tokens: dict[str, float] = {}
        self._faults: list[_Fault] = []
        self.is_b2c = is_b2c
        self.sent: list[str] = []
        self.teller: telling.Teller = telling.Teller(self.now)
        self.books: books.Books = books.Books(self.now, self.teller, balance=wire.amount(balance), currency=currency)
        self.brands: dict[str, catalogue.FakeBrand] = {
            brand.id: brand.changed(updated_at=self.now(), enabled=brand.enabled) for brand in sandbox.brands()
        }

    def client(self, **more: Any) -> sync.Giftrail:
        """A client of this service; what it waits for passes at once."""
        options: dict[str, Any] = {
            "clock": self.time,
            "sleep": self.advance,
            "http": httpx.Client(transport=Transport(self)),
            **more,
        }
        return sync.Giftrail(BASE_URL, CLIENT_ID, CLIENT_SECRET, **options)

    def async_client(self, **more: Any) -> aio.AsyncGiftrail:
        """An async client of this service; what it waits for passes at once."""

        async def sleep(seconds: float) -> None:
            self.advance(seconds)

        options: dict[str, Any] = {
            "clock": self.time,
            "sleep": sleep,
            "http": httpx.AsyncClient(transport=Transport(self)),
            **more,
        }
        return aio.AsyncGiftrail(BASE_URL, CLIENT_ID, CLIENT_SECRET, **options)

    def now(self) -> datetime:
        """The service's time."""
        return datetime.fromtimestamp(self._time, timezone.utc)

    def time(self) -> float:
        """The same in seconds since the epoch, as a clock for clients and routers."""
        return self._time

    def advance(self, seconds: float) -> None:
        """Let time pass: orders end and webhooks are sent, each at its time."""
        with self._lock:
            until = self._time + max(seconds, 0.0)
            while (due := self._next_at()) is not None and due <= until:
                self._time = max(self._time, due)
                self._settle()
            self._time = until
            self._settle()

    def add_brand(self, brand_id: str, *, title: str | None = None, **members: Any) -> None:
        """A brand more; members as `catalogue.FakeBrand` has them. Emits nothing."""
        with self._lock:
            made = catalogue.FakeBrand(brand_id, title or brand_id).changed(**members)
            self.brands[brand_id] = made.changed(updated_at=self.now())

    def change_brand(self, brand_id: str, **members: Any) -> None:
        """Change a brand as its operator would; tells of it when status, denominations or restrictions changed."""
        with self._lock:
            before = self.brands[brand_id]
            after = self.brands[brand_id] = before.changed(**members).changed(updated_at=self.now())
            if after.enabled and after.terms() != before.terms():
                self.teller.append(webhooks.BRAND_UPDATED, {
                    "id": brand_id, "denominationType": after.denomination_type, "status": after.status,
                    "denominations": after.shown_denominations(), "amountRestrictions": after.bounds(),
                })  # fmt: skip
            if after.enabled and after.discount_percentage != before.discount_percentage:
                told_now = telling.discount_members(brand_id, after.discount_percentage, before.discount_percentage)
                self.teller.append(webhooks.BRAND_DISCOUNT_UPDATED, told_now)
            self._settle()

    def top_up(self, amount: Any, *, note: str | None = None) -> None:
        """Put money into the wallet."""
        with self._lock:
            self.books.move("TOP_UP", wire.amount(amount), note=note)

    def set_threshold(self, threshold: Any) -> None:
        """Below this balance Wallet Low Balance is told, once for each fall."""
        with self._lock:
            self.books.threshold = None if threshold is None else wire.amount(threshold)

    def listen(self, url: str, receive: telling.Receiver) -> None:
        """Deliver what is sent to `url` to a function, such as `router.answer`. Nobody else is ever called."""
        with self._lock:
            self.teller.receivers[url] = receive

    def fail_next(self, fault: str, *, times: int = 1, method: str = "POST", path: str = "/orders") -> None:
        """Let the next requests to a path (below /v1/partners) meet a fault of `FAULTS`."""
        if fault not in FAULTS:
            raise ValueError(f"{fault!r} is none of {', '.join(FAULTS)}")
        with self._lock:
            self._faults.append(_Fault(fault, method, routes.API + path, times))

    def revoke_tokens(self) -> None:
        """Let every token be refused from now on."""
        with self._lock:
            self._tokens.clear()

    def answer(self, request: httpx.Request) -> httpx.Response:
        """The answer to a request whose body is read. Raises httpx.TransportError where a fault says so."""
        with self._lock:
            self._settle()
            self.sent.append(f"{request.method} {request.url.path}")
            fault = self._take_fault(request)
            if fault is None:
                return self._settled(request)
            return self._fail(fault, request)

    def log_in(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A token. Raises Refused."""
        sheet = reading.Sheet(body)
        given = [sheet.text(name, least=1, most=200, required=True) for name in ("clientId", "clientSecret")]
        sheet.check()
        if given != [CLIENT_ID, CLIENT_SECRET]:
            raise problems.Refused("E002", "clientId or clientSecret is wrong")
        token = secrets.token_urlsafe(24)
        self._tokens[token] = self._time + self._token_seconds
        return {"token": token, "expiresInSecs": self._token_seconds}

    def check_token(self, authorization: str) -> None:
        """Raises Refused."""
        match = _BEARER.fullmatch(authorization)
        if match is None:
            raise problems.unauthorized("send the header Authorization: Bearer <token>, with a token from login")
        if self._tokens.get(match[1], 0.0) <= self._time:
            raise problems.unauthorized("the token is no longer valid; log in again")

    def find_brand(self, brand_id: str) -> catalogue.FakeBrand:
        """A brand, enabled or not. Raises Refused."""
        brand = self.brands.get(brand_id) or sandbox.after(brand_id)
        if brand is None:
            raise problems.not_found(f"productId {brand_id!r} is no brand of the catalogue")
        return brand

    def wait_for(self, at: datetime, *, seconds: float) -> None:
        """The synchronous window: when what is waited for is within it, time passes until then."""
        left = (at - self.now()).total_seconds()
        if left <= seconds:
            self.advance(left)

    def _settled(self, request: httpx.Request) -> httpx.Response:
        response = http.answer(self, request)
        self._settle()
        return response

    def _settle(self) -> None:
        self.books.settle()
        self.teller.deliver()

    def _next_at(self) -> float | None:
        moments = [at for at in (self.books.next_at(), self.teller.next_at()) if at is not None]
        return min(moments).timestamp() if moments else None

    def _take_fault(self, request: httpx.Request) -> str | None:
        for fault in self._faults:
            if fault.left and (request.method, request.url.path) == (fault.method, fault.path):
                fault.left -= 1
                return fault.kind
        return None

    def _fail(self, fault: str, request: httpx.Request) -> httpx.Response:
        if fault == TIME_OUT_BEFORE:
            raise httpx.ConnectTimeout("no connection in time", request=request)
        if fault in _REFUSALS:
            return http.refuse(request, _REFUSALS[fault])
        done = self._settled(request)
        if fault == TIME_OUT_AFTER:
            raise httpx.ReadTimeout("no answer in time", request=request)
        if fault == BREAK_AFTER:
            raise httpx.RemoteProtocolError("closed without an answer", request=request)
        if fault == HALF_A_BODY:
            return httpx.Response(done.status_code, content=done.content[: len(done.content) // 2], request=request)
        return http.refuse(request, _REFUSALS[UNAVAILABLE])


class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Carries the requests of an httpx client to a fake service."""

    def __init__(self, service: FakeService) -> None:
        self._answer: Callable[[httpx.Request], httpx.Response] = service.answer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """As a connection would."""
        request.read()
        return self._answer(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As a connection would."""
        await request.aread()
        return self._answer(request)
