"""The processes of an endurance run: API and workers, each started again when it ends, over one PostgreSQL."""

import asyncio
import contextlib
import multiprocessing
import os
import random
import re
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from giftrail import cli, running
from giftrail.db import embedded
from giftrail.settings import Settings

# A lease must exceed twice the sandbox's time-out of 2 s and 15 s more.
LEASE_SECONDS = 20
# Orders of providers that never deliver end then, well inside a long run.
DEADLINE_SECONDS = 90
SETTINGS = {
    "GIFTRAIL_WORK_LEASE_SECONDS": str(LEASE_SECONDS),
    "GIFTRAIL_WORK_RENEW_SECONDS": "5",
    "GIFTRAIL_DEADLINE_SECONDS": str(DEADLINE_SECONDS),
    "GIFTRAIL_AUDIT_EVERY_SECONDS": "0",  # the auditor reads everything; it runs once, at the end
    "GIFTRAIL_RATE_PER_SECOND": "0",
    "GIFTRAIL_FAILED_LOGINS_PER_MINUTE": "0",
    "GIFTRAIL_ACCESS_LOG": "off",
    "GIFTRAIL_LOG_LEVEL": "WARNING",
}
START_WITHIN_SECONDS, STOP_WITHIN_SECONDS = 30, 60
# A process that ends by itself, say because the database was away as it started, is not started again in a frenzy.
PAUSE_SECONDS = 0.2
PROBE_SECONDS, LOOK_SECONDS = 0.05, 0.02
# So often the victim is drawn from all processes, those that are still starting too; else from those that are up,
# when one is within this time.
ANYONE, UP_WITHIN_SECONDS = 0.1, 1.0
# A warning may carry a traceback: the driver's pool tells so that it cannot reach a database that is away.
_BAD_LINE = re.compile(
    rb'^Traceback \(most recent call last\)|"level":"(error|critical)".*"exception"|delivered wrongly|never awaited'
)

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__, "giftrail.providers.sandbox"])


@dataclass(slots=True)
class Pace:
    """What the last API process took until it was up, and what all of them took, in seconds."""

    starts_in: float = 1.5
    took: list[float] = field(default_factory=list)


class Member:
    """A process of the fleet, in all its lives: `giftrail` with the words. A worker has no port.

    Its lives are forked from a process that has imported the program already: what is tested begins where it runs.
    """

    def __init__(
        self, name: str, words: list[str], *, environment: dict[str, str], log: Path, pace: Pace, port: int = 0
    ) -> None:
        self.name = name
        self.port = port
        self.log = log
        self.kills = 0
        self.exits = 0  # by itself
        self.is_up = False
        self._pace = pace
        self._words = words
        self._environment = environment
        self._process: ForkServerProcess | None = None
        self._is_killed = False
        self._is_closing = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.exitcode is None and not self._is_killed

    async def run(self) -> None:
        """Start the process again whenever it ends, until it is stopped."""
        while not self._is_closing:
            self._process = _forks.Process(
                target=_live, args=(self._words, self._environment, str(self.log)), daemon=True
            )
            self._process.start()
            self._is_killed = self.is_up = False
            looking = asyncio.create_task(self._notice_that_it_is_up())
            try:
                await self._end()
            finally:
                looking.cancel()
                if self._process.exitcode is None:  # the run is cut off
                    self._process.kill()
            if not self._is_killed and not self._is_closing:
                self.is_up = False
                self.exits += 1
                await asyncio.sleep(PAUSE_SECONDS)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None and self.is_running:
            self._is_killed, self.is_up = True, False
            self.kills += 1
            self._process.kill()

    async def stop(self) -> bool:
        """SIGTERM; returns whether it came to a clean end in time."""
        self._is_closing = True
        if self._process is None or self._process.exitcode is not None:
            return True
        self._process.terminate()
        try:
            await asyncio.wait_for(self._end(), STOP_WITHIN_SECONDS)
        except TimeoutError:
            self._process.kill()
        return self._process.exitcode == 0

    async def _end(self) -> None:
        while self._process is not None and self._process.exitcode is None:
            await asyncio.sleep(LOOK_SECONDS)

    async def _notice_that_it_is_up(self) -> None:
        started = time.monotonic()
        if not self.port:  # a worker tells nobody; it takes about as long as the API
            await asyncio.sleep(self._pace.starts_in)
        while self.port:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                self._pace.starts_in = time.monotonic() - started
                self._pace.took.append(self._pace.starts_in)
                break
            await asyncio.sleep(PROBE_SECONDS)
        self.is_up = True


class Fleet:
    """So many API processes, and as many workers, over the database; and PostgreSQL itself, in the folder."""

    def __init__(self, url: str, folder: Path, *, of_each: int) -> None:
        self.folder = folder
        self.postgres_restarts = 0
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIFTRAIL_")}
        environment = kept | SETTINGS | {"GIFTRAIL_DATABASE_URL": url, "GIFTRAIL_DATA_DIR": str(folder)}
        ports, self.pace = _free_ports(of_each), Pace()
        self.apis = [
            Member(
                f"api-{number}", ["serve", "--port", str(port)], environment=environment,
                log=folder / f"api-{number}.log", port=port,
                pace=self.pace,
            )
            for number, port in enumerate(ports, 1)
        ]  # fmt: skip
        self.workers = [
            Member(
                f"worker-{number}",
                ["work"],
                environment=environment,
                log=folder / f"worker-{number}.log",
                pace=self.pace,
            )
            for number in range(1, of_each + 1)
        ]
        self.unclean_stops: list[str] = []

    @property
    def members(self) -> list[Member]:
        return [*self.apis, *self.workers]

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """All of them, started; at the end they are stopped cleanly. Raises AssertionError when no API comes up."""
        keeping = [asyncio.create_task(member.run()) for member in self.members]
        try:
            begun = time.monotonic()
            while not all(member.is_up for member in self.apis):
                if time.monotonic() - begun > START_WITHIN_SECONDS:
                    raise AssertionError(f"no API came up: {self.apis[0].log.read_text()[-1000:]}")
                await asyncio.sleep(PROBE_SECONDS)
            yield
            clean = await asyncio.gather(*(member.stop() for member in self.members))
            self.unclean_stops = [one.name for one, is_clean in zip(self.members, clean, strict=True) if not is_clean]
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)

    async def kill_one(self, draw: random.Random) -> None:
        """SIGKILL one, drawn from those that are up; or, now and then and when none comes up, from all that run."""
        anyone, number = draw.random() < ANYONE, draw.random()
        begun = time.monotonic()
        while True:
            alive = [member for member in self.members if member.is_running]
            is_hasty = anyone or time.monotonic() - begun > UP_WITHIN_SECONDS
            chosen = alive if is_hasty else [member for member in alive if member.is_up]
            if chosen:
                chosen[int(number * len(chosen))].kill()
                return
            await asyncio.sleep(PROBE_SECONDS)

    async def restart_postgres(self) -> None:
        """Stop PostgreSQL as if the power failed, and start it again."""
        self.postgres_restarts += 1
        await asyncio.to_thread(_restart_postgres, self.folder)

    def bad_lines(self) -> list[str]:
        """Lines of the logs that tell of a defect: tracebacks, errors, forgotten coroutines."""
        found = []
        for member in self.members:
            for number, line in enumerate(member.log.read_bytes().splitlines(), 1):
                if _BAD_LINE.search(line):
                    found.append(f"{member.log.name}:{number}: {line.decode(errors='replace')[:2000]}")
        return found


def _live(words: list[str], environment: dict[str, str], log: str) -> None:
    """A life: the command line, as if it had been typed."""
    os.environ.clear()
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    sys.argv = ["giftrail", *words]
    cli.main()


def _restart_postgres(folder: Path) -> None:
    server = embedded._Server(folder, "")  # noqa: SLF001 — the service itself never stops it like this
    stopped = server._run("pg_ctl", "--wait", "--mode", "immediate", "stop")  # noqa: SLF001
    if stopped.returncode != 0:
        raise AssertionError(f"PostgreSQL did not stop: {stopped.stderr}")
    server._start()  # noqa: SLF001


def _free_ports(count: int) -> list[int]:
    settings = Settings(port=0, host="127.0.0.1")
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(running.listen(settings)).getsockname()[1] for _ in range(count)]
