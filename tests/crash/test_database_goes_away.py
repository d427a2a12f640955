"""PostgreSQL dies and comes back under a service that goes on, without losing an order or doing anything twice."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from crash.estate import GENERATED, MONEY, VENDED, Estate, Nursery, estate, recover, wait_until
from crash.load import customers
from crash.shop import Shop
from giftrail.db import embedded, migrate

RESTARTS = 2
# Longer than a process believes what it keeps in memory, so that both are seen: the first failures, and then it knows.
STALE_SECONDS, AWAY_SECONDS = 1, 2


class Postgres:
    """A PostgreSQL of its own, which can be killed and started again."""

    def __init__(self, folder: Path, users: ExitStack) -> None:
        self._folder = folder
        self._users = users
        self.url = ""

    def start(self) -> None:
        """Start it, as `giftrail up` does."""
        self.url = self._users.enter_context(embedded.running(self._folder))

    def stop_at_once(self) -> None:
        """What `pg_ctl stop -m immediate` does: it flushes nothing and says goodbye to nobody."""
        pid = int((self._folder / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGQUIT)
        wait_until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """Made once; each test begins and ends while it runs."""
    # Not below pytest's folders, whose paths may be too long for a socket.
    with TemporaryDirectory(prefix="giftrail-crash-") as folder, ExitStack() as users:
        made = Postgres(Path(folder), users)
        made.start()
        asyncio.run(migrate.migrate(made.url))
        yield made


@pytest.fixture
def founded(postgres: Postgres, nursery: Nursery, shop: Shop) -> Iterator[Estate]:
    """A house over that PostgreSQL."""
    with estate(postgres.url, nursery, shop, stale_after_seconds=STALE_SECONDS) as house:
        yield house


def test_restarts_under_load_lose_nothing_and_do_nothing_twice(founded: Estate, postgres: Postgres) -> None:
    founded.start()
    with customers(founded, seed=0):
        for _ in range(RESTARTS):
            time.sleep(0.7)
            postgres.stop_at_once()
            postgres.start()
        time.sleep(0.7)


def test_ten_seconds_without_a_database_under_load_lose_nothing(founded: Estate, postgres: Postgres) -> None:
    founded.start()
    with customers(founded, seed=1):
        time.sleep(1)
        postgres.stop_at_once()
        time.sleep(10)
        postgres.start()
        time.sleep(2)


def test_while_the_database_is_away_everybody_is_told_to_come_back(founded: Estate, postgres: Postgres) -> None:
    founded.start()
    buyer = founded.buyer()
    founded.shop.pending_answers = 1_000_000
    begun = buyer.order_body(VENDED, {100: 2})
    assert buyer.place(begun).json()["status"] == "PROCESSING"
    postgres.stop_at_once()
    body = buyer.order_body(GENERATED)
    deadline = time.monotonic() + AWAY_SECONDS
    while time.monotonic() < deadline:
        for answer in (
            buyer.place(body),
            buyer.get(f"/orders/by-reference/{body['referenceId']}"),
            buyer.get("/wallet/balance"),
            buyer.post(f"/orders/{body['referenceId']}/cancel", {}),
            buyer.post(f"/orders/{body['referenceId']}/reverse", {}),
            buyer.log_in(),
        ):
            assert (answer.status_code, answer.json()["id"]) == (503, "E011"), answer.text
            assert int(answer.headers["Retry-After"]) >= 1
    postgres.start()
    founded.shop.pending_answers = 0
    wait_until(founded.is_ready)
    assert recover(buyer, body)["status"] == "SUCCESS"
    order = recover(buyer, begun, meanwhile=founded.pass_time)
    assert order["status"] == "SUCCESS"
    [key] = founded.shop.issued
    assert founded.shop.asked["issue", key] == 1
    assert founded.moves(buyer) == ["HOLD", "DEBIT", "CAPTURE"]
    assert buyer.balance() == MONEY - 300
