"""A worker that stops by an error nobody expected is started again."""

import asyncio

import pytest
from structlog.testing import capture_logs

from giftrail.workers import staff


async def test_a_worker_is_started_again_after_an_error_and_stops_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staff, "AFTER_ERROR_SECONDS", 0)
    starts = 0
    third = asyncio.Event()

    async def worker() -> None:
        nonlocal starts
        starts += 1
        if starts < 3:
            raise ZeroDivisionError
        third.set()
        await asyncio.Event().wait()

    with capture_logs() as logs:
        task = asyncio.create_task(staff._keep_running(worker))
        async with asyncio.timeout(10):
            await third.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [entry["event"] for entry in logs] == ["a worker stopped and is started again"] * 2
