"""Each rule that the specification gives a client, kept by the SDK: against the real service and against the fake.

On the real one an HTTP transport misbehaves, on the fake `fail_next` does; the sync and the async client do it all.
"""

import asyncio
import hmac
import http.server
import inspect
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import new_database
from giftrail import app
from giftrail.catalog import edit
from giftrail.db import pool
from giftrail.demo import sandbox
from giftrail.orders import limit
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.spending import model as spending
from giftrail.wallet import ledger, onboard
from giftrail_client import (
    AsyncCatalogMirror,
    AsyncGiftrail,
    AuthenticationFailed,
    CannotReach,
    CatalogMirror,
    Event,
    FileTokenStore,
    Giftrail,
    InvalidRequest,
    MemoryInbox,
    NotAllowed,
    NotFound,
    OrderFailed,
    OrderStillProcessing,
    OrderTimedOut,
    OutcomeUnknown,
    RateLimited,
    ReferenceConflict,
    ServiceError,
    SpendingLimitExceeded,
    Unavailable,
    UnexpectedAnswer,
    VerificationFailed,
    WebhookRouter,
    flows,
    testing,
    verify,
    webhooks,
)
from house import House, PartnerProgram, serving

API = "/v1/partners"
LOGIN, ORDERS, BALANCE = f"{API}/auth/login", f"{API}/orders", f"{API}/wallet/balance"
AFTER_1 = "sandbox-after-1-seconds"
NEVER = "never-ends"
PATIENCE_SECONDS = 10.0
MONEY = 100_000
BRANDS = [row.brand_id for row in sandbox.TABLE]
CARD_TYPES = {
    "number-and-pin": "CARD_AND_PIN_NO_SECURED", "number-only": "CARD_NUMBER_SECURED", "pin-only": "PIN_NO_SECURED"
}  # fmt: skip

Change = Callable[[Any], Any]


@dataclass
class Seen:
    """A request as it was sent, and the status of its answer; None when there was none."""

    method: str
    path: str
    headers: httpx.Headers
    body: Any
    status: int | None = None

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Rule:
    """What becomes of the next requests of a kind."""

    method: str
    path: str
    left: int
    fault: str | None = None
    answer: tuple[int, Any, dict[str, str]] | None = None

    def takes(self, request: httpx.Request) -> bool:
        if not self.left or request.method != self.method or not request.url.path.startswith(self.path):
            return False
        self.left -= 1
        return True


class Line(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Keeps what is sent over a transport, misbehaves as it is told, and changes answers."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside
        self.sent: list[Seen] = []
        self.rules: list[Rule] = []
        self.changes: list[tuple[str, Change]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        seen, rule = self._take(request)
        answer = self._instead(request, rule)
        if answer is None:
            answer = self._inside.handle_request(request)
            answer.read()
            answer = self._spoil(request, rule, answer)
        return self._keep(seen, request, answer)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        seen, rule = self._take(request)
        answer = self._instead(request, rule)
        if answer is None:
            answer = await self._inside.handle_async_request(request)
            await answer.aread()
            answer = self._spoil(request, rule, answer)
        return self._keep(seen, request, answer)

    def close(self) -> None:
        self._inside.close()

    async def aclose(self) -> None:
        await self._inside.aclose()

    def _take(self, request: httpx.Request) -> tuple[Seen, Rule | None]:
        content = request.content
        body = json.loads(content, parse_float=Decimal) if content else None
        seen = Seen(request.method, request.url.path, request.headers, body)
        self.sent.append(seen)
        return seen, next((rule for rule in self.rules if rule.takes(request)), None)

    def _instead(self, request: httpx.Request, rule: Rule | None) -> httpx.Response | None:
        if rule is None:
            return None
        if rule.fault == testing.TIME_OUT_BEFORE:
            raise httpx.ConnectTimeout("no connection in time", request=request)
        refused = {testing.UNAVAILABLE: 503, testing.RATE_LIMITED: 429, testing.UNAUTHORIZED: 401}
        if rule.fault in refused:
            return refusal(refused[rule.fault], request)
        if rule.answer is None:
            return None
        status, body, headers = rule.answer
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.Response(status, content=content, headers=headers, request=request)

    def _spoil(self, request: httpx.Request, rule: Rule | None, answer: httpx.Response) -> httpx.Response:
        fault = rule.fault if rule else None
        if fault == testing.TIME_OUT_AFTER:
            raise httpx.ReadTimeout("no answer in time", request=request)
        if fault == testing.BREAK_AFTER:
            raise httpx.RemoteProtocolError("closed without an answer", request=request)
        if fault == testing.HALF_A_BODY:
            return httpx.Response(answer.status_code, content=answer.content[: len(answer.content) // 2])
        if fault == testing.UNAVAILABLE_AFTER:
            return refusal(503, request)
        return answer

    def _keep(self, seen: Seen, request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        for path, change in self.changes:
            if request.url.path.startswith(path) and answer.status_code == 200:
                content = json.dumps(change(json.loads(answer.content))).encode()
                answer = httpx.Response(200, content=content, request=request)
        seen.status = answer.status_code
        return answer


def refusal(status: int, request: httpx.Request) -> httpx.Response:
    ids = {401: "E002", 429: "E010", 503: "E011"}
    body = {"id": ids[status], "code": "X", "message": "not now", "requestId": "r", "subErrors": []}
    headers = {"Retry-After": "1"} if status != 401 else {}
    return httpx.Response(status, json=body, headers=headers, request=request)


@dataclass
class Partner:
    """A partner's program over the SDK: its client, what the client sent, and how long it slept."""

    flavour: str
    line: Line
    service: testing.FakeService | None = None
    program: PartnerProgram | None = None
    slept: list[float] = field(default_factory=list)
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    time: float = field(default_factory=time.time)
    on_sleep: Callable[[], object] | None = None
    client: Any = None

    def start(self, **more: Any) -> Any:
        """A client of its own; `do` runs its calls."""
        if self.service is not None:
            address = (testing.BASE_URL, testing.CLIENT_ID, testing.CLIENT_SECRET)
        else:
            assert self.program is not None
            address = (self.program.house.base_url, self.program.client_id, self.program.client_secret)
        if self.flavour == "sync":
            return Giftrail(
                *address, http=httpx.Client(transport=self.line), **({"clock": self.now, "sleep": self.sleep} | more)
            )

        async def sleep(seconds: float) -> None:
            self.sleep(seconds)

        return AsyncGiftrail(
            *address, http=httpx.AsyncClient(transport=self.line), **({"clock": self.now, "sleep": sleep} | more)
        )

    def do(self, deed: Callable[[Any], Any], client: Any = None) -> Any:
        """What a call of the client returns, whichever it is."""
        came = deed(self.client if client is None else client)
        if inspect.isasyncgen(came):
            return self.runner.run(gathered(came))
        if inspect.isgenerator(came):
            return list(came)
        return self.runner.run(awaited(came)) if inspect.isawaitable(came) else came

    def now(self) -> float:
        return self.service.time() if self.service else self.time

    def sleep(self, seconds: float) -> None:
        """A wait of the client: kept, and over at once."""
        self.slept.append(seconds)
        self.advance(seconds)
        if self.on_sleep is not None:
            self.on_sleep()

    def advance(self, seconds: float) -> None:
        if self.service is not None:
            self.service.advance(seconds)
        self.time += seconds

    def fail_next(self, fault: str, *, times: int = 1, method: str = "POST", path: str = "/orders") -> None:
        if self.service is not None:
            self.service.fail_next(fault, times=times, method=method, path=path)
        else:
            self.line.rules.append(Rule(method, API + path, times, fault=fault))

    def answer_next(
        self, method: str, path: str, status: int, body: Any = None, *, times: int = 1, **headers: str
    ) -> None:
        """Answer the next requests instead of the service."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.line.rules.append(Rule(method, API + path, times, answer=(status, body, named)))

    def change(self, path: str, change: Change) -> None:
        """Change each good answer of a path."""
        self.line.changes.append((API + path, change))

    @property
    def lines(self) -> list[str]:
        """What was sent but for logins."""
        return [seen.line for seen in self.line.sent if seen.path != LOGIN]

    def sent(self, method: str, path: str) -> list[Seen]:
        return [seen for seen in self.line.sent if (seen.method, seen.path) == (method, path)]

    @property
    def logins(self) -> int:
        return len(self.sent("POST", LOGIN))

    def books(self) -> tuple[Any, list[str]]:
        """The balance, and the references of all orders, newest first: as the service has them, beside the client."""
        if self.service is not None:
            orders = list(self.service.books.orders.values())
            return self.service.books.available, [one.wanted.reference_id for one in reversed(orders)]
        assert self.program is not None
        orders_ = self.program.get("/orders").json()["data"]
        return self.program.balance(), [one["referenceId"] for one in orders_]

    def change_brand(self, brand_id: str, *, status: str | None = None, discount: str | None = None) -> None:
        """What an operator does; returns when the service has seen it."""
        if self.service is not None:
            more = {"status": status} if status else {"discount_percentage": discount}
            self.service.change_brand(brand_id, **more)
            return
        assert self.program is not None
        program = self.program

        async def deed(conn: pool.Connection) -> None:
            if status is not None:
                await edit.set_status(conn, brand_id=brand_id, status=type(brand.status)(status), now=app.now())
            if discount is not None:
                await edit.set_discount(
                    conn, partner=program.partner, brand_id=brand_id, percentage=Decimal(discount), now=app.now()
                )

        async def read_brand(conn: pool.Connection) -> Any:
            return await edit.read_brand(conn, brand_id=brand_id)

        brand = program.house.do(read_brand, settle=False)
        program.house.do(deed)

    def set_threshold(self, threshold: int) -> None:
        if self.service is not None:
            self.service.set_threshold(threshold)
            return
        assert self.program is not None
        program = self.program

        async def deed(conn: pool.Connection) -> None:
            wallet = await ledger.open_wallet(conn, partner_id=program.partner.partner_id)
            wallet.set_threshold(threshold * 100)
            await ledger.close_wallet(conn, wallet, now=app.now())

        program.house.do(deed)

    def own_brand(self) -> str:
        """A brand that nobody else's test changes."""
        brand_id = f"own-{uuid.uuid4().hex[:8]}"
        if self.service is not None:
            self.service.add_brand(brand_id)
        else:
            assert self.program is not None
            house = self.program.house
            house.brand(brand_id, denominations=[Decimal(100), Decimal(250), Decimal(500), Decimal(1000)])
            house.enable(self.program, brand_id)
        return brand_id

    def until_ended(self, order_id: str) -> None:
        """Wait until an order has ended."""
        if self.service is not None:
            self.service.advance(1000)
            return
        program = self.program
        assert program is not None
        until(lambda: program.get(f"/orders/{order_id}").json()["status"] != "PROCESSING")


async def awaited(came: Any) -> Any:
    return await came


async def gathered(came: Any) -> list[Any]:
    return [one async for one in came]


def until(true: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


AT_ONCE = 25


@dataclass
class Newcomers:
    """Partners for whom the sandbox is furnished; made many at a time, because each deed waits until it is seen."""

    house: House
    http: httpx.Client
    ready: list[PartnerProgram] = field(default_factory=list)

    def take(self) -> PartnerProgram:
        """A partner that nobody else has."""
        if not self.ready:
            self.ready = self.make(AT_ONCE, kind=partners.Kind.B2B, balance=MONEY)
        return self.ready.pop()

    def make(self, count: int, *, kind: partners.Kind, balance: int) -> list[PartnerProgram]:
        now = app.now()
        known = [*(brand_id for brand_id in BRANDS if brand_id != sandbox.E101), AFTER_1, *CARD_TYPES]

        async def deed(conn: pool.Connection) -> list[PartnerProgram]:
            made = []
            for _ in range(count):
                name = f"newcomer {uuid.uuid4().hex[:12]}"
                partner = await onboard.create_partner(conn, name=name, kind=kind, currency="INR", now=now)
                credential = await manage.create_credential(
                    conn, partner_id=partner.partner_id, environment=self.house.settings.environment, now=now
                )
                await edit.set_enabled(conn, partner=partner, brand_ids=known, enabled=True, now=now)
                wallet = await ledger.open_wallet(conn, partner_id=partner.partner_id)
                wallet.top_up(balance * 100, note=None, now=now)
                await ledger.close_wallet(conn, wallet, now=now)
                nothing = spending.SpendingLimit(
                    partner.partner_id, sandbox.E013, spending.Period.DAY, None, max_orders=0, set_at=now
                )
                await limit.set_limit(conn, nothing, now=now)
                made.append(
                    PartnerProgram(self.house, partner, credential.client_id, credential.client_secret, self.http)
                )
            return made

        return self.house.do(deed)


@pytest.fixture(scope="module")
def newcomers(server_url: str) -> Iterator[Newcomers]:
    with serving(new_database(server_url), webhook_networks="127.0.0.0/8") as house:

        async def furnish(conn: pool.Connection) -> None:
            await sandbox.furnish_sandbox(conn, [], now=app.now())

        house.do(furnish)
        house.brand(AFTER_1, providers=["sandbox"])
        for brand_id, card_type in CARD_TYPES.items():
            house.brand(brand_id, cardType=card_type)
        with httpx.Client(base_url=house.base_url, timeout=30, trust_env=False, verify=False) as client:
            yield Newcomers(house, client)
    assert house.audit() == []


def make_partner(flavour: str, newcomers: Newcomers | None) -> Partner:
    if newcomers is None:
        service = testing.FakeService(balance=MONEY)
        service.add_brand(AFTER_1, fate=testing.Fate(1))
        service.add_brand(NEVER, fate=testing.Fate(1_000_000))
        for brand_id, card_type in CARD_TYPES.items():
            service.add_brand(brand_id, card_type=card_type)
        partner = Partner(flavour, Line(testing.Transport(service)), service=service)
    else:
        # No certificates to be read: what is spoken here is plain HTTP.
        inside = httpx.HTTPTransport(verify=False) if flavour == "sync" else httpx.AsyncHTTPTransport(verify=False)
        partner = Partner(flavour, Line(inside), program=newcomers.take())
    partner.client = partner.start()
    return partner


@pytest.fixture(params=["real-sync", "real-async", "fake-sync", "fake-async"])
def partner(request: pytest.FixtureRequest) -> Iterator[Partner]:
    """A partner of the real service or of the fake, over the sync or the async client."""
    which, flavour = request.param.split("-")
    made = make_partner(flavour, request.getfixturevalue("newcomers") if which == "real" else None)
    yield made
    if flavour == "async":
        if which == "real":
            made.runner.run(made.line.aclose())
    else:
        made.line.close()
    made.runner.close()


@pytest.fixture(params=["real", "fake"])
def receiver(request: pytest.FixtureRequest) -> Iterator["Receiver"]:
    """A partner of the real service or of the fake that receives webhooks."""
    partner = make_partner("sync", request.getfixturevalue("newcomers") if request.param == "real" else None)
    made = Receiver(partner)
    yield made
    made.close()
    partner.line.close()
    partner.runner.close()


def never_ending(partner: Partner) -> str:
    """A brand whose orders stay PROCESSING for longer than a client waits."""
    return NEVER if partner.service else "sandbox-never"


def placed(partner: Partner, brand_id: str = "sandbox-e153", **more: Any) -> Any:
    return partner.do(lambda giftrail: giftrail.orders.place(brand_id, {100: 1}, **more))


# --- tokens and headers ----------------------------------------------------------------------------------------------


def test_a_token_is_cached_and_used_for_all_calls(partner: Partner) -> None:
    for _ in range(3):
        partner.do(lambda giftrail: giftrail.wallet.balance())
        placed(partner)
    assert partner.logins == 1
    carried = {seen.headers["Authorization"] for seen in partner.line.sent if seen.path != LOGIN}
    assert len(carried) == 1
    assert carried.pop().startswith("Bearer ")
    assert "Authorization" not in partner.sent("POST", LOGIN)[0].headers


@pytest.mark.parametrize("lifetime", [3600, 100])
def test_a_token_is_refreshed_at_80_percent_of_its_life(partner: Partner, lifetime: int) -> None:
    partner.change("/auth/login", lambda body: body | {"expiresInSecs": lifetime})
    partner.do(lambda giftrail: giftrail.wallet.balance())
    partner.advance(lifetime * 0.79)
    partner.do(lambda giftrail: giftrail.wallet.balance())
    assert partner.logins == 1
    partner.advance(lifetime * 0.02)
    partner.do(lambda giftrail: giftrail.wallet.balance())
    assert partner.logins == 2


def test_on_401_it_logs_in_again_and_repeats_the_call(partner: Partner) -> None:
    partner.do(lambda giftrail: giftrail.wallet.balance())
    partner.fail_next(testing.UNAUTHORIZED, method="GET", path="/wallet/balance")
    assert partner.do(lambda giftrail: giftrail.wallet.balance()).balance == MONEY
    partner.fail_next(testing.UNAUTHORIZED)
    assert placed(partner, reference_id="mine").succeeded
    assert partner.logins == 3
    assert partner.books() == (MONEY - 100, ["mine"])
    tokens = [seen.headers["Authorization"] for seen in partner.sent("POST", ORDERS)]
    assert len(set(tokens)) == 2, "the call was repeated with the token that was refused"


def test_a_second_401_in_a_row_is_told(partner: Partner) -> None:
    partner.fail_next(testing.UNAUTHORIZED, method="GET", path="/wallet/balance", times=99)
    with pytest.raises(AuthenticationFailed):
        partner.do(lambda giftrail: giftrail.wallet.balance())
    assert len(partner.sent("GET", BALANCE)) == 2


def test_wrong_credentials_are_told_and_not_tried_again(partner: Partner) -> None:
    partner.answer_next("POST", "/auth/login", 401, {"id": "E002", "code": "UNAUTHORIZED", "message": "wrong"}, times=9)
    with pytest.raises(AuthenticationFailed):
        partner.do(lambda giftrail: giftrail.wallet.balance())
    assert (partner.logins, partner.slept) == (1, [])


def test_an_address_that_is_not_approved_is_told_and_not_tried_again(partner: Partner) -> None:
    partner.answer_next(
        "POST", "/auth/login", 403, {"id": "E003", "code": "ADDRESS_NOT_ALLOWED", "message": "no"}, times=9
    )
    with pytest.raises(NotAllowed):
        partner.do(lambda giftrail: giftrail.wallet.balance())
    assert (partner.logins, partner.slept) == (1, [])


def test_a_token_in_a_shared_store_saves_a_login(partner: Partner, tmp_path: Path) -> None:
    for _ in range(2):
        client = partner.start(token_store=FileTokenStore(tmp_path / "token"))
        assert partner.do(lambda giftrail: giftrail.wallet.balance(), client).balance == MONEY
    assert partner.logins == 1
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


def test_each_request_has_a_new_uuid(partner: Partner) -> None:
    partner.fail_next(testing.UNAUTHORIZED, method="GET", path="/wallet/balance")
    partner.fail_next(testing.TIME_OUT_BEFORE)
    partner.do(lambda giftrail: giftrail.wallet.balance())
    placed(partner)
    found = [seen.headers["X-REQUEST-ID"] for seen in partner.line.sent]
    assert len(found) == 7
    assert len(set(found)) == 7, "a request that was repeated kept its id"
    assert all(str(uuid.UUID(one)) == one for one in found)


def test_bodies_are_json_and_say_so(partner: Partner) -> None:
    placed(partner)
    for seen in partner.line.sent:
        assert seen.headers["Content-Type"] == "application/json"


def test_an_error_tells_the_request_id_to_ask_support_with(partner: Partner) -> None:
    with pytest.raises(NotFound) as raised:
        partner.do(lambda giftrail: giftrail.orders.get("nothing"))
    assert raised.value.request_id == partner.line.sent[-1].headers["X-REQUEST-ID"]
    assert str(raised.value.request_id) in str(raised.value)


def test_no_secret_is_in_a_repr(partner: Partner) -> None:
    order = placed(partner)
    code = order.vouchers[0]
    assert code.card_pin not in repr(order)
    assert code.card_number not in repr(order)
    token = partner.line.sent[-1].headers["Authorization"].removeprefix("Bearer ")
    assert token not in repr(partner.client.__dict__)


# --- catalogue -------------------------------------------------------------------------------------------------------


def mirror_of(partner: Partner) -> Any:
    return (CatalogMirror if partner.flavour == "sync" else AsyncCatalogMirror)(partner.client)


def test_an_inactive_brand_is_never_offered(partner: Partner) -> None:
    listed = {brand.id: brand for brand in partner.do(lambda giftrail: giftrail.brands.iterate(limit=7))}
    assert not listed["sandbox-e102"].is_active
    mirror = mirror_of(partner)
    offered = {brand.id for brand in partner.do(lambda _: mirror.list())}
    assert offered == {brand_id for brand_id, brand in listed.items() if brand.is_active}
    assert partner.do(lambda _: mirror.get("sandbox-e102")) is None
    assert partner.do(lambda _: mirror.get("sandbox-at-once")).is_active


def test_a_brand_that_becomes_inactive_is_taken_out_on_brand_updated(partner: Partner) -> None:
    brand_id, mirror = partner.own_brand(), mirror_of(partner)
    assert partner.do(lambda _: mirror.get(brand_id)) is not None
    partner.change_brand(brand_id, status="INACTIVE")
    assert partner.do(lambda _: mirror.get(brand_id)) is not None, "it has not heard of it yet"
    events: list[Event] = []

    def told() -> bool:
        events[:] = [
            event for event in partner.do(lambda giftrail: giftrail.events.iterate()) if event.brand_id == brand_id
        ]
        return bool(events)

    until(told)
    assert (events[-1].kind, events[-1].status) == (webhooks.BRAND_UPDATED, "INACTIVE")
    partner.do(lambda _: mirror.on_event(events[-1]))
    assert partner.do(lambda _: mirror.get(brand_id)) is None


def test_a_catalogue_that_cannot_be_refreshed_is_served_on(partner: Partner, caplog: pytest.LogCaptureFixture) -> None:
    mirror = mirror_of(partner)
    known = partner.do(lambda _: mirror.list())
    partner.fail_next(testing.UNAVAILABLE, method="GET", path="/products", times=99)
    partner.advance(2 * 3600)
    assert partner.do(lambda _: mirror.list()) == known
    assert "could not be refreshed" in caplog.text


def test_a_catalogue_that_did_not_change_is_not_sent_again(partner: Partner) -> None:
    mirror = mirror_of(partner)
    known = partner.do(lambda _: mirror.list())
    partner.do(lambda _: mirror.refresh())
    assert [seen.status for seen in partner.sent("GET", f"{API}/products")] == [200, 304]
    assert partner.do(lambda _: mirror.list()) == known


def test_the_thumbnail_is_used_and_not_the_icon(partner: Partner) -> None:
    images = {"thumbnailUrl": "https://images.example/new.png", "iconImageUrl": "https://images.example/old.png"}
    partner.change("/products/", lambda body: body | images)
    brand = partner.do(lambda giftrail: giftrail.brands.get("sandbox-at-once"))
    assert brand.thumbnail_url == images["thumbnailUrl"]


def test_the_icon_stands_in_for_a_thumbnail_that_is_not_there(partner: Partner) -> None:
    partner.change("/products/", lambda body: body | {"thumbnailUrl": None, "iconImageUrl": "https://images.example/o"})
    assert (
        partner.do(lambda giftrail: giftrail.brands.get("sandbox-at-once")).thumbnail_url == "https://images.example/o"
    )


CHECKED: dict[str, tuple[str, dict[Any, int]]] = {
    "sound": ("sandbox-e153", {100: 2}),
    "E102": ("sandbox-e102", {100: 1}),
    "E150": ("sandbox-at-once", {101: 1}),
    "E152 too little": ("sandbox-e152", {100: 1}),
    "E152 too much": ("sandbox-e155", {1000: 1000, 10: 1}),
    "E153": ("sandbox-e153", {100: 1, 250: 1}),
    "E154": ("sandbox-e154", {100: 2}),
    "E155 below": ("sandbox-e155", {Decimal("9.99"): 1}),
    "E155 at the bound": ("sandbox-e155", {10: 1, 1000: 1}),
    "E155 above": ("sandbox-e155", {Decimal("1000.01"): 1}),
    "E156": ("sandbox-e156", {100: 2}),
}


@pytest.mark.parametrize(("brand_id", "wanted"), CHECKED.values(), ids=CHECKED)
def test_a_brand_is_checked_before_the_round_trip(partner: Partner, brand_id: str, wanted: dict[Any, int]) -> None:
    """What the check refuses, the service refuses too, and the other way round."""
    brand = partner.do(lambda giftrail: giftrail.brands.get(brand_id))
    before = len(partner.line.sent)
    against = brand.check(wanted)
    assert len(partner.line.sent) == before
    try:
        order = partner.do(lambda giftrail: giftrail.orders.place(brand_id, wanted))
        is_refused = order.failed
    except InvalidRequest:
        is_refused = True
    assert bool(against) is is_refused


def test_the_check_knows_that_the_amount_is_the_sum(partner: Partner) -> None:
    brand = partner.do(lambda giftrail: giftrail.brands.get("sandbox-at-once"))
    assert brand.check({100: 2, 250: 1}, amount=450) == []
    assert brand.check({100: 2, 250: 1}, amount=449) != []


def test_a_plan_is_served(partner: Partner) -> None:
    brand = partner.do(lambda giftrail: giftrail.brands.get("sandbox-e154"))
    plan = brand.plan(1850)
    assert plan == {1000: 1, 500: 1, 250: 1, 100: 1}
    order = partner.do(lambda giftrail: giftrail.orders.place(brand.id, plan))
    assert (order.succeeded, order.amount) == (True, 1850)


# --- placement -------------------------------------------------------------------------------------------------------


def test_the_amount_is_the_exact_sum_of_the_lines(partner: Partner) -> None:
    order = partner.do(
        lambda giftrail: giftrail.orders.place("sandbox-e155", {Decimal("10.10"): 3, "20.20": 1, 0.1 + 20.2: 1})
    )
    assert order.succeeded
    assert partner.sent("POST", ORDERS)[0].body["amount"] == Decimal("10.10") * 3 + Decimal("20.20") + Decimal("20.3")


def test_a_reference_is_made_of_at_most_40_characters_and_never_twice(partner: Partner) -> None:
    references = {placed(partner).reference_id for _ in range(5)}
    assert len(references) == 5
    assert all(1 <= len(one) <= 40 for one in references)


AFTERWARDS = (testing.TIME_OUT_AFTER, testing.BREAK_AFTER, testing.HALF_A_BODY, testing.UNAVAILABLE_AFTER)
BEFOREHAND = (testing.TIME_OUT_BEFORE, testing.UNAVAILABLE)


@pytest.mark.parametrize("fault", BEFOREHAND)
def test_after_a_time_out_it_looks_the_reference_up_and_after_404_sends_the_same_again(
    partner: Partner, fault: str
) -> None:
    partner.fail_next(fault)
    order = placed(partner, reference_id="mine/1")
    assert (order.succeeded, order.reference_id) == (True, "mine/1")
    assert partner.lines == [f"POST {ORDERS}", f"GET {ORDERS}/by-reference/mine/1", f"POST {ORDERS}"]
    assert partner.sent("GET", f"{ORDERS}/by-reference/mine/1")[0].status == 404
    first, second = partner.sent("POST", ORDERS)
    assert first.body == second.body
    assert partner.books() == (MONEY - 100, ["mine/1"])


@pytest.mark.parametrize("fault", AFTERWARDS)
@pytest.mark.parametrize(
    ("brand_id", "status"), [("sandbox-e153", "SUCCESS"), ("sandbox-e102", "FAILED"), ("never", "PROCESSING")]
)
def test_after_a_lost_answer_the_order_is_processed_by_its_status(
    partner: Partner, caplog: pytest.LogCaptureFixture, fault: str, brand_id: str, status: str
) -> None:
    brand_id = never_ending(partner) if brand_id == "never" else brand_id
    partner.fail_next(fault)
    order = placed(partner, brand_id, reference_id="mine", wait_seconds=0)
    assert (order.status, order.reference_id) == (status, "mine")
    assert partner.lines == [f"POST {ORDERS}", f"GET {ORDERS}/by-reference/mine"]
    assert partner.books()[1] == ["mine"]
    assert (order.id in caplog.text) is (status == "FAILED")


def test_a_look_up_that_nobody_answers_leaves_the_outcome_unknown(partner: Partner) -> None:
    """Only a 404 makes a second placement safe."""
    partner.fail_next(testing.TIME_OUT_AFTER)
    partner.fail_next(testing.UNAVAILABLE, method="GET", path="/orders/by-reference/mine", times=99)
    with pytest.raises(OutcomeUnknown) as raised:
        placed(partner, reference_id="mine")
    assert raised.value.reference_id == "mine"
    assert len(partner.sent("POST", ORDERS)) == 1
    assert partner.books()[1] == ["mine"]


def test_a_look_up_with_an_old_token_logs_in_again(partner: Partner) -> None:
    partner.fail_next(testing.TIME_OUT_AFTER)
    partner.fail_next(testing.UNAUTHORIZED, method="GET", path="/orders/by-reference/mine")
    assert placed(partner, reference_id="mine").succeeded
    assert partner.books() == (MONEY - 100, ["mine"])


def test_a_service_that_stays_away_is_told(partner: Partner) -> None:
    partner.fail_next(testing.TIME_OUT_BEFORE, times=99)
    with pytest.raises(OutcomeUnknown):
        placed(partner, reference_id="mine")
    assert {seen.body["referenceId"] for seen in partner.sent("POST", ORDERS)} == {"mine"}
    assert partner.books() == (MONEY, [])


def test_too_many_requests_are_waited_for_and_the_same_reference_sent_again(partner: Partner) -> None:
    partner.fail_next(testing.RATE_LIMITED, times=2)
    assert placed(partner, reference_id="mine").succeeded
    assert partner.lines == [f"POST {ORDERS}"] * 3
    assert len(partner.slept) == 2
    assert all(1 <= seconds <= 1.25 for seconds in partner.slept)
    assert partner.books() == (MONEY - 100, ["mine"])


def test_the_same_request_twice_is_one_order(partner: Partner) -> None:
    first, second = (placed(partner, reference_id="mine") for _ in range(2))
    assert (first.replayed, second.replayed) == (False, True)
    assert first == type(first)(**{**second.__dict__, "replayed": False})
    assert partner.books() == (MONEY - 100, ["mine"])


def test_a_reference_of_other_content_is_told_and_not_tried_again(partner: Partner) -> None:
    order = placed(partner, reference_id="mine")
    with pytest.raises(ReferenceConflict) as raised:
        placed(partner, "sandbox-e154", reference_id="mine")
    assert raised.value.order_id == order.id
    assert len(partner.sent("POST", ORDERS)) == 2


@pytest.mark.parametrize("headers", [{}, {"Retry_After": "1"}])
def test_a_spending_limit_is_never_tried_again(partner: Partner, headers: dict[str, str]) -> None:
    if headers:
        body = {"id": "E013", "code": "SPENDING_LIMIT_EXCEEDED", "message": "the limit", "requestId": "r"}
        partner.answer_next("POST", "/orders", 429, body, times=9, **headers)
    with pytest.raises(SpendingLimitExceeded):
        placed(partner, "sandbox-e013")
    assert partner.lines == [f"POST {ORDERS}"]
    assert (partner.slept, partner.books()) == ([], (MONEY, []))


def test_a_request_that_is_wrong_is_not_tried_again(partner: Partner) -> None:
    with pytest.raises(InvalidRequest) as raised:
        placed(partner, reference_id="x" * 41)
    assert [sub.field_name for sub in raised.value.sub_errors] == ["referenceId"]
    assert (partner.lines, partner.slept) == ([f"POST {ORDERS}"], [])


def test_what_is_not_safe_twice_is_not_sent_twice(partner: Partner) -> None:
    partner.fail_next(testing.TIME_OUT_AFTER, path="/webhooks", times=9)
    with pytest.raises(CannotReach):
        partner.do(lambda giftrail: giftrail.webhooks.create("https://hooks.example.com/"))
    assert partner.lines == [f"POST {API}/webhooks"]
    assert len(partner.do(lambda giftrail: giftrail.webhooks.list())) == 1


@pytest.mark.parametrize("fault", [*BEFOREHAND, *AFTERWARDS, testing.RATE_LIMITED])
def test_what_is_safe_twice_is_tried_again(partner: Partner, fault: str) -> None:
    partner.fail_next(fault, method="GET", path="/wallet/balance")
    if fault == testing.HALF_A_BODY:
        with pytest.raises(UnexpectedAnswer):
            partner.do(lambda giftrail: giftrail.wallet.balance())
        return
    assert partner.do(lambda giftrail: giftrail.wallet.balance()).balance == MONEY
    assert partner.lines == [f"GET {BALANCE}"] * 2


# --- how long it waits -----------------------------------------------------------------------------------------------

NOT_NOW = {"id": "E010", "code": "RATE_LIMITED", "message": "not now", "requestId": "r", "subErrors": []}


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [("7", 7, 8.75), ("0", 0, 0), ("60", 60, 60), ("3600", 60, 60), ("99999999999999999999", 60, 60), ("-5", 0, 0),
     ("soon", 0.1, 1), ("", 0.1, 1)],
)  # fmt: skip
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured_up_to_a_minute(
    partner: Partner, status: int, retry_after: str, least: float, most: float
) -> None:
    partner.answer_next("GET", "/wallet/balance", status, NOT_NOW, Retry_After=retry_after)
    assert partner.do(lambda giftrail: giftrail.wallet.balance()).balance == MONEY
    assert len(partner.slept) == 1
    assert least <= partner.slept[0] <= most


def test_retry_after_may_be_a_date(partner: Partner) -> None:
    partner.answer_next(
        "GET", "/wallet/balance", 503, NOT_NOW,
        Retry_After=format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True),
    )  # fmt: skip
    partner.do(lambda giftrail: giftrail.wallet.balance())
    assert 25 <= partner.slept[0] <= 37.5


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("retry_after", "least", "most"), [("20", 20, 25), ("3600", 60, 60)])
def test_a_placement_waits_as_long_as_the_service_asks(
    partner: Partner, status: int, retry_after: str, least: float, most: float
) -> None:
    partner.answer_next("POST", "/orders", status, NOT_NOW, Retry_After=retry_after)
    assert placed(partner).succeeded
    assert least <= sum(partner.slept) <= most


def test_it_gives_up_after_a_few_tries(partner: Partner) -> None:
    partner.answer_next("GET", "/wallet/balance", 429, NOT_NOW, times=99)
    with pytest.raises(RateLimited):
        partner.do(lambda giftrail: giftrail.wallet.balance())
    assert len(partner.lines) == flows.TRIES
    assert partner.slept == sorted(partner.slept), "each pause is longer than the one before"


# --- FAILED ----------------------------------------------------------------------------------------------------------

FAILURES = [
    ("sandbox-e100", "E100", "Brand not available"), ("sandbox-e101", "E101", "Brand not available"),
    ("sandbox-e102", "E102", "Brand not available"), ("sandbox-e150", "E150", "Denomination not available"),
    ("sandbox-e152", "E152", "Denomination not available"), ("sandbox-refused", "E200", "Voucher generation failed"),
]  # fmt: skip


@pytest.mark.parametrize(("brand_id", "code", "reason"), FAILURES)
def test_a_failure_comes_with_http_200_and_is_logged(
    partner: Partner, caplog: pytest.LogCaptureFixture, brand_id: str, code: str, reason: str
) -> None:
    order = placed(partner, brand_id, wait_seconds=10)
    assert partner.sent("POST", ORDERS)[0].status == 200
    assert (order.failed, order.failure_code, order.failure_reason, order.vouchers) == (True, code, reason, ())
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    for told in (order.id, order.reference_id, reason):
        assert told in record.getMessage()
    assert partner.books()[0] == MONEY


def test_too_little_money_is_a_failure(partner: Partner) -> None:
    order = partner.do(lambda giftrail: giftrail.orders.place("sandbox-e300", {9_000_000_000: 1}))
    assert (order.failure_code, order.failure_reason) == ("E300", "Insufficient balance")


@pytest.mark.parametrize("how", ["get", "by_reference", "wait"])
def test_a_failure_that_is_found_later_is_logged_too(
    partner: Partner, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Who is told by webhook gets the order, and is to log the failure then."""
    order = placed(partner, "sandbox-e102", reference_id="mine")
    caplog.clear()
    if how == "get":
        found = partner.do(lambda giftrail: giftrail.orders.get(order.id))
    elif how == "by_reference":
        found = partner.do(lambda giftrail: giftrail.orders.by_reference("mine"))
    else:
        unfinished = type(order)(**{**order.__dict__, "status": "PROCESSING"})
        found = partner.do(lambda giftrail: giftrail.orders.wait(unfinished))
    assert found.failed
    for told in (order.id, "mine", "Brand not available"):
        assert told in caplog.text


def test_a_failure_can_be_raised(partner: Partner) -> None:
    with pytest.raises(OrderFailed) as raised:
        placed(partner, "sandbox-e102", reference_id="mine", raise_failed=True)
    assert (raised.value.order.failure_code, raised.value.order.reference_id) == ("E102", "mine")
    assert "mine" in str(raised.value)


def test_a_failed_order_is_retried_with_a_new_reference_and_its_brand_read_before(partner: Partner) -> None:
    brand_id = partner.own_brand()
    partner.change_brand(brand_id, status="INACTIVE")
    order = placed(partner, brand_id, reference_id="mine", customer={"name": "Asha", "email": "asha@example.com"})
    assert order.failed
    partner.change_brand(brand_id, status="ACTIVE")
    before = len(partner.lines)
    again = partner.do(lambda giftrail: giftrail.orders.retry(order))
    assert again.succeeded
    assert partner.lines[before:] == [f"GET {API}/products/{brand_id}", f"POST {ORDERS}"]
    first, second = (seen.body for seen in partner.sent("POST", ORDERS))
    assert first.pop("referenceId") == "mine" != second.pop("referenceId")
    assert first == second
    assert sorted(partner.books()[1]) == sorted(["mine", again.reference_id])


def test_a_failed_order_is_never_retried_with_its_own_reference(partner: Partner) -> None:
    order = placed(partner, "sandbox-e102", reference_id="mine")
    before = len(partner.lines)
    with pytest.raises(ValueError, match="takes a new one"):
        partner.do(lambda giftrail: giftrail.orders.retry(order, reference_id="mine"))
    assert len(partner.lines) == before


def test_a_retry_that_the_brand_does_not_allow_is_not_placed(partner: Partner) -> None:
    order = placed(partner, "sandbox-e102", reference_id="mine")
    with pytest.raises(ValueError, match="INACTIVE"):
        partner.do(lambda giftrail: giftrail.orders.retry(order))
    assert partner.books()[1] == ["mine"]


@pytest.mark.parametrize("brand_id", ["sandbox-e153", "never"])
def test_only_a_failed_order_is_retried(partner: Partner, brand_id: str) -> None:
    order = placed(partner, never_ending(partner) if brand_id == "never" else brand_id, wait_seconds=0)
    with pytest.raises(ValueError, match="only a FAILED order"):
        partner.do(lambda giftrail: giftrail.orders.retry(order))
    assert len(partner.sent("POST", ORDERS)) == 1


# --- PROCESSING ------------------------------------------------------------------------------------------------------


def test_a_placement_does_not_poll_because_the_webhook_is_better(partner: Partner) -> None:
    order = placed(partner, AFTER_1, wait_seconds=0)
    assert (order.status, order.vouchers) == ("PROCESSING", ())
    assert (partner.lines, partner.slept) == ([f"POST {ORDERS}"], [])


def test_polling_starts_after_a_minute_and_ends_with_the_order(partner: Partner) -> None:
    order = placed(partner, AFTER_1, wait_seconds=0)
    partner.on_sleep = lambda: partner.until_ended(order.id)
    ended = partner.do(lambda giftrail: giftrail.orders.wait(order))
    assert (ended.status, len(ended.vouchers)) == ("SUCCESS", 1)
    assert partner.slept == [60]
    assert partner.lines == [f"POST {ORDERS}", f"GET {ORDERS}/{order.id}"]


def test_an_order_that_has_ended_is_not_polled(partner: Partner) -> None:
    order = placed(partner)
    assert partner.do(lambda giftrail: giftrail.orders.wait(order)) is order
    assert (partner.slept, len(partner.lines)) == ([], 1)


def test_polling_makes_five_attempts_and_after_15_minutes_gives_the_order_up(partner: Partner) -> None:
    order = placed(partner, never_ending(partner), wait_seconds=0)
    partner.time = order.created_at.timestamp()
    with pytest.raises(OrderTimedOut, match="15 minutes") as raised:
        partner.do(lambda giftrail: giftrail.orders.wait(order))
    assert raised.value.order.id == order.id
    assert partner.slept[0] == 60
    assert len(partner.slept) == 5
    assert partner.now() >= order.created_at.timestamp() + 900
    assert len(partner.sent("GET", f"{ORDERS}/{order.id}")) == 5


@pytest.mark.parametrize("seconds", [1, 30])
def test_polling_ends_after_15_minutes_by_a_clock_that_is_behind_the_services(partner: Partner, seconds: float) -> None:
    order = placed(partner, never_ending(partner), wait_seconds=0)
    behind = type(order)(**{**order.__dict__, "created_at": order.created_at + timedelta(seconds=seconds)})
    partner.time = order.created_at.timestamp()
    with pytest.raises(OrderTimedOut):
        partner.do(lambda giftrail: giftrail.orders.wait(behind))


def test_an_order_younger_than_15_minutes_is_still_processing(partner: Partner) -> None:
    order = placed(partner, never_ending(partner), wait_seconds=0)
    with pytest.raises(OrderStillProcessing) as raised:
        partner.do(lambda giftrail: giftrail.orders.wait(order, schedule=(60.0, 120.0)))
    assert not isinstance(raised.value, OrderTimedOut)


@pytest.mark.parametrize("minutes", [14.5, 20])
def test_an_order_that_is_old_is_polled_at_reasonable_intervals_and_given_up(partner: Partner, minutes: float) -> None:
    """After the 15 minutes it is asked for once more, not five times in the same moment."""
    order = placed(partner, never_ending(partner), wait_seconds=0)
    partner.advance(minutes * 60)
    with pytest.raises(OrderTimedOut):
        partner.do(lambda giftrail: giftrail.orders.wait(order))
    assert len(partner.sent("GET", f"{ORDERS}/{order.id}")) == 1


def test_a_poll_that_fails_is_tried_again(partner: Partner) -> None:
    order = placed(partner, AFTER_1, wait_seconds=0)
    partner.fail_next(testing.TIME_OUT_BEFORE, method="GET", path=f"/orders/{order.id}")
    partner.on_sleep = lambda: partner.until_ended(order.id)
    assert partner.do(lambda giftrail: giftrail.orders.wait(order)).succeeded


# --- vouchers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brand_id", "shown"),
    [("number-and-pin", {"cardNumber", "cardPin"}), ("number-only", {"cardNumber"}), ("pin-only", {"cardPin"})],
)
def test_a_voucher_shows_what_its_card_type_says(partner: Partner, brand_id: str, shown: set[str]) -> None:
    [voucher] = placed(partner, brand_id).vouchers
    assert (voucher.card_type, voucher.display().keys()) == (CARD_TYPES[brand_id], shown)
    assert partner.do(lambda giftrail: giftrail.vouchers.get(voucher.id)) == voucher


@pytest.mark.parametrize(
    ("card_type", "shown"),
    [("CARD_AND_PIN_NO_SECURED", {"cardNumber", "cardPin"}), ("CARD_NUMBER_SECURED", {"cardNumber"}),
     ("PIN_NO_SECURED", {"cardPin"}), ("BARCODE", {"cardNumber", "cardPin"})],
)  # fmt: skip
def test_what_the_card_type_does_not_show_is_not_shown_though_it_was_sent(
    partner: Partner, card_type: str, shown: set[str]
) -> None:
    order = placed(partner)
    partner.change("/orders/vouchers/", lambda body: body | {"cardType": card_type, "cardNumber": "1", "cardPin": "2"})
    voucher = partner.do(lambda giftrail: giftrail.vouchers.get(order.vouchers[0].id))
    assert voucher.display().keys() == shown


# --- what is not known -----------------------------------------------------------------------------------------------


def test_members_nobody_knows_are_kept_and_harm_nothing(partner: Partner) -> None:
    more = {"colour": "red", "nested": {"a": [1]}}
    for path in ("/orders", "/products", "/wallet", "/auth"):
        partner.change(path, lambda body: body | more)
    order = placed(partner)
    assert order.raw["colour"] == "red"
    assert partner.do(lambda giftrail: giftrail.brands.get("sandbox-at-once")).raw["nested"] == {"a": [1]}
    assert len(partner.do(lambda giftrail: giftrail.brands.list()).data) > 20
    assert partner.do(lambda giftrail: giftrail.orders.get(order.id)).succeeded
    assert partner.do(lambda giftrail: giftrail.wallet.balance()).balance == MONEY - 100
    assert len(partner.do(lambda giftrail: giftrail.wallet.transactions()).data) == 2


def test_values_nobody_knows_are_told_as_they_are(partner: Partner) -> None:
    order = placed(partner)
    partner.change(f"/orders/{order.id}", lambda body: body | {"status": "ON_HOLD", "failureReason": "another"})
    found = partner.do(lambda giftrail: giftrail.orders.get(order.id))
    assert (found.status, found.is_terminal, found.failed, found.succeeded) == ("ON_HOLD", False, False, False)
    unknown = {"status": "PAUSED", "denominationType": "RANGE", "redemptionType": "BY_POST", "cardType": "BARCODE"}
    partner.change("/products/", lambda body: body | unknown)
    brand = partner.do(lambda giftrail: giftrail.brands.get("sandbox-at-once"))
    assert (brand.status, brand.denomination_type, brand.is_active) == ("PAUSED", "RANGE", False)


def test_a_service_that_knows_the_specification_alone_is_understood(partner: Partner) -> None:
    """The specification's members and no others, a list without an envelope."""
    brand_members = {
        "id", "status", "title", "brandDescription", "category", "tags", "denominationType", "thumbnailUrl",
        "iconImageUrl", "amountRestrictions", "redemptionType",
    }  # fmt: skip
    order_members = {"id", "referenceId", "status", "vouchers", "failureReason"}

    def only(body: Any, names: set[str]) -> Any:
        return {name: value for name, value in body.items() if name in names}

    partner.change("/products", lambda body: [only(one, brand_members) for one in body["data"]])
    partner.change("/orders", lambda body: only(body, order_members))
    brands = {brand.id: brand for brand in partner.do(lambda giftrail: giftrail.brands.iterate(limit=500))}
    assert brands["sandbox-at-once"].check({100: 1}) == []
    order = placed(partner)
    assert (order.succeeded, len(order.vouchers), order.amount) == (True, 1, None)
    failed = placed(partner, "sandbox-e102")
    assert (failed.failed, failed.failure_reason) == (True, "Brand not available")


@pytest.mark.parametrize(
    ("status", "error"),
    [(502, Unavailable), (500, Unavailable), (418, ServiceError), (404, NotFound), (400, InvalidRequest)],
)
def test_an_error_of_another_shape_is_told_by_its_status(
    partner: Partner, status: int, error: type[ServiceError]
) -> None:
    for body in (b"<html>oops</html>", b"[]", b"", b'{"error": "x"}', b'{"id": 5, "subErrors": "x", "message": null}'):
        partner.answer_next("GET", "/wallet/balance", status, body, times=flows.TRIES if status >= 500 else 1)
        with pytest.raises(error) as raised:
            partner.do(lambda giftrail: giftrail.wallet.balance())
        assert raised.value.status == status


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"5", b"null", b"{}", b'{"id": "ord_1"}'])
def test_a_placement_answered_with_nonsense_is_looked_up(partner: Partner, body: bytes) -> None:
    partner.answer_next("POST", "/orders", 200, body)
    assert placed(partner, reference_id="mine").succeeded
    assert partner.lines[:2] == [f"POST {ORDERS}", f"GET {ORDERS}/by-reference/mine"]
    assert partner.books() == (MONEY - 100, ["mine"])


# --- webhooks --------------------------------------------------------------------------------------------------------


class Receiver:
    """A partner that receives: its router, behind a real server or as the fake's listener."""

    def __init__(self, partner: Partner) -> None:
        self.partner = partner
        self.requests: list[tuple[bytes, dict[str, str]]] = []
        self.secrets: list[str] = ["not registered yet"]
        self.router = WebhookRouter(lambda: self.secrets, inbox=MemoryInbox(), clock=time.time)
        self._server: http.server.ThreadingHTTPServer | None = None
        self.url = "https://hooks.example.com/"
        if partner.service is None:
            self._serve()
        else:
            partner.service.advance(time.time() - partner.service.time())
            partner.service.listen(self.url, self._hear)

    def _hear(self, raw_body: bytes, headers: Any) -> Any:
        self.requests.append((raw_body, dict(headers.items())))
        return self.router.answer(raw_body, headers)

    def _serve(self) -> None:
        keeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = keeper._hear(body, dict(self.headers.items()))
                self.send_response(answer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def register(self, **more: Any) -> str:
        endpoint = self.partner.client.webhooks.create(self.url, **more)
        self.secrets = [endpoint.secret]
        if self.partner.program is not None:
            self.partner.program.house.settle()
        found: str = endpoint.id
        return found

    def collect(self, *kinds: str) -> list[Event]:
        """What the handlers of these kinds were given."""
        events: list[Event] = []

        @self.router.on(*kinds)
        def handle(event: Event) -> None:
            events.append(event)

        return events

    def order(self, brand_id: str = AFTER_1) -> Any:
        order = placed(self.partner, brand_id, wait_seconds=0)
        self.partner.until_ended(order.id)
        return order

    def close(self) -> None:
        self.router.stop()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def signed(receiver: Receiver, raw_body: bytes) -> dict[str, str]:
    return {"X-Verify": webhooks.sign(raw_body, receiver.secrets[0])}


def test_on_order_reached_terminal_state_the_order_is_got(receiver: Receiver) -> None:
    got: list[Any] = []

    @receiver.router.on(webhooks.ORDER_TERMINAL_STATE)
    def handle(event: Event) -> None:
        got.append((event, receiver.partner.client.orders.get(event.order_id)))

    receiver.register()
    order = receiver.order()
    until(lambda: len(got) == 1)
    event, found = got[0]
    assert (event.order_id, event.status, event.reference_id) == (order.id, "SUCCESS", order.reference_id)
    assert (found.status, len(found.vouchers)) == ("SUCCESS", 1)
    assert found.vouchers[0].card_pin.encode() not in receiver.requests[0][0], "a code is in the webhook"


def test_an_async_handler_gets_the_order_too(receiver: Receiver) -> None:
    got: list[str] = []

    @receiver.router.on(webhooks.ORDER_TERMINAL_STATE)
    async def handle(event: Event) -> None:
        await asyncio.sleep(0)
        got.append(str(event.order_id))

    receiver.register()
    order = receiver.order()
    until(lambda: got == [order.id])


def test_each_event_is_handled_once_though_it_comes_twice(receiver: Receiver) -> None:
    events = receiver.collect(webhooks.ORDER_TERMINAL_STATE)
    receiver.register()
    order = receiver.order("sandbox-duplicate-webhook")
    until(lambda: len(receiver.requests) >= 2)
    for raw_body, headers in list(receiver.requests):
        assert receiver.router.answer(raw_body, headers).status == 202, (
            "a repeat is answered well, or it comes for ever"
        )
    until(lambda: not receiver.router.inbox.undone())
    assert [event.order_id for event in events] == [order.id]


def test_a_webhook_that_never_came_is_found_in_the_feed(receiver: Receiver) -> None:
    receiver.register()
    order = receiver.order("sandbox-lost-webhook")
    feed = receiver.partner.client.events
    until(lambda: bool(list(feed.iterate())))
    assert [event.order_id for event in feed.iterate()] == [order.id]
    assert receiver.requests == []


def test_the_raw_body_is_verified_before_it_is_read(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    events = receiver.collect(webhooks.ORDER_TERMINAL_STATE)
    receiver.register()
    receiver.order()
    until(lambda: len(events) == 1)
    raw_body, headers = receiver.requests[0]
    secret = receiver.secrets[0]
    assert verify(raw_body, headers, secret).id == events[0].id

    def read_nothing(*_: Any, **__: Any) -> Any:
        raise AssertionError("the body was read though it was not verified")

    respelt = json.dumps(json.loads(raw_body), indent=1).encode()
    with monkeypatch.context() as patched:
        patched.setattr("giftrail_client.wire.decode", read_nothing)
        for body in (respelt, raw_body + b" ", raw_body.replace(b"SUCCESS", b"FAILED"), b"", b"{"):
            with pytest.raises(VerificationFailed):
                verify(body, headers, secret)
            assert receiver.router.answer(body, headers).status == 400
        for wrong in ({}, {"X-Verify": ""}, {"X-Verify": webhooks.sign(raw_body, "another")}):
            with pytest.raises(VerificationFailed):
                verify(raw_body, wrong, secret)
    until(lambda: not receiver.router.inbox.undone())
    assert len(events) == 1


def test_signatures_are_compared_in_constant_time(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver.register()
    compared: list[tuple[Any, Any]] = []
    compare = hmac.compare_digest

    def compare_digest(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr("hmac.compare_digest", compare_digest)
    body = b'{"orderId": "ord_1", "status": "SUCCESS"}'
    verify(body, signed(receiver, body), receiver.secrets)
    right = webhooks.sign(body, receiver.secrets[0]).encode()
    assert (right, right) in compared


def test_x_verify_alone_is_enough(receiver: Receiver) -> None:
    """Another service of the specification signs with nothing else, and names neither event nor kind."""
    orders, balances = receiver.collect(webhooks.ORDER_TERMINAL_STATE), receiver.collect(webhooks.WALLET_LOW_BALANCE)
    receiver.register()
    for body in (b'{"orderId":"ord_1","status":"FAILED"}', b'{"balance":10.50,"threshold":100}'):
        for _ in range(2):
            assert receiver.router.answer(body, signed(receiver, body)).status == 202
    until(lambda: not receiver.router.inbox.undone())
    assert [(event.order_id, event.status) for event in orders] == [("ord_1", "FAILED")]
    assert [event.body["balance"] for event in balances] == [Decimal("10.50")]


def test_the_receiver_answers_before_the_work_is_done(receiver: Receiver) -> None:
    may_end, has_ended = threading.Event(), threading.Event()

    @receiver.router.on(webhooks.ORDER_TERMINAL_STATE)
    def handle(_: Event) -> None:
        may_end.wait(PATIENCE_SECONDS)
        has_ended.set()

    receiver.register()
    body = b'{"orderId":"ord_1","status":"SUCCESS"}'
    started = time.monotonic()
    answer = receiver.router.answer(body, signed(receiver, body))
    assert answer.status == 202
    assert time.monotonic() - started < 1
    assert not has_ended.is_set()
    may_end.set()
    assert has_ended.wait(PATIENCE_SECONDS)


def test_kinds_nobody_knows_are_answered_well(receiver: Receiver) -> None:
    others: list[Event] = []
    receiver.router.on()(others.append)
    receiver.register()
    body = b'{"eventId":"evt_1","eventType":"MOON_PHASE","colour":"red"}'
    assert receiver.router.answer(body, signed(receiver, body)).status == 202
    until(lambda: len(others) == 1)
    assert (others[0].kind, others[0].body["colour"]) == ("MOON_PHASE", "red")


def test_on_brand_updated_the_catalogue_is_refreshed(receiver: Receiver) -> None:
    brand_id = receiver.partner.own_brand()
    mirror = CatalogMirror(receiver.partner.client)
    mirror.attach(receiver.router)
    receiver.register()
    assert mirror.get(brand_id) is not None
    receiver.partner.change_brand(brand_id, status="INACTIVE")
    until(lambda: mirror.get(brand_id) is None)
    receiver.partner.change_brand(brand_id, status="ACTIVE")
    until(lambda: mirror.get(brand_id) is not None)


def test_a_brand_updated_that_overtakes_the_catalogue_is_not_lost(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service may answer for up to a second with what was before: the event knows better."""
    monkeypatch.setattr("giftrail_client.router.RETRY_AFTER_SECONDS", (0.05,))
    monkeypatch.setattr("giftrail_client.router.LOOK_EVERY_SECONDS", 0.05)
    brand_id = receiver.partner.own_brand()
    mirror = CatalogMirror(receiver.partner.client)
    mirror.attach(receiver.router)
    receiver.register()
    before = mirror.get(brand_id)
    assert before is not None
    receiver.partner.answer_next("GET", f"/products/{brand_id}", 200, dict(before.raw))
    receiver.partner.change_brand(brand_id, status="INACTIVE")
    until(lambda: mirror.get(brand_id) is None, seconds=3)


def test_on_brand_discount_update_the_price_is_renewed(receiver: Receiver) -> None:
    brand_id = receiver.partner.own_brand()
    mirror = CatalogMirror(receiver.partner.client)
    mirror.attach(receiver.router)
    receiver.register()
    before = mirror.get(brand_id)
    assert before is not None
    assert before.discount_percentage == 0
    receiver.partner.change_brand(brand_id, discount="2.5")

    def renewed() -> bool:
        brand = mirror.get(brand_id)
        return brand is not None and brand.discount_percentage == Decimal("2.5")

    until(renewed)


def test_on_wallet_low_balance_the_partner_hears_before_e300(receiver: Receiver) -> None:
    events = receiver.collect(webhooks.WALLET_LOW_BALANCE)
    receiver.register()
    receiver.partner.set_threshold(MONEY - 50)
    assert placed(receiver.partner).succeeded
    until(lambda: len(events) == 1)
    assert (events[0].body["balance"], events[0].body["threshold"]) == (MONEY - 100, MONEY - 50)


def test_a_secret_is_rotated_without_losing_an_event(receiver: Receiver) -> None:
    events = receiver.collect(webhooks.ORDER_TERMINAL_STATE)
    endpoint_id = receiver.register()
    staged = receiver.partner.client.webhooks.rotate_secret(endpoint_id).secret
    receiver.secrets.append(staged)
    orders = [receiver.order()]
    receiver.partner.client.webhooks.promote_secret(endpoint_id)
    receiver.secrets.pop(0)
    if receiver.partner.program is not None:
        receiver.partner.program.house.settle()
    orders.append(receiver.order())
    until(lambda: len(events) == 2)
    assert [event.order_id for event in events] == [order.id for order in orders]


def test_an_event_survives_a_handler_that_failed(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("giftrail_client.router.RETRY_AFTER_SECONDS", (0.05,))
    monkeypatch.setattr("giftrail_client.router.LOOK_EVERY_SECONDS", 0.05)
    tries: list[str] = []

    @receiver.router.on(webhooks.ORDER_TERMINAL_STATE)
    def handle(event: Event) -> None:
        tries.append(event.id)
        if len(tries) == 1:
            raise RuntimeError("the shop's database was away")

    receiver.register()
    body = b'{"orderId":"ord_1","status":"SUCCESS"}'
    receiver.router.answer(body, signed(receiver, body))
    until(lambda: len(tries) == 2)
    assert len(set(tries)) == 1
