"""Where verified events are kept until they are handled, so that a crash loses none and a repeat is handled once."""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

# Handled events are remembered for so long, to know their repeats: longer than a service keeps and replays them.
REMEMBER_SECONDS = 100 * 24 * 3600.0
# How long a process waits for another one that writes to the file.
BUSY_SECONDS = 30.0
BUSY_PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Kept:
    """An event as it was verified; `tries` counts this one."""

    event_id: str
    kind: str
    raw_body: bytes = field(repr=False)
    tries: int


class Inbox(Protocol):
    """Keeps events from their arrival until they are done. Times in seconds since the epoch.

    One that several processes share must claim atomically: an event is given to one of them at a time.
    """

    def put(self, event_id: str, kind: str, raw_body: bytes, *, now: float) -> bool:
        """Keep an event, due at once; False when it is known already. On return it survives what the inbox promises."""
        ...

    def claim(self, *, now: float, lease_seconds: float, limit: int) -> list[Kept]:
        """Events that are due, given to the caller for so long; each claim counts as a try."""
        ...

    def renew(self, event_ids: list[str], *, now: float, lease_seconds: float) -> None:
        """Keep claimed events for longer."""
        ...

    def done(self, event_id: str, *, now: float) -> None:
        """The event is handled: remember its id alone, and forget ids that are too old to come again."""
        ...

    def postpone(self, event_id: str, *, until: float) -> None:
        """Make a claimed event due at `until`."""
        ...

    def undone(self) -> list[Kept]:
        """What is not handled yet, oldest first."""
        ...


@dataclass
class _Row:
    kind: str
    raw_body: bytes
    due_at: float
    tries: int = 0
    done_at: float | None = None

    def kept(self, event_id: str) -> Kept:
        return Kept(event_id, self.kind, self.raw_body, self.tries)


class MemoryInbox:
    """Keeps events in this process: what is not handled when it ends is lost. For tests and trials."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._done: dict[str, float] = {}
        self._lock = threading.Lock()

    def put(self, event_id: str, kind: str, raw_body: bytes, *, now: float) -> bool:
        """Keep an event; False when it is known already."""
        with self._lock:
            if event_id in self._rows:
                return False
            self._rows[event_id] = _Row(kind, raw_body, now)
            return True

    def claim(self, *, now: float, lease_seconds: float, limit: int) -> list[Kept]:
        """Events that are due."""
        with self._lock:
            due = [(event_id, row) for event_id, row in self._rows.items() if row.done_at is None and row.due_at <= now]
            for _, row in due[:limit]:
                row.due_at, row.tries = now + lease_seconds, row.tries + 1
            return [row.kept(event_id) for event_id, row in due[:limit]]

    def renew(self, event_ids: list[str], *, now: float, lease_seconds: float) -> None:
        """Keep claimed events for longer."""
        for event_id in event_ids:
            self.postpone(event_id, until=now + lease_seconds)

    def done(self, event_id: str, *, now: float) -> None:
        """The event is handled."""
        with self._lock:
            row = self._rows.get(event_id)
            if row is None:
                return
            row.raw_body, row.done_at = b"", now
            # In the order in which they were done, so the oldest are in front.
            self._done[event_id] = now
            for oldest, done_at in list(itertools.islice(self._done.items(), 2)):
                if done_at < now - REMEMBER_SECONDS:
                    del self._done[oldest], self._rows[oldest]

    def postpone(self, event_id: str, *, until: float) -> None:
        """Make a claimed event due at `until`."""
        with self._lock:
            row = self._rows.get(event_id)
            if row is not None and row.done_at is None:
                row.due_at = until

    def undone(self) -> list[Kept]:
        """What is not handled yet, oldest first."""
        with self._lock:
            return [row.kept(event_id) for event_id, row in self._rows.items() if row.done_at is None]


_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    raw_body BLOB NOT NULL,
    due_at REAL,
    tries INTEGER NOT NULL DEFAULT 0,
    done_at REAL
);
CREATE INDEX IF NOT EXISTS event_due ON event (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS event_done ON event (done_at) WHERE done_at IS NOT NULL;
"""


# A fork in the middle of a use would leave SQLite's own locks held in the child.
_using = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_using.acquire, after_in_parent=_using.release, after_in_child=_using.release)


class SqliteInbox:
    """Keeps events in an SQLite file on a local disk, that several processes of one machine may share.

    An event that `put` returned for is on the disk. Each call opens the file anew, so it can be used by any thread
    and after a fork.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        with self._open() as conn:
            _write_ahead(conn)
            conn.executescript(_SCHEMA)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with _using:
            conn = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
            try:
                conn.execute("PRAGMA synchronous = FULL")
                yield conn
            finally:
                conn.close()

    def put(self, event_id: str, kind: str, raw_body: bytes, *, now: float) -> bool:
        """Keep an event on the disk; False when it is known already. Raises sqlite3.Error."""
        insert = "INSERT OR IGNORE INTO event (event_id, kind, raw_body, due_at) VALUES (?, ?, ?, ?)"
        with self._open() as conn:
            return conn.execute(insert, (event_id, kind, raw_body, now)).rowcount == 1

    def claim(self, *, now: float, lease_seconds: float, limit: int) -> list[Kept]:
        """Events that are due. Raises sqlite3.Error."""
        with self._open() as conn:
            conn.execute("BEGIN IMMEDIATE")  # nobody else claims between the two
            rows = conn.execute(
                "SELECT event_id, kind, raw_body, tries + 1, number FROM event WHERE due_at <= ?"
                " ORDER BY due_at, number LIMIT ?",
                (now, limit),
            ).fetchall()
            conn.executemany(
                "UPDATE event SET due_at = ?, tries = tries + 1 WHERE number = ?",
                [(now + lease_seconds, row[4]) for row in rows],
            )
            conn.execute("COMMIT")
        return [Kept(*row[:4]) for row in rows]

    def renew(self, event_ids: list[str], *, now: float, lease_seconds: float) -> None:
        """Keep claimed events for longer. Raises sqlite3.Error."""
        with self._open() as conn:
            conn.executemany(
                "UPDATE event SET due_at = ? WHERE event_id = ? AND due_at IS NOT NULL",
                [(now + lease_seconds, event_id) for event_id in event_ids],
            )

    def done(self, event_id: str, *, now: float) -> None:
        """The event is handled. Raises sqlite3.Error."""
        with self._open() as conn:
            conn.execute(
                "UPDATE event SET done_at = ?, due_at = NULL, raw_body = x'' WHERE event_id = ?", (now, event_id)
            )
            conn.execute("DELETE FROM event WHERE done_at < ?", (now - REMEMBER_SECONDS,))

    def postpone(self, event_id: str, *, until: float) -> None:
        """Make a claimed event due at `until`. Raises sqlite3.Error."""
        with self._open() as conn:
            conn.execute("UPDATE event SET due_at = ? WHERE event_id = ? AND due_at IS NOT NULL", (until, event_id))

    def undone(self) -> list[Kept]:
        """What is not handled yet, oldest first. Raises sqlite3.Error."""
        with self._open() as conn:
            rows = conn.execute(
                "SELECT event_id, kind, raw_body, tries FROM event WHERE due_at IS NOT NULL ORDER BY number"
            ).fetchall()
        return [Kept(*row) for row in rows]


def _write_ahead(conn: sqlite3.Connection) -> None:
    """Set the journal's mode; SQLite does not wait by itself for others that are opening the file."""
    gives_up_at = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            conn.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= gives_up_at:
                raise
            time.sleep(BUSY_PAUSE_SECONDS)
        else:
            return
