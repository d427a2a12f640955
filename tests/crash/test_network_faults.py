"""A network that is slow, cuts off, swallows or loses, before the service and behind it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from crash.estate import GENERATED, VENDED, Estate, Nursery, estate, recover
from crash.proxy import Proxy, Streams, proxying
from crash.shop import Shop

# Every transaction of asyncpg ends so; an order of a remote provider takes four: place, commit-key, keep, settle.
COMMIT = b"COMMIT;"
COMMITS = (1, 2, 3, 4)
PLACEMENT = b"POST /v1/partners/orders "
# So that a connection on which nothing comes back is given up soon.
SHORT = {"statement_timeout_seconds": 0.5, "placement_patience_seconds": 0.5, "synchronous_seconds": 0}
CLIENT_SECONDS = 1.5


def be_slow(proxy: Proxy) -> None:
    proxy.latency_seconds = 0.005


def send_single_bytes(proxy: Proxy) -> None:
    proxy.slice_bytes = 1


def cut_off(proxy: Proxy) -> None:
    proxy.reset()


def swallow(proxy: Proxy) -> None:
    proxy.swallow()


FAULTS = pytest.mark.parametrize("spoil", [be_slow, send_single_bytes, cut_off, swallow])


@pytest.fixture
def behind(server_url: str) -> Iterator[Proxy]:
    """A proxy before PostgreSQL."""
    folder = parse_qs(urlsplit(server_url).query)["host"][0]

    async def connect() -> Streams:
        return await asyncio.open_unix_connection(Path(folder) / ".s.PGSQL.5432")

    with proxying(connect) as proxy:
        yield proxy


@pytest.fixture
def spoilt(
    quiet_database: Callable[[], AbstractContextManager[str]], nursery: Nursery, shop: Shop, behind: Proxy
) -> Iterator[Estate]:
    """A house that reaches its database through the proxy."""
    with quiet_database() as url:
        there = urlsplit(url)
        through = f"postgresql://{there.username}@127.0.0.1:{behind.port}{there.path}?sslmode=disable"
        with estate(url, nursery, shop, service_url=through, **SHORT) as house:
            yield house


@FAULTS
def test_an_order_is_made_once_over_a_bad_line_to_the_database(
    spoilt: Estate, behind: Proxy, spoil: Callable[[Proxy], None]
) -> None:
    spoilt.start()
    buyer = spoilt.buyer()
    body = buyer.order_body(VENDED, {100: 2})
    spoil(behind)
    with contextlib.suppress(httpx.TransportError):
        buyer.place(body)
    order = recover(buyer, body, meanwhile=spoilt.pass_time)
    spoilt.check_bought_once(buyer, body, order)


@pytest.mark.parametrize("number", COMMITS)
@pytest.mark.parametrize("lose", [Proxy.lose_request, Proxy.lose_answer])
def test_each_commit_of_an_order_may_be_lost_or_its_answer(
    spoilt: Estate, behind: Proxy, lose: Callable[..., None], number: int
) -> None:
    spoilt.start()
    buyer = spoilt.buyer()
    body = buyer.order_body(VENDED, {100: 2})
    lose(behind, COMMIT, number=number)
    buyer.place(body)
    order = recover(buyer, body, meanwhile=spoilt.pass_time)
    assert behind.spoilt == 1
    spoilt.check_bought_once(buyer, body, order)


def test_an_order_whose_commit_was_not_heard_of_is_answered_as_it_stands(spoilt: Estate, behind: Proxy) -> None:
    spoilt.start()
    buyer = spoilt.buyer()
    body = buyer.order_body(GENERATED, {100: 2})
    behind.lose_answer(COMMIT)
    answer = buyer.place(body)
    assert answer.status_code == 200, answer.text
    assert behind.spoilt == 1
    spoilt.check_bought_once(buyer, body, answer.json())


def test_an_order_whose_commit_did_not_arrive_is_not_made(spoilt: Estate, behind: Proxy) -> None:
    spoilt.start()
    for _ in range(5):  # a worker's COMMIT may come first
        buyer = spoilt.buyer()
        body = buyer.order_body(GENERATED, {100: 2})
        behind.lose_request(COMMIT)
        answer = buyer.place(body)
        if answer.status_code != 200:
            break
    assert (answer.status_code, answer.json()["id"]) == (503, "E011"), answer.text
    assert buyer.get(f"/orders/by-reference/{body['referenceId']}").status_code == 404
    spoilt.check_bought_once(buyer, body, buyer.place(body).json())


def test_a_commit_that_arrives_after_it_was_given_up_makes_no_second_order(spoilt: Estate, behind: Proxy) -> None:
    spoilt.start()
    buyer = spoilt.buyer()
    body = buyer.order_body(GENERATED, {100: 2})
    behind.delay_request(COMMIT)
    answer = buyer.place(body)
    # 200 when it arrived while the references were being read again; on a busy machine that happens.
    assert answer.status_code in {200, 503}, answer.text
    assert behind.spoilt == 1
    spoilt.check_bought_once(buyer, body, recover(buyer, body))


def test_a_database_that_swallows_everything_is_told_as_away_until_it_answers_again(
    spoilt: Estate, behind: Proxy
) -> None:
    spoilt.start()
    buyer = spoilt.buyer()
    body = buyer.order_body(VENDED, {100: 2})
    behind.swallows_all = True
    for answer in (
        buyer.place(body),
        buyer.get(f"/orders/by-reference/{body['referenceId']}"),
        buyer.get("/wallet/balance"),
    ):
        assert (answer.status_code, answer.json()["id"]) == (503, "E011"), answer.text
        assert int(answer.headers["Retry-After"]) >= 1
    behind.swallows_all = False
    order = recover(buyer, body, meanwhile=spoilt.pass_time)
    spoilt.check_bought_once(buyer, body, order)


@FAULTS
def test_an_order_is_made_once_over_a_bad_line_to_the_client(crashing: Estate, spoil: Callable[[Proxy], None]) -> None:
    order_once_over(crashing, spoil)


@pytest.mark.parametrize("lose", [Proxy.lose_request, Proxy.lose_answer])
def test_an_order_is_made_once_when_the_placement_or_its_answer_is_lost(
    crashing: Estate, lose: Callable[..., None]
) -> None:
    order_once_over(crashing, lambda proxy: lose(proxy, PLACEMENT))


def order_once_over(house: Estate, spoil: Callable[[Proxy], None]) -> None:
    """Place an order over a line that is spoilt, and find it as a client does."""
    there = httpx.URL(house.base_url)
    house.start()
    with proxying(lambda: asyncio.open_connection(there.host, there.port)) as before:
        buyer = house.buyer()
        buyer.http = httpx.Client(base_url=f"http://127.0.0.1:{before.port}", timeout=CLIENT_SECONDS, trust_env=False)
        with buyer.http:
            buyer.balance()  # so that there is a connection
            body = buyer.order_body(VENDED, {100: 2})
            spoil(before)
            with contextlib.suppress(httpx.TransportError):
                buyer.place(body)
            house.check_bought_once(buyer, body, recover(buyer, body))
