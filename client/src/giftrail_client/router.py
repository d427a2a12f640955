"""Receiving webhooks: verified, kept, answered with 2xx, and only then handled, once for each event.

What a receiver does (specification, Events): answer quickly, work afterwards, count on repeats.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from giftrail_client import webhooks
from giftrail_client.inbox import Inbox, Kept

Handler = Callable[[webhooks.Event], "Awaitable[None] | None"]
H = TypeVar("H", bound=Handler)

# A larger body is none of this contract.
MAX_BODY_BYTES = 1 << 20
# Handlers run side by side.
MAX_HANDLERS = 8
# An event belongs to the process that handles it for so long, and for longer while that lives; a killed process's
# events are handled by the next one after this.
LEASE_SECONDS = 15.0
# How long after a handler's failure the event is handled again; the last one again and again.
RETRY_AFTER_SECONDS: tuple[float, ...] = (1.0, 10.0, 60.0, 300.0, 1800.0)
# How often the inbox is looked at unasked: for what is to be tried again, and what other processes left.
LOOK_EVERY_SECONDS = 1.0

log: logging.Logger = logging.getLogger("giftrail_client")


@dataclass(frozen=True)
class Answer:
    """What to answer a webhook request with."""

    status: int
    text: str


class WebhookRouter:
    """Handlers of events by kind, over an inbox that remembers what was handled.

    `secret` is the endpoint's signing secret, several while one is rotated, or a callable that reads them. Give a
    `SqliteInbox`, or another that lasts; a `MemoryInbox` forgets what was not handled when the process ends.

    Handlers may be async; then they run on the loop of the ASGI server, otherwise each on a loop of its own. A handler
    may see an event again when it failed or its process died, so it should do no harm the second time.
    """

    def __init__(
        self,
        secret: str | Sequence[str] | Callable[[], str | Sequence[str]],
        *,
        inbox: Inbox,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.inbox = inbox
        self._secret = secret
        self._clock = clock
        self._handlers: dict[str, list[Handler]] = {}
        self._for_others: list[Handler] = []
        self._desk = _Desk()

    def on(self, *kinds: str) -> Callable[[H], H]:
        """Handle events of these kinds; without any, those that nothing else handles. To decorate a function with.

        Several handlers of a kind run one after the other, and all again when one of them fails.
        """

        def add(handler: H) -> H:
            if not kinds:
                self._for_others.append(handler)
            for kind in kinds:
                self._handlers.setdefault(kind, []).append(handler)
            return handler

        return add

    def receive(self, raw_body: bytes, headers: webhooks.Headers) -> webhooks.Event:
        """Verify and keep an event; the worker handles it. Raises VerificationFailed, and what the inbox raises.

        Answer 2xx when this returns, 400 when verification failed, 503 otherwise: then the service sends it again.
        """
        secret = self._secret() if callable(self._secret) else self._secret
        now = self._clock()
        event = webhooks.verify(raw_body, headers, secret, now=now)
        if self.inbox.put(event.id, event.kind, raw_body, now=now):
            self.start()
        else:
            log.info("event %s (%s) came again, and is not handled again", event.id, event.kind)
        return event

    def answer(self, raw_body: bytes, headers: webhooks.Headers) -> Answer:
        """What to answer a request with, after its event was kept; never raises."""
        try:
            event = self.receive(raw_body, headers)
        except webhooks.VerificationFailed as failed:
            log.warning("a webhook was refused: %s", failed)
            return Answer(400, "not verified")
        except Exception:
            log.exception("a webhook could not be kept; the service will send it again")
            return Answer(503, "not kept")
        return Answer(202, event.id)

    def run_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have async handlers run on this loop."""
        self._own_desk().loop = loop

    def start(self, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Handle what is undone from before, and what comes. Calling it again does nothing, but after a fork it starts.

        `loop` is where async handlers run.
        """
        desk = self._own_desk()
        with desk.changed:
            desk.loop = loop or desk.loop
            if desk.worker is None or not desk.worker.is_alive():
                desk.worker = _Worker(self, desk)
                desk.worker.start()
            desk.wake()

    def stop(self, *, timeout_seconds: float = 10.0) -> None:
        """Wait for the handlers that run, and handle nothing more until `start`."""
        desk = self._own_desk()
        with desk.changed:
            worker, desk.worker = desk.worker, None
            if worker is not None:
                worker.stopping = True
                desk.wake()
        if worker is not None:
            worker.join(timeout_seconds)

    def _own_desk(self) -> _Desk:
        """This process's: a fork has neither the threads nor the loop of its parent."""
        if self._desk.pid != os.getpid():
            self._desk = _Desk()
        return self._desk

    def handle(self, event: webhooks.Event) -> None:
        """Run the handlers of an event. Raises what they raise."""
        for handler in self._handlers.get(event.kind, self._for_others):
            came = handler(event)
            if inspect.isawaitable(came):
                self._await(came)

    def _await(self, came: Awaitable[None]) -> None:
        async def run() -> None:
            await came

        loop = self._own_desk().loop
        if loop is not None and loop.is_running():
            asyncio.run_coroutine_threadsafe(run(), loop).result()
        else:
            asyncio.run(run())

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()


class _Desk:
    """What one process works on, shared by its workers; `changed` guards it, and every change of a claimed event."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.worker: _Worker | None = None
        self.running: set[str] = set()
        self.changed = threading.Condition()
        self.woken = False

    def wake(self) -> None:
        """There is something to do; `changed` is held."""
        self.woken = True
        self.changed.notify_all()


class _Worker(threading.Thread):
    """Claims what is due, runs each event in a thread of its own, and keeps it claimed while that runs."""

    def __init__(self, router: WebhookRouter, desk: _Desk) -> None:
        super().__init__(name="giftrail-webhooks", daemon=True)
        self.stopping = False
        self._router = router
        self._inbox = router.inbox
        self._desk = desk

    def run(self) -> None:
        """Until it is stopped and nothing runs."""
        while not self.stopping or self._desk.running:
            try:
                for kept in self._claim():
                    self._begin(kept)
            except Exception:
                log.exception("the inbox of webhooks could not be read; trying again")
            with self._desk.changed:
                self._desk.changed.wait_for(lambda: self._desk.woken, LOOK_EVERY_SECONDS)
                self._desk.woken = False

    def _claim(self) -> list[Kept]:
        with self._desk.changed:
            now, running = self._router.now(), self._desk.running
            if running:
                self._inbox.renew(sorted(running), now=now, lease_seconds=LEASE_SECONDS)
            free = 0 if self.stopping else MAX_HANDLERS - len(running)
            claimed = self._inbox.claim(now=now, lease_seconds=LEASE_SECONDS, limit=free) if free > 0 else []
            # One that runs already is there when the process stood still for longer than the lease.
            new = [kept for kept in claimed if kept.event_id not in running]
            running.update(kept.event_id for kept in new)
            return new

    def _begin(self, kept: Kept) -> None:
        try:
            # A thread that does not keep the process from ending: what it leaves undone is run again.
            threading.Thread(target=self._handle, args=(kept,), name="giftrail-webhook", daemon=True).start()
        except RuntimeError:
            log.exception("no thread could be started for event %s (%s)", kept.event_id, kept.kind)
            self._settle(kept, again_in_seconds=RETRY_AFTER_SECONDS[0])

    def _handle(self, kept: Kept) -> None:
        try:
            self._router.handle(webhooks.read(kept.raw_body, event_id=kept.event_id, kind=kept.kind))
        except BaseException:  # a handler may be cancelled, or exit; its event is not lost by that
            after = RETRY_AFTER_SECONDS[min(kept.tries, len(RETRY_AFTER_SECONDS)) - 1]
            log.exception("event %s (%s) was not handled, again in %.0f s", kept.event_id, kept.kind, after)
            self._settle(kept, again_in_seconds=after)
        else:
            self._settle(kept, again_in_seconds=None)

    def _settle(self, kept: Kept, *, again_in_seconds: float | None) -> None:
        with self._desk.changed:
            now = self._router.now()
            try:
                if again_in_seconds is None:
                    self._inbox.done(kept.event_id, now=now)
                else:
                    self._inbox.postpone(kept.event_id, until=now + again_in_seconds)
            except Exception:
                log.exception("what became of event %s (%s) was not kept; it will run again", kept.event_id, kept.kind)
            self._desk.running.discard(kept.event_id)
            self._desk.wake()
