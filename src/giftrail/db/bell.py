"""The bell: tells other processes at once that there is work or news, by NOTIFY on a connection of its own.

It only shortens a wait: whoever listens also polls. It never rings inside a money transaction, whose commit would take
PostgreSQL's global notification lock.
"""

import asyncio
import contextlib
from typing import Literal, get_args

import structlog

from giftrail.db import pool

# A topic is rung at most this often; more rings in between become one.
QUIET_SECONDS = 0.05
RECONNECT_SECONDS = 1.0

Topic = Literal["fulfilment", "orders", "reversal", "events", "deliveries", "recipients"]

_log = structlog.get_logger()


class Bell:
    """Rings topics and hears them. `run` is to be kept running."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._heard: dict[str, list[asyncio.Event]] = {}
        self._to_ring: set[str] = set()
        self._wanted = asyncio.Event()

    def heard(self, topic: Topic) -> asyncio.Event:
        """An event that is set whenever the topic was rung by any process; who waits for it clears it."""
        event = asyncio.Event()
        self._heard.setdefault(_channel(topic), []).append(event)
        return event

    def ring(self, topic: Topic) -> None:
        """Tell everybody soon; never waits, never fails."""
        self._to_ring.add(_channel(topic))
        self._wanted.set()

    async def run(self) -> None:
        """Keep connected, for as long as the process lives."""
        while True:
            try:
                async with pool.connect(self._url) as conn:
                    await self._serve(conn)
            except pool.UNAVAILABLE as error:
                _log.warning("the bell is not connected", error=repr(error))
            except Exception:
                _log.exception("the bell cannot ring")
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _serve(self, conn: pool.Connection) -> None:
        lost = asyncio.Event()

        def notice(_: object) -> None:
            lost.set()
            self._wanted.set()

        conn.add_termination_listener(notice)
        for topic in get_args(Topic):  # all: somebody may want to hear one of them only later
            await conn.add_listener(_channel(topic), self._hear)
        for events in self._heard.values():  # what was rung while nobody listened
            for event in events:
                event.set()
        while not lost.is_set():
            await self._wanted.wait()
            self._wanted.clear()
            topics, self._to_ring = self._to_ring, set()
            for channel in topics:
                await conn.execute(f"NOTIFY {channel}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lost.wait(), QUIET_SECONDS)

    def _hear(self, _connection: object, _process: int, channel: str, _payload: object) -> None:
        for event in self._heard.get(channel, ()):
            event.set()


def _channel(topic: Topic) -> str:
    return f"giftrail_{topic}"
