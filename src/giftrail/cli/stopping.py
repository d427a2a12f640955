"""Stopping: SIGTERM and SIGHUP stop a command as Ctrl-C does, and what it started is stopped too."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from giftrail import running

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_Result = TypeVar("_Result")


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """A signal ends the block, through all that it has to close; the command's exit status is 0."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Run to the end, or raise KeyboardInterrupt at a signal, once the coroutine has closed what it opened.

    A signal cancels the coroutine. Raised as an exception wherever the loop is just then, it could be swallowed.
    """
    with asyncio.Runner(loop_factory=running.loop_factory) as runner:
        is_stopped, result = runner.run(_until_stopped(coroutine))
    if is_stopped:
        raise KeyboardInterrupt
    return result[0]


def run_server(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a server, which takes the signals into its own hands as soon as it listens."""
    with asyncio.Runner(loop_factory=running.loop_factory) as runner:
        runner.run(coroutine)


async def _until_stopped(coroutine: Coroutine[Any, Any, _Result]) -> tuple[bool, list[_Result]]:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(coroutine)
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def stop() -> None:
        # Once: the server passes on the signal that it has handled itself, and must not be cut off while it closes.
        if not task.cancelling():
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        await asyncio.wait([task])
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
    return (True, []) if task.cancelled() else (False, [task.result()])
