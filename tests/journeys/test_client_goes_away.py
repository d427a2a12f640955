"""A client that goes away while its order is placed finds it by reference (specification, Place an order, rule 2)."""

import asyncio
import concurrent.futures
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from giftrail.db import pool
from giftrail.wallet import ledger
from house import House, PartnerProgram

MONEY = 100_000


@contextlib.contextmanager
def wallet_held(house: House, partner: PartnerProgram) -> Iterator[None]:
    """Hold the partner's wallet in a transaction of our own, so that placements begin and cannot end."""
    held, release = threading.Event(), threading.Event()

    async def hold() -> None:
        async with pool.connect(house.url) as conn, conn.transaction():
            await ledger.open_wallet(conn, partner_id=partner.partner.partner_id)
            held.set()
            await asyncio.to_thread(release.wait, 10)

    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        holding = executor.submit(asyncio.run, hold())
        assert held.wait(5)
        try:
            yield
        finally:
            release.set()
            holding.result(10)


def wait_until_blocked(house: House) -> None:
    """Wait until a transaction of the service waits for the wallet."""

    async def run() -> None:
        async with pool.connect(house.url) as conn:
            while not await conn.fetchval(  # noqa: ASYNC110 — PostgreSQL tells nobody of a lock that is waited for
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ):
                await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(run(), 1.5))


def send(house: House, partner: PartnerProgram, body: dict[str, Any], *, part: float = 1.0) -> socket.socket:
    """Send a placement, or the beginning of it, and do not wait for the answer."""
    url = httpx.URL(house.base_url)
    sock = socket.create_connection((url.host, url.port), timeout=10)
    content = json.dumps(body).encode()
    headers = partner.headers({"Host": "test", "Content-Type": "application/json", "Content-Length": str(len(content))})
    lines = ["POST /v1/partners/orders HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    sock.sendall("\r\n".join(lines).encode() + content[: int(len(content) * part)])
    return sock


def hang_up(sock: socket.socket) -> None:
    sock.close()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def half_close(sock: socket.socket) -> None:
    sock.shutdown(socket.SHUT_WR)


def find(partner: PartnerProgram, reference_id: str, *, seconds: float = 5) -> httpx.Response:
    deadline = time.monotonic() + seconds
    while True:
        answer = partner.get(f"/orders/by-reference/{reference_id}")
        if answer.status_code == 200 or time.monotonic() > deadline:
            return answer
        time.sleep(0.02)


@pytest.mark.parametrize("leave", [hang_up, reset, half_close])
def test_an_order_that_was_begun_is_finished_and_found(house: House, leave: Any) -> None:
    partner = house.partner()
    body = partner.order_body(lines={100: 3})
    with wallet_held(house, partner):
        sock = send(house, partner, body)
        wait_until_blocked(house)
        leave(sock)
        assert partner.get(f"/orders/by-reference/{body['referenceId']}").status_code == 404
    found = find(partner, body["referenceId"])
    sock.close()
    assert found.status_code == 200, found.text
    assert (found.json()["status"], len(found.json()["vouchers"])) == ("SUCCESS", 3)
    again = partner.place(body)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (found.json(), "true")
    assert partner.balance() == MONEY - 300


def test_a_retry_while_the_first_is_still_placed_is_the_same_order(house: House) -> None:
    partner = house.partner()
    body = partner.order_body()
    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        with wallet_held(house, partner):
            hang_up(send(house, partner, body))
            wait_until_blocked(house)
            retries = [executor.submit(house.client().post, "/v1/partners/orders", json=body,
                                       headers=partner.headers()) for _ in range(4)]  # fmt: skip
            time.sleep(0.2)
        answers = [retry.result(10) for retry in retries]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert {answer.headers["Idempotent-Replayed"] for answer in answers} == {"true"}
    assert len({answer.text for answer in answers}) == 1
    assert partner.balance() == MONEY - 100


@pytest.mark.parametrize("leave", [hang_up, reset])
def test_many_clients_that_leave_at_once_find_their_order_or_may_retry(house: House, leave: Any) -> None:
    partner = house.partner()
    bodies = [partner.order_body() for _ in range(30)]
    for body in bodies:
        leave(send(house, partner, body))
    time.sleep(0.5)
    before = {body["referenceId"]: partner.get(f"/orders/by-reference/{body['referenceId']}") for body in bodies}
    for body in bodies:
        order = partner.place(body).json()
        assert order["status"] == "SUCCESS"
        found = before[body["referenceId"]]
        assert found.status_code == 404 or found.json() == order
    assert partner.balance() == MONEY - 30 * 100


@pytest.mark.parametrize("leave", [hang_up, reset])
@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_a_request_that_never_arrived_whole_stores_nothing(house: House, leave: Any, part: float) -> None:
    partner = house.partner()
    body = partner.order_body()
    leave(send(house, partner, body, part=part))
    assert find(partner, body["referenceId"], seconds=0.2).status_code == 404
    assert partner.balance() == MONEY
    assert partner.place(body).json()["status"] == "SUCCESS"


def test_a_placement_answered_503_is_not_stored_later(house: House) -> None:
    partner = house.partner()
    bodies = [partner.order_body() for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(3) as executor, wallet_held(house, partner):
        placing = []
        for body in bodies:
            headers = partner.headers()
            placing.append(executor.submit(house.client().post, "/v1/partners/orders", json=body, headers=headers))
            time.sleep(0.2)
        answers = [one.result(10) for one in placing]
    for answer in answers:
        assert (answer.status_code, answer.json()["id"]) == (503, "E011"), answer.text
        assert int(answer.headers["Retry-After"]) >= 1
    time.sleep(0.5)
    for body in bodies:
        assert partner.get(f"/orders/by-reference/{body['referenceId']}").status_code == 404
        order = partner.place(body).json()
        assert order["status"] == "SUCCESS"
    assert partner.balance() == MONEY - 300
