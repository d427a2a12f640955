"""A house whose processes can be started, killed and started again, and what its partners do when that happens."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from crash.shop import Shop
from giftrail.db import pool
from house import House, PartnerProgram, execute, settings_for

# Nobody waits longer for anything here; it is no promise of the service.
PATIENCE_SECONDS = 60.0
MONEY = 100_000
VENDED, GENERATED, STOCKED = "vended", "generated", "stocked"
TIMEOUT_SECONDS = 1.0
STOCK = 1_000

_ENTRY_POINTS = {
    "METADATA": "Metadata-Version: 2.1\nName: crash-vendor\nVersion: 1\n",
    "entry_points.txt": "[giftrail.providers]\nvendor = crash.vendor:make\n",
}


class Nursery:
    """The process from which the others are forked."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "processes.log"
        plugin = folder / "crash_vendor-1.dist-info"
        plugin.mkdir()
        for name, text in _ENTRY_POINTS.items():
            (plugin / name).write_text(text)
        path = os.pathsep.join([str(folder), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIFTRAIL_")}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "crash.program"],
                env=kept | {"PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def start(self, role: str, environment: Mapping[str, str], point: str | None) -> int:
        """A new process; returns its id."""
        told = self._tell({"do": "start", "role": role, "environment": environment, "point": point})
        return int(told["pid"])

    def wait(self, pid: int, *, seconds: float = PATIENCE_SECONDS) -> int | None:
        """Its exit status, negative for a signal; None when it lives on for so long."""
        status: int | None = self._tell({"do": "wait", "pid": pid, "seconds": seconds})["status"]
        return status

    def close(self) -> None:
        """Nobody is left behind."""
        self._process.communicate(timeout=PATIENCE_SECONDS)

    def _tell(self, command: Mapping[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@dataclass(kw_only=True)
class Estate(House):
    """The house, the nursery of its processes, and the shop that is its remote provider."""

    nursery: Nursery
    shop: Shop
    environment: dict[str, str]
    alive: dict[int, str] = field(default_factory=dict)
    prober: httpx.Client | None = None

    def start(self, role: str = "serve", *, point: str | None = None, **settings: Any) -> int:
        """Start a process, to die at the point if one is named; returns when it answers."""
        environment = self.environment | {f"GIFTRAIL_{name.upper()}": str(value) for name, value in settings.items()}
        pid = self.nursery.start(role, environment, point)
        self.alive[pid] = role
        if role != "work":
            self._wait_until_ready(pid)
        return pid

    def settle(self) -> None:
        """As of the house; while no process of it answers, the next will see everything when it starts."""
        if set(self.alive.values()) - {"work"}:
            super().settle()

    def kill(self, pid: int) -> None:
        """`kill -9`."""
        os.kill(pid, signal.SIGKILL)
        assert self.wait_for_death(pid) == -signal.SIGKILL

    def wait_for_death(self, pid: int) -> int:
        """How the process ended."""
        status = self.nursery.wait(pid)
        assert status is not None, f"it lives on: {self.nursery.log.read_text()}"
        del self.alive[pid]
        return status

    def end_leases(self) -> None:
        """Let so much time pass that the leases of the dead are over."""
        due = "SET next_at = now(), lease_until = now() WHERE state = 'DUE'"
        execute(self.url, f"UPDATE fulfilment {due}; UPDATE reversal {due}")

    def pass_time(self) -> None:
        """Let so much time pass that whoever waits goes on."""
        due = "SET next_at = now() WHERE next_at > now() AND state"
        execute(
            self.url,
            f"UPDATE fulfilment {due} = 'DUE' AND lease_token IS NULL;"
            f"UPDATE reversal {due} = 'DUE' AND lease_token IS NULL;"
            f"UPDATE provider_call {due} IN ('ASKED', 'UNAVAILABLE')",
        )

    def sql(self, statement: str) -> list[Any]:
        """The rows of a statement."""

        async def run() -> list[Any]:
            async with pool.connect(self.url) as conn:
                return list(await conn.fetch(statement))

        return asyncio.run(run())

    def buyer(self, *, serving: bool = True) -> PartnerProgram:
        """A partner with money for whom every brand is enabled; logged in when the house serves."""
        program = self.partner(brands=[VENDED, GENERATED, STOCKED], money_major=MONEY)
        if serving:
            assert program.log_in().status_code == 200
        return program

    def check_bought_once(self, program: PartnerProgram, body: Mapping[str, Any], order: Mapping[str, Any]) -> None:
        """The order ended well, once: one order, one debit, its vouchers and no others, and it is replayed as it is."""
        assert order["status"] == "SUCCESS", order
        again = program.place(body)
        assert (again.json(), again.headers["Idempotent-Replayed"]) == (order, "true")
        assert [one["id"] for one in program.get("/orders").json()["data"]] == [order["id"]]
        numbers = sorted(voucher["cardNumber"] for voucher in order["vouchers"])
        wanted = sum(line["quantity"] for line in body["denominationDetails"])
        assert len(numbers) == len(set(numbers)) == wanted
        wallet = program.get("/wallet/balance").json()
        assert (wallet["balance"], wallet["held"]) == (MONEY - body["amount"], 0)
        if body["productId"] == VENDED:
            assert list(self.shop.issued) == [f"{order['id'].partition('_')[2]}-1-1"]
            assert self.shop.numbers(dict(order)) == numbers
            assert self.moves(program) == ["HOLD", "CAPTURE"]
        else:
            assert self.shop.issued == {}
            assert self.moves(program) == ["DEBIT"]

    def moves(self, program: PartnerProgram) -> list[str]:
        """What moved the partner's money since its first top-up, oldest first."""
        rows = program.get("/wallet/transactions").json()["data"]
        return [row["kind"] for row in reversed(rows)][1:]

    def is_ready(self) -> bool:
        """Whether a process answers, and says that it is well."""
        self.prober = self.prober or self.client()
        with contextlib.suppress(httpx.TransportError):
            return self.prober.get("/readyz").status_code == 200
        return False

    def _wait_until_ready(self, pid: int) -> None:
        wait_until(lambda: self.is_ready() or self.nursery.wait(pid, seconds=0) is not None)
        assert self.is_ready(), self.nursery.log.read_text()


@contextlib.contextmanager
def estate(url: str, nursery: Nursery, shop: Shop, *, service_url: str = "", **overrides: Any) -> Iterator[Estate]:
    """A house with nobody in it yet; `service_url` is how its processes reach the database. Audited at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {"kind": "vendor", "url": shop.url, "timeout_seconds": TIMEOUT_SECONDS, "finds": True, "replays": True}
    settings = settings_for(
        url, port=port, providers={"vendor": options}, log_level="WARNING", work_poll_seconds=0.02, **overrides
    )
    environment = {
        f"GIFTRAIL_{name.upper()}": _text(getattr(settings, name))
        for name in sorted(settings.model_fields_set - {"database_url"})
    }
    environment["GIFTRAIL_DATABASE_URL"] = service_url or url
    made = Estate(
        base_url=f"http://127.0.0.1:{port}",
        url=url,
        settings=settings,
        nursery=nursery,
        shop=shop,
        environment=environment,
    )
    if not made.sql("SELECT FROM brand"):
        made.brand(VENDED, providers=["vendor"], reversible=True)
        made.brand(GENERATED)
        made.brand(STOCKED, providers=["stock"])
        made.stock(STOCKED, 100, STOCK)
    try:
        yield made
    finally:
        for client in made.clients:
            client.close()
        for pid in list(made.alive):
            made.kill(pid)
    assert made.audit() == []


def _text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return json.dumps(value) if isinstance(value, dict) else str(value)


def wait_until(true: Callable[[], Any]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def recover(
    program: PartnerProgram, body: Mapping[str, Any], *, meanwhile: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The order when it has ended, found as the specification has a client do that got no answer.

    It looks the reference up; a 404 means that the same reference may be placed again.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            answer = program.get(f"/orders/by-reference/{body['referenceId']}")
            if answer.status_code == 404:
                answer = program.place(body)
            if answer.status_code == 503:
                assert int(answer.headers["Retry-After"]) >= 1
            else:
                assert answer.status_code == 200, answer.text
                order = dict(answer.json())
                if order["status"] != "PROCESSING":
                    return order
        meanwhile()
        time.sleep(0.02)
    raise AssertionError(f"{body['referenceId']} has not ended")
