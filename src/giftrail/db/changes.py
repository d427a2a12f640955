"""Word of change: a version for each topic, raised by whoever edits and watched by every process.

The version row is updated inside the edit's transaction, so versions are handed out in the order of commits and
a process that has seen version n has seen every edit up to n.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import structlog

from giftrail.db import pool

Topic = Literal["breakers", "catalog", "partners", "webhooks"]
Refresh = Callable[[int], Awaitable[None]]

_log = structlog.get_logger()


async def raise_version(conn: pool.Connection, *, topic: Topic) -> int:
    """The version of this transaction's edit. Locks the topic until the transaction ends."""
    version: int = await conn.fetchval(
        "UPDATE change SET version = version + 1 WHERE topic = $1 RETURNING version", topic
    )
    return version


async def read_versions(conn: pool.Connection | pool.Pool) -> dict[str, int]:
    """The version of each topic now."""
    return {row["topic"]: row["version"] for row in await conn.fetch("SELECT topic, version FROM change")}


class Watcher:
    """Looks for raised versions and refreshes what each topic's subscriber keeps in memory."""

    def __init__(
        self,
        database: pool.Database,
        *,
        poll_seconds: float,
        stale_after_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._poll_seconds = poll_seconds
        self._stale_after_seconds = stale_after_seconds
        self._clock = clock
        self._seen: dict[str, int] = {}
        self._subscribers: dict[str, Refresh] = {}
        self._looked_at = float("-inf")

    def subscribe(self, topic: Topic, refresh: Refresh) -> None:
        """Have `refresh(version)` awaited whenever the topic's version has risen."""
        self._subscribers[topic] = refresh

    @property
    def seen(self) -> Mapping[str, int]:
        """The version of each topic that this process has seen."""
        return self._seen

    def is_fresh(self) -> bool:
        """Whether this process looked recently enough to answer for what it keeps in memory."""
        return self._clock() - self._looked_at < self._stale_after_seconds

    async def look(self) -> None:
        """One look. Raises what the database raises."""
        asked_at = self._clock()
        for topic, version in (await read_versions(self._database.read)).items():
            if version != self._seen.get(topic) and topic in self._subscribers:
                await self._subscribers[topic](version)
                self._seen[topic] = version
        self._looked_at = asked_at

    async def run(self) -> None:
        """Look again and again, for as long as the process lives."""
        while True:
            try:
                async with asyncio.timeout(self._stale_after_seconds):
                    await self.look()
            except pool.UNAVAILABLE as error:
                _log.warning("changes cannot be seen", error=repr(error))
            except Exception:
                _log.exception("changes cannot be seen")
            await asyncio.sleep(self._poll_seconds)
