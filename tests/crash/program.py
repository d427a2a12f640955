"""A Giftrail process that dies at a named point, and the nursery that forks such processes.

The points are patched in from here; the service knows nothing of them. The nursery imports everything once, because
importing takes longer than placing an order. It reads commands from its input, one JSON object a line, answers each
with one, and leaves nobody behind when its input ends.
"""

import asyncio
import contextlib
import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import uvicorn
from asyncpg.transaction import Transaction

from crash import vendor
from giftrail import running
from giftrail.kit import log
from giftrail.leases import store as lease_store
from giftrail.orders import asking, place, settle, undo
from giftrail.settings import Settings

# As `kill -9` and a shell tell it.
KILLED = 137

# Whose transaction is committed, and where it is begun.
_COMMITS: dict[str, tuple[Any, str]] = {
    "place": (place, "place_orders"),
    "settle": (settle, "settle_orders"),
    "commit-key": (asking.Asker, "commit_key"),
    "keep": (asking.Asker, "_keep"),
    "record": (asking.Asker, "record"),
    "request-reversal": (undo, "request_reversal"),
    "voided": (undo.Undoer, "_void"),
    "end-reversal": (undo.Undoer, "_end"),
}
# Single statements that commit by themselves, by the table they are of.
_STATEMENTS = {
    f"{name}-{table}": (name, table) for name in ("claim", "postpone") for table in ("fulfilment", "reversal")
}
_STATEMENTS["finish-fulfilment"] = ("finish", "fulfilment")
# Before this was committed in the process there is nothing to claim.
_CLAIMED_AFTER = {"fulfilment": "place", "reversal": "request-reversal"}
# Calls to the outside.
_CALLS = {"issue": "issue", "look-up": "look_up", "void": "void"}

DEEDS = (*_COMMITS, *_STATEMENTS, *_CALLS)
POINTS = tuple(f"{moment} {deed}" for deed in DEEDS for moment in ("before", "after"))

_deed: ContextVar[str] = ContextVar("_deed", default="")


class _Fate:
    """Where this process dies, and what it has committed so far."""

    def __init__(self, point: str) -> None:
        self._point = point
        self.committed: set[str] = set()

    def pass_by(self, point: str) -> None:
        """Die if this is the point."""
        if point == self._point:
            os._exit(KILLED)


def _wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    setattr(owner, name, make(getattr(owner, name)))


def patch(point: str) -> None:
    """Have this process die at the point."""
    if point not in POINTS:
        raise ValueError(f"{point!r} is no point")
    fate = _Fate(point)
    for deed, (owner, name) in _COMMITS.items():
        _wrap(owner, name, functools.partial(_named, deed))
    _wrap(Transaction, "_Transaction__commit", functools.partial(_dying_commit, fate))
    for name in ("claim", "postpone", "finish"):
        _wrap(lease_store, name, functools.partial(_dying_statement, fate, name))
    for call, name in _CALLS.items():
        _wrap(vendor.Vendor, name, functools.partial(_dying_call, fate, call))


def _named(deed: str, function: Any) -> Any:
    @functools.wraps(function)
    async def named(*arguments: Any, **more: Any) -> Any:
        _deed.set(deed)  # and not set back: some commit only after the function has returned
        return await function(*arguments, **more)

    return named


def _dying_commit(fate: _Fate, commit: Any) -> Any:
    async def dying(transaction: Any) -> None:
        deed = "" if transaction._nested else _deed.get()
        fate.pass_by(f"before {deed}")
        await commit(transaction)
        fate.committed.add(deed)
        fate.pass_by(f"after {deed}")

    return dying


def _dying_statement(fate: _Fate, name: str, statement: Any) -> Any:
    async def dying(conn: Any, table: Any, **more: Any) -> Any:
        point = f"{name}-{table.name}"
        if name != "claim" or _CLAIMED_AFTER[table.name] in fate.committed:
            fate.pass_by(f"before {point}")
        result = await statement(conn, table, **more)
        if name != "claim" or result:
            fate.pass_by(f"after {point}")
        return result

    return dying


def _dying_call(fate: _Fate, name: str, call: Any) -> Any:
    async def dying(*arguments: Any, **more: Any) -> Any:
        fate.pass_by(f"before {name}")
        result = await call(*arguments, **more)
        fate.pass_by(f"after {name}")
        return result

    return dying


def live(*, role: str, point: str | None) -> None:
    """Be the service: `serve` is the API with workers in it, `api` the API alone, `work` the workers alone."""
    settings = Settings()
    log.configure(level=settings.log_level)
    if point:
        patch(point)
    if role == "api":
        running.serve_processes(settings)
        return
    with asyncio.Runner(loop_factory=running.loop_factory) as runner:
        if role == "work":
            runner.run(running.work(settings))
        else:
            runner.run(running.serve_here(settings, running.listen(settings), beside=_nothing))


async def _nothing(_: uvicorn.Server) -> None:
    pass


def _start(command: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.dup2(2, 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.update(command["environment"])
        live(role=command["role"], point=command["point"])
        status = 0
    finally:
        if status:
            sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(status)


def _wait(pid: int, seconds: float) -> int | None:
    """The exit status of the process, negative for a signal; None when it lives on."""
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.005)


def tend() -> None:
    """Do what the lines say, until there are no more."""
    alive: set[int] = set()
    for line in sys.stdin:
        command = json.loads(line)
        answer: dict[str, int | None]
        if command["do"] == "start":
            answer = {"pid": _start(command)}
            alive.add(answer["pid"] or 0)
        else:
            answer = {"status": _wait(command["pid"], command["seconds"])}
            if answer["status"] is not None:
                alive.remove(command["pid"])
        print(json.dumps(answer), flush=True)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    tend()
