"""What a clever client tries: each was possible once."""

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from conftest import new_database
from giftrail import app
from giftrail.db import pool
from giftrail.partners import manage
from house import House, serving


def test_a_brand_of_another_currency_is_refused_like_any_that_is_not_enabled(house: House) -> None:
    partner = house.partner()
    order = partner.place(product_id=house.brand(currency="USD")).json()
    assert (order["status"], order["failureCode"]) == ("FAILED", "E101")
    assert partner.get(f"/orders/by-reference/{order['referenceId']}").json() == order


def test_a_credential_revoked_while_its_body_arrives_places_nothing(house: House) -> None:
    partner = house.partner()
    body = json.dumps(partner.order_body()).encode()
    headers = partner.headers({"Host": "x", "Content-Type": "application/json", "Content-Length": str(len(body))})
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    url = httpx.URL(house.base_url)
    with socket.create_connection((url.host, url.port or 80), timeout=20) as line:
        line.sendall(f"POST /v1/partners/orders HTTP/1.1\r\n{head}\r\n".encode() + body[:10])
        house.do(lambda conn: manage.revoke_credential(conn, client_id=partner.client_id, now=app.now()))
        line.sendall(body[10:])
        assert line.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_parallel_guesses_of_a_secret_are_counted(server_url: str) -> None:
    with serving(new_database(server_url), failed_logins_per_minute=10) as house:
        partner = house.partner()

        async def guess() -> list[int]:
            async with httpx.AsyncClient(base_url=house.base_url, trust_env=False, timeout=30) as http:
                bodies = [{"clientId": partner.client_id, "clientSecret": f"wrong{n}"} for n in range(60)]
                answers = await asyncio.gather(*(http.post("/v1/partners/auth/login", json=body) for body in bodies))
                return [answer.status_code for answer in answers]

        statuses = asyncio.run(guess())
        assert set(statuses) == {401, 429}
        assert statuses.count(401) <= 11  # a token may have come back meanwhile


def test_right_logins_are_not_limited(server_url: str) -> None:
    with serving(new_database(server_url), failed_logins_per_minute=3) as house:
        partner = house.partner()
        assert {partner.log_in().status_code for _ in range(20)} == {200}


def test_a_partner_may_have_a_limit_of_failed_logins_of_its_own(server_url: str) -> None:
    with serving(new_database(server_url), failed_logins_per_minute=2) as house:
        strict, lenient = house.partner(), house.partner()
        values = {"failed_logins_per_minute": 5}
        house.do(
            lambda conn: manage.set_partner(conn, partner_id=lenient.partner.partner_id, values=values, now=app.now())
        )
        refused = []
        for partner in (strict, lenient):
            body = {"clientId": partner.client_id, "clientSecret": "wrong"}
            answers = [partner.http.post("/v1/partners/auth/login", json=body).status_code for _ in range(6)]
            refused.append(answers.index(429))
        assert refused == [2, 5]


@pytest.mark.parametrize("path", ["/orders", "/wallet/transactions"])
@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_outside_of_time_is_400(house: House, path: str, name: str, moment: str) -> None:
    assert house.partner().get(path, params={name: moment}).status_code == 400


@pytest.mark.parametrize("path", ["/orders", "/wallet/transactions"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_ends_of_time_are_moments(house: House, path: str, moment: str) -> None:
    for name in ("from", "to"):
        assert house.partner().get(path, params={name: moment}).status_code == 200


def test_a_replay_at_a_process_that_does_not_know_the_brand_yet_is_a_replay(server_url: str) -> None:
    url = new_database(server_url)
    with serving(url) as here, serving(url, poll_seconds=1.0) as there:
        partner = here.partner()
        brand_id = here.brand()
        here.enable(partner, brand_id)
        body = partner.order_body(brand_id)
        placed = partner.place(body).json()
        with httpx.Client(base_url=there.base_url, trust_env=False) as elsewhere:
            again = elsewhere.post("/v1/partners/orders", json=body, headers=partner.headers())
        assert (again.status_code, again.json()) == (200, placed)


def test_who_finds_no_room_is_refused_before_sending_a_body(server_url: str) -> None:
    with serving(new_database(server_url), waiting_orders=1) as house, ThreadPoolExecutor() as threads:
        partner = house.partner()
        head = partner.headers({"Host": "x", "Content-Type": "application/json", "Content-Length": "300"})
        request = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        url = httpx.URL(house.base_url)

        def answer_to_a_head() -> bytes:
            with socket.create_connection((url.host, url.port or 80), timeout=0.3) as line:
                line.sendall(f"POST /v1/partners/orders HTTP/1.1\r\n{request}\r\n".encode())
                try:
                    return line.recv(65536)
                except TimeoutError:
                    return b""  # its body is waited for

        async def hold(conn: pool.Connection) -> bytes:
            await conn.execute("SELECT FROM wallet WHERE partner_id = $1 FOR UPDATE", partner.partner.partner_id)
            placing = [threads.submit(partner.place) for _ in range(2)]
            while not all(one.done() for one in placing):
                answer = await asyncio.to_thread(answer_to_a_head)
                if answer:
                    return answer
            return b""

        assert answer_to_a_head() == b""
        refused = house.do(hold)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in refused
