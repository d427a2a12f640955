"""Whatever the network and the service do on the way, the SDK places one order: sync and async, over real HTTP."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import httpx
import pytest

from giftrail_client import (
    AsyncGiftrail,
    Giftrail,
    InvalidRequest,
    NotFound,
    OrderFailed,
    OrderStillProcessing,
    OrderTimedOut,
    OutcomeUnknown,
    ReferenceConflict,
)
from house import House, PartnerProgram

ORDERS = "/v1/partners/orders"
Fault = Callable[[httpx.Request, Callable[[], httpx.Response]], httpx.Response]


def answered(status: int, request: httpx.Request, **headers: str) -> httpx.Response:
    body = {"id": "E010" if status == 429 else "E011", "code": "X", "message": "not now", "requestId": "r"}
    return httpx.Response(status, json=body, headers=headers, request=request)


def times_out_after(request: httpx.Request, send: Callable[[], httpx.Response]) -> httpx.Response:
    send()
    raise httpx.ReadTimeout("no answer in time", request=request)


def times_out_before(request: httpx.Request, _: Callable[[], httpx.Response]) -> httpx.Response:
    raise httpx.ConnectTimeout("no connection in time", request=request)


def breaks_after(request: httpx.Request, send: Callable[[], httpx.Response]) -> httpx.Response:
    send()
    raise httpx.RemoteProtocolError("closed without an answer", request=request)


def half_a_body(request: httpx.Request, send: Callable[[], httpx.Response]) -> httpx.Response:
    whole = send()
    return httpx.Response(200, content=whole.content[: len(whole.content) // 2], request=request)


def fails_after(request: httpx.Request, send: Callable[[], httpx.Response]) -> httpx.Response:
    send()
    return answered(503, request, **{"Retry-After": "0"})


FAULTS: dict[str, Fault] = {
    "time-out after the order was placed": times_out_after,
    "time-out before it was sent": times_out_before,
    "connection broken after it was placed": breaks_after,
    "half a body": half_a_body,
    "503 though it was placed": fails_after,
    "503 and it was not": lambda request, _: answered(503, request),
    "429": lambda request, _: answered(429, request, **{"Retry-After": "0"}),
    "401 in the middle": lambda request, _: answered(401, request),
}


class Faulty(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A real connection that does something wrong with the first so many placements, and counts what is sent."""

    def __init__(self, fault: Fault | None = None, *, times: int = 1) -> None:
        self._sync, self._async = httpx.HTTPTransport(), httpx.AsyncHTTPTransport()
        self._fault, self._left, self._lock = fault, times, threading.Lock()
        self.sent: list[str] = []

    def _hits(self, request: httpx.Request) -> bool:
        with self._lock:
            self.sent.append(f"{request.method} {request.url.path}")
            if self._fault is None or self._left == 0 or self.sent[-1] != f"POST {ORDERS}":
                return False
            self._left -= 1
            return True

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        def send() -> httpx.Response:
            response = self._sync.handle_request(request)
            response.read()
            return response

        if self._hits(request):
            assert self._fault is not None
            return self._fault(request, send)
        return send()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._hits(request):
            assert self._fault is not None
            return await asyncio.to_thread(self.handle_faulty, request)
        response = await self._async.handle_async_request(request)
        await response.aread()
        return response

    def handle_faulty(self, request: httpx.Request) -> httpx.Response:
        """The fault of an async request, its bytes sent from here."""
        plain = httpx.Request(request.method, request.url, headers=request.headers, content=request.content)

        def send() -> httpx.Response:
            response = self._sync.handle_request(plain)
            response.read()
            return response

        assert self._fault is not None
        return self._fault(plain, send)

    def close(self) -> None:
        self._sync.close()

    async def aclose(self) -> None:
        await self._async.aclose()
        self._sync.close()


@pytest.fixture
def program(house: House) -> PartnerProgram:
    return house.partner(money_major=100_000)


def client(program: PartnerProgram, transport: Faulty, **more: Any) -> Giftrail:
    http = httpx.Client(transport=transport, timeout=30)
    return Giftrail(
        program.house.base_url,
        program.client_id,
        program.client_secret,
        http=http,
        **({"sleep": lambda _: None} | more),
    )


@pytest.fixture
def transports() -> Iterator[Callable[..., Faulty]]:
    made: list[Faulty] = []

    def make(*arguments: Any, **more: Any) -> Faulty:
        made.append(Faulty(*arguments, **more))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("times", [1, 2])
def test_one_order_in_threads(program: PartnerProgram, transports: Any, fault: Fault, times: int) -> None:
    times = min(times, 1) if fault is FAULTS["401 in the middle"] else times  # a second 401 is a refusal
    giftrail = client(program, transports(fault, times=times))
    order = giftrail.orders.place("fixed", {100: 1, Decimal("250.00"): 1}, reference_id=f"sync-{times}")
    assert (order.status, order.reference_id) == ("SUCCESS", f"sync-{times}")
    assert program.balance() == 100_000 - 350
    assert len(program.get("/orders").json()["data"]) == 1


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_one_order_in_tasks(program: PartnerProgram, fault: Fault) -> None:
    async def run() -> str:
        transport = Faulty(fault)
        async with (
            httpx.AsyncClient(transport=transport, timeout=30) as http,
            AsyncGiftrail(
                program.house.base_url, program.client_id, program.client_secret, http=http, sleep=no_sleep
            ) as giftrail,
        ):
            return (await giftrail.orders.place("fixed", {100: 1})).status

    assert asyncio.run(run()) == "SUCCESS"
    assert program.balance() == 99_900


async def no_sleep(_: float) -> None:
    pass


def test_nobody_answers_and_the_reference_is_told(program: PartnerProgram, transports: Any) -> None:
    giftrail = client(program, transports(times_out_before, times=99))
    giftrail.wallet.balance()
    with pytest.raises(OutcomeUnknown) as raised:
        giftrail.orders.place("fixed", {100: 1}, reference_id="mine")
    assert raised.value.reference_id == "mine"
    assert program.get("/orders").json()["data"] == []


def test_a_hundred_threads_log_in_once(program: PartnerProgram, transports: Any) -> None:
    transport = transports()
    giftrail = client(program, transport)
    with ThreadPoolExecutor(100) as threads:
        balances = set(threads.map(lambda _: giftrail.wallet.balance().balance, range(100)))
    assert balances == {Decimal(100_000)}
    assert transport.sent.count("POST /v1/partners/auth/login") == 1


def test_a_token_is_refreshed_at_80_percent_of_its_life(program: PartnerProgram, transports: Any) -> None:
    transport, now = transports(), [1_000_000.0]
    giftrail = client(program, transport, clock=lambda: now[0])
    giftrail.wallet.balance()
    for seconds, logins in ((3600 * 0.79, 1), (3600 * 0.81, 2)):
        now[0] = 1_000_000.0 + seconds
        giftrail.wallet.balance()
        assert transport.sent.count("POST /v1/partners/auth/login") == logins


def test_a_failed_order_is_returned_or_raised_and_retried_with_a_new_reference(
    program: PartnerProgram, transports: Any, caplog: pytest.LogCaptureFixture
) -> None:
    giftrail = client(program, transports())
    order = giftrail.orders.place("fixed", {123: 1})
    assert (order.failed, order.failure_reason, order.failure_code) == (True, "Denomination not available", "E150")
    assert order.id in caplog.text
    assert order.reference_id in caplog.text
    with pytest.raises(OrderFailed) as raised:
        giftrail.orders.place("fixed", {123: 1}, raise_failed=True)
    assert raised.value.order.failed
    again = giftrail.orders.retry(order, denominations={100: 1})
    assert again.succeeded
    assert again.reference_id != order.reference_id
    with pytest.raises(ValueError, match="only a FAILED order"):
        giftrail.orders.retry(again, denominations={100: 1})


def test_errors_tell_what_the_service_said(program: PartnerProgram, transports: Any) -> None:
    giftrail = client(program, transports())
    with pytest.raises(NotFound):
        giftrail.orders.by_reference("never")
    giftrail.orders.place("fixed", {100: 1}, reference_id="one")
    with pytest.raises(ReferenceConflict) as conflict:
        giftrail.orders.place("fixed", {250: 1}, reference_id="one")
    assert conflict.value.order_id == giftrail.orders.by_reference("one").id
    with pytest.raises(InvalidRequest) as invalid:
        giftrail.orders.place("fixed", {100: 1}, reference_id="..")
    assert [sub.field_name for sub in invalid.value.sub_errors] == ["referenceId"]
    assert invalid.value.request_id
    with pytest.raises(ValueError, match="not an amount"):
        giftrail.orders.place("fixed", {"ten": 1})


def test_an_order_is_polled_for_15_minutes_and_then_given_up(
    house: House, program: PartnerProgram, transports: Any
) -> None:
    house.brand("sandbox-never", providers=["sandbox"])
    house.enable(program, "sandbox-never")
    now, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    transport = transports()
    giftrail = client(program, transport, sleep=sleep, clock=lambda: now[0])
    order = giftrail.orders.place("sandbox-never", {100: 1}, wait_seconds=0)
    now[0] = order.created_at.timestamp() if order.created_at else 0.0
    with pytest.raises(OrderTimedOut):
        giftrail.orders.wait(order)
    assert (slept[0], len(slept), sum(slept)) == (60, 5, 900)
    now[0] = order.created_at.timestamp() if order.created_at else 0.0
    with pytest.raises(OrderStillProcessing) as raised:
        giftrail.orders.wait(order, schedule=(1.0,))
    assert not isinstance(raised.value, OrderTimedOut)
