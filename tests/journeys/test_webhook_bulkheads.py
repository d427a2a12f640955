"""One receiver hangs and one fails, and nobody else notices; what is held is not lost, what is slowed down arrives."""

import http.server
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conftest import new_database
from giftrail import app
from giftrail import keys as installation_keys
from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids
from giftrail.webhooks import manage
from house import House, PartnerProgram, serving

PATIENCE_SECONDS = 60.0
PARTNERS, ENDPOINTS, EVENTS = 4, 3, 40
# So few that those that one endpoint holds up are sorely missed.
IN_FLIGHT, PER_ENDPOINT = 30, 20
BREAKER_ATTEMPTS = 10


class Hall:
    """One host that receives for everybody: by path it keeps the events' ids, hangs, or fails."""

    def __init__(self) -> None:
        self.heard: dict[str, Counter[str]] = {}
        self.status: dict[str, int] = {}
        self.hanging: set[str] = set()
        self.released = threading.Event()
        self.waiting = 0
        self._lock = threading.Lock()
        hall = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                status = hall.hear(self.path, self.headers["webhook-id"])
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True  # whoever called has given up

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def hear(self, path: str, event_id: str) -> int:
        """Keep the id; the status that is answered, sooner or later."""
        with self._lock:
            self.heard.setdefault(path, Counter())[event_id] += 1
            self.waiting += path in self.hanging
        if path in self.hanging:
            self.released.wait(PATIENCE_SECONDS)
            with self._lock:
                self.waiting -= 1
        return self.status.get(path, 200)

    def ids(self, path: str) -> set[str]:
        """What arrived there."""
        with self._lock:
            return set(self.heard.get(path, ()))

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def narrow_house(server_url: str) -> Iterator[House]:
    """A house that may call this machine, and not much of it at once."""
    with serving(
        new_database(server_url),
        webhook_networks="127.0.0.0/8",
        webhook_in_flight=IN_FLIGHT,
        webhook_per_endpoint=PER_ENDPOINT,
        work_stop_seconds=1,
    ) as house:
        yield house
    assert house.audit() == []


@pytest.fixture
def hall() -> Iterator[Hall]:
    made = Hall()
    yield made
    made.close()


def hook_at(program: PartnerProgram, url: str) -> str:
    """The id of a new endpoint."""
    answer = program.post("/webhooks", {"url": url})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def happen(house: House, programs: list[PartnerProgram], count: int) -> dict[str, set[str]]:
    """So many events of each partner, all in one transaction; their ids by partner."""
    now = app.now()
    made = [
        events.Event(
            partner_id=program.partner.partner_id,
            event_id=ids.new("evt", now=now),
            kind=events.Kind.WALLET_LOW_BALANCE,
            body=events.wallet_low_balance(balance=number, threshold=count),
            occurred_at=now,
        )
        for number in range(count)
        for program in programs
    ]
    house.do(lambda conn: outbox.append_events(conn, made), settle=False)
    return {
        program.partner.partner_id: {event.event_id for event in made if event.partner_id == program.partner.partner_id}
        for program in programs
    }


def states(program: PartnerProgram, hook_id: str) -> Counter[str]:
    """How many deliveries are in which state."""
    rows = program.get(f"/webhooks/{hook_id}/deliveries?limit=200").json()["data"]
    return Counter(row["status"] for row in rows)


def test_one_that_hangs_and_one_that_fails_hold_up_nobody_else(narrow_house: House, hall: Hall) -> None:
    """All of them on one host, as behind a relay that many partners use."""
    programs = [narrow_house.partner() for _ in range(PARTNERS)]
    paths = {f"/{p}/{w}": programs[p] for p in range(PARTNERS) for w in range(ENDPOINTS)}
    hooks = {path: hook_at(program, hall.url + path) for path, program in paths.items()}
    hangs, fails = "/0/0", "/1/0"
    hall.hanging, hall.status = {hangs}, {fails: 500}
    narrow_house.settle()
    wanted = happen(narrow_house, programs, EVENTS)
    others = paths.keys() - {hangs, fails}
    for path in sorted(others):
        until(lambda path=path: hall.ids(path) == wanted[paths[path].partner.partner_id])  # type: ignore[misc]
    assert 0 < hall.waiting <= PER_ENDPOINT, "it hangs still, with no more than its share"
    assert states(paths[hangs], hooks[hangs]) == {"DUE": EVENTS}
    assert states(paths[fails], hooks[fails]) == {"DUE": EVENTS}
    assert BREAKER_ATTEMPTS <= hall.heard[fails].total() < EVENTS, "left alone, and nothing of the rest used up"
    for path in sorted(others):
        until(lambda path=path: states(paths[path], hooks[path]) == {"DELIVERED": EVENTS})  # type: ignore[misc]
        assert set(hall.heard[path].values()) == {1}
    for program in programs:
        feed = program.get("/events?limit=200").json()["data"]
        assert [one["sequence"] for one in feed] == list(range(1, EVENTS + 1))
    hall.released.set()
    until(lambda: hall.ids(hangs) == wanted[paths[hangs].partner.partner_id])


def test_what_a_disabled_endpoint_misses_is_held_and_arrives_when_it_is_replayed(
    narrow_house: House, hall: Hall
) -> None:
    program, began = narrow_house.partner(), datetime.now(UTC) - timedelta(seconds=5)
    off, on = hook_at(program, hall.url + "/off"), hook_at(program, hall.url + "/on")
    switch(program, off, "DISABLED")
    wanted = happen(narrow_house, [program], EVENTS)[program.partner.partner_id]
    until(lambda: hall.ids("/on") == wanted)
    assert states(program, off) == {"HELD": EVENTS}
    assert hall.ids("/off") == set()
    switch(program, off, "ENABLED")
    more = happen(narrow_house, [program], 1)[program.partner.partner_id]
    until(lambda: hall.ids("/off") == more)
    assert states(program, off)["HELD"] == EVENTS
    replayed = program.post(f"/webhooks/{off}/replay", {"from": began.isoformat()})
    assert replayed.json() == {"events": EVENTS + 1}
    until(lambda: hall.ids("/off") == wanted | more)
    until(lambda: states(program, off) == {"DELIVERED": EVENTS + 1})
    until(lambda: states(program, on) == {"DELIVERED": EVENTS + 1})
    assert hall.heard["/on"].total() == EVENTS + 1, "a replay is for one endpoint"


def switch(program: PartnerProgram, hook_id: str, status: str) -> None:
    """Enable or disable."""
    answer = program.http.patch(f"/v1/partners/webhooks/{hook_id}", json={"status": status}, headers=program.headers())
    assert answer.json()["status"] == status
    program.house.settle()


def test_what_is_on_its_way_when_an_endpoint_is_switched_off_is_not_lost(narrow_house: House, hall: Hall) -> None:
    program, began = narrow_house.partner(), datetime.now(UTC) - timedelta(seconds=5)
    hook_id = hook_at(program, hall.url + "/slow")
    hall.hanging = {"/slow"}
    narrow_house.settle()
    wanted = happen(narrow_house, [program], EVENTS)[program.partner.partner_id]
    until(lambda: hall.waiting == PER_ENDPOINT)
    switch(program, hook_id, "DISABLED")
    hall.released.set()
    until(lambda: hall.waiting == 0)
    until(lambda: states(program, hook_id)["DUE"] == 0)
    assert len(hall.ids("/slow")) == PER_ENDPOINT, "no more is sent"
    switch(program, hook_id, "ENABLED")
    program.post(f"/webhooks/{hook_id}/replay", {"from": began.isoformat()})
    until(lambda: hall.ids("/slow") == wanted)
    until(lambda: states(program, hook_id) == {"DELIVERED": EVENTS})


def test_an_endpoint_with_a_rate_gets_everything(narrow_house: House, hall: Hall) -> None:
    """Also one that had none while much was sent to it."""
    program = narrow_house.partner()
    hook_id = hook_at(program, hall.url + "/slowed")
    narrow_house.settle()
    wanted = happen(narrow_house, [program], EVENTS)[program.partner.partner_id]
    until(lambda: hall.ids("/slowed") == wanted)
    ring = installation_keys.code_keys(narrow_house.settings).ring

    async def deed(conn: pool.Connection) -> None:
        known = await manage.read_endpoint(conn, partner_id=program.partner.partner_id, endpoint_id=hook_id, ring=ring)
        await manage.change_endpoint(
            conn,
            known,
            rate_per_second=15,
            allowlist=narrow_house.settings.webhook_networks,
            ring=ring,
            now=app.now(),
        )

    narrow_house.do(deed)
    wanted |= happen(narrow_house, [program], EVENTS)[program.partner.partner_id]
    until(lambda: hall.ids("/slowed") == wanted)
    until(lambda: states(program, hook_id) == {"DELIVERED": 2 * EVENTS})
