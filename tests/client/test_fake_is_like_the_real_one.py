"""The SDK's fake service answers as the real one does: the same raw requests to both, and the answers compared.

What must differ (ids, times, tokens, codes, image addresses, sentences) is put in the same words first. Headers that
many answers carry (Cache-Control, Allow, WWW-Authenticate, Preference-Applied), a brand's description and how long a
voucher is valid have tests of their own, so that one difference is told once.
"""

import http.server
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

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
from giftrail_client import testing
from giftrail_client.router import Answer
from house import House, PartnerProgram, serving

API = "/v1/partners"
DEADLINE_SECONDS = 6.0
PATIENCE_SECONDS = 20.0
AFTER_1 = "sandbox-after-1-seconds"
JSON = "application/json"
HEADERS = ("content-type", "idempotent-replayed", "retry-after")
MONEY = 1_000_000
BRANDS = [row.brand_id for row in sandbox.TABLE]

_ID = re.compile(r"(ord|vch|trf|whk|evt)_[0-9a-f]{12,32}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_ONLY_KINDS = {
    "message": "text", "requestId": "uuid", "token": "token", "cardPin": "code", "cardNumber": "code",
    "secret": "secret", "standardSecret": "secret", "thumbnailUrl": "address", "iconImageUrl": "address",
}  # fmt: skip


def plain(value: Any, name: str = "") -> Any:
    """The value with what must differ put in the same words; numbers by their value."""
    if isinstance(value, dict):
        told = {member: plain(one, member) for member, one in value.items()}
        for elsewhere in {"brandDescription", "validTill"} & told.keys():
            told[elsewhere] = "<compared elsewhere>"
        if told.get("failureCode") == "E013":
            told["failureReason"] = "<text>"
        return told
    if isinstance(value, list):
        items = [plain(one) for one in value]
        return sorted(items, key=str) if name == "subErrors" else items
    if isinstance(value, bool) or value is None:
        return value
    if name == "latencyMs":
        return f"<{type(value).__name__}>"
    if isinstance(value, int | Decimal):
        return f"number {Decimal(value).normalize():f}"
    if name in _ONLY_KINDS:
        return f"<{_ONLY_KINDS[name]}>"
    if (known := _ID.fullmatch(value)) is not None:
        return f"<{known[1]}>"
    if name == "nextCursor":
        return "<cursor>"
    return "<time>" if _TIME.fullmatch(value) else value


def shown(value: Any) -> str:
    """A parameter as the name of its case tells it."""
    return json.dumps(value, default=str)[:60]


@dataclass
class Side:
    """One of the two services, as a partner's program sees it; `names` are its ids by what a test calls them."""

    http: httpx.Client
    client_id: str
    client_secret: str
    token: str = ""
    names: dict[str, str] = field(default_factory=dict)

    def log_in(self) -> None:
        body = {"clientId": self.client_id, "clientSecret": self.client_secret}
        self.token = self.http.post(f"{API}/auth/login", json=body).json()["token"]

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str | None] | None = None,
        content: bytes | None = None,
        base: str = API,
    ) -> httpx.Response:
        """Send a request; `<name>` in path, body and headers stands for this side's id of that name."""
        made: dict[str, str | None] = {"Authorization": f"Bearer {self.token}", "X-REQUEST-ID": str(uuid.uuid4())}
        if body is not None:
            content = json.dumps(body, default=str).encode()
        if content is not None:
            made["Content-Type"] = JSON
        made |= dict(headers or {})
        sent = {name: self.named(value) for name, value in made.items() if value is not None}
        if content is not None:
            content = self.named(content.decode("latin-1")).encode("latin-1")
        return self.http.request(method, base + self.named(path), headers=sent, content=content)

    def named(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(f"<{name}>", value)
        return text


def read(response: httpx.Response) -> Any:
    return json.loads(response.content, parse_float=Decimal) if response.content else None


def differences(real: Any, fake: Any, path: str = "") -> list[str]:
    """Where the two differ, each place in a line."""
    if isinstance(real, dict) and isinstance(fake, dict):
        names = [*real, *(name for name in fake if name not in real)]
        return [
            one
            for name in names
            for one in differences(real.get(name, "(absent)"), fake.get(name, "(absent)"), f"{path}.{name}")
        ]
    if isinstance(real, list) and isinstance(fake, list):
        found = [] if len(real) == len(fake) else [f"{path} has {len(real)} items, with the fake {len(fake)}"]
        pairs = enumerate(zip(real, fake, strict=False))
        return found + [one for place, (a, b) in pairs for one in differences(a, b, f"{path}[{place}]")]
    return [] if real == fake else [f"{path} is {real!r}, with the fake {fake!r}"]


def told(response: httpx.Response) -> dict[str, Any]:
    """What is compared of an answer."""
    headers = {name: response.headers.get(name) for name in HEADERS}
    return {
        "status": response.status_code, "headers": headers, "has an ETag": "etag" in response.headers,
        "body": plain(read(response)),
    }  # fmt: skip


@dataclass
class Pair:
    """Both services for one partner each, furnished alike."""

    house: House
    program: PartnerProgram
    service: testing.FakeService
    real: Side
    fake: Side

    def both(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[httpx.Response, httpx.Response]:
        return self.real.send(method, path, body, **more), self.fake.send(method, path, body, **more)

    def same(self, method: str, path: str, body: Any = None, *, keep: str = "", **more: Any) -> dict[str, Any]:
        """Send to both and compare; `keep` names the id that the answer tells. Returns what the real one told."""
        real, fake = self.both(method, path, body, **more)
        if keep:
            for side, response in ((self.real, real), (self.fake, fake)):
                members = read(response)
                side.names[keep] = members.get("id") or members["eventId"]
                for place, voucher in enumerate(members.get("vouchers") or ()):
                    side.names[f"{keep}.voucher{place}"] = voucher["id"]
        assert differences(told(real), told(fake)) == []
        return told(real)

    def until_ended(self, *names: str) -> None:
        """Let the time pass in which these orders end."""
        self.service.advance(testing.catalogue.DEADLINE_SECONDS)
        until(lambda: all(read(self.real.send("GET", f"/orders/<{name}>"))["status"] != "PROCESSING" for name in names))

    def cancel(self, name: str) -> None:
        """Cancel an order that no provider answers for; the real one refuses while it asks."""
        path = f"/orders/<{name}>/cancel"
        until(lambda: all(answer.status_code == 200 for answer in self.both("POST", path)))

    def until_told(self) -> None:
        """Wait until the real one has told of as many events as the fake."""
        count = len(self.service.teller.events)
        until(lambda: len(read(self.real.send("GET", "/events?limit=200"))["data"]) >= count)

    def add_after_1(self) -> None:
        """A brand whose orders end after a second, on both sides."""
        self.house.enable(self.program, AFTER_1)
        self.service.add_brand(AFTER_1, title="Sandbox after 1 seconds", fate=testing.Fate(1))


def until(true: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.03)


def order_body(
    brand_id: str = "sandbox-e153", lines: Mapping[Any, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """A sound order; of a brand that is served at once unless another is named."""
    lines = lines or {100: 1}
    return {
        "productId": brand_id,
        "referenceId": uuid.uuid4().hex,
        "amount": sum(one * count for one, count in lines.items()),
        "denominationDetails": [{"denomination": one, "quantity": count} for one, count in lines.items()],
    } | changes


AT_ONCE = 25


@dataclass
class Newcomers:
    """Partners for whom the sandbox is furnished; made many at a time, because each deed waits until it is seen."""

    house: House
    http: httpx.Client
    ready: list[PartnerProgram] = field(default_factory=list)

    def take(self, *, kind: str = "B2B", balance: int = MONEY) -> PartnerProgram:
        """A partner that nobody else has."""
        if (kind, balance) != ("B2B", MONEY):
            return self.make(1, kind=partners.Kind(kind), balance=balance)[0]
        if not self.ready:
            self.ready = self.make(AT_ONCE, kind=partners.Kind.B2B, balance=MONEY)
        return self.ready.pop()

    def make(self, count: int, *, kind: partners.Kind, balance: int) -> list[PartnerProgram]:
        now = app.now()
        known = [brand_id for brand_id in BRANDS if brand_id != sandbox.E101]

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
    database = new_database(server_url)
    with serving(database, deadline_seconds=DEADLINE_SECONDS, webhook_networks="127.0.0.0/8") as house:

        async def furnish(conn: pool.Connection) -> None:
            await sandbox.furnish_sandbox(conn, [], now=app.now())

        house.do(furnish)
        row = next(row for row in sandbox.TABLE if row.brand_id == "sandbox-after-5-seconds")
        house.brand(
            AFTER_1, **(sandbox._values(row, currency="INR") | {"id": AFTER_1, "title": "Sandbox after 1 seconds"})
        )
        with httpx.Client(base_url=house.base_url, timeout=30, trust_env=False, verify=False) as client:
            yield Newcomers(house, client)
    assert house.audit() == []


def make_pair(newcomers: Newcomers, *, kind: str = "B2B", balance: int = MONEY) -> Pair:
    program = newcomers.take(kind=kind, balance=balance)
    service = testing.FakeService(balance=balance, is_b2c=kind == "B2C")
    fake_http = httpx.Client(transport=testing.Transport(service), base_url=testing.BASE_URL)
    pair = Pair(
        newcomers.house, program, service,
        Side(program.http, program.client_id, program.client_secret),
        Side(fake_http, testing.CLIENT_ID, testing.CLIENT_SECRET),
    )  # fmt: skip
    pair.real.log_in()
    pair.fake.log_in()
    return pair


@pytest.fixture(scope="module")
def shared(newcomers: Newcomers) -> Pair:
    """Both services; for tests that change nothing."""
    return make_pair(newcomers)


@pytest.fixture(scope="module")
def asked(newcomers: Newcomers) -> Pair:
    """Both services for a partner that places nothing."""
    return make_pair(newcomers)


@pytest.fixture
def pair(newcomers: Newcomers) -> Pair:
    """Both services for partners that nobody else has."""
    return make_pair(newcomers)


# --- login, headers, paths -------------------------------------------------------------------------------------------

LOGINS: dict[str, Any] = {
    "nothing": {},
    "no secret": {"clientId": "<id>"},
    "no id": {"clientSecret": "<secret>"},
    "wrong secret": {"clientId": "<id>", "clientSecret": "wrong"},
    "unknown id": {"clientId": "nobody", "clientSecret": "<secret>"},
    "both null": {"clientId": None, "clientSecret": None},
    "empty": {"clientId": "", "clientSecret": ""},
    "numbers": {"clientId": 1, "clientSecret": 2},
    "too long": {"clientId": "x" * 201, "clientSecret": "y" * 201},
    "more members": {"clientId": "<id>", "clientSecret": "<secret>", "scope": "all"},
    "right": {"clientId": "<id>", "clientSecret": "<secret>"},
}
BARE: dict[str, str | None] = {"Authorization": None, "X-REQUEST-ID": None}


@pytest.fixture(scope="module")
def login(shared: Pair) -> Pair:
    for side in (shared.real, shared.fake):
        side.names |= {"id": side.client_id, "secret": side.client_secret}
    return shared


@pytest.mark.parametrize("body", LOGINS.values(), ids=LOGINS)
def test_login(login: Pair, body: Any) -> None:
    login.same("POST", "/auth/login", body, headers=BARE)


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"", BARE | {"Content-Type": JSON}),
        (None, BARE),
        (b"{}", BARE | {"Content-Type": None}),
        (b"clientId=x", BARE | {"Content-Type": "application/x-www-form-urlencoded"}),
        (b"[]", BARE),
        (b"{", BARE),
        (b'{"clientId":"<id>","clientSecret":"<secret>"}', BARE | {"X-REQUEST-ID": "no-uuid"}),
        (b'{"clientId":"<id>","clientSecret":"<secret>"}', BARE | {"Content-Type": "Application/JSON; charset=utf-8"}),
    ],
)
def test_login_of_another_shape(login: Pair, content: bytes | None, headers: dict[str, str | None]) -> None:
    login.same("POST", "/auth/login", content=content, headers=headers)


CALLS: dict[str, dict[str, str | None]] = {
    "no token": {"Authorization": None},
    "empty token": {"Authorization": "Bearer"},
    "another scheme": {"Authorization": "Basic abc"},
    "unknown token": {"Authorization": "Bearer abc.def.ghi"},
    "token without scheme": {"Authorization": "<token>"},
    "no request id": {"X-REQUEST-ID": None},
    "request id is no UUID": {"X-REQUEST-ID": "12345"},
    "request id with braces": {"X-REQUEST-ID": "{123e4567-e89b-42d3-a456-426614174000}"},
    "request id of capitals": {"X-REQUEST-ID": "123E4567-E89B-42D3-A456-426614174000"},
    "neither": {"Authorization": None, "X-REQUEST-ID": None},
}


@pytest.mark.parametrize("headers", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("method", "path"), [("GET", "/wallet/balance"), ("POST", "/orders"), ("GET", "/orders/x")])
def test_headers_of_a_call(shared: Pair, method: str, path: str, headers: dict[str, str | None]) -> None:
    for side in (shared.real, shared.fake):
        side.names["token"] = side.token
    shared.same(method, path, headers=headers, body=order_body() if method == "POST" else None)


def test_a_token_in_other_letters_and_spaces_is_the_same(shared: Pair) -> None:
    for side in (shared.real, shared.fake):
        side.names["token"] = side.token
    shared.same("GET", "/wallet/balance", headers={"Authorization": "bEARER  <token>"})


def test_the_request_id_comes_back(shared: Pair) -> None:
    for path in ("/wallet/balance", "/orders/unknown", "/nothing"):
        request_id = str(uuid.uuid4())
        real, fake = shared.both("GET", path, headers={"X-REQUEST-ID": request_id})
        assert real.headers["x-request-id"] == fake.headers["x-request-id"] == request_id


PATHS = (
    "/auth/login", "/products", "/products/sandbox-at-once", "/products/sandbox-at-once/plan", "/orders",
    "/orders/quote", "/orders/by-reference/x", "/orders/vouchers/x", "/orders/x", "/orders/x/cancel",
    "/orders/x/reverse", "/wallet/balance", "/wallet/transactions", "/reconcile", "/webhooks", "/webhooks/x",
    "/webhooks/x/test", "/webhooks/x/rotate-secret", "/webhooks/x/promote-secret", "/webhooks/x/deliveries",
    "/webhooks/x/replay", "/events", "/events/x/redeliver",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["PUT", "GET", "POST"])
def test_a_method_is_one_of_the_path_or_not(shared: Pair, path: str, method: str) -> None:
    """Without a token: 405 comes first, then 401."""
    shared.same(method, path, headers=BARE)


@pytest.mark.parametrize("path", PATHS)
def test_a_wrong_method_is_told_which_are_right(shared: Pair, path: str) -> None:
    real, fake = shared.both("PUT", path)
    assert real.headers.get("allow") == fake.headers.get("allow")


@pytest.mark.parametrize("path", ["/products", "/wallet/balance", "/orders/unknown", "/orders"])
def test_head_is_answered_as_get(shared: Pair, path: str) -> None:
    real, fake = shared.both("HEAD", path)
    assert real.status_code == fake.status_code


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("/nothing", API), ("/products/", API), ("/products/a/b", API), ("/orders/", API), ("/", API), ("", ""),
        ("/v2/partners/products", ""), ("/orders/by-reference/", API), ("/orders/by-reference", API),
        ("/orders/vouchers/", API), ("/orders/x/refund", API), ("/webhooks/x/y", API), ("/orders/%00", API),
        ("/products/%00", API), ("/orders/by-reference/%FF", API), ("/products/%FF", API), ("/products//plan", API),
    ],
)  # fmt: skip
def test_there_is_nothing_there(shared: Pair, path: str, base: str) -> None:
    shared.same("GET", path, base=base)


COMMON_HEADERS: dict[str, tuple[str, str, Any]] = {
    "login": ("POST", "/auth/login", {"clientId": "<id>", "clientSecret": "<secret>"}),
    "login refused": ("POST", "/auth/login", {"clientId": "<id>", "clientSecret": "no"}),
    "brands": ("GET", "/products", None),
    "brand": ("GET", "/products/sandbox-at-once", None),
    "no brand": ("GET", "/products/nothing", None),
    "plan": ("POST", "/products/sandbox-at-once/plan", {"amount": 100}),
    "placement": ("POST", "/orders", order_body()),
    "placement refused": ("POST", "/orders", {}),
    "E013": ("POST", "/orders", order_body("sandbox-e013")),
    "quote": ("POST", "/orders/quote", order_body()),
    "orders": ("GET", "/orders", None),
    "no order": ("GET", "/orders/nothing", None),
    "no reference": ("GET", "/orders/by-reference/nothing", None),
    "no voucher": ("GET", "/orders/vouchers/nothing", None),
    "no cancel": ("POST", "/orders/nothing/cancel", None),
    "balance": ("GET", "/wallet/balance", None),
    "transactions": ("GET", "/wallet/transactions", None),
    "webhooks": ("GET", "/webhooks", None),
    "no webhook": ("GET", "/webhooks/nothing", None),
    "events": ("GET", "/events", None),
    "reconcile": ("POST", "/reconcile", {"orders": [{"referenceId": "x", "status": "FAILED", "amount": 1}]}),
    "unknown path": ("GET", "/nothing", None),
    "wrong method": ("PUT", "/orders", None),
}


@pytest.mark.parametrize(("method", "path", "body"), COMMON_HEADERS.values(), ids=COMMON_HEADERS)
@pytest.mark.parametrize("header", ["cache-control", "www-authenticate", "content-type"])
def test_common_headers(login: Pair, header: str, method: str, path: str, body: Any) -> None:
    for headers in ({}, {"Authorization": None}):
        real, fake = login.both(method, path, body, headers=headers)
        assert (real.status_code, real.headers.get(header)) == (fake.status_code, fake.headers.get(header))


# --- catalogue -------------------------------------------------------------------------------------------------------


def brand_table(side: Side) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in read(side.send("GET", "/products?limit=500"))["data"]}


@pytest.mark.parametrize("brand_id", BRANDS)
def test_a_brand_of_the_table_is_the_same_in_every_member(shared: Pair, brand_id: str) -> None:
    shared.same("GET", f"/products/{brand_id}")
    tables = [plain(brand_table(side).get(brand_id)) for side in (shared.real, shared.fake)]
    assert differences(*tables) == []


def test_the_fake_has_the_brands_of_the_table_and_no_other(shared: Pair) -> None:
    assert list(brand_table(shared.real)) == list(brand_table(shared.fake))
    assert set(shared.service.brands) == {brand.brand_id for brand in sandbox.make_brands()}


@pytest.mark.parametrize("brand_id", [one for one in BRANDS if one != sandbox.E101])
def test_a_brand_is_described_in_the_same_words(shared: Pair, brand_id: str) -> None:
    real, fake = shared.both("GET", f"/products/{brand_id}")
    assert read(real)["brandDescription"] == read(fake)["brandDescription"]


@pytest.mark.parametrize(
    "query",
    [
        "", "pageNo=1", "limit=5", "pageNo=2&limit=5", "pageNo=99&limit=5", "limit=501", "limit=999999", "limit=500",
        "limit=24", "limit=23", "pageNo=0", "limit=0", "pageNo=-1", "limit=abc", "pageNo=1.5", "pageNo=", "limit=%2B5",
        "limit=007", "pageNo=0&limit=0", "pageNo=0&status=NOT&denominationType=NOT", "limit=1&limit=2",
        "limit=99999999999999999999", "limit=%D9%A3",
        "q=SANDBOX", "q=twice", "q=after%205", "q=5%20after", "q=nothing-like-it", "q=", "q=%20%20", "q=provider",
        "q=refuses", "q=" + "x" * 201, "q=%FF", "q=%00",
        "category=sandbox", "category=Food", "category=Food&category=SANDBOX", "category=",
        "tag=Sandbox", "tag=other", "tag=other&tag=sandbox",
        "status=ACTIVE", "status=INACTIVE", "status=ACTIVE&status=INACTIVE", "status=active", "status=",
        "denominationType=FIXED", "denominationType=FLEXIBLE", "denominationType=ANY",
        "redemptionType=ONLINE", "redemptionType=OFFLINE", "redemptionType=ANY",
        "updatedSince=2000-01-01T00:00:00Z", "updatedSince=2999-01-01T00:00:00Z", "updatedSince=yesterday",
        "updatedSince=2026-01-01", "updatedSince=2999-01-01T00:00:00%2B05:30", "updatedSince=2026-01-01T00:00:00",
        "status=INACTIVE&denominationType=FIXED&q=e102", "unknown=1",
    ],
)  # fmt: skip
def test_list_of_brands(shared: Pair, query: str) -> None:
    shared.same("GET", f"/products?{query}")


@pytest.mark.parametrize("path", ["/products", "/products?limit=3", "/products/sandbox-at-once"])
def test_an_etag_is_answered_with_304(shared: Pair, path: str) -> None:
    for side, response in zip((shared.real, shared.fake), shared.both("GET", path), strict=True):
        side.names["etag"] = response.headers["etag"]
    for known in ("<etag>", '"other", <etag>', "W/<etag>", "*", '"other"', ""):
        shared.same("GET", path, headers={"If-None-Match": known})
        real, fake = shared.both("GET", path, headers={"If-None-Match": known})
        assert (real.headers.get("cache-control"), real.headers.get("content-length") == "0") == (
            fake.headers.get("cache-control"), fake.headers.get("content-length") == "0"
        )  # fmt: skip


@pytest.mark.parametrize("brand_id", ["nothing", "sandbox-e101", "sandbox%2Dat%2Donce", "SANDBOX-AT-ONCE", "x" * 300])
def test_a_brand_that_is_not_there(shared: Pair, brand_id: str) -> None:
    shared.same("GET", f"/products/{brand_id}")


# --- placement: what is wrong with the request itself -----------------------------------------------------------------

LINE = {"denomination": 100, "quantity": 1}


def lines(*several: Any) -> dict[str, Any]:
    return {"denominationDetails": list(several)}


BAD_ORDERS: dict[str, dict[str, Any]] = {
    "the sum differs": {"amount": 900},
    "the sum differs by little": {"amount": 100.01},
    "amount missing": {"amount": ...},
    "amount null": {"amount": None},
    "amount a string": {"amount": "100"},
    "amount a boolean": {"amount": True},
    "amount an array": {"amount": [100]},
    "amount 0": {"amount": 0},
    "amount negative": {"amount": -100},
    "amount of three decimals": {"amount": 100.001},
    "amount of three decimals that are zeros": {"amount": 100.000},
    "amount too large": {"amount": 10**15},
    "amount much too large": {"amount": 10**40},
    "amount at the bound": {"amount": 10**13},
    "amount above the bound": {"amount": 10**13 + 1},
    "productId missing": {"productId": ...},
    "productId null": {"productId": None},
    "productId a number": {"productId": 5},
    "productId empty": {"productId": ""},
    "productId unknown": {"productId": "nothing"},
    "productId in capitals": {"productId": "SANDBOX-AT-ONCE"},
    "productId too long": {"productId": "x" * 201},
    "referenceId missing": {"referenceId": ...},
    "referenceId null": {"referenceId": None},
    "referenceId empty": {"referenceId": ""},
    "referenceId a number": {"referenceId": 12345},
    "referenceId of 41 characters": {"referenceId": "r" * 41},
    "referenceId of 41 other characters": {"referenceId": "é" * 41},
    "referenceId .": {"referenceId": "."},
    "referenceId ..": {"referenceId": ".."},
    "referenceId with a line break": {"referenceId": "a\nb"},
    "referenceId with NUL": {"referenceId": "a\0b"},
    "referenceId with a control character": {"referenceId": "a\x85b"},
    "referenceId that ends in a line break": {"referenceId": "a\n"},
    "referenceId of half a pair": {"referenceId": "a\ud800"},
    "no lines": lines(),
    "lines missing": {"denominationDetails": ...},
    "lines null": {"denominationDetails": None},
    "lines an object": {"denominationDetails": {}},
    "lines a string": {"denominationDetails": "100"},
    "101 lines": {"amount": 10_100, **lines(*[LINE] * 101)},
    "a line null": lines(LINE, None),
    "a line a number": lines(5),
    "a line empty": lines({}),
    "denomination missing": lines({"quantity": 1}),
    "denomination null": lines({"denomination": None, "quantity": 1}),
    "denomination a string": lines({"denomination": "100", "quantity": 1}),
    "denomination 0": lines({"denomination": 0, "quantity": 1}),
    "denomination negative": lines({"denomination": -100, "quantity": 1}),
    "denomination of three decimals": lines({"denomination": 100.005, "quantity": 1}),
    "denomination much too large": lines({"denomination": 10**40, "quantity": 1}),
    "quantity missing": lines({"denomination": 100}),
    "quantity null": lines({"denomination": 100, "quantity": None}),
    "quantity 0": lines({"denomination": 100, "quantity": 0}),
    "quantity negative": lines({"denomination": 100, "quantity": -1}),
    "quantity 1.5": lines({"denomination": 100, "quantity": 1.5}),
    "quantity a string": lines({"denomination": 100, "quantity": "1"}),
    "quantity a boolean": lines({"denomination": 100, "quantity": True}),
    "quantity 1001": {"amount": 100_100, **lines({"denomination": 100, "quantity": 1001})},
    "quantity much too large": lines({"denomination": 100, "quantity": 10**40}),
    "1001 vouchers in two lines": {
        "amount": 175_100, **lines({"denomination": 100, "quantity": 501}, {"denomination": 250, "quantity": 500})
    },
    "1001 vouchers in two lines of the same": {
        "amount": 100_100, **lines({"denomination": 100, "quantity": 501}, {"denomination": 100.0, "quantity": 500})
    },
    "all lines wrong": lines({"denomination": "x", "quantity": 0}, {"denomination": 100}, 7),
    "customer a string": {"customerDetails": "Asha"},
    "customer an array": {"customerDetails": []},
    "customer name a number": {"customerDetails": {"name": 5}},
    "customer name too long": {"customerDetails": {"name": "x" * 101}},
    "customer phone too long": {"customerDetails": {"phoneNumber": "1" * 21}},
    "customer email too long": {"customerDetails": {"email": "x" * 255}},
    "customer name with NUL": {"customerDetails": {"name": "a\0"}},
    "delivery a number": {"deliveryDetails": 5},
    "delivery recipientType": {"deliveryDetails": {"recipientType": "BOTH"}},
    "delivery recipientType too long": {"deliveryDetails": {"recipientType": "SOMEBODY ELSE"}},
    "delivery recipientType empty": {"deliveryDetails": {"recipientType": ""}},
    "delivery recipientType a number": {"deliveryDetails": {"recipientType": 1}},
    "delivery recipientName too long": {"deliveryDetails": {"recipientName": "x" * 101}},
    "delivery recipientPhoneNumber too long": {"deliveryDetails": {"recipientPhoneNumber": "1" * 21}},
    "delivery recipientEmail too long": {"deliveryDetails": {"recipientEmail": "x" * 255}},
    "delivery senderName too long": {"deliveryDetails": {"senderName": "x" * 101}},
    "delivery wishMessage too long": {"deliveryDetails": {"wishMessage": "x" * 501}},
    "everything wrong": {
        "productId": 1, "referenceId": "", "amount": "x", "denominationDetails": [], "customerDetails": 1,
        "deliveryDetails": {"recipientType": 1, "wishMessage": 2},
    },
    "everything missing": {
        "productId": ..., "referenceId": ..., "amount": ..., "denominationDetails": ...,
    },
    "wrong and unknown": {"productId": "nothing", "amount": -1},
    "the sum differs and unknown": {"productId": "nothing", "amount": 900},
    "the sum differs and no reference": {"referenceId": ..., "amount": 900},
}  # fmt: skip


def changed(changes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    body = order_body(**more) | dict(changes)
    return {name: value for name, value in body.items() if value is not ...}


@pytest.mark.parametrize("changes", BAD_ORDERS.values(), ids=BAD_ORDERS)
def test_a_placement_that_is_wrong_in_itself(shared: Pair, changes: dict[str, Any]) -> None:
    answer = shared.same("POST", "/orders", changed(changes))
    assert answer["status"] in {400, 404, 200}


@pytest.mark.parametrize("changes", BAD_ORDERS.values(), ids=BAD_ORDERS)
def test_a_quote_that_is_wrong_in_itself(asked: Pair, changes: dict[str, Any]) -> None:
    asked.same("POST", "/orders/quote", changed(changes))


@pytest.fixture(scope="module")
def for_customers(newcomers: Newcomers) -> Pair:
    """Both services for a B2C partner."""
    return make_pair(newcomers, kind="B2C")


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"customerDetails": None}, {"customerDetails": {}}, {"customerDetails": {"name": "Asha"}},
        {"customerDetails": {"email": "asha@example.com"}}, {"customerDetails": {"name": "", "email": ""}},
        {"customerDetails": {"name": "Asha", "phoneNumber": ""}}, {"customerDetails": {"name": None, "email": "a@b"}},
        {"customerDetails": {"name": "Asha", "email": "no address"}}, {"customerDetails": {"name": 5}},
        {"customerDetails": {"name": "Asha", "phoneNumber": "x"}}, {"amount": 900}, {"amount": "x"},
        {"productId": "nothing"}, {"amount": "x", "customerDetails": {"name": "Asha"}},
    ],
    ids=shown,
)  # fmt: skip
@pytest.mark.parametrize("path", ["/orders", "/orders/quote"])
def test_a_customer_is_named_for_b2c(for_customers: Pair, path: str, changes: dict[str, Any]) -> None:
    for_customers.same("POST", path, changed(changes))


RAW: dict[str, bytes] = {
    "empty": b"",
    "spaces": b"  ",
    "half": b'{"productId": ',
    "array": b"[]",
    "text": b'"x"',
    "number": b"5",
    "null": b"null",
    "NaN": b'{"amount": NaN}',
    "Infinity": b'{"amount": Infinity}',
    "minus Infinity": b'{"amount": -Infinity}',
    "a key twice": b'{"amount": 1, "amount": 1}',
    "a key twice inside": b'{"customerDetails": {"name": "a", "name": "b"}}',
    "no UTF-8": b'{"productId": "\xff"}',
    "a mark before": b"\xef\xbb\xbf{}",
    "single quotes": b"{'amount': 1}",
    "a comma too many": b'{"amount": 1,}',
    "an exponent beyond all bounds": b'{"amount": 1e9999999999999999999}',
    "a large exponent": b'{"amount": 1e999999}',
    "many digits": b'{"amount": ' + b"1" * 5000 + b"}",
    "deep": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "too large": b'{"a": "' + b"x" * (256 * 1024) + b'"}',
}


@pytest.mark.parametrize("content", RAW.values(), ids=RAW)
@pytest.mark.parametrize("path", ["/orders", "/reconcile"])
def test_a_body_that_is_no_object(shared: Pair, path: str, content: bytes) -> None:
    shared.same("POST", path, content=content)


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/xml", "application/jsonx", "json", ""])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/orders"), ("POST", "/orders/x/cancel"), ("PATCH", "/webhooks/x")]
)
def test_a_body_of_another_content_type(shared: Pair, method: str, path: str, media_type: str | None) -> None:
    shared.same(method, path, content=b"{}", headers={"Content-Type": media_type})


@pytest.mark.parametrize(
    "path",
    ["/orders", "/orders/quote", "/reconcile", "/webhooks", "/products/sandbox-at-once/plan", "/webhooks/x/replay",
     "/orders/x/cancel", "/orders/x/reverse", "/webhooks/x/test", "/webhooks/x/rotate-secret",
     "/webhooks/x/promote-secret", "/events/x/redeliver"],
)  # fmt: skip
@pytest.mark.parametrize("headers", [{}, {"Content-Type": JSON}, {"Content-Type": "text/plain"}])
def test_no_body_at_all(shared: Pair, path: str, headers: dict[str, str]) -> None:
    shared.same("POST", path, headers=headers)


# --- placement: what becomes of an order ------------------------------------------------------------------------------

E_CODES: dict[str, tuple[str, dict[Any, int]]] = {
    "E100": ("sandbox-e100", {100: 1}),
    "E101": ("sandbox-e101", {100: 1}),
    "E102": ("sandbox-e102", {100: 1}),
    "E013": ("sandbox-e013", {100: 1}),
    "E150": ("sandbox-e150", {100: 1}),
    "E150 off the list": ("sandbox-e153", {101: 1}),
    "E152": ("sandbox-e152", {100: 1}),
    "E152 too much": ("sandbox-e153", {1000: 1000}),
    "E153": ("sandbox-e153", {100: 1, 250: 1}),
    "E153 served": ("sandbox-e153", {100: 2}),
    "E154": ("sandbox-e154", {100: 2}),
    "E154 served": ("sandbox-e154", {100: 1, 250: 1}),
    "E155 below": ("sandbox-e155", {9: 1}),
    "E155 above": ("sandbox-e155", {1001: 1}),
    "E155 served": ("sandbox-e155", {10: 1, Decimal("999.99"): 2}),
    "E156": ("sandbox-e156", {100: 2}),
    "E156 served": ("sandbox-e156", {1000: 1}),
    "E300": ("sandbox-e300", {9_000_000_000: 1}),
    "E154 before E150": ("sandbox-e154", {100: 2, 101: 1}),
    "E156 before E150": ("sandbox-e156", {101: 2}),
    "E153 before E150": ("sandbox-e153", {101: 1, 102: 1}),
    "E150 before E152": ("sandbox-e152", {101: 1}),
    "E150 before E300": ("sandbox-e300", {9_000_000_001: 1}),
    "out of stock and too much": ("sandbox-e150", {1000: 1000}),
}


def number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(("brand_id", "wanted"), E_CODES.values(), ids=E_CODES)
def test_an_e_code_and_what_it_does_to_the_wallet(pair: Pair, brand_id: str, wanted: dict[Any, int]) -> None:
    exact = order_body(brand_id, wanted)
    body = json.loads(json.dumps(exact, default=number))
    pair.same("POST", "/orders/quote", body)
    answer = pair.same("POST", "/orders", body)
    if answer["status"] == 200:
        pair.same("POST", "/orders", body)  # a replay
        pair.same("GET", f"/orders/by-reference/{body['referenceId']}")
    pair.same("GET", "/orders")
    pair.same("GET", "/wallet/balance")
    pair.same("GET", "/wallet/transactions")


def test_too_little_money_is_e300_and_what_is_left_can_be_spent(newcomers: Newcomers) -> None:
    pair = make_pair(newcomers, balance=250)
    for amount in (500, 250, 100):
        pair.same("POST", "/orders/quote", order_body(lines={amount: 1}))
        pair.same("POST", "/orders", order_body(lines={amount: 1}))
    pair.same("GET", "/wallet/balance")
    pair.same("GET", "/wallet/transactions")
    pair.same("GET", "/orders")


PROVIDED = (
    "sandbox-at-once", "sandbox-after-5-seconds", "sandbox-never", "sandbox-refused", "sandbox-second-provider",
    "sandbox-too-late", "sandbox-twice", "sandbox-lost-answer", "sandbox-away", "sandbox-first-part",
    "sandbox-lost-webhook", "sandbox-duplicate-webhook", "sandbox-reversible", "sandbox-void-refused",
)  # fmt: skip
TWO_LINES: dict[Any, int] = {100: 2, 250: 1}


@dataclass
class Tale:
    """What became of an order of a brand: each answer of both, in their order."""

    pair: Pair
    body: dict[str, Any]
    answers: list[tuple[str, dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    first: str = ""

    def note(self, what: str, method: str, path: str, body: Any = None, **more: Any) -> tuple[Any, Any]:
        real, fake = self.pair.both(method, path, body, **more)
        self.answers.append((what, told(real), told(fake)))
        return read(real), read(fake)


@pytest.fixture(scope="module")
def tales(newcomers: Newcomers) -> dict[str, Tale]:
    """An order of each brand that a provider serves, each for a partner of its own, all at once."""
    found: dict[str, Tale] = {}
    for brand_id in PROVIDED:
        tale = found[brand_id] = Tale(make_pair(newcomers), order_body(brand_id, TWO_LINES))
        slow = brand_id in {
            "sandbox-after-5-seconds", "sandbox-never", "sandbox-too-late", "sandbox-away", "sandbox-lost-answer",
            "sandbox-lost-webhook", "sandbox-duplicate-webhook",
        }  # fmt: skip
        headers = {"Prefer": "wait=0" if slow else "wait=10"}
        for side, members in zip(
            (tale.pair.real, tale.pair.fake), tale.note("placed", "POST", "/orders", tale.body, headers=headers),
            strict=True,
        ):  # fmt: skip
            side.names["order"] = members["id"]
        if slow:
            tale.note("balance meanwhile", "GET", "/wallet/balance")
            tale.note("transactions meanwhile", "GET", "/wallet/transactions")
            tale.note("reverse meanwhile", "POST", "/orders/<order>/reverse")
            if brand_id in {"sandbox-never", "sandbox-too-late", "sandbox-after-5-seconds"}:
                time.sleep(0.3)  # the provider has been asked by then
                tale.note("cancel meanwhile", "POST", "/orders/<order>/cancel")
    for tale in found.values():
        tale.pair.until_ended("order")
        tale.note("ended", "GET", "/orders/<order>")
        tale.note("replayed", "POST", "/orders", tale.body)
        tale.note("listed", "GET", "/orders")
        tale.note("balance", "GET", "/wallet/balance")
        tale.note("transactions", "GET", "/wallet/transactions")
        tale.note("cancel", "POST", "/orders/<order>/cancel")
    time.sleep(0.5)  # the dispatcher numbers the events
    for tale in found.values():
        tale.note("events", "GET", "/events")
    return found


@pytest.mark.parametrize("brand_id", PROVIDED)
@pytest.mark.parametrize(
    "what",
    ["placed", "balance meanwhile", "transactions meanwhile", "reverse meanwhile", "cancel meanwhile", "ended",
     "replayed", "listed", "balance", "transactions", "cancel", "events"],
)  # fmt: skip
def test_a_provided_order(tales: dict[str, Tale], brand_id: str, what: str) -> None:
    for noted, real, fake in tales[brand_id].answers:
        if noted == what:
            assert differences(real, fake) == []


def test_a_reversible_order_is_reversed(pair: Pair) -> None:
    patient = {"Prefer": "wait=10"}
    pair.both("POST", "/orders", order_body())
    pair.same("POST", "/orders", order_body("sandbox-reversible", {500: 1, 100: 2}), keep="order", headers=patient)
    pair.same("GET", "/orders/vouchers/<order.voucher2>")
    pair.same("POST", "/orders/<order>/reverse", {"reason": "changed my mind"}, headers=patient)
    pair.same("POST", "/orders/<order>/reverse", headers=patient)
    pair.same("POST", "/orders/<order>/cancel")
    pair.same("GET", "/orders/<order>")
    pair.same("GET", "/orders/vouchers/<order.voucher2>")
    pair.same("GET", "/orders?status=REVERSED")
    pair.same("GET", "/wallet/balance")


@pytest.mark.parametrize("reason", ["x" * 5000, 5, True, "a\0b", [], ""])
def test_a_reason_to_reverse_is_a_text(pair: Pair, reason: Any) -> None:
    pair.same("POST", "/orders", order_body("sandbox-reversible"), keep="order", headers={"Prefer": "wait=10"})
    pair.same("POST", "/orders/<order>/reverse", {"reason": reason}, headers={"Prefer": "wait=10"})


def test_a_reversal_is_in_the_statement(pair: Pair) -> None:
    patient = {"Prefer": "wait=10"}
    pair.both("POST", "/orders", order_body())
    pair.same("POST", "/orders", order_body("sandbox-reversible", {500: 1}), keep="order", headers=patient)
    pair.both("POST", "/orders/<order>/reverse", headers=patient)
    pair.same("GET", "/wallet/transactions?limit=1")


def test_a_reversal_is_answered_how_long_it_waited(pair: Pair) -> None:
    pair.both("POST", "/orders", order_body())
    pair.same("POST", "/orders", order_body("sandbox-reversible"), keep="order")
    real, fake = pair.both("POST", "/orders/<order>/reverse", headers={"Prefer": "wait=7"})
    assert read(real)["status"] == read(fake)["status"] == "REVERSED"
    assert real.headers.get("preference-applied") == fake.headers.get("preference-applied")


def test_an_order_that_cannot_be_reversed(pair: Pair) -> None:
    patient = {"Prefer": "wait=10"}
    for brand_id in ("sandbox-at-once", "sandbox-void-refused", "sandbox-e102", "sandbox-e153"):
        pair.same("POST", "/orders", order_body(brand_id), keep="order")
        pair.same("POST", "/orders/<order>/reverse", {}, headers=patient)
        pair.same("POST", "/orders/<order>/reverse", {}, headers=patient)
        pair.same("GET", "/orders/<order>")
    for deed in ("cancel", "reverse"):
        pair.same("POST", f"/orders/nothing/{deed}")


def test_an_order_nobody_was_asked_for_is_cancelled(pair: Pair) -> None:
    pair.same("POST", "/orders", order_body("sandbox-away"), keep="order", headers={"Prefer": "wait=0"})
    pair.cancel("order")
    pair.same("POST", "/orders/<order>/cancel")
    pair.same("POST", "/orders/<order>/cancel", {"why": "nothing"})
    pair.same("POST", "/orders/<order>/reverse")
    pair.same("GET", "/orders/<order>")
    pair.same("GET", "/orders?status=CANCELLED")
    pair.same("GET", "/wallet/balance")
    pair.same("GET", "/wallet/transactions")
    pair.until_told()
    pair.same("GET", "/events")


PREFERENCES = ("wait=0", "wait=5", "wait=99", "WAIT = 3", "respond-async, wait=4", "wait=x", "wait=1.5", "")


@pytest.fixture(scope="module")
def waited_for(newcomers: Newcomers) -> dict[str, tuple[httpx.Response, httpx.Response]]:
    """What an order that takes a second is answered with, by what was preferred; asked for side by side."""
    pair = make_pair(newcomers)
    pair.add_after_1()

    def place(prefer: str) -> tuple[httpx.Response, httpx.Response]:
        return pair.both("POST", "/orders", order_body(AFTER_1), headers={"Prefer": prefer})

    with ThreadPoolExecutor(len(PREFERENCES)) as threads:
        return dict(zip(PREFERENCES, threads.map(place, PREFERENCES), strict=True))


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_how_long_the_answer_may_take(
    waited_for: dict[str, tuple[httpx.Response, httpx.Response]], prefer: str
) -> None:
    real, fake = waited_for[prefer]
    assert differences(told(real), told(fake)) == []
    assert real.headers.get("preference-applied") == fake.headers.get("preference-applied")


@pytest.mark.parametrize("prefer", ["wait=4", ""])
def test_an_order_that_a_provider_serves_at_once_tells_what_was_preferred(pair: Pair, prefer: str) -> None:
    real, fake = pair.both("POST", "/orders", order_body("sandbox-at-once"), headers={"Prefer": prefer})
    assert (read(real)["status"], real.headers.get("preference-applied")) == (
        read(fake)["status"], fake.headers.get("preference-applied")
    )  # fmt: skip


def test_numbers_are_written_alike(pair: Pair) -> None:
    """A program may read `100` as a whole number and `100.00` as another thing."""
    for amount in (b"100", b"100.0", b"100.00", b"1e2", b"10.50"):
        content = b'{"productId":"sandbox-e155","referenceId":"%b","amount":%b,"denominationDetails":' % (
            uuid.uuid4().hex.encode(), amount,
        ) + b'[{"denomination":%b,"quantity":1.0}]}' % amount  # fmt: skip
        for path in ("/orders", "/orders/quote"):
            texts = [
                json.loads(answer.content, parse_float=str, parse_int=str)
                for answer in pair.both("POST", path, content=content)
            ]
            names = ["amount", "debit"]
            assert [texts[0][name] for name in names] == [texts[1][name] for name in names], amount
    real, fake = pair.both("GET", "/wallet/balance")
    spelt = [json.loads(answer.content, parse_float=str, parse_int=str)["balance"] for answer in (real, fake)]
    assert spelt[0] == spelt[1]


def test_times_are_written_alike(pair: Pair) -> None:
    placed = pair.both("POST", "/orders", order_body())
    brands = pair.both("GET", "/products/sandbox-at-once")
    for (real, fake), name in ((placed, "createdAt"), (placed, "updatedAt"), (brands, "updatedAt")):
        assert read(real)[name].endswith("Z") is read(fake)[name].endswith("Z")


@pytest.mark.parametrize("brand_id", ["sandbox-at-once", "sandbox-e153"])
def test_a_voucher_is_valid_as_long(pair: Pair, brand_id: str) -> None:
    pair.service.advance(time.time() - pair.service.time())  # the same day on both sides
    vouchers = [read(one)["vouchers"][0] for one in pair.both("POST", "/orders", order_body(brand_id))]
    assert vouchers[0]["validTill"] == vouchers[1]["validTill"]


# --- replay and conflict ---------------------------------------------------------------------------------------------

CUSTOMER = {"name": "Asha", "email": "asha@example.com"}
SECOND_TIMES: dict[str, dict[str, Any]] = {
    "the same": {},
    "numbers otherwise written": {
        "amount": 700.0, **lines({"denomination": 100.0, "quantity": 2.0}, {"denomination": 500.0, "quantity": 1})
    },
    "lines the other way round": lines({"denomination": 500, "quantity": 1}, {"denomination": 100, "quantity": 2}),
    "lines apart": lines(
        {"denomination": 100, "quantity": 1}, {"denomination": 500, "quantity": 1}, {"denomination": 100, "quantity": 1}
    ),
    "delivery null": {"deliveryDetails": None},
    "delivery empty": {"deliveryDetails": {}},
    "delivery of nulls": {"deliveryDetails": {"recipientName": None}},
    "members nobody knows": {"discountAmount": 5, "customerDetails": CUSTOMER | {"age": 5}},
    "phone null": {"customerDetails": CUSTOMER | {"phoneNumber": None}},
    "another amount": {
        "amount": 600, **lines({"denomination": 100, "quantity": 1}, {"denomination": 500, "quantity": 1})
    },
    "other lines of the same amount": lines({"denomination": 100, "quantity": 7}),
    "another brand": {"productId": "sandbox-e154"},
    "an unknown brand": {"productId": "nothing"},
    "no customer": {"customerDetails": None},
    "another customer": {"customerDetails": CUSTOMER | {"name": "asha"}},
    "phone empty": {"customerDetails": CUSTOMER | {"phoneNumber": ""}},
    "a delivery": {"deliveryDetails": {"recipientType": "SELF"}},
    "a wrong sum": {"amount": 1},
}  # fmt: skip


@pytest.fixture(scope="module")
def placed(newcomers: Newcomers) -> tuple[Pair, dict[str, Any]]:
    pair = make_pair(newcomers)
    body = order_body("sandbox-e156", {100: 2, 500: 1}, productId="sandbox-e155", customerDetails=CUSTOMER)
    pair.same("POST", "/orders", body, keep="order")
    return pair, body


@pytest.mark.parametrize("changes", SECOND_TIMES.values(), ids=SECOND_TIMES)
def test_a_reference_that_comes_again(placed: tuple[Pair, dict[str, Any]], changes: dict[str, Any]) -> None:
    pair, body = placed
    pair.same("POST", "/orders", body | changes)
    pair.same("GET", "/wallet/balance")
    real, fake = pair.both("POST", "/orders", body | changes)
    for side, answer in ((pair.real, real), (pair.fake, fake)):
        if answer.status_code == 409:
            assert read(answer)["orderId"] == side.names["order"]


@pytest.mark.parametrize(
    "reference_id",
    ["a/b", "a b", "100%", "%41", "ü", "日本", "a+b", "a?b#c", "...", " ", "-", "x" * 40, "é" * 40, "🎁" * 40, "a\\b",
     '"', "<>", "a;b=c", "quote", "vouchers", "a//b", "/"],
)  # fmt: skip
def test_any_reference_is_found_again(shared: Pair, reference_id: str) -> None:
    reference_id = reference_id if len(reference_id) > 1 else reference_id + uuid.uuid4().hex[:8]
    shared.same("POST", "/orders", order_body(referenceId=reference_id))
    shared.same("GET", f"/orders/by-reference/{quote(reference_id, safe='')}")
    if reference_id.count("/") == 1:
        shared.same("GET", f"/orders/by-reference/{reference_id}")


def test_a_reference_with_a_plus_and_one_decoded_twice_are_not_the_same(shared: Pair) -> None:
    shared.both("POST", "/orders", order_body(referenceId="p+q"))
    shared.both("POST", "/orders", order_body(referenceId="%70%71"))
    for path in ("p+q", "p%20q", "p%2Bq", "%70%71", "%2570%2571"):
        shared.same("GET", f"/orders/by-reference/{path}")


@pytest.mark.parametrize("voucher_id", ["nothing", "vch_" + "0" * 32, "%2e"])
def test_a_voucher_that_is_not_there(shared: Pair, voucher_id: str) -> None:
    shared.same("GET", f"/orders/vouchers/{voucher_id}")


def test_a_voucher_is_told_as_in_its_order(pair: Pair) -> None:
    pair.same("POST", "/orders", order_body("sandbox-e155", {10: 1, 500: 2}), keep="order")
    for place in range(3):
        pair.same("GET", f"/orders/vouchers/<order.voucher{place}>")


def test_lines_of_the_same_denomination_are_merged(pair: Pair) -> None:
    several = lines({"denomination": 100, "quantity": 1}, {"denomination": 100.0, "quantity": 1})
    pair.same("POST", "/orders", order_body("sandbox-e153", amount=200) | several)
    pair.same("POST", "/orders", order_body("sandbox-e154", amount=200) | several)


def test_vouchers_stand_in_the_order_of_the_lines(pair: Pair) -> None:
    pair.same("POST", "/orders", order_body("sandbox-e155", {500: 1, 10: 2, 100: 1}))
    pair.same("POST", "/orders", order_body("sandbox-e155", {100: 1, 500: 1}))


# --- lists -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def listed(newcomers: Newcomers) -> Pair:
    """Orders and movements of several kinds; a moment between the third and the fourth is known as `between`."""
    pair = make_pair(newcomers)
    for place, brand_id in enumerate(("sandbox-e153", "sandbox-e102", "sandbox-e155", "sandbox-e150", "sandbox-e154")):
        if place == 3:
            time.sleep(0.005)
            pair.service.advance(5)
            pair.real.names["between"] = quote(datetime.now(UTC).isoformat())
            pair.fake.names["between"] = quote(pair.service.now().isoformat())
            time.sleep(0.005)
            pair.service.advance(5)
        pair.same("POST", "/orders", order_body(brand_id), keep=f"order{place}")
    return pair


LIST_QUERIES = (
    "", "limit=1", "limit=3", "limit=201", "limit=0", "limit=x", "limit=-1", "limit=1.0", "cursor=nonsense", "cursor=",
    "cursor=b3JkXzE", "from=<between>", "to=<between>", "from=<between>&to=<between>",
    "from=2000-01-01T00:00:00Z&to=2999-01-01T00:00:00Z", "from=2999-01-01T00:00:00Z", "to=2000-01-01T00:00:00Z",
    "from=yesterday", "to=2026-01-01", "from=", "limit=0&from=x&to=y&cursor=z", "to=9999-12-31T23:59:59Z",
    "from=0001-01-01T00:00:00Z", "from=2026-01-01T00:00:00+05:30", "from=2026-01-01%2000:00:00Z",
)  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [*LIST_QUERIES, "status=SUCCESS", "status=FAILED", "status=SUCCESS&status=FAILED", "status=PROCESSING",
     "status=success", "status=", "status=FAILED&limit=1", "status=NOT&limit=0", "from=<between>&status=FAILED"],
)  # fmt: skip
def test_list_of_orders(listed: Pair, query: str) -> None:
    listed.same("GET", f"/orders?{query}")


@pytest.mark.parametrize("query", LIST_QUERIES)
def test_list_of_transactions(listed: Pair, query: str) -> None:
    listed.same("GET", f"/wallet/transactions?{query}")


@pytest.mark.parametrize("path", ["/orders?limit=2", "/wallet/transactions?limit=2", "/orders?limit=1&status=SUCCESS"])
def test_a_list_is_read_to_its_end_by_its_cursors(listed: Pair, path: str) -> None:
    pages: dict[str, list[Any]] = {}
    for name, side in (("real", listed.real), ("fake", listed.fake)):
        cursor: str | None = ""
        while cursor is not None:
            page = read(side.send("GET", path + (f"&cursor={quote(cursor)}" if cursor else "")))
            pages.setdefault(name, []).append(plain(page))
            cursor = page["nextCursor"]
    assert differences(pages["real"], pages["fake"]) == []


def test_a_cursor_of_another_list_is_refused(listed: Pair) -> None:
    for side, path in ((listed.real, "/wallet/transactions?limit=1"), (listed.fake, "/wallet/transactions?limit=1")):
        side.names["other"] = quote(read(side.send("GET", path))["nextCursor"])
    listed.same("GET", "/orders?cursor=<other>")


# --- quote, plan, reconcile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        order_body(), order_body(referenceId=None), order_body(referenceId="." * 41), order_body("sandbox-never"),
        order_body("sandbox-e102", {101: 2}), order_body("sandbox-e101"), order_body("nothing"),
        order_body("sandbox-e300", {9_000_000_000: 1}), order_body("sandbox-e150", {100: 1}),
        order_body("sandbox-e150", {101: 1}), order_body("sandbox-e156", {101: 2, 100: 3}),
        order_body("sandbox-e013", {100: 1}), order_body("sandbox-e013", {101: 1}),
        order_body("sandbox-e152", {1000: 1000}), order_body("sandbox-e100", {101: 1}),
    ],
)  # fmt: skip
def test_a_quote(asked: Pair, body: dict[str, Any]) -> None:
    asked.same("POST", "/orders/quote", body)


@pytest.mark.parametrize(
    "amount",
    [100, 350, 1350, 1850, 99_900, 1_000_000, 1_000_100, 30, 0, -100, 100.0, 100.50, 100.005, 10**20, "100", None, True,
     [100], {}],
)  # fmt: skip
@pytest.mark.parametrize(
    "brand_id",
    ["sandbox-at-once", "sandbox-e155", "sandbox-e156", "sandbox-e154", "sandbox-e153", "sandbox-e102", "nothing"],
)
def test_a_plan(shared: Pair, brand_id: str, amount: Any) -> None:
    shared.same("POST", f"/products/{brand_id}/plan", {"amount": amount})


@pytest.mark.parametrize("brand_id", ["sandbox-e101", "sandbox-at-once", "nothing"])
def test_a_plan_of_nothing(shared: Pair, brand_id: str) -> None:
    shared.same("POST", f"/products/{brand_id}/plan", {})


def test_a_plan_counts_the_fewest_vouchers_of_a_flexible_brand(shared: Pair) -> None:
    for amount in (10, 1000, 1001, 1005, 2500, 2500.55, 9.99, 5000):
        shared.same("POST", "/products/sandbox-e155/plan", {"amount": amount})


def line(reference_id: Any = "ours0", status: Any = "SUCCESS", amount: Any = 100, **more: Any) -> dict[str, Any]:
    return {"referenceId": reference_id, "status": status, "amount": amount, **more}


@pytest.fixture(scope="module")
def booked(newcomers: Newcomers) -> Pair:
    pair = make_pair(newcomers)
    pair.same("POST", "/orders", order_body("sandbox-e153", referenceId="ours0"))
    pair.same("POST", "/orders", order_body("sandbox-e102", referenceId="ours1"))
    pair.same("POST", "/orders", json.loads(json.dumps(
        order_body("sandbox-e155", {Decimal("10.50"): 1}, referenceId="ours2"), default=number
    )))  # fmt: skip
    return pair


@pytest.mark.parametrize(
    "orders",
    [
        [line()], [line(), line("ours1", "FAILED")], [line(status="FAILED")], [line(amount=101)], [line(amount=100.0)],
        [line(amount=250.50)], [line("ours2", amount=10.5)], [line("ours2", amount=10.55)], [line("ours2", amount=0)],
        [line(status="FAILED", amount=1)], [line("nobody")], [line("nobody"), line("ours0"), line("ours1", amount=1)],
        [line(status="WHATEVER")], [line(status="success")], [line(amount=-5)], [line(amount=1.005)],
        [line(amount=10**20)], [line(extra=1)],
        [], None, ..., {}, "x", [line()] * 2, [line(), line("a"), line("a")], [5], [None], [{}], [line(), {}, []],
        [line(None, None, None)], [line(5, 5, "5")], [line("")], [line("x" * 41)], [line(".")], [line("..")],
        [line("a\nb")], [line(status="")], [line(status="x" * 21)], [line(amount="1")], [line(amount=True)],
        [line(f"r{place}") for place in range(1000)], [line(f"r{place}") for place in range(1001)],
        [line(amount="x"), line("b", amount="x")],
    ],
    ids=shown,
)  # fmt: skip
def test_reconcile(booked: Pair, orders: Any) -> None:
    booked.same("POST", "/reconcile", {} if orders is ... else {"orders": orders})


# --- webhooks and events ---------------------------------------------------------------------------------------------


class Receiver:
    """A partner's receiver, known to both services: it keeps what it is sent and answers as it is told."""

    def __init__(self, service: testing.FakeService) -> None:
        self.status = 200
        self.from_real: list[tuple[dict[str, str], bytes]] = []
        self.from_fake: list[tuple[dict[str, str], bytes]] = []
        keeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                keeper.from_real.append((lowered(dict(self.headers.items())), body))
                self.send_response(keeper.status)
                self.send_header("Content-Length", "6")
                self.end_headers()
                self.wfile.write(b"thanks")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        service.listen(self.url, self._hear)

    def _hear(self, raw_body: bytes, headers: Any) -> Answer:
        self.from_fake.append((lowered(dict(headers.items())), raw_body))
        return Answer(self.status, "thanks")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@pytest.fixture
def receiver(pair: Pair) -> Iterator[Receiver]:
    made = Receiver(pair.service)
    yield made
    made.close()


HOOK = "https://hooks.example.com/giftrail"
BAD_HOOKS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "url null": {"url": None},
    "url a number": {"url": 5},
    "url empty": {"url": ""},
    "url no url": {"url": "somewhere"},
    "url of ftp": {"url": "ftp://hooks.example.com/"},
    "url without a host": {"url": "https://"},
    "url with a space": {"url": "https://hooks.example.com/a b"},
    "url with a user": {"url": "https://me:secret@hooks.example.com/"},
    "url with a fragment": {"url": f"{HOOK}#here"},
    "url of a private address": {"url": "https://10.0.0.1/"},
    "url of port 0": {"url": "https://hooks.example.com:0/"},
    "url of no port": {"url": "https://hooks.example.com:port/"},
    "url with other letters": {"url": "https://hööks.example.com/"},
    "url too long": {"url": HOOK + "x" * 2000},
    "events empty": {"url": HOOK, "events": []},
    "events unknown": {"url": HOOK, "events": ["ORDER_TERMINAL_STATE", "NEWS"]},
    "events a string": {"url": HOOK, "events": "ORDER_TERMINAL_STATE"},
    "events of numbers": {"url": HOOK, "events": [1, None]},
    "description a number": {"url": HOOK, "description": 5},
    "description too long": {"url": HOOK, "description": "x" * 201},
    "description of two lines": {"url": HOOK, "description": "a\nb"},
    "secret short": {"url": HOOK, "secret": "short"},
    "secret of 31": {"url": HOOK, "secret": "x" * 31},
    "secret too long": {"url": HOOK, "secret": "x" * 201},
    "secret no Base64": {"url": HOOK, "secret": "whsec_" + "!" * 40},
    "secret of two lines": {"url": HOOK, "secret": "x" * 20 + "\n" + "x" * 20},
    "secret a number": {"url": HOOK, "secret": 5},
    "everything wrong": {"url": 5, "events": "x", "description": 5, "secret": 5},
}
GOOD_HOOKS: dict[str, dict[str, Any]] = {
    "url alone": {"url": HOOK},
    "members null": {"url": HOOK, "events": None, "description": None, "secret": None},
    "one kind": {"url": HOOK, "events": ["WALLET_LOW_BALANCE"]},
    "all kinds in another order, one twice": {
        "url": HOOK,
        "events": ["ORDER_STATUS_CHANGED", "ORDER_TERMINAL_STATE", "BRAND_UPDATED", "ORDER_TERMINAL_STATE"],
    },
    "described": {"url": HOOK, "description": "the shop"},
    "described by nothing": {"url": HOOK, "description": ""},
    "a secret of one's own": {"url": HOOK, "secret": "x" * 32},
    "a secret of one's own in Base64": {"url": HOOK, "secret": "whsec_" + "QUFB" * 10},
    "members nobody knows": {"url": HOOK, "colour": "red"},
}


@pytest.mark.parametrize("body", BAD_HOOKS.values(), ids=BAD_HOOKS)
def test_a_webhook_that_cannot_be(shared: Pair, body: dict[str, Any]) -> None:
    shared.same("POST", "/webhooks", body)


@pytest.mark.parametrize("body", GOOD_HOOKS.values(), ids=GOOD_HOOKS)
def test_a_webhook_from_its_start_to_its_end(pair: Pair, body: dict[str, Any]) -> None:
    pair.same("POST", "/webhooks", body, keep="hook")
    pair.same("GET", "/webhooks/<hook>")
    pair.same("GET", "/webhooks")
    pair.same("GET", "/webhooks/<hook>/deliveries")
    pair.same("POST", "/webhooks/<hook>/rotate-secret", {})
    pair.same("GET", "/webhooks/<hook>")
    pair.same("POST", "/webhooks/<hook>/promote-secret")
    pair.same("POST", "/webhooks/<hook>/promote-secret")
    pair.same("POST", "/webhooks/<hook>/replay", {"from": "2000-01-01T00:00:00Z"})
    pair.same("DELETE", "/webhooks/<hook>")
    pair.same("DELETE", "/webhooks/<hook>")
    pair.same("GET", "/webhooks/<hook>")
    pair.same("GET", "/webhooks")


@pytest.fixture
def hooked(pair: Pair) -> Pair:
    pair.same("POST", "/webhooks", {"url": HOOK, "description": "the shop"}, keep="hook")
    return pair


@pytest.mark.parametrize(
    "body",
    [
        {}, {"url": None, "events": None, "description": None, "status": None}, {"description": "another"},
        {"description": ""}, {"status": "DISABLED"}, {"status": "ENABLED"}, {"status": "DELETED"}, {"status": ""},
        {"status": "disabled"}, {"status": 5}, {"events": ["BRAND_DISCOUNT_UPDATED", "BRAND_UPDATED"]},
        {"events": []}, {"events": ["NEWS"]}, {"url": "somewhere"}, {"url": ""}, {"url": f"{HOOK}/2"}, {"secret": "x"},
        {"url": 5, "events": "x", "status": 5, "description": 5},
    ],
    ids=shown,
)  # fmt: skip
def test_a_webhook_is_changed(hooked: Pair, body: dict[str, Any]) -> None:
    hooked.same("PATCH", "/webhooks/<hook>", body)
    hooked.same("GET", "/webhooks/<hook>")


@pytest.mark.parametrize(
    "body",
    [{}, {"from": None}, {"from": "yesterday"}, {"from": "2026-01-01"}, {"from": 5}, {"from": ""},
     {"from": "2026-01-01T00:00:00"}, {"from": "2000-01-01T00:00:00Z", "to": "tomorrow"},
     {"from": "2000-01-01T00:00:00Z", "to": None}, {"from": "2999-01-01T00:00:00Z"}, {"from": "x", "to": "y"},
     {"from": "2026-01-01 00:00:00Z"}, {"from": "2026-01-01T00:00:00+05:30"}],
)  # fmt: skip
def test_a_range_is_replayed(hooked: Pair, body: dict[str, Any]) -> None:
    hooked.same("POST", "/webhooks/<hook>/replay", body)


@pytest.mark.parametrize("secret", [{}, {"secret": None}, {"secret": "x" * 40}, {"secret": "short"}, {"secret": 5},
                                    {"secret": "whsec_!" + "x" * 40}])  # fmt: skip
def test_a_secret_is_rotated(hooked: Pair, secret: dict[str, Any]) -> None:
    hooked.same("POST", "/webhooks/<hook>/rotate-secret", secret)
    hooked.same("GET", "/webhooks/<hook>")


def test_a_disabled_webhook(pair: Pair) -> None:
    pair.same("POST", "/webhooks", {"url": HOOK}, keep="hook")
    pair.same("PATCH", "/webhooks/<hook>", {"status": "DISABLED"})
    pair.same("PATCH", "/webhooks/<hook>", {"status": "DISABLED"})
    pair.same("POST", "/webhooks/<hook>/rotate-secret")
    pair.same("PATCH", "/webhooks/<hook>", {"status": "ENABLED"})


@pytest.mark.parametrize("deed", ["test", "replay"])
def test_a_disabled_webhook_is_sent_nothing(pair: Pair, deed: str) -> None:
    pair.same("POST", "/webhooks", {"url": HOOK}, keep="hook")
    pair.same("PATCH", "/webhooks/<hook>", {"status": "DISABLED"})
    pair.same("POST", f"/webhooks/<hook>/{deed}", {"from": "2000-01-01T00:00:00Z"})
    pair.same("GET", "/webhooks/<hook>/deliveries")


def test_there_are_twenty_webhooks_at_most(pair: Pair) -> None:
    for _ in range(20):
        pair.both("POST", "/webhooks", {"url": HOOK})
    pair.same("GET", "/webhooks")
    pair.same("POST", "/webhooks", {"url": HOOK})


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/rotate-secret"),
     ("POST", "/promote-secret"), ("GET", "/deliveries"), ("POST", "/replay")],
)  # fmt: skip
def test_a_webhook_that_is_not_there(shared: Pair, method: str, path: str) -> None:
    body = {"from": "2000-01-01T00:00:00Z"} if method in {"POST", "PATCH"} else None
    shared.same(method, f"/webhooks/nothing{path}", body)


@pytest.mark.parametrize("body", [{"from": "x"}, {"status": "x"}, {"secret": "x"}])
@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/replay"), ("POST", "/rotate-secret")])
def test_a_webhook_that_is_not_there_and_a_body_that_is_wrong(
    shared: Pair, method: str, path: str, body: dict[str, Any]
) -> None:
    shared.same(method, f"/webhooks/nothing{path}", body)


def heard(requests: list[tuple[dict[str, str], bytes]]) -> list[Any]:
    """What is compared of webhook requests: the members, and which headers of ours they carry."""
    ours = ("content-type", "x-event-type", "x-delivery-attempt")
    signed = ("x-verify", "webhook-id", "webhook-timestamp", "webhook-signature")
    return [
        {
            "body": plain(json.loads(body, parse_float=Decimal)),
            "headers": {name: headers.get(name) for name in ours},
            "signatures": [len(headers.get(name, "").split(" ")) for name in signed if name in headers],
        }
        for headers, body in requests
    ]


def registered(pair: Pair, receiver: Receiver, **members: Any) -> None:
    pair.same("POST", "/webhooks", {"url": receiver.url, **members}, keep="hook")
    pair.house.settle()


def deliveries_ended(pair: Pair, state: str, *, count: int = 1) -> None:
    def done() -> bool:
        rows = read(pair.real.send("GET", f"/webhooks/<hook>/deliveries?status={state}"))["data"]
        return len(rows) >= count

    until(done)


@pytest.mark.parametrize(("status", "state"), [(200, "DELIVERED"), (202, "DELIVERED"), (410, "HELD")])
def test_a_test_event_is_delivered(pair: Pair, receiver: Receiver, status: int, state: str) -> None:
    receiver.status = status
    registered(pair, receiver)
    pair.same("POST", "/webhooks/<hook>/test")
    deliveries_ended(pair, state)
    assert [(one["headers"], one["signatures"]) for one in heard(receiver.from_real)] == [
        (one["headers"], one["signatures"]) for one in heard(receiver.from_fake)
    ]
    pair.same("GET", "/webhooks/<hook>")
    pair.same("GET", "/webhooks/<hook>/deliveries")
    for query in ("status=DUE", f"status={state}", "status=NOT", "limit=0", "limit=1", "cursor=x"):
        pair.same("GET", f"/webhooks/<hook>/deliveries?{query}")
    pair.same("GET", "/events")


@pytest.mark.parametrize(
    "query", ["from=x", "to=2000-01-01T00:00:00Z", "status=DELIVERED&status=DUE", "limit=1&limit=x"]
)
def test_deliveries_are_asked_for_by_other_words(pair: Pair, receiver: Receiver, query: str) -> None:
    registered(pair, receiver)
    pair.same("POST", "/webhooks/<hook>/test")
    deliveries_ended(pair, "DELIVERED")
    pair.same("GET", f"/webhooks/<hook>/deliveries?{query}")


def test_a_test_event_says_the_same(pair: Pair, receiver: Receiver) -> None:
    registered(pair, receiver)
    pair.same("POST", "/webhooks/<hook>/test")
    deliveries_ended(pair, "DELIVERED")
    bodies = [json.loads(requests[0][1]) for requests in (receiver.from_real, receiver.from_fake)]
    assert plain(bodies[0]) == plain(bodies[1])
    assert bodies[0]["message"] == bodies[1]["message"]


def test_a_receiver_that_fails_is_tried_again(pair: Pair, receiver: Receiver) -> None:
    receiver.status = 500
    registered(pair, receiver)
    pair.same("POST", "/webhooks/<hook>/test")
    until(lambda: bool(read(pair.real.send("GET", "/webhooks/<hook>/deliveries"))["data"][0]["attempts"]))
    pair.same("GET", "/webhooks/<hook>/deliveries")


def test_a_receiver_that_is_not_there(pair: Pair) -> None:
    pair.same("POST", "/webhooks", {"url": "http://127.0.0.1:1/"}, keep="hook")
    pair.house.settle()
    pair.same("POST", "/webhooks/<hook>/test")
    until(lambda: bool(read(pair.real.send("GET", "/webhooks/<hook>/deliveries"))["data"][0]["attempts"]))
    pair.same("GET", "/webhooks/<hook>/deliveries")


def test_a_disabled_webhook_gets_no_delivery_of_what_happens(pair: Pair, receiver: Receiver) -> None:
    registered(pair, receiver, events=["ORDER_TERMINAL_STATE", "ORDER_STATUS_CHANGED"])
    pair.same("PATCH", "/webhooks/<hook>", {"status": "DISABLED"})
    pair.house.settle()
    pair.same("POST", "/orders", order_body("sandbox-away"), keep="order", headers={"Prefer": "wait=0"})
    pair.cancel("order")
    pair.until_told()
    pair.same("GET", "/webhooks/<hook>/deliveries")
    pair.same("PATCH", "/webhooks/<hook>", {"status": "ENABLED"})
    pair.same("POST", "/webhooks/<hook>/replay", {"from": "2000-01-01T00:00:00Z"})


def test_orders_are_told_in_the_feed_and_to_the_webhook(pair: Pair, receiver: Receiver) -> None:
    pair.add_after_1()
    registered(pair, receiver)
    pair.same("POST", "/webhooks", {"url": HOOK, "events": ["ORDER_STATUS_CHANGED"]}, keep="other")
    for name in ("order0", "order1"):
        pair.same("POST", "/orders", order_body(AFTER_1), keep=name, headers={"Prefer": "wait=0"})
        pair.until_ended(name)
        pair.until_told()
    deliveries_ended(pair, "DELIVERED", count=2)
    pair.same("GET", "/events")
    assert differences(heard(receiver.from_real), heard(receiver.from_fake)) == []
    for side in (pair.real, pair.fake):
        events = read(side.send("GET", "/events"))["data"]
        side.names |= {f"event{place}": event["eventId"] for place, event in enumerate(events)}
        side.names["future"] = "2999-01-01T00:00:00Z"
    for query in ("limit=1", "limit=2", "limit=201", "limit=0", "after=<event0>", "after=<event1>", "after=nothing",
                  "after=", "after=<event0>&limit=1", "limit=x&after=nothing"):  # fmt: skip
        pair.same("GET", f"/events?{query}")
    for query in ("", "limit=1", "status=DELIVERED"):
        pair.same("GET", f"/webhooks/<hook>/deliveries?{query}")
    pair.same("POST", "/events/<event0>/redeliver")
    pair.same("POST", "/events/nothing/redeliver")
    until(lambda: len(receiver.from_real) >= 3)
    deliveries_ended(pair, "DELIVERED", count=2)
    assert differences(heard(receiver.from_real), heard(receiver.from_fake)) == []


def test_an_event_that_is_sent_again_is_one_delivery(pair: Pair, receiver: Receiver) -> None:
    pair.add_after_1()
    registered(pair, receiver)
    pair.same("POST", "/orders", order_body(AFTER_1), keep="order", headers={"Prefer": "wait=0"})
    pair.until_ended("order")
    pair.until_told()
    deliveries_ended(pair, "DELIVERED")
    pair.same("POST", "/webhooks/<hook>/replay", {"from": "2000-01-01T00:00:00Z"})
    pair.service.advance(1)
    until(lambda: len(receiver.from_real) == 2)
    deliveries_ended(pair, "DELIVERED")
    pair.same("GET", "/webhooks/<hook>/deliveries")


def test_what_an_operator_does_is_told_in_the_same_members(pair: Pair) -> None:
    brand_id = f"changing-{uuid.uuid4().hex[:8]}"
    members = {"title": "Changing", "category": ["Sandbox"], "tags": ["sandbox"]}
    values = sandbox._values(sandbox.TABLE[0], currency="INR") | members | {"id": brand_id, "providers": ["generator"]}
    pair.house.brand(brand_id, **values)
    pair.house.enable(pair.program, brand_id)
    pair.service.add_brand(brand_id, title="Changing")
    pair.same("GET", f"/products/{brand_id}")
    pair.house.brand(brand_id, **(values | {"maxOrderAmount": Decimal("5000.50")}))
    pair.service.change_brand(brand_id, max_order="5000.50")
    pair.house.brand(brand_id, **(values | {"status": "INACTIVE"}))
    pair.service.change_brand(brand_id, status="INACTIVE", max_order=1_000_000)
    pair.house.brand(brand_id, **values)
    pair.service.change_brand(brand_id, status="ACTIVE")

    async def discount(conn: pool.Connection) -> None:
        await edit.set_discount(
            conn, partner=pair.program.partner, brand_id=brand_id, percentage=Decimal("2.5"), now=app.now()
        )

    pair.house.do(discount)
    pair.service.change_brand(brand_id, discount_percentage="2.5")

    async def threshold(conn: pool.Connection) -> None:
        wallet = await ledger.open_wallet(conn, partner_id=pair.program.partner.partner_id)
        wallet.set_threshold(99_999_950)
        await ledger.close_wallet(conn, wallet, now=app.now())

    pair.house.do(threshold)
    pair.service.set_threshold("999999.50")
    pair.same("GET", f"/products/{brand_id}")
    pair.same("GET", "/wallet/balance")
    for amount in (100, 250):
        pair.same("POST", "/orders/quote", order_body(brand_id, {amount: 1}))
        pair.same("POST", "/orders", order_body(brand_id, {amount: 1}))
    pair.same("GET", "/wallet/balance")
    pair.same("GET", "/wallet/transactions")
    pair.until_told()
    pair.same("GET", "/events")


def test_a_discount_is_rounded_half_up(pair: Pair) -> None:
    brand_id = f"discounted-{uuid.uuid4().hex[:8]}"
    row = next(row for row in sandbox.TABLE if row.brand_id == "sandbox-e155")
    pair.house.brand(brand_id, **(sandbox._values(row, currency="INR") | {"id": brand_id, "title": "Discounted"}))
    pair.house.enable(pair.program, brand_id)
    pair.service.add_brand(brand_id, title="Discounted", denomination_type="FLEXIBLE", denominations=())
    for percentage in ("0.5", "3.3333", "100", "12.25"):

        async def discount(conn: pool.Connection, percentage: str = percentage) -> None:
            await edit.set_discount(
                conn, partner=pair.program.partner, brand_id=brand_id, percentage=Decimal(percentage), now=app.now()
            )

        pair.house.do(discount)
        pair.service.change_brand(brand_id, discount_percentage=percentage)
        for cents in (1001, 1002, 1050, 1099, 99_999):
            body = order_body(brand_id, {cents / 100: 1})
            pair.same("POST", "/orders/quote", body)
            pair.same("POST", "/orders", body)
    pair.same("GET", "/wallet/transactions")


def test_a_slow_order_is_in_the_statement_from_its_hold_to_its_capture(pair: Pair) -> None:
    pair.add_after_1()
    pair.same("POST", "/orders", order_body(AFTER_1, TWO_LINES), keep="order", headers={"Prefer": "wait=0"})
    pair.same("GET", "/wallet/balance")
    pair.same("GET", "/wallet/transactions")
    pair.until_ended("order")
    pair.same("GET", "/orders/<order>")
    pair.same("GET", "/wallet/balance")
    pair.same("GET", "/wallet/transactions")


def test_an_order_may_be_waited_for_less_than_it_takes(pair: Pair) -> None:
    body = order_body("sandbox-after-5-seconds")
    pair.same("POST", "/orders", body, headers={"Prefer": "wait=1"})
    pair.same("POST", "/orders", body, headers={"Prefer": "wait=1"})
    pair.same("GET", f"/orders/by-reference/{body['referenceId']}")


def test_the_clock_of_the_fake_is_near_the_real_one(pair: Pair) -> None:
    placed = [datetime.fromisoformat(read(one)["createdAt"]) for one in pair.both("POST", "/orders", order_body())]
    assert abs(placed[0] - placed[1]) < timedelta(minutes=5)
