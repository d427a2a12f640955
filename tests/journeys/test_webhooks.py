"""Webhooks from an event to a partner's receiver, over real sockets, and what a partner sees of them."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from conftest import new_database
from giftrail import app
from giftrail import keys as installation_keys
from giftrail.db import pool
from giftrail.wallet import ledger
from giftrail.webhooks import manage
from giftrail.webhooks import model as endpoints
from giftrail_client import webhooks as sdk
from house import House, PartnerProgram, serving

PATIENCE_SECONDS = 15.0


class Receiver:
    """A partner's receiver: a real HTTP server that keeps what it is sent and answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        keeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                keeper.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                status, headers = keeper.answers.pop(0) if keeper.answers else (200, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "6")
                self.end_headers()
                self.wfile.write(b"thanks")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self, count: int) -> list[tuple[dict[str, str], bytes]]:
        """The requests, once there are so many."""
        until(lambda: len(self.requests) >= count)
        return self.requests

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def calling_house(server_url: str) -> Iterator[House]:
    """A house that may call this machine."""
    with serving(new_database(server_url), webhook_networks="127.0.0.0/8") as house:
        for brand_id in ("sandbox-at-once", "sandbox-lost-webhook", "sandbox-duplicate-webhook"):
            house.brand(brand_id, providers=["sandbox"])
        yield house
    assert house.audit() == []


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def program(calling_house: House) -> PartnerProgram:
    return calling_house.partner(
        brands=["fixed", "sandbox-at-once", "sandbox-lost-webhook", "sandbox-duplicate-webhook"]
    )


def registered(program: PartnerProgram, url: str, **members: Any) -> dict[str, Any]:
    answer = program.post("/webhooks", {"url": url, **members})
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    program.house.settle()
    return made


def test_a_terminal_order_is_told_signed_twice(program: PartnerProgram, receiver: Receiver) -> None:
    hook = registered(program, receiver.url)
    order = program.place(product_id="sandbox-at-once").json()
    headers, body = receiver.wait(1)[0]
    # A verifier written from the specification alone.
    expected = base64.b64encode(hmac.new(hook["secret"].encode(), body, hashlib.sha256).digest()).decode()
    assert hmac.compare_digest(headers["x-verify"], expected)
    # The Standard Webhooks library.
    assert Webhook(hook["secret"]).verify(body, headers)["orderId"] == order["id"]
    event = sdk.verify(body, headers, hook["secret"])
    assert (event.kind, event.order_id, event.status) == ("ORDER_TERMINAL_STATE", order["id"], "SUCCESS")
    assert json.loads(body)["referenceId"] == order["referenceId"]
    assert (headers["x-event-type"], headers["x-delivery-attempt"]) == ("ORDER_TERMINAL_STATE", "1")
    assert headers["webhook-id"] == event.id


def test_a_low_balance_is_told_once(program: PartnerProgram, receiver: Receiver) -> None:
    registered(program, receiver.url)

    async def deed(conn: pool.Connection) -> None:
        wallet = await ledger.open_wallet(conn, partner_id=program.partner.partner_id)
        wallet.set_threshold(99_950_00)
        await ledger.close_wallet(conn, wallet, now=app.now())

    program.house.do(deed)
    program.place()
    body = json.loads(receiver.wait(1)[0][1])
    assert (body["eventType"], body["balance"], body["threshold"]) == ("WALLET_LOW_BALANCE", 99_900, 99_950)


def test_what_fails_is_tried_again_and_seen(program: PartnerProgram, receiver: Receiver) -> None:
    hook = registered(program, receiver.url)
    receiver.answers = [(500, {})]
    sent = program.post(f"/webhooks/{hook['id']}/test").json()
    receiver.wait(1)
    until(lambda: bool(deliveries(program, hook)[0]["attempts"]))
    first = deliveries(program, hook)[0]
    assert (first["eventId"], first["status"], first["eventType"]) == (sent["eventId"], "DUE", "TEST")
    assert first["attempts"][0] | {"at": None, "latencyMs": None} == {
        "attempt": 1, "at": None, "status": 500, "error": None, "latencyMs": None, "answer": "thanks",
    }  # fmt: skip
    (_, one), (headers, other) = receiver.wait(2)[:2]
    assert one == other, "the same bytes at each attempt"
    assert headers["x-delivery-attempt"] == "2"
    until(lambda: deliveries(program, hook)[0]["status"] == "DELIVERED")


def deliveries(program: PartnerProgram, hook: dict[str, Any]) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = program.get(f"/webhooks/{hook['id']}/deliveries").json()["data"]
    return data


def test_410_switches_an_endpoint_off_and_its_events_are_held_until_replayed(
    program: PartnerProgram, receiver: Receiver
) -> None:
    hook = registered(program, receiver.url)
    began = datetime.now(UTC)
    receiver.answers = [(410, {})]
    program.place(product_id="sandbox-at-once")
    until(lambda: program.get(f"/webhooks/{hook['id']}").json()["status"] == "DISABLED")
    program.place(product_id="sandbox-at-once")
    until(lambda: [one["status"] for one in deliveries(program, hook)] == ["HELD", "HELD"])
    assert program.post(f"/webhooks/{hook['id']}/replay", {"from": began.isoformat()}).status_code == 400
    assert program.http.patch(
        f"/v1/partners/webhooks/{hook['id']}", json={"status": "ENABLED"}, headers=program.headers()
    ).json()["status"] == "ENABLED"  # fmt: skip
    program.house.settle()
    replayed = program.post(f"/webhooks/{hook['id']}/replay", {"from": (began - timedelta(seconds=5)).isoformat()})
    assert replayed.json() == {"events": 2}
    receiver.wait(3)
    until(lambda: [one["status"] for one in deliveries(program, hook)] == ["DELIVERED", "DELIVERED"])


def test_a_secret_is_rotated_in_two_steps(program: PartnerProgram, receiver: Receiver) -> None:
    hook = registered(program, receiver.url)
    staged = program.post(f"/webhooks/{hook['id']}/rotate-secret").json()["secret"]
    program.house.settle()
    program.post(f"/webhooks/{hook['id']}/test")
    headers, body = receiver.wait(1)[0]
    assert headers["x-verify"] == sdk.sign(body, hook["secret"])
    assert Webhook(staged).verify(body, headers)
    assert Webhook(hook["secret"]).verify(body, headers)
    assert program.post(f"/webhooks/{hook['id']}/promote-secret").json()["secret"] is None
    program.house.settle()
    program.post(f"/webhooks/{hook['id']}/test")
    headers, body = receiver.wait(2)[1]
    assert headers["x-verify"] == sdk.sign(body, staged)
    assert Webhook(hook["secret"]).verify(body, headers), "the old one for a day"


def test_the_feed_lists_events_by_sequence(program: PartnerProgram, receiver: Receiver) -> None:
    registered(program, receiver.url)
    ids = [program.place(product_id="sandbox-at-once").json()["id"] for _ in range(3)]
    receiver.wait(3)
    page = program.get("/events?limit=2").json()
    assert [(one["orderId"], one["sequence"]) for one in page["data"]] == [(ids[0], 1), (ids[1], 2)]
    rest = program.get(f"/events?after={page['nextCursor']}").json()
    assert [(one["orderId"], one["sequence"]) for one in rest["data"]] == [(ids[2], 3)]
    assert rest["nextCursor"] is None
    again = program.post(f"/events/{rest['data'][0]['eventId']}/redeliver")
    assert again.json() == {"endpoints": 1}
    receiver.wait(4)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "ftp://x.example/"}, "url"),
        ({"url": "https://user:pass@x.example/"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"url": "https://[::ffff:10.0.0.1]/"}, "url"),
        ({"url": "https://169.254.169.254/latest"}, "url"),
        ({"url": "https://x.example/#f"}, "url"),
        ({"url": ""}, "url"),
        ({}, "url"),
        ({"url": "https://x.example/", "events": []}, "events"),
        ({"url": "https://x.example/", "events": ["TEAPOT"]}, "events"),
        ({"url": "https://x.example/", "secret": "short"}, "secret"),
        ({"url": "https://x.example/", "secret": "whsec_" + "?" * 40}, "secret"),
        ({"url": "https://x.example/", "description": "x" * 300}, "description"),
    ],
)
def test_a_bad_registration_is_told(program: PartnerProgram, body: dict[str, Any], field: str) -> None:
    answer = program.post("/webhooks", body)
    assert answer.status_code == 400
    assert [error["fieldName"] for error in answer.json()["subErrors"]] == [field]
    assert "short" not in answer.text


def test_endpoints_are_seen_changed_and_removed(calling_house: House, program: PartnerProgram) -> None:
    hook = registered(program, "https://hooks.example/a", events=["ORDER_STATUS_CHANGED"], description="mine")
    assert (hook["events"], hook["description"], hook["status"]) == (["ORDER_STATUS_CHANGED"], "mine", "ENABLED")
    listed = program.get("/webhooks").json()["data"]
    assert [one["id"] for one in listed] == [hook["id"]]
    assert listed[0]["secret"] is None, "told once"
    other = calling_house.partner()
    for call in (other.get, other.post):
        assert call(f"/webhooks/{hook['id']}" + ("/test" if call == other.post else "")).status_code == 404
    removed = program.http.delete(f"/v1/partners/webhooks/{hook['id']}", headers=program.headers())
    assert removed.json()["status"] == "DELETED"
    assert program.get(f"/webhooks/{hook['id']}").status_code == 404


def test_a_secret_of_the_partners_own_signs_both_ways(program: PartnerProgram, receiver: Receiver) -> None:
    mine = "a secret of forty characters, all my own"
    hook = registered(program, receiver.url, secret=mine)
    program.post(f"/webhooks/{hook['id']}/test")
    headers, body = receiver.wait(1)[0]
    assert headers["x-verify"] == sdk.sign(body, mine)
    assert Webhook(hook["standardSecret"]).verify(body, headers)
    assert sdk.verify(body, headers, mine).kind == "TEST"


def test_plain_http_needs_the_operators_network(house: House) -> None:
    answer = house.partner().post("/webhooks", {"url": "http://127.0.0.1:1/"})
    assert answer.status_code == 400
    assert httpx.get(house.base_url + "/livez", trust_env=False).status_code == 200


def test_the_sandbox_loses_a_webhook_until_it_is_redelivered(program: PartnerProgram, receiver: Receiver) -> None:
    hook = registered(program, receiver.url)
    order = program.place(product_id="sandbox-lost-webhook").json()
    until(lambda: bool(program.get("/events").json()["data"]))
    assert [one["status"] for one in deliveries(program, hook)] == ["HELD"]
    assert receiver.requests == []
    event = program.get("/events").json()["data"][0]
    assert event["orderId"] == order["id"]
    program.post(f"/events/{event['eventId']}/redeliver")
    receiver.wait(1)


def test_the_sandbox_sends_a_webhook_twice(program: PartnerProgram, receiver: Receiver) -> None:
    hook = registered(program, receiver.url)
    program.place(product_id="sandbox-duplicate-webhook")
    (one, _), (other, _) = receiver.wait(2)
    assert one["webhook-id"] == other["webhook-id"]
    until(lambda: [sent["status"] for sent in deliveries(program, hook)] == ["DELIVERED"])


def test_an_old_copy_of_an_endpoint_changes_only_what_it_means_to(
    calling_house: House, program: PartnerProgram
) -> None:
    """A worker switches an endpoint off by a copy that does not know of the secret promoted a moment ago."""
    hook = registered(program, "https://hooks.example/old")
    ring = installation_keys.code_keys(calling_house.settings).ring
    partner_id = program.partner.partner_id

    async def read(conn: pool.Connection) -> endpoints.Endpoint:
        return await manage.read_endpoint(conn, partner_id=partner_id, endpoint_id=hook["id"], ring=ring)

    old = calling_house.do(read)
    promoted = program.post(f"/webhooks/{hook['id']}/rotate-secret").json()["secret"]
    program.post(f"/webhooks/{hook['id']}/promote-secret")

    async def disable(conn: pool.Connection) -> None:
        await manage.disable_endpoint(conn, old, why="it answered 410 Gone", ring=ring, now=app.now())

    calling_house.do(disable)
    now = calling_house.do(read)
    assert (now.secret, now.disabled_why) == (promoted, "it answered 410 Gone")
