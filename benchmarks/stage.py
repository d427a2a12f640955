"""What the benchmarks share: a database of their own, the service and the load as processes, the machine, tables."""

import argparse
import asyncio
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from giftrail import app, running
from giftrail.audit import findings as audit
from giftrail.db import embedded, migrate, pool
from giftrail.partners import manage
from giftrail.settings import Settings

HERE = Path(__file__).parent
HOST = "127.0.0.1"
UP_WITHIN_SECONDS, DOWN_WITHIN_SECONDS = 30, 60
# A load that has not ended so long after its time is cut off.
LOAD_GRACE_SECONDS = 120
QUIET = {
    "GIFTRAIL_RATE_PER_SECOND": "0",
    "GIFTRAIL_FAILED_LOGINS_PER_MINUTE": "0",
    "GIFTRAIL_ACCESS_LOG": "off",
    "GIFTRAIL_LOG_LEVEL": "ERROR",
}


@dataclass(frozen=True, slots=True)
class Service:
    """A running `giftrail serve`."""

    port: int
    pid: int

    def request(
        self, method: str, path: str, *, token: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """A request as the load sends it; CONNECTION and REFERENCE in it are filled in there."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}:{self.port}", f"Authorization: Bearer {token}"]
        lines += ["X-REQUEST-ID: 0193a5c2-f1e8-4b3c-8d5e-CONNECTION"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body is not None:
            lines.append("Content-Type: application/json")
        return {"head": "\r\n".join(lines), "body": "" if body is None else json.dumps(body)}

    def log_in(self, credential: manage.NewCredential) -> str:
        """A token."""
        body = {"clientId": credential.client_id, "clientSecret": credential.client_secret}
        answer = httpx.post(f"http://{HOST}:{self.port}/v1/partners/auth/login", json=body, trust_env=False)
        token: str = answer.raise_for_status().json()["token"]
        return token

    def resident_mb(self) -> float:
        """What the process and its children keep in memory (VmRSS)."""
        pids = [self.pid, *_children(self.pid)]
        found = [re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text()) for pid in pids]
        return round(sum(int(one[1]) for one in found if one) / 1024, 1)


def arguments_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser that tells the program's docstring and knows --json."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def show(report: Mapping[str, Any], *, as_json: bool, table: Callable[[Any], str]) -> None:
    """Print the report for programs or for people."""
    sys.stdout.write(json.dumps(report) + "\n" if as_json else table(report))


def tell(message: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(message + "\n")


def grid(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (names, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        first, *others = zip(row, widths, strict=True)
        lines.append("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip())
    return "\n".join(lines) + "\n"


@contextmanager
def database() -> Iterator[tuple[str, Path]]:
    """The URL of an embedded PostgreSQL in a temporary folder, and the folder."""
    with tempfile.TemporaryDirectory(prefix="giftrail-bench-") as name, embedded.running(Path(name)) as url:
        yield url, Path(name)


async def new_database(url: str, name: str) -> str:
    """A database with the current schema."""
    async with pool.connect(url) as conn:
        await conn.execute(f"CREATE DATABASE {name}")
    made = url.replace("/giftrail?", f"/{name}?")
    await migrate.migrate(made)
    return made


def settings(folder: Path) -> Settings:
    """The settings of the service under load."""
    return Settings(data_dir=folder, rate_per_second=0, access_log="off", log_level="ERROR", port=0)


def free_port(folder: Path) -> int:
    """A port that nobody listens on."""
    with running.listen(settings(folder)) as found:
        port: int = found.getsockname()[1]
    return port


@contextmanager
def serving(url: str, folder: Path, *, processes: int = 1) -> Iterator[Service]:
    """`giftrail serve` in a process of its own."""
    port = free_port(folder)
    environment = os.environ | QUIET | {"GIFTRAIL_DATABASE_URL": url, "GIFTRAIL_DATA_DIR": str(folder)}
    command = [sys.executable, "-m", "giftrail", "serve", "--port", str(port), "--processes", str(processes)]
    with serving_at(port, command, path="/readyz", environment=environment) as pid:
        yield Service(port, pid)


@contextmanager
def serving_at(
    port: int, command: Sequence[str], *, path: str, environment: Mapping[str, str] | None = None
) -> Iterator[int]:
    """A process that serves HTTP there, from its first 200 for the path on; stopped at the end. Yields its id."""
    server = subprocess.Popen(command, env=environment)
    try:
        wait_for(lambda: _answers(port, path), within_seconds=UP_WITHIN_SECONDS)
        yield server.pid
    finally:
        server.terminate()
        try:
            server.wait(DOWN_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()


def wait_for(is_so: Callable[[], bool], *, within_seconds: float) -> None:
    """Return when it is so. Raises AssertionError when it is not in time."""
    deadline = time.monotonic() + within_seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError("a process did not start")
        time.sleep(0.05)


def _answers(port: int, path: str) -> bool:
    try:
        return httpx.get(f"http://{HOST}:{port}{path}", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def load(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Run the load in a process of its own; its docstring tells what a plan holds and what comes back."""
    return aside("load.py", plan, seconds=plan.get("seconds", 0) or 3600)


def aside(program: str, plan: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
    """Run a program of this folder that reads a plan and writes a result, both JSON."""
    done = subprocess.run(
        [sys.executable, str(HERE / program)], input=json.dumps(plan), stdout=subprocess.PIPE, text=True, check=True,
        timeout=seconds + LOAD_GRACE_SECONDS,
    )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def check_books(url: str) -> None:
    """Raises AssertionError when the auditor finds anything after all that."""

    async def look() -> list[str]:
        async with pool.connect(url) as conn:
            return await audit.list_findings(conn, now=app.now())

    if findings := asyncio.run(look()):
        raise AssertionError(findings[:5])


async def machine(url: str) -> str:
    """Where, with what and when the figures were measured."""
    models = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text()) or [platform.processor()]
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    async with pool.connect(url) as conn:
        version = await conn.fetchval("SHOW server_version")
    return (
        f"{models[0]}, {os.cpu_count()} cores, {gigabytes:.0f} GiB, Python {platform.python_version()},"
        f" PostgreSQL {version}, {app.now():%Y-%m-%d}"
    )


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [one for child in map(int, text.split()) for one in (child, *_children(child))]
