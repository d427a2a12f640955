"""The voucher page, in a real Chromium and over plain HTTP: what it shows, to whom, and what it keeps to itself."""

import concurrent.futures
import contextlib
import http.client
import re
import secrets
import shutil
import struct
import threading
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, TypeVar

import httpx
import pytest
import zxingcpp
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from conftest import new_database
from giftrail import app
from giftrail.db import pool
from giftrail.delivery import begin, links
from giftrail.delivery import model as deliveries
from giftrail.partners import manage
from giftrail.partners import model as partners
from house import House, PartnerProgram, execute, serving
from post import until

T = TypeVar("T")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
CARD_TYPES = {
    "number": "CARD_NUMBER_SECURED",
    "pin": "PIN_NO_SECURED",
    "both": "CARD_AND_PIN_NO_SECURED",
}
REVEALS_PER_HOUR = 6
WRONG_TOKENS_BURST = 20
WISH = "Happy birthday!\nEnjoy a quiet hour with tea."
HOW_TO_USE = [{"retailMode": "OFFLINE", "retailModeName": "At the till", "instructions": ["Show it.", "Pay the rest."]}]


def apart(deed: Callable[[], T]) -> T:
    """Do it in a thread: the browser's loop runs in this one."""
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        return other.submit(deed).result()


@pytest.fixture(scope="module")
def shown(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house whose page knows its callers by X-Forwarded-For."""
    url = new_database(server_url)
    folder = tmp_path_factory.mktemp("messages")
    with serving(
        url, trusted_proxies="127.0.0.0/8", reveals_per_hour=REVEALS_PER_HOUR, delivery_folder=folder
    ) as house:
        for name, card_type in CARD_TYPES.items():
            house.brand(
                name,
                title="Chai Verandah",
                cardType=card_type,
                howToUseInstructions=HOW_TO_USE,
                termsAndConditions=["Not paid out in cash."],
                voucherExpiryInMonths=Decimal(12),
            )
        house.brand("sandbox-reversible", providers=["sandbox"], reversible=True)
        yield house
    assert house.audit() == []


@pytest.fixture(scope="module")
def chromium(shown: House) -> Iterator[Browser]:
    del shown  # closed after the browser
    if CHROMIUM is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on this machine")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


class Given:
    """An order and a link to it, as its recipient has it, who calls from an address of their own."""

    def __init__(self, program: PartnerProgram, order: dict[str, Any], token: str) -> None:
        self.program = program
        self.order = order
        self.token = token
        self.path = f"/v/{token}"
        self.url = program.house.base_url + self.path
        self.caller = new_address()

    @property
    def codes(self) -> list[str]:
        """Every code of the order."""
        return [code for one in self.order["vouchers"] for code in (one["cardNumber"], one["cardPin"]) if code]

    def ask(self, method: str, path: str = "", **headers: str) -> httpx.Response:
        """A request from the recipient's address."""
        headers = {"X-Forwarded-For": self.caller} | headers
        return self.program.http.request(method, self.path + path, headers=headers)

    def reveals(self) -> list[str | None]:
        """From where the codes were looked at, as it is recorded."""

        async def deed(conn: pool.Connection) -> list[str | None]:
            rows = await conn.fetch(
                "SELECT host(address) FROM voucher_reveal WHERE order_id = $1 ORDER BY reveal_id", self.order["id"]
            )
            return [row[0] for row in rows]

        return apart(lambda: self.program.house.do(deed, settle=False))


def new_address() -> str:
    return f"2001:db8:{secrets.randbelow(65535):x}:{secrets.randbelow(65535):x}::1"


def give(
    house: House,
    brand_id: str = "both",
    *,
    lines: dict[int, int] | None = None,
    language: str = "en",
    program: PartnerProgram | None = None,
    **details: Any,
) -> Given:
    """A gift and a link to it."""
    buyer = program or new_program(house, language=language)
    wanted = {
        "recipientType": "OTHER",
        "recipientName": "Meera",
        "recipientEmail": "meera@example.com",
        "senderName": "Asha",
        "wishMessage": WISH,
    } | details
    body = buyer.order_body(brand_id, lines or {500: 1}, deliveryDetails=wanted)
    answer = buyer.post("/orders", body, headers={"Prefer": "wait=20"})
    order = answer.json()
    assert order["status"] == "SUCCESS", order
    return Given(buyer, order, apart(lambda: new_token(house, buyer, order["id"])))


def new_program(house: House, *, language: str = "en") -> PartnerProgram:
    def make() -> PartnerProgram:
        made = house.partner(brands=[*CARD_TYPES, "sandbox-reversible"], money_major=10_000_000)

        async def deed(conn: pool.Connection) -> None:
            delivery = partners.Delivery(language=language)
            await manage.set_delivery(conn, partner_id=made.partner.partner_id, delivery=delivery, now=app.now())

        house.do(deed)
        return made

    return apart(make)


def new_token(house: House, program: PartnerProgram, order_id: str) -> str:
    recipient = deliveries.Recipient(deliveries.Channel.EMAIL, "meera@example.com")

    async def deed(conn: pool.Connection) -> str:
        now = app.now()
        [delivery] = begin.make([recipient], partner_id=program.partner.partner_id, order_id=order_id, now=now)
        return await links.make_link(conn, delivery=delivery, now=now)

    return house.do(deed, settle=False)


def sql(house: House, statement: str) -> None:
    apart(lambda: execute(house.url, statement))


# Over plain HTTP.


def check_headers(answer: httpx.Response) -> None:
    policy = answer.headers["Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives == {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "img-src": "'self' data:",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "noindex" in answer.headers["X-Robots-Tag"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in answer.headers


def test_every_answer_is_kept_by_nobody_and_indexed_by_nobody(shown: House) -> None:
    given = give(shown)
    stranger = Given(given.program, given.order, "x" * 32)
    for answer, status in (
        (given.ask("GET"), 200),
        (given.ask("HEAD"), 200),
        (given.ask("POST", "/reveal"), 200),
        (stranger.ask("GET"), 404),
        (stranger.ask("POST", "/reveal"), 404),
        (given.ask("GET", "/picture"), 404),
    ):
        assert answer.status_code == status
        check_headers(answer)
    for name, kind in (("voucher.css", "text/css"), ("voucher.js", "text/javascript")):
        asset = given.program.http.get(f"/v/assets/{name}")
        assert (asset.status_code, asset.headers["Content-Type"].split(";")[0]) == (200, kind)
        assert asset.headers["X-Content-Type-Options"] == "nosniff"
    for name in ("../page.py", "..%2fpage.py", "frame.html", "%00"):
        assert given.program.http.get(f"/v/assets/{name}").status_code in {400, 404}


def test_a_page_that_is_opened_again_at_the_buttons_address_is_no_bare_error(shown: House) -> None:
    given = give(shown)
    for method in ("GET", "HEAD", "PUT"):
        answer = given.ask(method, "/reveal")
        assert answer.status_code in {303, 405}
        assert not [code for code in given.codes if code in answer.text]
        check_headers(answer)
    assert given.reveals() == []


def test_only_the_button_reveals_and_each_time_is_recorded_with_the_address(shown: House) -> None:
    given = give(shown, lines={100: 2})
    for method in ("GET", "HEAD"):
        for path in ("", "/reveal", "/picture", "?reveal=1", "/"):
            answer = given.ask(method, path)
            assert not [code for code in given.codes if code in answer.text]
    assert given.reveals() == []
    opened = given.ask("POST", "/reveal")
    assert opened.status_code == 200
    assert all(code in opened.text for code in given.codes)
    assert given.reveals() == [given.caller]
    # Of a chain of addresses only what the trusted proxy added is believed.
    given.ask("POST", "/reveal", **{"X-Forwarded-For": "203.0.113.9, 198.51.100.7"})
    assert given.reveals() == [given.caller, "198.51.100.7"]


def test_codes_are_shown_so_often_an_hour_and_no_more(shown: House) -> None:
    given = give(shown)
    for _ in range(REVEALS_PER_HOUR):
        given.caller = new_address()
        assert given.ask("POST", "/reveal").status_code == 200
    refused = given.ask("POST", "/reveal")
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    check_headers(refused)
    assert not [code for code in given.codes if code in refused.text]
    assert len(given.reveals()) == REVEALS_PER_HOUR
    # The limit is the order's: another link to it does not help, but another order is not touched.
    other = Given(given.program, given.order, apart(lambda: new_token(shown, given.program, given.order["id"])))
    assert other.ask("POST", "/reveal").status_code == 429
    assert given.ask("GET").status_code == 200
    assert give(shown, program=given.program).ask("POST", "/reveal").status_code == 200
    order_id = given.order["id"]
    sql(shown, f"UPDATE voucher_reveal SET at = at - interval '61 min' WHERE order_id = '{order_id}'")
    assert given.ask("POST", "/reveal").status_code == 200


def test_many_who_ask_at_once_are_shown_no_more_than_the_limit(shown: House) -> None:
    given = give(shown)
    with concurrent.futures.ThreadPoolExecutor(12) as crowd:
        statuses = Counter(
            crowd.map(
                lambda _: (
                    httpx.post(
                        given.url + "/reveal", headers={"X-Forwarded-For": given.caller}, trust_env=False, timeout=30
                    ).status_code
                ),
                range(4 * REVEALS_PER_HOUR),
            )
        )
    assert statuses == {200: REVEALS_PER_HOUR, 429: 3 * REVEALS_PER_HOUR}


def test_ten_thousand_guesses_find_nothing_and_are_held_up(shown: House) -> None:
    given = give(shown)
    host, port = shown.base_url.removeprefix("http://").split(":")
    guesser = http.client.HTTPConnection(host, int(port), timeout=30)
    began = time.monotonic()
    statuses: Counter[int] = Counter()
    for number in range(10_000):
        token = secrets.token_urlsafe(24) if number % 2 else given.token[:-1] + secrets.choice("AQgw-_")
        if token == given.token:
            continue
        guesser.request("GET", f"/v/{token}", headers={"X-Forwarded-For": "203.0.113.66"})
        answer = guesser.getresponse()
        answer.read()
        statuses[answer.status] += 1
    looked_up = statuses.pop(404)
    assert set(statuses) == {429}
    assert WRONG_TOKENS_BURST <= looked_up <= WRONG_TOKENS_BURST + 2 + (time.monotonic() - began) / 3
    guesser.request("POST", f"/v/{secrets.token_urlsafe(24)}/reveal", headers={"X-Forwarded-For": "203.0.113.66"})
    held_up = guesser.getresponse()
    held_up.read()
    assert (held_up.status, int(held_up.headers["Retry-After"]) > 0) == (429, True)
    guesser.close()
    # Who holds a link and calls from elsewhere does not notice; and right tokens are never counted.
    assert {given.ask("GET").status_code for _ in range(3 * WRONG_TOKENS_BURST)} == {200}


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "x" * 31,
        "x" * 33,
        "%00" * 32,
        "é" * 32,
        "x" * 5000,
        "../" * 8,
        "'; DROP TABLE voucher_link; --",
        "%ff" * 32,
    ],
    ids=lambda token: f"{len(token)}-{token[:6]}",
)
def test_what_is_no_token_leads_nowhere(shown: House, token: str) -> None:
    caller = new_address()
    client = shown.client()
    for method, path in (("GET", ""), ("POST", "/reveal")):
        answer = client.request(method, f"/v/{token}{path}", headers={"X-Forwarded-For": caller})
        assert answer.status_code in {400, 404, 405}, answer.text


def test_a_wrong_token_is_answered_the_same_whatever_is_wrong_with_it(shown: House) -> None:
    given = give(shown)
    answers = {given.program.http.get(f"/v/{token}", headers={"X-Forwarded-For": given.caller}).text for token in (
        "x" * 32, "x", given.token[:-1], given.token + "A", given.token.swapcase(), given.order["id"],
    )}  # fmt: skip
    assert len(answers) == 1
    assert "There is no voucher here" in answers.pop()


def test_after_the_orders_reversal_the_page_says_so(shown: House) -> None:
    given = give(shown, "sandbox-reversible", lines={100: 1})
    assert given.ask("POST", "/reveal").status_code == 200
    done = given.program.post(f"/orders/{given.order['id']}/reverse", headers={"Prefer": "wait=20"})
    assert done.json()["status"] == "REVERSED"
    for method, path in (("GET", ""), ("POST", "/reveal")):
        answer = given.ask(method, path)
        assert answer.status_code == 410
        check_headers(answer)
        assert "This voucher has been taken back" in answer.text
        assert given.program.partner.name in answer.text
        assert not [code for code in given.codes if code in answer.text]
    assert len(given.reveals()) == 1


def test_while_a_reversal_is_under_way_nothing_is_shown(shown: House) -> None:
    given = give(shown)
    sql(shown, f"UPDATE orders SET reversal_pending = true WHERE order_id = '{given.order['id']}'")
    assert (given.ask("GET").status_code, given.ask("POST", "/reveal").status_code) == (410, 410)
    sql(shown, f"UPDATE orders SET reversal_pending = false WHERE order_id = '{given.order['id']}'")
    assert given.ask("GET").status_code == 200


def test_the_link_ends_with_the_vouchers_validity(shown: House) -> None:
    given = give(shown, lines={100: 2})
    order_id = given.order["id"]
    today = app.now().date()
    sql(shown, f"UPDATE voucher SET valid_till = '{today}' WHERE order_id = '{order_id}'")
    assert given.ask("GET").status_code == 200, "on its last day"
    sql(shown, f"UPDATE voucher SET valid_till = '2026-01-31' WHERE order_id = '{order_id}' AND position = 0")
    assert given.ask("GET").status_code == 200, "one of them is valid"
    sql(shown, f"UPDATE voucher SET valid_till = '2026-01-31' WHERE order_id = '{order_id}'")
    for method, path in (("GET", ""), ("POST", "/reveal")):
        answer = given.ask(method, path)
        assert answer.status_code == 410
        assert "This voucher has expired" in answer.text
        assert "31 January 2026" in answer.text
        assert not [code for code in given.codes if code in answer.text]
    assert given.reveals() == []
    sql(shown, f"UPDATE voucher SET valid_till = NULL WHERE order_id = '{order_id}' AND position = 0")
    assert given.ask("GET").status_code == 200, "one that never expires"


def test_a_link_leads_to_its_own_order_alone(shown: House) -> None:
    program = new_program(shown)
    mine, yours = (
        give(shown, program=program, wishMessage="for me"),
        give(shown, program=program, wishMessage="for you"),
    )
    for one, other in ((mine, yours), (yours, mine)):
        opened = one.ask("POST", "/reveal").text
        assert all(code in opened for code in one.codes)
        assert not [code for code in other.codes if code in opened]
    assert "for me" in mine.ask("GET").text
    assert "for you" not in mine.ask("GET").text


def test_every_try_has_a_link_and_all_of_them_work(shown: House) -> None:
    given = give(shown)
    second = Given(given.program, given.order, apart(lambda: new_token(shown, given.program, given.order["id"])))
    assert given.token != second.token
    assert (given.ask("GET").status_code, second.ask("GET").status_code) == (200, 200)


def test_a_suspended_partners_links_lead_nowhere_until_it_is_resumed(shown: House) -> None:
    given = give(shown)
    partner_id = given.program.partner.partner_id
    shown.do(lambda conn: manage.suspend_partner(conn, partner_id=partner_id, now=app.now()))
    assert (given.ask("GET").status_code, given.ask("POST", "/reveal").status_code) == (404, 404)
    shown.do(lambda conn: manage.resume_partner(conn, partner_id=partner_id, now=app.now()))
    assert given.ask("GET").status_code == 200


def test_links_still_work_when_delivery_is_switched_off(shown: House) -> None:
    given = give(shown)
    partner_id = given.program.partner.partner_id
    shown.do(lambda conn: manage.set_delivery(conn, partner_id=partner_id, delivery=None, now=app.now()))
    assert given.ask("GET").status_code == 200


def test_the_brands_picture_comes_from_here(shown: House) -> None:
    shown.brand("pictured", title="Pictured")
    program = new_program(shown)
    shown.enable(program, "pictured")
    given = give(shown, "pictured", program=program)
    assert given.ask("GET", "/picture").status_code == 404
    assert "<img" not in given.ask("GET").text
    content = png(2, 2, b"\xff\x00\x00")

    async def keep(conn: pool.Connection) -> None:
        await conn.execute(
            "INSERT INTO brand_picture (brand_id, media_type, content, updated_at) VALUES ($1, $2, $3, now())",
            "pictured", "image/png", content,
        )  # fmt: skip

    shown.do(keep)
    picture = given.ask("GET", "/picture")
    assert (picture.status_code, picture.headers["Content-Type"], picture.content) == (200, "image/png", content)
    assert f'src="{given.path}/picture"' in given.ask("GET").text
    assert Given(program, given.order, "y" * 32).ask("GET", "/picture").status_code == 404


def png(width: int, height: int, pixel: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = (b"\0" + pixel * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


NASTY = '"><img src=x onerror=alert(1)><script>alert(1)</script>{{7*7}}'


def test_what_people_wrote_is_text_and_nothing_else(shown: House) -> None:
    given = give(shown, senderName=NASTY, recipientName=NASTY, wishMessage=NASTY)
    for page in (given.ask("GET").text, given.ask("POST", "/reveal").text):
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert page.count("{{7*7}}") == 3
        assert page.count("&lt;script&gt;") == 3


def test_the_metrics_hold_no_token(shown: House) -> None:
    given = give(shown)
    given.ask("GET")
    given.ask("POST", "/reveal")
    metrics = httpx.get(f"{shown.base_url}/metrics", trust_env=False).text
    assert given.token not in metrics
    assert not [code for code in given.codes if code in metrics]


def test_others_are_served_while_a_thousand_codes_are_shown(shown: House) -> None:
    given = give(shown, "pin", lines={100: 1000})
    slowest = 0.0
    done = threading.Event()

    def look() -> None:
        nonlocal slowest
        with httpx.Client(base_url=shown.base_url, trust_env=False, timeout=60) as client:
            while not done.is_set():
                began = time.monotonic()
                client.get("/livez")
                slowest = max(slowest, time.monotonic() - began)
                time.sleep(0.01)

    other = threading.Thread(target=look)
    other.start()
    began = time.monotonic()
    opened = httpx.post(given.url + "/reveal", headers={"X-Forwarded-For": given.caller}, trust_env=False, timeout=60)
    took = time.monotonic() - began
    done.set()
    other.join()
    assert opened.status_code == 200
    assert sum(code in opened.text for code in given.codes) == 1000
    assert slowest < max(1.0, took / 3), f"others waited {slowest:.1f} s of {took:.1f} s"


# In a browser.


class Looker:
    """A person with a browser: the page, what it asked for and what went wrong in it."""

    def __init__(self, page: Page, base_url: str) -> None:
        self.page = page
        self.base_url = base_url
        self.asked: list[str] = []
        self.wrong: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda said: self.wrong.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))

    def check_quiet(self) -> None:
        """Nobody else was asked for anything, and nothing went wrong."""
        strangers = [url for url in self.asked if not url.startswith((self.base_url + "/v/", "data:"))]
        assert (strangers, self.wrong) == ([], [])


@contextlib.contextmanager
def looking(browser: Browser, given: Given, *, dark: bool = False, **options: Any) -> Iterator[Looker]:
    context = browser.new_context(
        color_scheme="dark" if dark else "light",
        extra_http_headers={"X-Forwarded-For": given.caller},
        **({"viewport": PHONE} | options),
    )
    context.set_default_timeout(15_000)
    try:
        looker = Looker(context.new_page(), given.program.house.base_url)
        looker.page.goto(given.url)
        yield looker
    finally:
        context.close()


def press(page: Page) -> None:
    page.get_by_role("button", name="Show the code").click()
    page.locator(".card").first.wait_for()


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_closed_and_opened(shown: House, chromium: Browser, viewport: dict[str, int], *, dark: bool) -> None:
    given = give(shown)
    with looking(chromium, given, dark=dark, viewport=viewport) as looker:
        page = looker.page
        html = page.content()
        assert not [code for code in given.codes if code in html]
        assert not [four for code in given.codes for four in fours(code) if f">{four}<" in html]
        assert page.locator("blockquote").inner_text() == WISH
        assert page.locator("h1").inner_text() == "Chai Verandah"
        assert page.get_by_text("From Asha").is_visible()
        assert page.get_by_text("For Meera").is_visible()
        assert page.get_by_text("₹500").is_visible()
        check_fits(page)
        check_accessible(page)
        press(page)
        assert [seen(one) for one in page.locator(".code").all()] == given.codes
        assert page.locator(".reveal").count() == 0
        check_fits(page)
        check_accessible(page)
        assert given.token not in page.title()
        looker.check_quiet()
    assert given.reveals() == [given.caller]


def fours(code: str) -> list[str]:
    return [code[start : start + 4] for start in range(0, len(code), 4)]


def seen(one: Locator) -> str:
    assert one.is_visible()
    return re.sub(r"\s", "", one.inner_text())


def check_fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def check_accessible(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_without_a_voucher_is_accessible_too(shown: House, chromium: Browser, *, dark: bool) -> None:
    given = give(shown)
    stranger = Given(given.program, given.order, "z" * 32)
    with looking(chromium, stranger, dark=dark) as looker:
        assert looker.page.get_by_role("heading").inner_text() == "There is no voucher here"
        check_accessible(looker.page)
        check_fits(looker.page)
        order_id = given.order["id"]
        sql(shown, f"UPDATE voucher SET valid_till = '2026-01-31' WHERE order_id = '{order_id}'")
        looker.page.goto(given.url)
        assert looker.page.get_by_role("heading").inner_text() == "This voucher has expired"
        check_accessible(looker.page)
        check_fits(looker.page)


@pytest.mark.parametrize(("brand_id", "labels"), [
    ("number", ["Card number"]), ("pin", ["PIN"]), ("both", ["Card number", "PIN"]),
])  # fmt: skip
def test_each_card_type_shows_its_fields_alone_and_a_till_can_read_them(
    shown: House, chromium: Browser, brand_id: str, labels: list[str]
) -> None:
    given = give(shown, brand_id)
    with looking(chromium, given, device_scale_factor=2) as looker:
        page = looker.page
        press(page)
        assert [one.inner_text() for one in page.locator(".label").all()] == labels
        assert [seen(one) for one in page.locator(".code").all()] == given.codes
        for picture, name in ((page.locator("img.qr"), "QR"), (page.locator("img.bars"), "Code128")):
            # What a till reads is the card number, or the PIN where there is none.
            assert read_barcode(picture) == (name, given.codes[0])
        assert page.locator("img.qr").get_attribute("alt") == "QR code of this voucher"
        looker.check_quiet()


def read_barcode(picture: Locator) -> tuple[str, str]:
    picture.scroll_into_view_if_needed()
    found = zxingcpp.read_barcodes(read_png(picture.screenshot()))
    assert len(found) == 1
    kind = (
        "QR" if "QR" in str(found[0].format) else str(found[0].format).replace(" ", "").removeprefix("BarcodeFormat.")
    )
    return kind, found[0].text


def read_png(content: bytes) -> memoryview:
    """The grey values of a screenshot, row by row."""
    at, packed, width, height, channels = 8, b"", 0, 0, 3
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, interlaced) == (8, 0)
            channels = {0: 1, 2: 3, 6: 4}[colour]
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    rows, step = zlib.decompress(packed), width * channels
    before, grey = bytearray(step), bytearray()
    for row in range(height):
        start = row * (step + 1)
        line = bytearray(rows[start + 1 : start + 1 + step])
        unfilter(rows[start], line, before, channels)
        grey += line[1::channels] if channels > 1 else line
        before = line
    return memoryview(bytes(grey)).cast("B", (height, width))


def unfilter(kind: int, line: bytearray, above: bytearray, channels: int) -> None:
    for place in range(len(line) if kind else 0):
        left = line[place - channels] if place >= channels else 0
        up, corner = above[place], above[place - channels] if place >= channels else 0
        guess = left + up - corner
        nearest = min((left, up, corner), key=lambda one: abs(guess - one))
        line[place] = (line[place] + (0, left, up, (left + up) // 2, nearest)[kind]) % 256


def test_a_code_is_copied_without_its_spaces(shown: House, chromium: Browser) -> None:
    given = give(shown)
    with looking(chromium, given, permissions=["clipboard-read", "clipboard-write"]) as looker:
        page = looker.page
        press(page)
        buttons = page.locator("button.copy")
        assert buttons.count() == 2
        for place, code in enumerate(given.codes):
            buttons.nth(place).click()
            page.get_by_text("Copied", exact=True).wait_for()
            assert page.evaluate("navigator.clipboard.readText()") == code
        looker.check_quiet()


def test_the_page_works_where_no_scripts_run(shown: House, chromium: Browser) -> None:
    given = give(shown, lines={100: 2})
    with looking(chromium, given, java_script_enabled=False) as looker:
        press(looker.page)
        assert [seen(one) for one in looker.page.locator(".code").all()] == given.codes
        assert not any(one.is_visible() for one in looker.page.locator("button").all()), "which would do nothing"
        assert looker.page.locator("img.qr").first.is_visible()
        looker.page.locator("summary").click()
        assert looker.page.get_by_text("Not paid out in cash.").is_visible()


def test_several_vouchers_of_an_order_stand_on_one_page(shown: House, chromium: Browser) -> None:
    given = give(shown, lines={250: 2, 100: 1})
    with looking(chromium, given) as looker:
        assert looker.page.get_by_text("₹600").is_visible()
        press(looker.page)
        headings = [one.inner_text() for one in looker.page.locator(".card h2").all()]
        amounts = [one["amount"] for one in given.order["vouchers"]]
        assert headings == [f"Voucher {place} of 3 · ₹{amount}" for place, amount in enumerate(amounts, 1)]
        assert [seen(one) for one in looker.page.locator(".code").all()] == given.codes
        assert looker.page.locator("img.qr").count() == 3
        check_accessible(looker.page)


def test_a_printed_page_holds_the_codes_and_no_buttons(shown: House, chromium: Browser) -> None:
    given = give(shown)
    with looking(chromium, given, dark=True) as looker:
        page = looker.page
        press(page)
        assert page.get_by_role("button", name="Print or save as PDF").is_visible()
        page.emulate_media(media="print", color_scheme="dark")
        assert [seen(one) for one in page.locator(".code").all()] == given.codes
        assert page.locator("img.qr").is_visible()
        assert page.locator("img.bars").is_visible()
        assert not any(one.is_visible() for one in page.locator("button").all())
        colours = (
            "[getComputedStyle(document.body).color, getComputedStyle(document.querySelector('main')).backgroundColor]"
        )
        assert page.evaluate(colours) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"], "no ink for a dark page"
        assert page.pdf().startswith(b"%PDF")


def test_the_page_in_hindi(shown: House, chromium: Browser) -> None:
    given = give(shown, language="hi")
    with looking(chromium, given) as looker:
        page = looker.page
        assert page.locator("html").get_attribute("lang") == "hi"
        assert page.get_by_text("Asha की ओर से").is_visible()
        page.get_by_role("button", name="कोड दिखाएँ").click()
        assert [one.inner_text() for one in page.locator(".label").all()] == ["कार्ड नंबर", "पिन"]
        assert page.get_by_role("button", name="प्रिंट करें").is_visible()
        # Nothing is left in English but what people and brands wrote.
        own = page.locator("main").inner_text()
        for text in (WISH, "Chai Verandah", "Meera", "Asha", given.program.partner.name, "PDF", "QR", *given.codes):
            own = own.replace(text, "")
        for text in ("Show it.", "Pay the rest.", "Not paid out in cash."):
            own = own.replace(text, "")
        assert not re.findall(r"[A-Za-z]{3,}", own)
        check_accessible(page)


def test_the_picture_is_shown_and_nothing_is_asked_of_the_brands_own_host(shown: House, chromium: Browser) -> None:
    brand_id = f"seen-{uuid.uuid4().hex[:8]}"
    content = png(64, 64, b"\x20\x80\x20")

    def make() -> PartnerProgram:
        shown.brand(brand_id, title="Seen")
        program = new_program(shown)
        shown.enable(program, brand_id)

        async def keep(conn: pool.Connection) -> None:
            await conn.execute(
                "INSERT INTO brand_picture (brand_id, media_type, content, updated_at) VALUES ($1, $2, $3, now())",
                brand_id, "image/png", content,
            )  # fmt: skip

        shown.do(keep)
        return program

    given = give(shown, brand_id, program=apart(make))
    with looking(chromium, given) as looker:
        picture = looker.page.locator("img.picture")
        until(lambda: picture.evaluate("one => one.naturalWidth") == 64)
        check_accessible(looker.page)
        press(looker.page)
        assert looker.page.locator("img.picture").is_visible()
        assert given.url + "/picture" in looker.asked
        looker.check_quiet()


def test_nothing_that_people_wrote_runs(shown: House, chromium: Browser) -> None:
    given = give(shown, senderName=NASTY, recipientName=NASTY, wishMessage=NASTY * 6)
    with looking(chromium, given) as looker:
        looker.page.on("dialog", lambda dialog: looker.wrong.append(dialog.message))
        check_fits(looker.page)
        press(looker.page)
        check_fits(looker.page)
        looker.check_quiet()
