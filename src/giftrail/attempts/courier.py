"""The courier: claims what is due by endpoint, sends it, and writes what came of many attempts at once."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import aiohttp
import structlog

from giftrail.attempts import breaker, plan, store
from giftrail.db import pool
from giftrail.kit import outbound
from giftrail.webhooks import directory, sign
from giftrail.webhooks import model as webhooks

MAX_KEPT_ANSWER_BYTES = 2 * 1024
# What came of attempts is written together, at most so late and so many.
FLUSH_SECONDS = 0.01
FLUSH_ROWS = 500

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is sent at once: in all and to one endpoint."""

    in_flight: int
    per_endpoint: int
    lease_seconds: float
    poll_seconds: float
    stop_seconds: float


class Observer(Protocol):
    """Who is told how it goes."""

    def count_attempt(self, *, outcome: str, seconds: float) -> None:
        """An attempt ended: its class, and how long it took."""
        ...

    def observe_first_attempt(self, seconds: float) -> None:
        """An event was tried for the first time so long after it happened."""
        ...

    def set_webhooks(self, oldest_due_seconds: float, open_breakers: int) -> None:
        """How long the oldest due delivery has been waiting, and how many endpoints are left alone."""
        ...


Disable = Callable[[webhooks.Endpoint, str], Awaitable[None]]
_Key = tuple[str, str]


class Courier:
    """Sends deliveries for as long as it runs; any number of couriers may share the tables."""

    def __init__(
        self,
        database: pool.Database,
        *,
        endpoints: directory.Directory,
        caller: outbound.Caller,
        disable: Disable,
        limits: Limits,
        observer: Observer,
        now: Callable[[], datetime],
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._endpoints = endpoints
        self._caller = caller
        self._disable = disable
        self._limits = limits
        self._stirred = asyncio.Event()
        self._news = True  # there may be something due for anybody
        self._observer = observer
        self._now = now
        self._clock = clock
        self._chance = random.Random()  # noqa: S311 — jitter
        self._lines: dict[_Key, breaker.Line] = {}
        self._running: dict[asyncio.Task[None], store.Claimed] = {}
        self._done: list[store.Attempted] = []
        self._to_flush = asyncio.Event()

    @property
    def open_breakers(self) -> int:
        """How many endpoints are left alone just now."""
        return sum(1 for line in self._lines.values() if line.open_until is not None)

    def wake(self) -> None:
        """There is something new to deliver."""
        self._news = True
        self._stirred.set()

    async def run(self) -> None:
        """Send until cancelled; then let what is in flight end, write it, and give the rest back."""
        flushing = asyncio.create_task(self._flush_forever())
        for line in self._lines.values():
            line.in_flight = 0  # of a run before this one nothing is left
        try:
            looked_at = float("-inf")
            while True:
                self._stirred.clear()
                if len(self._running) >= self._limits.in_flight:
                    await self._wait()
                    continue
                everyone = self._news or self._clock() - looked_at >= self._limits.poll_seconds
                if everyone:
                    self._news = False
                    looked_at = self._clock()
                if not await self._claim(everyone=everyone):
                    await self._wait()
        finally:
            await self._stop(flushing)

    async def _claim(self, *, everyone: bool) -> int:
        asked = self._asked(everyone=everyone)
        if not asked:
            return 0
        now, limit = self._now(), self._limits.in_flight - len(self._running)
        try:
            claimed = await store.claim(
                self._database.read,
                endpoints=asked,
                now=now,
                lease_until=now + timedelta(seconds=self._limits.lease_seconds),
                limit=limit,
            )
        except pool.UNAVAILABLE as error:
            _log.warning("webhooks cannot be claimed", error=repr(error))
            await asyncio.sleep(self._limits.poll_seconds)
            return 0
        counts: dict[_Key, int] = {}
        for one in claimed:
            key = (one.partner_id, one.endpoint_id)
            counts[key] = counts.get(key, 0) + 1
            self._begin(one)
        for partner_id, endpoint_id, room in asked:
            line = self._lines[partner_id, endpoint_id]
            count = counts.get((partner_id, endpoint_id), 0)
            line.take(count)
            line.is_hungry = count == room or len(claimed) == limit
        return len(claimed)

    def _asked(self, *, everyone: bool) -> list[tuple[str, str, int]]:
        """(partner, endpoint, room) of the endpoints to claim for; the claim itself bounds how much it takes in all."""
        left = self._limits.in_flight - len(self._running)
        clock = self._clock()
        asked = []
        endpoints = self._endpoints.enabled()
        start = self._chance.randrange(len(endpoints)) if endpoints else 0  # nobody is always last
        for endpoint in [*endpoints[start:], *endpoints[:start]]:
            key = (endpoint.partner_id, endpoint.endpoint_id)
            line = self._lines.setdefault(key, breaker.Line())
            if not (everyone or line.is_hungry):
                continue
            room = line.room(
                per_endpoint=self._limits.per_endpoint, rate_per_second=endpoint.rate_per_second, clock=clock
            )
            room = min(room, left)
            if room > 0:
                asked.append((*key, room))
        return asked

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.poll_seconds):
                await self._stirred.wait()

    def _begin(self, claimed: store.Claimed) -> None:
        task = asyncio.create_task(self._attempt(claimed))
        self._running[task] = claimed
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        claimed = self._running.pop(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a webhook could not be sent", event_id=claimed.event_id, exc_info=task.exception())
        line = self._lines[claimed.partner_id, claimed.endpoint_id]
        if line.is_hungry or len(self._running) == self._limits.in_flight - 1:
            self._stirred.set()

    async def _attempt(self, claimed: store.Claimed) -> None:
        endpoint = self._endpoints.find(claimed.partner_id, claimed.endpoint_id)
        line = self._lines[claimed.partner_id, claimed.endpoint_id]
        if endpoint is None:  # disabled a moment ago
            line.in_flight -= 1
            return
        now, began = self._now(), self._clock()
        if claimed.tries == 1:
            self._observer.observe_first_attempt((now - claimed.occurred_at).total_seconds())
        result = await self._send(endpoint, claimed, now=now, began=began)
        line.heard(succeeded=result.succeeded, clock=self._clock())
        self._observer.count_attempt(outcome=outcome_of(result), seconds=result.milliseconds / 1000)
        self._done.append(self._judge(claimed, result, at=now))
        self._to_flush.set()
        if result.status == plan.GONE:
            await self._disable(endpoint, "it answered 410 Gone")
        elif not result.succeeded and claimed.round_tries > len(plan.DELAYS_SECONDS):
            await self._disable_when_hopeless(endpoint)

    async def _send(
        self, endpoint: webhooks.Endpoint, claimed: store.Claimed, *, now: datetime, began: float
    ) -> plan.Result:
        status, error, kept, retry_after = None, None, b"", None
        try:
            headers = sign.headers(
                endpoint, claimed.body, event_id=claimed.event_id, kind=claimed.kind, attempt=claimed.tries, now=now
            )
            answer = await self._caller.post(endpoint.url, body=claimed.body, headers=headers)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as failure:
            error = error_class(failure)
        except Exception as failure:
            # Whatever it was, it is an attempt that failed: its place is given up and the schedule goes on.
            _log.exception("a webhook could not be sent", event_id=claimed.event_id)
            error = error_class(failure)
        else:
            status, kept, retry_after = answer.status, answer.body[:MAX_KEPT_ANSWER_BYTES], answer.retry_after
        milliseconds = round((self._clock() - began) * 1000)
        return plan.Result(status, error, milliseconds, kept, retry_after)

    def _judge(self, claimed: store.Claimed, result: plan.Result, *, at: datetime) -> store.Attempted:
        now = self._now()
        if result.succeeded and claimed.fault == "TWICE" and claimed.tries == 1:
            return store.Attempted(claimed, result, plan.State.DUE, next_at=now, at=at)
        if result.succeeded:
            return store.Attempted(claimed, result, plan.State.DELIVERED, next_at=now, at=at)
        seconds = plan.next_delay_seconds(result, round_tries=claimed.round_tries, now=now, chance=self._chance)
        if seconds is None:
            return store.Attempted(claimed, result, plan.State.EXHAUSTED, next_at=now, at=at)
        return store.Attempted(claimed, result, plan.State.DUE, next_at=now + timedelta(seconds=seconds), at=at)

    async def _disable_when_hopeless(self, endpoint: webhooks.Endpoint) -> None:
        last = await store.find_last_success(
            self._database.read, partner_id=endpoint.partner_id, endpoint_id=endpoint.endpoint_id
        )
        if last is not None and self._now() - last >= timedelta(seconds=plan.HOPELESS_SECONDS):
            await self._disable(endpoint, f"nothing has arrived since {last:%Y-%m-%dT%H:%M:%SZ}")

    async def _flush_forever(self) -> None:
        while True:
            await self._to_flush.wait()
            self._to_flush.clear()
            await asyncio.sleep(FLUSH_SECONDS)
            await self._flush()

    async def _flush(self) -> None:
        while self._done:
            batch, self._done = self._done[:FLUSH_ROWS], self._done[FLUSH_ROWS:]
            try:
                await store.record_attempts(self._database.read, batch)
            except pool.UNAVAILABLE as error:
                # Their leases run out and they are sent again: at least once is what was promised.
                _log.warning("attempts cannot be recorded", attempts=len(batch), error=repr(error))
            except Exception:
                _log.exception("attempts cannot be recorded", attempts=len(batch))

    async def _stop(self, flushing: asyncio.Task[None]) -> None:
        if self._running:
            await asyncio.wait(list(self._running), timeout=self._limits.stop_seconds)
        left = dict(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        await self._flush()
        if left:
            with contextlib.suppress(*pool.UNAVAILABLE):
                await store.give_back(self._database.read, list(left.values()), now=self._now())


def outcome_of(result: plan.Result) -> str:
    """The class of an attempt, for figures: 2xx, 5xx, TIMEOUT, …."""
    return result.error if result.error is not None else f"{(result.status or 0) // 100}xx"


def error_class(failure: BaseException) -> str:
    """In a word what went wrong when there was no answer; never an address of ours."""
    causes = [failure, failure.__cause__, getattr(failure, "os_error", None)]
    if any(isinstance(cause, outbound.AddressDenied) for cause in causes):
        return "ADDRESS_DENIED"
    for kinds, name in (
        ((TimeoutError, aiohttp.ServerTimeoutError), "TIMEOUT"),
        ((aiohttp.ClientConnectorDNSError,), "DNS"),
        ((aiohttp.ClientSSLError,), "TLS"),
        ((aiohttp.ClientConnectorError,), "CONNECT"),
        ((aiohttp.InvalidURL,), "URL"),
    ):
        if isinstance(failure, kinds):
            return name
    return "BROKEN"
