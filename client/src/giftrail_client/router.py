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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: _Worker | None = None
        self._starting = threading.Lock()

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

    def start(self, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Handle what is undone from before, and what comes. Calling it again does nothing, but after a fork it starts.

        `loop` is where async handlers run.
        """
        with self._starting:
            self._loop = loop or self._loop
            if self._worker is None or self._worker.pid != os.getpid() or not self._worker.is_alive():
                self._worker = _Worker(self)
                self._worker.start()
            self._worker.wake()

    def stop(self, *, timeout_seconds: float = 10.0) -> None:
        """Wait for the handlers that run, and handle nothing more until `start`."""
        with self._starting:
            worker, self._worker = self._worker, None
        if worker is not None and worker.pid == os.getpid():
            worker.stop()
            worker.join(timeout_seconds)

    def handle(self, event: webhooks.Event) -> None:
        """Run the handlers of an event. Raises what they raise."""
        for handler in self._handlers.get(event.kind, self._for_others):
            came = handler(event)
            if inspect.isawaitable(came):
                self._await(came)

    def _await(self, came: Awaitable[None]) -> None:
        async def run() -> None:
            await came

        if self._loop is None or self._loop.is_closed():
            asyncio.run(run())
        else:
            asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()


class _Worker(threading.Thread):
    """Claims what is due, runs each event in a thread of its own, and keeps it claimed while that runs."""

    def __init__(self, router: WebhookRouter) -> None:
        super().__init__(name="giftrail-webhooks", daemon=True)
        self.pid = os.getpid()
        self._router = router
        self._inbox = router.inbox
        self._running: set[str] = set()
        self._changed = threading.Condition()
        self._woken = False
        self._stopping = False

    def wake(self) -> None:
        """There is something to do."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Claim nothing more, and end when what runs is done."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def run(self) -> None:
        """Until it is stopped."""
        while not self._stopping:
            try:
                self._look()
            except Exception:
                log.exception("the inbox of webhooks could not be read; trying again")
            with self._changed:
                self._changed.wait_for(lambda: self._woken or self._stopping, LOOK_EVERY_SECONDS)
                self._woken = False
        with self._changed:
            self._changed.wait_for(lambda: not self._running)

    def _look(self) -> None:
        now = self._router.now()
        with self._changed:
            running = sorted(self._running)
        if running:
            self._inbox.renew(running, now=now, lease_seconds=LEASE_SECONDS)
        free = MAX_HANDLERS - len(running)
        for kept in self._inbox.claim(now=now, lease_seconds=LEASE_SECONDS, limit=free) if free else []:
            with self._changed:
                if kept.event_id in self._running:  # the process stood still for longer than the lease
                    continue
                self._running.add(kept.event_id)
            # Threads that do not keep the process from ending: what they leave undone is run again.
            threading.Thread(target=self._handle, args=(kept,), name="giftrail-webhook", daemon=True).start()

    def _handle(self, kept: Kept) -> None:
        try:
            self._router.handle(webhooks.read(kept.raw_body, event_id=kept.event_id, kind=kept.kind))
        except Exception:
            after = RETRY_AFTER_SECONDS[min(kept.tries, len(RETRY_AFTER_SECONDS)) - 1]
            log.exception("event %s (%s) was not handled, again in %.0f s", kept.event_id, kept.kind, after)
            self._settle(lambda now: self._inbox.postpone(kept.event_id, until=now + after), kept)
        else:
            self._settle(lambda now: self._inbox.done(kept.event_id, now=now), kept)

    def _settle(self, write: Callable[[float], None], kept: Kept) -> None:
        try:
            write(self._router.now())
        except Exception:
            log.exception("what became of event %s (%s) was not kept; it will run again", kept.event_id, kept.kind)
        with self._changed:
            self._running.discard(kept.event_id)
        self.wake()
