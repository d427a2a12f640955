"""A running Giftrail for tests: a real server on a real socket over a real PostgreSQL, and an operator's hands."""

import asyncio
import contextlib
import io
import itertools
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import httpx
import uvicorn
from pydantic import SecretStr

from giftrail import app, running
from giftrail import keys as installation_keys
from giftrail.audit import findings as audit
from giftrail.catalog import edit, rows
from giftrail.catalog import model as catalog
from giftrail.db import changes, pool
from giftrail.kit import money
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.providers import importing as stock_importing
from giftrail.settings import Settings
from giftrail.wallet import ledger, onboard

T = TypeVar("T")
SEEN_WITHIN_SECONDS = 10.0
_numbers = itertools.count(1)

KEYS = {name: SecretStr(value) for name, value in installation_keys.draw_keys().items()}


def execute(url: str, statement: str) -> None:
    """Run one SQL statement outside a transaction."""

    async def run() -> None:
        async with pool.connect(url) as conn:
            await conn.execute(statement)

    asyncio.run(run())


def settings_for(url: str, **overrides: Any) -> Settings:
    """Settings for a service in a test: no rate limit, quick polls, quiet."""
    values: dict[str, Any] = {
        "database_url": SecretStr(url),
        "port": 0,
        "rate_per_second": 0,
        "failed_logins_per_minute": 0,
        "poll_seconds": 0.02,
        "audit_every_seconds": 0,
        "log_level": "ERROR",
        "access_log": "off",
        "low_stock_codes": 0,
        **KEYS,
    }
    return Settings(**(values | overrides))


@dataclass
class PartnerProgram:
    """A partner's program: its credentials, and HTTP calls with a token and a request id."""

    house: "House"
    partner: partners.Partner
    client_id: str
    client_secret: str
    http: httpx.Client
    token: str = ""

    def log_in(self) -> httpx.Response:
        """POST login; keeps the token when there is one."""
        answer = self.http.post(
            "/v1/partners/auth/login", json={"clientId": self.client_id, "clientSecret": self.client_secret}
        )
        if answer.status_code == 200:
            self.token = answer.json()["token"]
        return answer

    def headers(self, extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """Authorization and X-REQUEST-ID, with changes; None leaves one out."""
        if not self.token:
            self.log_in()
        made: dict[str, str | None] = {"Authorization": f"Bearer {self.token}", "X-REQUEST-ID": str(uuid.uuid4())}
        made |= dict(extra or {})
        return {name: value for name, value in made.items() if value is not None}

    def get(self, path: str, *, headers: Mapping[str, str | None] | None = None, **more: Any) -> httpx.Response:
        """GET below /v1/partners."""
        return self.http.get(f"/v1/partners{path}", headers=self.headers(headers), **more)

    def post(
        self, path: str, body: Any = None, *, headers: Mapping[str, str | None] | None = None, **more: Any
    ) -> httpx.Response:
        """POST below /v1/partners; `content=` instead of a body sends raw bytes."""
        made = self.headers({"Content-Type": "application/json", **(headers or {})})
        if body is not None:
            more["json"] = body
        return self.http.post(f"/v1/partners{path}", headers=made, **more)

    def place(self, body: Mapping[str, Any] | None = None, **changes_: Any) -> httpx.Response:
        """POST an order: `order_body` with changes, or the given body."""
        return self.post("/orders", dict(body) if body is not None else self.order_body(**changes_))

    def order_body(
        self, product_id: str = "", lines: Mapping[Any, Any] | None = None, **changes_: Any
    ) -> dict[str, Any]:
        """A sound order of the test brand with a new referenceId; `lines` maps denomination to quantity."""
        lines = lines or {100: 1}
        return {
            "productId": product_id or self.house.fixed_brand,
            "referenceId": f"ref-{uuid.uuid4().hex}"[:40],
            "amount": sum(denomination * quantity for denomination, quantity in lines.items()),
            "denominationDetails": [{"denomination": d, "quantity": q} for d, q in lines.items()],
            "customerDetails": {"name": "Asha Rao", "phoneNumber": "+919800000000", "email": "asha@example.com"},
        } | changes_

    def balance(self) -> Any:
        """What can still be spent."""
        return self.get("/wallet/balance").json()["balance"]


@dataclass
class House:
    """A running service and what an operator does to it. The deeds return when the service has seen them."""

    base_url: str
    url: str
    settings: Settings
    fixed_brand: str = "fixed"
    flexible_brand: str = "flexible"
    inactive_brand: str = "inactive"
    stock_brand: str = "stocked"
    clients: list[httpx.Client] = field(default_factory=list)

    def do(self, deed: Callable[[pool.Connection], Awaitable[T]], *, settle: bool = True) -> T:
        """Run a deed of a room in a transaction, and wait until the service has seen it."""

        async def run() -> T:
            async with pool.connect(self.url) as conn, conn.transaction():
                return await deed(conn)

        result = asyncio.run(run())
        if settle:
            self.settle()
        return result

    def settle(self) -> None:
        """Wait until the service has seen every change that is committed now."""

        async def versions() -> dict[str, int]:
            async with pool.connect(self.url) as conn:
                return await changes.read_versions(conn)

        wanted = asyncio.run(versions())
        deadline = time.monotonic() + SEEN_WITHIN_SECONDS
        while time.monotonic() < deadline:
            seen = httpx.get(f"{self.base_url}/readyz", trust_env=False).json().get("seen", {})
            if all(seen.get(topic, -1) >= version for topic, version in wanted.items()):
                return
            time.sleep(0.01)
        raise AssertionError(f"the service did not see {wanted} within {SEEN_WITHIN_SECONDS} s")

    def partner(
        self,
        *,
        kind: str = "B2B",
        money_major: int | str = 100_000,
        currency: str = "INR",
        brands: list[str] | None = None,
        environment: str | None = None,
        **more: Any,
    ) -> PartnerProgram:
        """A new partner with money, for whom the test brands of its currency (or those named) are enabled."""
        name = f"partner {next(_numbers)} {uuid.uuid4().hex[:6]}"

        async def deed(conn: pool.Connection) -> tuple[partners.Partner, manage.NewCredential]:
            now = app.now()
            made = await onboard.create_partner(
                conn, name=name, kind=partners.Kind(kind), currency=currency, now=now, **more
            )
            credential = await manage.create_credential(
                conn,
                partner_id=made.partner_id,
                environment=environment or self.settings.environment,
                now=now,
            )
            enabled = brands
            if enabled is None:
                enabled = [self.fixed_brand, self.flexible_brand, self.inactive_brand, self.stock_brand]
                enabled = enabled if currency == "INR" else []
            if enabled:
                await edit.set_enabled(conn, partner=made, brand_ids=enabled, enabled=True, now=now)
            minor = money.to_minor(Decimal(money_major), currency=currency)
            if minor:
                wallet = await ledger.open_wallet(conn, partner_id=made.partner_id)
                wallet.top_up(minor, note=None, now=now)
                await ledger.close_wallet(conn, wallet, now=now)
            return made, credential

        made, credential = self.do(deed)
        return PartnerProgram(self, made, credential.client_id, credential.client_secret, self.client())

    def client(self) -> httpx.Client:
        """A bare HTTP client of the service."""
        client = httpx.Client(base_url=self.base_url, timeout=30, trust_env=False)
        self.clients.append(client)
        return client

    def brand(self, brand_id: str | None = None, **members: Any) -> str:
        """Import a brand: a FIXED one of INR with denominations 100, 250, 500 from the generator, with changes."""
        brand_id = brand_id or f"brand-{uuid.uuid4().hex[:10]}"
        row = brand_row(brand_id, **members)
        read = rows.Row(1, row)
        brand = read.brand(app.provider_names(self.settings))
        assert read.problems == []

        async def deed(conn: pool.Connection) -> None:
            await edit.upsert_brands(conn, [brand], now=app.now())

        self.do(deed)
        return brand_id

    def enable(self, program: PartnerProgram, *brand_ids: str, enabled: bool = True) -> None:
        """Enable or disable brands for a partner."""

        async def deed(conn: pool.Connection) -> None:
            await edit.set_enabled(
                conn, partner=program.partner, brand_ids=list(brand_ids), enabled=enabled, now=app.now()
            )

        self.do(deed)

    def stock(self, brand_id: str, denomination: int, codes: int, *, valid_till: str = "") -> None:
        """Put so many new codes of a denomination into a brand's stock."""

        async def deed(conn: pool.Connection) -> None:
            brand = await edit.read_brand(conn, brand_id=brand_id)
            lines = ["denomination,cardNumber,cardPin,validTill"]
            for _ in range(codes):
                number = uuid.uuid4().hex if brand.card_type.shows_number else ""
                pin = uuid.uuid4().hex[:8] if brand.card_type.shows_pin else ""
                lines.append(f"{denomination},{number},{pin},{valid_till}")
            shape = stock_importing.Shape(
                brand_id=brand_id,
                currency=brand.currency,
                shows_number=brand.card_type.shows_number,
                shows_pin=brand.card_type.shows_pin,
                denominations_minor=brand.denominations_minor
                if brand.denomination_type is catalog.DenominationType.FIXED
                else None,
            )
            await stock_importing.import_stock(
                conn, iter_lines(lines), shape=shape, keys=installation_keys.code_keys(self.settings), now=app.now()
            )

        self.do(deed, settle=False)

    def audit(self) -> list[str]:
        """The auditor's findings; empty when everything adds up."""

        async def run() -> list[str]:
            async with pool.connect(self.url) as conn:
                return await audit.list_findings(conn, now=app.now())

        return asyncio.run(run())


def iter_lines(lines: list[str]) -> io.StringIO:
    """Lines as an open text file gives them."""
    return io.StringIO("\n".join(lines) + "\n")


def brand_row(brand_id: str, **members: Any) -> dict[str, Any]:
    """A row of an import file, as JSON gives it with Decimals; `members` replace or, when None, remove."""
    row: dict[str, Any] = {
        "id": brand_id,
        "title": f"Brand {brand_id}",
        "brandDescription": "A brand of the tests.",
        "category": ["Food"],
        "tags": ["test"],
        "denominationType": "FIXED",
        "denominations": [Decimal(100), Decimal(250), Decimal(500)],
        "maxOrderAmount": Decimal(1_000_000),
        "redemptionType": "ONLINE",
        "cardType": "CARD_AND_PIN_NO_SECURED",
        "currency": "INR",
        "providers": ["generator"],
        "thumbnailUrl": "https://assets.giftrail.example/t.png",
    } | members
    return {name: Decimal(value) if type(value) is int else value for name, value in row.items() if value is not None}


def furnish(house: House) -> None:
    """The brands that every test may use and none may change."""
    house.brand(house.fixed_brand)
    house.brand(
        house.flexible_brand,
        denominationType="FLEXIBLE",
        denominations=None,
        minVoucherAmount=Decimal(10),
        maxVoucherAmount=Decimal(10_000),
        cardType="PIN_NO_SECURED",
    )
    house.brand(house.inactive_brand, status="INACTIVE")
    house.brand(house.stock_brand, providers=["stock"], cardType="CARD_NUMBER_SECURED")


@contextlib.contextmanager
def serving(url: str, **overrides: Any) -> Iterator[House]:
    """A service on a free port over the database, with the test brands; stopped at the end."""
    settings = settings_for(url, **overrides)
    listening = running.listen(settings)
    ready = threading.Event()
    servers: list[uvicorn.Server] = []
    failures: list[BaseException] = []

    async def tell(server: uvicorn.Server) -> None:
        servers.append(server)
        ready.set()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=running.loop_factory) as runner:
                runner.run(running.serve_here(settings, listening, beside=tell))
        except BaseException as error:
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(30)
    assert not failures, failures
    house = House(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", url=url, settings=settings)
    try:
        furnish(house)
        yield house
    finally:
        for client in house.clients:
            client.close()
        servers[0].should_exit = True
        thread.join(60)
        listening.close()
    assert not failures, failures


def write_csv(path: Path, lines: list[str]) -> Path:
    """A CSV file of the lines."""
    path.write_text("\n".join(lines) + "\n")
    return path
