"""The synchronous window: callers wait a little for orders that take time (wire contract, Place Order)."""

import asyncio
import contextlib

import structlog

from giftrail.db import pool
from giftrail.orders import store

POLL_SECONDS = 0.25

_log = structlog.get_logger()


class Waiters:
    """Waits for orders to end. All who wait in this process share one look at the database.

    `news` is set whenever some process ended an order; without it the looks are POLL_SECONDS apart.
    """

    def __init__(self, database: pool.Database, news: asyncio.Event) -> None:
        self._database = database
        self._news = news
        self._waiting: dict[tuple[str, str], list[asyncio.Future[None]]] = {}
        self._anyone = asyncio.Event()

    async def wait(self, *, partner_id: str, order_id: str, seconds: float) -> None:
        """Return when the order is neither PROCESSING nor being reversed, or after so many seconds."""
        if seconds <= 0:
            return
        ended = asyncio.get_running_loop().create_future()
        key = (partner_id, order_id)
        self._waiting.setdefault(key, []).append(ended)
        self._anyone.set()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended
        finally:
            waiting = self._waiting.get(key, [])
            if ended in waiting:
                waiting.remove(ended)
            if not waiting:
                self._waiting.pop(key, None)

    async def run(self) -> None:
        """Look, for as long as the process lives; everybody is let go at the end."""
        try:
            while True:
                await self._anyone.wait()
                self._anyone.clear()
                while self._waiting:
                    self._news.clear()
                    await self._look()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(POLL_SECONDS):
                            await self._news.wait()
        finally:
            self._let_go(list(self._waiting))

    async def _look(self) -> None:
        keys = list(self._waiting)
        try:
            ended = await store.list_settled(
                self._database.read, partner_ids=[key[0] for key in keys], order_ids=[key[1] for key in keys]
            )
        except pool.UNAVAILABLE as error:
            _log.warning("waiting orders cannot be looked at", error=repr(error))
            return
        except Exception:
            _log.exception("waiting orders cannot be looked at")
            return
        self._let_go([key for key in keys if key[1] in set(ended)])

    def _let_go(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            for ended in self._waiting.pop(key, []):
                if not ended.done():
                    ended.set_result(None)
