"""Workers and PostgreSQL die while webhooks are sent: every event arrives at least once, and few arrive twice."""

import asyncio
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from crash.estate import Estate, Nursery, estate, wait_until
from crash.shop import Shop
from crash.test_database_goes_away import Postgres
from giftrail import app
from giftrail import keys as installation_keys
from giftrail.db import migrate, pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids
from giftrail.webhooks import manage
from house import execute

# GIFTRAIL_CRASH_SEED repeats a run; GIFTRAIL_CRASH_KILLS makes it longer.
KILLS = int(os.environ.get("GIFTRAIL_CRASH_KILLS", "8"))
PARTNERS, ENDPOINTS, EVENTS_A_ROUND = 2, 3, 20
ANSWERS_AFTER_SECONDS = 0.01
WORKERS, IN_FLIGHT = 2, 10
SETTINGS: dict[str, Any] = {"webhook_networks": "127.0.0.0/8", "webhook_in_flight": IN_FLIGHT}


class Sink:
    """Knows by path which event arrived how often; it answers a moment after it has taken it in."""

    def __init__(self) -> None:
        self.heard: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                sink.hear(self.path, self.headers["webhook-id"])
                time.sleep(ANSWERS_AFTER_SECONDS)
                self.send_response(204)
                self.end_headers()

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True  # whoever called is dead

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def hear(self, path: str, event_id: str) -> None:
        """It has it, whatever becomes of the answer."""
        with self._lock:
            self.heard[path, event_id] += 1

    def has(self, wanted: set[tuple[str, str]]) -> bool:
        """Whether all of these have arrived."""
        with self._lock:
            return wanted <= self.heard.keys()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One of its own, which can be killed."""
    with TemporaryDirectory(prefix="giftrail-crash-") as folder, ExitStack() as users:
        made = Postgres(Path(folder), users)
        made.start()
        asyncio.run(migrate.migrate(made.url))
        yield made


@pytest.fixture
def founded(postgres: Postgres, nursery: Nursery, shop: Shop) -> Iterator[Estate]:
    """A house over that PostgreSQL, audited at the end."""
    with estate(postgres.url, nursery, shop, stale_after_seconds=1) as house:
        yield house


def open_endpoints(house: Estate, partner_id: str, sink: Sink) -> list[str]:
    """The paths of new endpoints of the partner."""
    paths = [f"/{partner_id}/{number}" for number in range(ENDPOINTS)]

    async def deed(conn: pool.Connection) -> None:
        for path in paths:
            await manage.create_endpoint(
                conn,
                partner_id=partner_id,
                url=sink.url + path,
                kinds=None,
                description=None,
                secret=None,
                allowlist=[ip_network("127.0.0.0/8")],
                ring=installation_keys.code_keys(house.settings).ring,
                now=app.now(),
            )

    house.do(deed)
    return paths


def happen(house: Estate, paths: dict[str, list[str]]) -> set[tuple[str, str]]:
    """New events of every partner; where each of them has to arrive."""
    now = app.now()
    made = [
        events.Event(
            partner_id=partner_id,
            event_id=ids.new("evt", now=now),
            kind=events.Kind.WALLET_LOW_BALANCE,
            body=events.wallet_low_balance(balance=number, threshold=EVENTS_A_ROUND),
            occurred_at=now,
        )
        for number in range(EVENTS_A_ROUND)
        for partner_id in paths
    ]
    house.do(lambda conn: outbox.append_events(conn, made))
    return {(path, event.event_id) for event in made for path in paths[event.partner_id]}


def end_leases(house: Estate) -> None:
    """Let so much time pass that the leases of the dead are over, and whoever waits goes on."""
    execute(house.url, "UPDATE webhook_delivery SET next_at = now(), lease_until = now() WHERE state = 'DUE'")


def test_every_event_arrives_whoever_dies_meanwhile(founded: Estate, postgres: Postgres, sink: Sink) -> None:
    seed = int(os.environ.get("GIFTRAIL_CRASH_SEED") or random.SystemRandom().getrandbits(32))
    print(f"GIFTRAIL_CRASH_SEED={seed}")
    choice = random.Random(seed)
    programs = [founded.partner(brands=[]) for _ in range(PARTNERS)]
    paths = {
        program.partner.partner_id: open_endpoints(founded, program.partner.partner_id, sink) for program in programs
    }
    wanted: set[tuple[str, str]] = set()
    cut_short = 0
    for number in range(KILLS):
        end_leases(founded)  # nobody is alive who holds one
        workers = [founded.start("work", **SETTINGS) for _ in range(WORKERS)]
        wanted |= happen(founded, paths)
        before = len(sink.heard)
        wait_until(lambda before=before: len(sink.heard) > before)  # type: ignore[misc]
        time.sleep(choice.uniform(0, 0.3))
        if number % 4 == 3:
            postgres.stop_at_once()
            postgres.start()
            wanted |= happen(founded, paths)
            before = len(sink.heard)
            wait_until(lambda before=before: len(sink.heard) > before)  # type: ignore[misc]
            cut_short += WORKERS
        for worker in choice.sample(workers, WORKERS):
            founded.kill(worker)
            cut_short += 1
            time.sleep(choice.uniform(0, 0.1))
    end_leases(founded)
    founded.start("work", **SETTINGS)
    wait_until(lambda: sink.has(wanted))
    wait_until(lambda: not founded.sql("SELECT FROM webhook_delivery WHERE state <> 'DELIVERED' LIMIT 1"))
    check(founded, sink, wanted, most_duplicates=cut_short * 2 * IN_FLIGHT)


def check(house: Estate, sink: Sink, wanted: set[tuple[str, str]], *, most_duplicates: int) -> None:
    """Everything arrived, nothing else did, and the house's own account agrees with the sink's."""
    assert sink.heard.keys() == wanted
    rows = house.sql("SELECT '/' || d.partner_id AS partner, d.event_id FROM webhook_delivery d")
    assert len(rows) == len(wanted)
    for row in house.sql(
        "SELECT partner_id, count(*) AS events, count(DISTINCT sequence) AS numbered, max(sequence) AS last"
        " FROM event GROUP BY partner_id"
    ):
        assert row["events"] == row["numbered"] == row["last"], "the numbers have no gap"
    duplicates = sink.heard.total() - len(wanted)
    print(f"{len(wanted)} deliveries, {duplicates} came again")
    assert duplicates <= most_duplicates
