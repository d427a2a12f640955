"""The worker's loop: claims what is due, works on it side by side, renews its leases, gives back what it cannot end."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from giftrail.db import pool
from giftrail.leases import model, store

# After a failure that is not the database's, the row waits this long.
AFTER_FAILURE_SECONDS = 5.0
# After an outage of the database it waits this long, and the attempt does not count.
AFTER_OUTAGE_SECONDS = 1.0

_log = structlog.get_logger()


class Loop:
    """Works on the rows of one table for as long as it runs; any number of loops may share the table.

    `work` handles one claim: it finishes or postpones the row itself. When it raises, the row is put off.
    """

    def __init__(
        self,
        database: pool.Database,
        table: model.Table,
        *,
        work: Callable[[model.Claim], Awaitable[None]],
        limits: model.Limits,
        woken: asyncio.Event,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._table = table
        self._work = work
        self._limits = limits
        self._woken = woken
        self._now = now
        self._running: dict[asyncio.Task[None], model.Claim] = {}

    async def run(self) -> None:
        """Work until cancelled; then let what is in flight end, or give it back."""
        renewing = asyncio.create_task(self._renew())
        try:
            while True:
                claimed = await self._claim()
                if claimed < self._limits.claim_rows:
                    await self._wait()
        finally:
            try:
                await self._stop()
            finally:
                renewing.cancel()

    async def _claim(self) -> int:
        """Claim what there is room for; returns how many rows."""
        room = self._limits.in_flight - len(self._running)
        if room <= 0:
            return 0
        now = self._now()
        self._woken.clear()  # what is rung from here on is looked for again
        try:
            claims = await store.claim(
                self._database.read,
                self._table,
                rows=min(room, self._limits.claim_rows),
                now=now,
                lease_until=self._lease_until(now),
            )
        except pool.UNAVAILABLE as error:
            _log.warning("work cannot be claimed", table=self._table.name, error=repr(error))
            return 0
        except Exception:
            _log.exception("work cannot be claimed", table=self._table.name)
            return 0
        for claim in claims:
            task = asyncio.create_task(self._handle(claim))
            self._running[task] = claim
            task.add_done_callback(self._ended)
        return len(claims)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if len(self._running) == self._limits.in_flight - 1:
            self._woken.set()  # there is room again

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.poll_seconds):
                await self._woken.wait()

    async def _handle(self, claim: model.Claim) -> None:
        try:
            await self._work(claim)
        except model.LeaseLost:
            # Its lease ran out, or the order was ended by somebody else: what was found out here is dropped.
            _log.info("a lease was lost", table=self._table.name, row=claim.key)
        except pool.UNAVAILABLE as error:
            _log.warning("work was cut off", table=self._table.name, row=claim.key, error=repr(error))
            await self._give_back(claim, seconds=AFTER_OUTAGE_SECONDS, attempts=claim.attempts - 1)
        except Exception:
            _log.exception("work failed", table=self._table.name, row=claim.key)
            await self._give_back(claim, seconds=AFTER_FAILURE_SECONDS, attempts=claim.attempts)

    async def _give_back(self, claim: model.Claim, *, seconds: float, attempts: int) -> None:
        # When the database is away the lease runs out by itself.
        with contextlib.suppress(model.LeaseLost, *pool.UNAVAILABLE):
            await store.postpone(
                self._database.read,
                self._table,
                claim=claim,
                next_at=self._now() + timedelta(seconds=seconds),
                attempts=attempts,
            )

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._limits.renew_seconds)
            claims = list(self._running.values())
            if not claims:
                continue
            try:
                await store.renew(
                    self._database.read, self._table, claims=claims, lease_until=self._lease_until(self._now())
                )
            except pool.UNAVAILABLE as error:
                _log.warning("leases cannot be renewed", table=self._table.name, error=repr(error))
            except Exception:
                _log.exception("leases cannot be renewed", table=self._table.name)

    async def _stop(self) -> None:
        if not self._running:
            return
        await asyncio.wait(list(self._running), timeout=self._limits.stop_seconds)
        for task, claim in list(self._running.items()):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._give_back(claim, seconds=0, attempts=claim.attempts - 1)

    def _lease_until(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self._limits.lease_seconds)
