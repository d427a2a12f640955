"""What partners' receivers do, and what becomes of a webhook then: one table, each row a real server (engines)."""

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from conftest import new_database
from contract import raw_receivers as raw
from giftrail import app
from giftrail import keys as installation_keys
from giftrail.attempts import courier
from giftrail.db import changes, pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids, outbound
from giftrail.webhooks import manage, store
from house import House, PartnerProgram, serving

PATIENCE_SECONDS = 60.0
CLOCK_SLACK_SECONDS = 5.0  # what this machine may be late by, no promise
EVIL_DATE = "Sat, 31 Jan 2026 12:00:00 +99999999999999999999"
ENOUGH_BYTES = 32 << 20  # what kernels keep under way, and no gigabyte


@dataclass(frozen=True)
class Row:
    """A receiver, and what a partner then reads of its first attempt."""

    behave: raw.Behaviour | str
    status: int | None = None
    error: str | None = None
    answer: str = "thanks"
    state: str = "DUE"
    waits: tuple[float, float] = (4.0, 6.0)
    takes: tuple[float, float] = (0.0, 15.0)
    hears: bool = True


def busy(retry_after: str, waits: tuple[float, float]) -> Row:
    return Row(raw.answers(f"429 Too Many Requests\r\nRetry-After: {retry_after}"), 429, waits=waits)


ROWS = {
    "200": Row(raw.answers("200 OK"), 200, state="DELIVERED"),
    "204": Row(raw.answers("204 No Content"), 204, answer="", state="DELIVERED"),
    "299": Row(raw.answers("299 Well"), 299, state="DELIVERED"),
    "301 elsewhere": Row(raw.answers("301 Moved Permanently\r\nLocation: {elsewhere}"), 301),
    "307 elsewhere": Row(raw.answers("307 Temporary Redirect\r\nLocation: {elsewhere}"), 307),
    "400": Row(raw.answers("400 Bad Request"), 400),
    "410": Row(raw.answers("410 Gone", "200 OK"), 410, state="HELD"),
    "429, come back in 8 s": busy("8", (8.0, 8.0)),
    "429, come back in an hour": busy("3600", (10.0, 10.0)),
    "429, come back at once": busy("0", (5.0, 5.0)),
    "429, come back in words": busy("later", (4.0, 6.0)),
    "429, come back on a day that never was": busy(EVIL_DATE, (4.0, 10.0)),
    "500, then 200": Row(raw.answers("500 Internal Server Error", "200 OK"), 500),
    "500 and a long story": Row(raw.answers("500 Oh", body=b"\xff" + b"x" * 100_000), 500, answer="�" + "x" * 2047),
    "swells": Row(raw.swells, 200, state="DELIVERED", answer="gzip"),
    "pours": Row(raw.pours, 200, answer="y" * 2048, state="DELIVERED"),
    "pours headers": Row(raw.pours_headers, error="BROKEN", answer=""),
    "breaks off": Row(raw.breaks_off, error="BROKEN", answer=""),
    "resets": Row(raw.resets, error="BROKEN", answer=""),
    "hangs up": Row(raw.hangs_up, error="BROKEN", answer="", hears=False),
    "talks rubbish": Row(raw.talks_rubbish, error="BROKEN", answer=""),
    "bad certificate": Row(raw.answers("200 OK"), error="TLS", answer="", hears=False),
    "no TLS": Row(raw.speaks_plainly, error="TLS", answer="", hears=False),
    "version 6": Row(raw.answers("200 OK"), 200, state="DELIVERED"),
    "nobody there": Row("http://127.0.0.1:1/hook", error="CONNECT", answer="", hears=False),
    "no such name": Row("http://nobody.invalid/hook", error="DNS", answer="", hears=False),
    "never accepts": Row("never accepts", error="TIMEOUT", answer="", hears=False, takes=(5.0, 15.0)),
    "never answers": Row(raw.never_answers, error="TIMEOUT", answer="", takes=(15.0, 30.0)),
    "drips its body": Row(raw.drips_its_body, error="TIMEOUT", answer="", takes=(15.0, 30.0)),
    "drips its head": Row(raw.drips_its_head, error="TIMEOUT", answer="", takes=(15.0, 30.0)),
}
NAMES = list(ROWS)


@dataclass
class Told:
    """An endpoint that was sent an event."""

    program: PartnerProgram
    hook_id: str
    event_id: str
    receiver: raw.Receiver | None

    def delivery(self) -> dict[str, Any]:
        """How that event's delivery stands."""
        rows = self.program.get(f"/webhooks/{self.hook_id}/deliveries").json()["data"]
        return next((row for row in rows if row["eventId"] == self.event_id), {"status": None, "attempts": []})

    def once(self, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The delivery, as soon as it is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true(delivery := self.delivery()):
            assert time.monotonic() < deadline, delivery
            time.sleep(0.05)
        return delivery


@pytest.fixture(scope="module")
def calling_house(server_url: str) -> Iterator[House]:
    """A house that may call this machine."""
    with serving(new_database(server_url), webhook_networks="127.0.0.0/8,::1/128") as house:
        yield house
    assert house.audit() == []


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[raw.Receiver]:
    """Where redirects lead: it could be called, and is not."""
    made = raw.Receiver(raw.answers("200 OK"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def told(
    calling_house: House, elsewhere: raw.Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Told]]:
    """Each row's endpoint, all of them sent an event, so that the slow ones are waited for together."""
    tls = raw.self_signed(tmp_path_factory.mktemp("tls"))
    with contextlib.ExitStack() as opened:
        made = {}
        for name, row in ROWS.items():
            receiver, url = None, str(row.behave)
            if name == "never accepts":
                url = opened.enter_context(raw.that_never_accepts())
            elif not isinstance(row.behave, str):
                behave = raw.answers(*_heads(name, elsewhere)) if "elsewhere" in name else row.behave
                host = "::1" if name == "version 6" else "127.0.0.1"
                receiver = raw.Receiver(behave, host=host, tls=tls if name == "bad certificate" else None)
                opened.callback(receiver.close)
                url = receiver.url.replace("http:", "https:") if name == "no TLS" else receiver.url
            program = calling_house.partner()
            hook = program.post("/webhooks", {"url": url}).json()
            made[name] = Told(program, hook["id"], "", receiver)
        calling_house.settle()
        for one in made.values():
            one.event_id = one.program.post(f"/webhooks/{one.hook_id}/test").json()["eventId"]
        yield made


def _heads(name: str, elsewhere: raw.Receiver) -> list[str]:
    return [f"{name.split(maxsplit=1)[0]} Moved\r\nLocation: {elsewhere.url}"]


def check(row: Row, delivery: dict[str, Any]) -> None:
    """The first attempt, the state, and when it is tried next, or was."""
    first = delivery["attempts"][0]
    assert (first["attempt"], first["status"], first["error"]) == (1, row.status, row.error)
    if row.answer == "gzip":
        assert first["answer"].startswith("\x1f")
        assert len(first["answer"]) <= 2048
    else:
        assert first["answer"] == row.answer
    assert row.takes[0] * 1000 - 10 <= first["latencyMs"] <= (row.takes[1] + CLOCK_SLACK_SECONDS) * 1000
    if len(delivery["attempts"]) == 1:
        assert delivery["status"] == row.state
    if row.state != "DUE":
        assert delivery["nextAttemptAt"] is None


def waited(delivery: dict[str, Any]) -> float:
    """Seconds between the end of the first attempt and the next, as planned or as it was."""
    first, *more = delivery["attempts"]
    following = datetime.fromisoformat(more[0]["at"] if more else delivery["nextAttemptAt"])
    latency = timedelta(milliseconds=first["latencyMs"])
    return (following - datetime.fromisoformat(first["at"]) - latency).total_seconds()


@pytest.mark.parametrize("name", NAMES)
def test_what_a_receiver_does_is_recorded_and_answered_by_the_schedule(
    told: dict[str, Told], elsewhere: raw.Receiver, name: str
) -> None:
    row, one = ROWS[name], told[name]

    def fits(delivery: dict[str, Any]) -> bool:
        # While the next attempt is under way the next time is the end of its lease.
        if not delivery["attempts"] or row.state != "DUE":
            return bool(delivery["attempts"]) and delivery["status"] == row.state
        return row.waits[0] - 0.1 <= waited(delivery) <= row.waits[1] + CLOCK_SLACK_SECONDS

    delivery = one.once(fits)
    check(row, delivery)
    if one.receiver is not None:
        assert (one.receiver.requests != []) is row.hears
        assert one.receiver.bytes_sent <= ENOUGH_BYTES
        if name.startswith(("pours", "500 and")):
            one.once(lambda _: one.receiver is not None and not one.receiver.is_busy())
    assert elsewhere.connections == 0, "redirects are not followed"


def test_what_failed_arrives_at_the_second_try(told: dict[str, Told]) -> None:
    one = told["500, then 200"]
    delivery = one.once(lambda delivery: bool(delivery["status"] == "DELIVERED"))
    assert [(each["attempt"], each["status"]) for each in delivery["attempts"]] == [(1, 500), (2, 200)]
    assert one.receiver
    assert one.receiver.attempts() == [1, 2]


def append_event(program: PartnerProgram) -> str:
    """Something that happened to the partner; its id."""
    now = app.now()
    event = events.Event(
        partner_id=program.partner.partner_id,
        event_id=ids.new("evt", now=now),
        kind=events.Kind.WALLET_LOW_BALANCE,
        body=events.wallet_low_balance(balance=1, threshold=2),
        occurred_at=now,
    )
    program.house.do(lambda conn: outbox.append_events(conn, [event]), settle=False)
    return event.event_id


def test_gone_is_gone_until_it_is_enabled_and_then_the_rest_is_replayed(calling_house: House) -> None:
    program, began = calling_house.partner(), datetime.now(UTC) - timedelta(seconds=5)
    with contextlib.closing(raw.Receiver(raw.answers("410 Gone", "200 OK"))) as receiver:
        hook = program.post("/webhooks", {"url": receiver.url}).json()
        calling_house.settle()
        first = Told(program, hook["id"], append_event(program), receiver)
        first.once(lambda delivery: bool(delivery["attempts"]) and delivery["status"] == "HELD")
        shown = program.get(f"/webhooks/{hook['id']}").json()
        assert (shown["status"], shown["disabledReason"]) == ("DISABLED", "it answered 410 Gone")
        calling_house.settle()
        second = Told(program, hook["id"], append_event(program), receiver)
        while not program.get(f"/events?after={first.event_id}").json()["data"]:
            time.sleep(0.02)
        assert (second.delivery()["status"], second.delivery()["attempts"]) == ("HELD", [])
        assert len(receiver.requests) == 1
        program.http.patch(
            f"/v1/partners/webhooks/{hook['id']}", json={"status": "ENABLED"}, headers=program.headers()
        ).raise_for_status()
        calling_house.settle()
        assert program.post(f"/webhooks/{hook['id']}/replay", {"from": began.isoformat()}).json() == {"events": 2}
        for one, attempts in ((first, [(1, 410), (2, 200)]), (second, [(1, 200)])):
            delivery = one.once(lambda delivery: bool(delivery["status"] == "DELIVERED"))
            assert [(each["attempt"], each["status"]) for each in delivery["attempts"]] == attempts


def test_a_test_of_an_endpoint_that_is_off_does_not_wait_for_ever(calling_house: House) -> None:
    program = calling_house.partner()
    hook = program.post("/webhooks", {"url": "http://127.0.0.1:1/hook"}).json()
    program.http.patch(
        f"/v1/partners/webhooks/{hook['id']}", json={"status": "DISABLED"}, headers=program.headers()
    ).raise_for_status()
    answer = program.post(f"/webhooks/{hook['id']}/test")
    if answer.status_code == 200:
        assert Told(program, hook["id"], answer.json()["eventId"], None).delivery()["status"] == "HELD"
    else:
        assert answer.status_code == 400, "as a replay is"


OLD_SPELLINGS = ("https://127.1", "https://2130706433", "https://0177.0.0.1", "https://127.0.0.1.")
LITERALS = [
    *OLD_SPELLINGS, "https://127.0.0.1", "https://0x7f000001", "https://0.0.0.0", "https://[::1]", "https://[::]",
    "https://[0:0:0:0:0:0:0:1]", "https://[::ffff:127.0.0.1]", "https://[::ffff:7f00:1]", "https://[::127.0.0.1]",
    "https://[64:ff9b::7f00:1]", "https://[2002:7f00:1::]", "https://[fe80::1]", "https://localhost",
    "https://LOCALHOST", "http://127.0.0.1", "http://localhost", "http://1.1.1.1",
]  # fmt: skip


@pytest.fixture(scope="module")
def at_home() -> Iterator[list[raw.Receiver]]:
    """What must not be reached: this machine, in both versions."""
    made = [raw.Receiver(raw.answers("200 OK"), host=host) for host in ("127.0.0.1", "::1")]
    yield made
    for receiver in made:
        receiver.close()


@pytest.mark.parametrize("literal", LITERALS)
def test_a_url_that_leads_home_is_not_called_even_when_it_stands_in_the_database(
    house: House, at_home: list[raw.Receiver], literal: str
) -> None:
    program, ring = house.partner(), installation_keys.code_keys(house.settings).ring
    hook = program.post("/webhooks", {"url": "https://hooks.example/"}).json()
    url = f"{literal}:{at_home['[' in literal].port}/hook"

    async def deed(conn: pool.Connection) -> None:
        known = await manage.read_endpoint(
            conn, partner_id=program.partner.partner_id, endpoint_id=hook["id"], ring=ring
        )
        version = await changes.raise_version(conn, topic="webhooks")
        await store.upsert_endpoint(conn, replace(known, url=url), version=version, ring=ring, now=app.now())

    house.do(deed)
    event_id = program.post(f"/webhooks/{hook['id']}/test").json()["eventId"]
    delivery = Told(program, hook["id"], event_id, None).once(lambda delivery: bool(delivery["attempts"]))
    # What is a number in an old spelling is refused before anybody is asked for an address.
    check(Row("", error="URL" if literal in OLD_SPELLINGS else "ADDRESS_DENIED", answer=""), delivery)
    assert [receiver.connections for receiver in at_home] == [0, 0]


@pytest.mark.parametrize("literal", [one for one in LITERALS if one.endswith(("]", "//127.0.0.1", "//localhost"))])
def test_a_url_that_leads_home_cannot_be_registered(house: House, literal: str) -> None:
    answer = house.partner().post("/webhooks", {"url": f"{literal}/hook"})
    assert answer.status_code == 400, answer.text
    assert [error["fieldName"] for error in answer.json()["subErrors"]] == ["url"]


class Names(AbstractResolver):
    """A name server that answers each question with the next of its answers."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del family
        found = self._answers.pop(0)
        return [
            ResolveResult(hostname=host, host=one, port=port, family=socket.AF_INET, proto=0, flags=0) for one in found
        ]

    async def close(self) -> None:
        """Nothing is open."""


# Stands for a public address: one that may be called, on which a receiver can be started.
PUBLIC, PRIVATE = "127.0.0.2", "127.0.0.1"


@pytest.fixture
async def caller() -> AsyncIterator[outbound.Caller]:
    made = outbound.Caller(allowlist=[ip_network(PUBLIC)], connections=10)
    yield made
    await made.close()


def ask_names(caller: outbound.Caller, *answers: list[str]) -> None:
    connector = caller._sessions["http"].connector
    assert isinstance(connector, aiohttp.TCPConnector)
    connector._resolver = Names(*answers)


async def error_of(caller: outbound.Caller, port: int) -> str:
    with pytest.raises((aiohttp.ClientError, OSError)) as caught:
        await caller.post(f"http://hooks.example:{port}/", body=b"{}", headers={})
    return courier.error_class(caught.value)


async def test_a_name_of_a_private_address_is_not_called(caller: outbound.Caller) -> None:
    with contextlib.closing(raw.Receiver(raw.answers("200 OK"), host=PRIVATE)) as receiver:
        ask_names(caller, [PRIVATE])
        assert await error_of(caller, receiver.port) == "ADDRESS_DENIED"
        assert receiver.connections == 0


async def test_a_name_that_turns_private_between_two_calls_is_not_called_again(caller: outbound.Caller) -> None:
    with contextlib.closing(raw.Receiver(raw.answers("200 OK"), host="0.0.0.0")) as receiver:
        ask_names(caller, [PUBLIC], [PRIVATE])
        answer = await caller.post(
            f"http://hooks.example:{receiver.port}/", body=b"{}", headers={"Content-Length": "2"}
        )
        assert (answer.status, receiver.connections) == (200, 1)
        connector = caller._sessions["http"].connector
        assert isinstance(connector, aiohttp.TCPConnector)
        connector.clear_dns_cache()  # as after ten seconds
        assert await error_of(caller, receiver.port) == "ADDRESS_DENIED"
        assert receiver.connections == 1


async def test_a_private_address_is_no_way_out_when_the_public_one_fails(caller: outbound.Caller) -> None:
    with contextlib.closing(raw.Receiver(raw.answers("200 OK"), host=PRIVATE)) as receiver:
        ask_names(caller, [PUBLIC, PRIVATE])
        assert await error_of(caller, receiver.port) in {"ADDRESS_DENIED", "CONNECT"}
        assert receiver.connections == 0
