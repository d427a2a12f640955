"""Many at once: one order a reference, no wallet below zero, no code sold twice — with one service and with two."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import json
import resource
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from giftrail import app
from giftrail import keys as installation_keys
from giftrail.db import pool
from giftrail.providers import protocol, stock
from house import House, PartnerProgram, serving

# More than may wait on one wallet, so that some are turned away and ask again.
CONNECTIONS = 1_200
MAX_ATTEMPTS = 200


@dataclass
class Answer:
    """What a hammer's request was answered in the end, and after how many attempts."""

    status: int
    replayed: bool
    text: bytes
    attempts: int

    @property
    def order(self) -> dict[str, Any]:
        return dict(json.loads(self.text))


class Line:
    """A kept connection; httpx would be the bottleneck of a hammer."""

    def __init__(self, base_url: str) -> None:
        self.url = httpx.URL(base_url)
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, token: str, body: bytes) -> tuple[int, bool, bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection(self.url.host, self.url.port)
        reader, writer = self.streams
        writer.write(
            b"POST /v1/partners/orders HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer %b\r\nX-REQUEST-ID: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (token.encode(), str(uuid.uuid4()).encode(), len(body), body)
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        return int(head.split(b" ", 2)[1]), b"idempotent-replayed: true" in head, await reader.readexactly(length)

    async def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            with contextlib.suppress(OSError):
                await self.streams[1].wait_closed()


def hammer(houses: Sequence[House], jobs: Sequence[tuple[PartnerProgram, dict[str, Any]]]) -> list[Answer]:
    """All placements at once, each on the next house; a 503 is tried again with the same reference."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CONNECTIONS)), hard))
    for partner, _ in jobs:
        partner.headers()  # logs in
    answers: list[Answer | None] = [None] * len(jobs)
    waiting = iter(enumerate(jobs))

    async def work(line: Line) -> None:
        for place, (partner, body) in waiting:
            content = json.dumps(body).encode()
            for attempt in itertools.count(1):
                status, replayed, text = await line.post(partner.token, content)
                if status != 503:
                    break
                assert attempt < MAX_ATTEMPTS, text
                await asyncio.sleep(0.02 * attempt)
            answers[place] = Answer(status, replayed, text, attempt)
        await line.close()

    async def run() -> None:
        lines = [Line(houses[n % len(houses)].base_url) for n in range(min(CONNECTIONS, len(jobs)))]
        async with asyncio.TaskGroup() as group:
            for line in lines:
                group.create_task(work(line))

    asyncio.run(run())
    return [answer for answer in answers if answer is not None]


@contextlib.contextmanager
def services(url: str, count: int) -> Iterator[list[House]]:
    """So many services over one database."""
    with contextlib.ExitStack() as running:
        yield [running.enter_context(serving(url)) for _ in range(count)]


@contextlib.contextmanager
def stock_held(house: House, brand_id: str, codes: int) -> Iterator[None]:
    """Hold codes of 100 in a transaction of our own, as another process does that is selling them."""
    held, release = threading.Event(), threading.Event()

    async def hold() -> None:
        async with pool.connect(house.url) as conn, conn.transaction():
            demand = protocol.Demand(brand_id, 100_00, codes)
            sealing = installation_keys.code_keys(house.settings)
            shelves = await stock.pick(conn, demands=[demand], keys=sealing, now=app.now())
            assert [len(shelf.codes) for shelf in shelves.values()] == [codes]
            held.set()
            await asyncio.to_thread(release.wait, 10)

    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        holding = executor.submit(asyncio.run, hold())
        try:
            assert held.wait(5)
            yield
        finally:
            release.set()
            holding.result(10)


def settle(houses: Sequence[House]) -> None:
    for house in houses:
        house.settle()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("providers", [["generator"], ["stock"]], ids=str)
def test_identical_requests_make_one_order(database_url: str, count: int, providers: list[str]) -> None:
    with services(database_url, count) as houses:
        brand_id = houses[0].brand(providers=providers)
        if providers == ["stock"]:
            houses[0].stock(brand_id, 100, 3)
        partner = houses[0].partner(brands=[brand_id], money_major=100_000)
        settle(houses)
        body = partner.order_body(brand_id, {100: 2})
        answers = hammer(houses, [(partner, body)] * 50)
        assert len(answers) == 50
        assert {answer.status for answer in answers} == {200}
        assert len({answer.text for answer in answers}) == 1
        assert answers[0].order["status"] == "SUCCESS"
        assert Counter(answer.replayed for answer in answers) == {True: 49, False: 1}
        assert partner.balance() == 100_000 - 200
        assert len(partner.get("/orders").json()["data"]) == 1
        assert houses[0].audit() == []


@pytest.mark.parametrize("count", [1, 2])
def test_a_wallet_is_spent_to_zero_and_no_further(database_url: str, count: int) -> None:
    with services(database_url, count) as houses:
        partner = houses[0].partner(money_major=100_000)
        settle(houses)
        bodies = [partner.order_body() for _ in range(4_000)]
        answers = hammer(houses, [(partner, body) for body in bodies])
        assert {answer.status for answer in answers} == {200}
        orders = [answer.order for answer in answers]
        assert Counter((order["status"], order["failureCode"]) for order in orders) == {
            ("SUCCESS", None): 1_000,
            ("FAILED", "E300"): 3_000,
        }
        assert [order["referenceId"] for order in orders] == [body["referenceId"] for body in bodies]
        assert len({order["id"] for order in orders}) == 4_000
        codes = [voucher["cardNumber"] for order in orders for voucher in order["vouchers"]]
        assert len(codes) == len(set(codes)) == 1_000
        assert partner.balance() == 0
        assert houses[0].audit() == []


@pytest.mark.parametrize("count", [1, 2])
def test_each_code_in_stock_is_sold_once(database_url: str, count: int) -> None:
    with services(database_url, count) as houses:
        brand_id = houses[0].brand(providers=["stock"])
        houses[0].stock(brand_id, 100, 300)
        partners = [houses[0].partner(brands=[brand_id], money_major=100_000) for _ in range(4)]
        settle(houses)
        jobs = [(partner, partner.order_body(brand_id)) for _ in range(100) for partner in partners]
        answers = hammer(houses, jobs)
        assert {answer.status for answer in answers} == {200}
        orders = [answer.order for answer in answers]
        assert Counter((order["status"], order["failureCode"]) for order in orders) == {
            ("SUCCESS", None): 300,
            ("FAILED", "E150"): 100,
        }
        codes = [voucher["cardNumber"] for order in orders for voucher in order["vouchers"]]
        assert len(codes) == len(set(codes)) == 300
        assert sum(partner.balance() for partner in partners) == 4 * 100_000 - 300 * 100
        assert houses[0].audit() == []


def test_each_reference_makes_one_order_however_often_it_is_sent(database_url: str) -> None:
    with services(database_url, 2) as houses:
        partner = houses[0].partner(money_major=5_000)
        settle(houses)
        bodies = [partner.order_body() for _ in range(100)]
        answers = hammer(houses, [(partner, body) for _ in range(8) for body in bodies])
        by_reference: dict[str, set[bytes]] = {}
        for answer in answers:
            assert answer.status == 200, answer.text
            by_reference.setdefault(answer.order["referenceId"], set()).add(answer.text)
        assert len(by_reference) == 100
        assert all(len(texts) == 1 for texts in by_reference.values())
        assert Counter(answer.replayed for answer in answers) == {True: 700, False: 100}
        assert Counter(json.loads(text)["status"] for (text,) in by_reference.values()) == {"SUCCESS": 50, "FAILED": 50}
        assert partner.balance() == 0
        assert houses[0].audit() == []


def test_of_two_contents_under_one_reference_one_wins(database_url: str) -> None:
    with services(database_url, 2) as houses:
        partner = houses[0].partner(money_major=100_000)
        settle(houses)
        bodies = [partner.order_body(lines={100: quantity}) for quantity in (1, 2)]
        bodies = [body | {"referenceId": "contested"} for body in bodies]
        answers = hammer(houses, [(partner, body) for _ in range(25) for body in bodies])
        assert Counter(answer.status for answer in answers) == {200: 25, 409: 25}
        orders = {answer.text for answer in answers if answer.status == 200}
        assert len(orders) == 1
        (order,) = (json.loads(text) for text in orders)
        assert {answer.order["orderId"] for answer in answers if answer.status == 409} == {order["id"]}
        assert partner.balance() == 100_000 - order["amount"]
        assert houses[0].audit() == []


@pytest.mark.parametrize("count", [1, 2])
def test_nobody_is_turned_away_where_the_generator_can_serve(database_url: str, count: int) -> None:
    with services(database_url, count) as houses:
        brand_id = houses[0].brand(providers=["stock", "generator"])
        houses[0].stock(brand_id, 100, 300)
        partners = [houses[0].partner(brands=[brand_id], money_major=100_000) for _ in range(4)]
        settle(houses)
        jobs = [(partner, partner.order_body(brand_id)) for _ in range(100) for partner in partners]
        answers = hammer(houses, jobs)
        orders = [answer.order for answer in answers]
        assert Counter(order["status"] for order in orders) == {"SUCCESS": 400}
        codes = [voucher["cardNumber"] for order in orders for voucher in order["vouchers"]]
        assert len(codes) == len(set(codes)) == 400
        assert sum(not code.isdecimal() for code in codes) == 300  # the stock's codes are hexadecimal
        assert houses[0].audit() == []


def test_large_orders_of_several_denominations_share_a_shelf(database_url: str) -> None:
    with services(database_url, 2) as houses:
        brand_id = houses[0].brand(providers=["stock"])
        for denomination in (100, 250, 500):
            houses[0].stock(brand_id, denomination, 90)
        partners = [houses[0].partner(brands=[brand_id], money_major=1_000_000) for _ in range(4)]
        settle(houses)
        shapes = [{100: 3, 250: 3}, {500: 3, 100: 3}, {250: 3, 500: 3}]
        jobs = [
            (partner, partner.order_body(brand_id, lines))
            for _ in range(20)
            for lines in shapes
            for partner in partners
        ]
        orders = [answer.order for answer in hammer(houses, jobs)]
        assert {(order["status"], order["failureCode"]) for order in orders} == {("SUCCESS", None), ("FAILED", "E150")}
        vouchers = [voucher for order in orders for voucher in order["vouchers"]]
        codes = [voucher["cardNumber"] for voucher in vouchers]
        assert len(codes) == len(set(codes))
        sold = Counter(voucher["amount"] for voucher in vouchers)
        # Nobody is refused while both of its denominations are left.
        assert sum(left == 90 for left in sold.values()) >= 2
        assert max(sold.values()) <= 90
        assert houses[0].audit() == []


def test_codes_that_another_is_selling_are_not_out_of_stock(house: House) -> None:
    brand_id = house.brand(providers=["stock"])
    house.stock(brand_id, 100, 2)
    partner = house.partner(brands=[brand_id])
    body = partner.order_body(brand_id)
    with stock_held(house, brand_id, 2):
        answer = partner.place(body)
        assert (answer.status_code, answer.json()["id"]) == (503, "E011"), answer.text
        assert int(answer.headers["Retry-After"]) >= 1
    assert partner.get(f"/orders/by-reference/{body['referenceId']}").status_code == 404
    assert partner.place(body).json()["status"] == "SUCCESS"


def test_the_generator_serves_while_another_is_selling_the_stock(house: House) -> None:
    brand_id = house.brand(providers=["stock", "generator"])
    house.stock(brand_id, 100, 2)
    partner = house.partner(brands=[brand_id])
    with stock_held(house, brand_id, 2):
        answer = partner.place(product_id=brand_id)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "SUCCESS"
