"""Both inboxes keep the same promises: nothing that was kept is lost, and an event is with one claimer at a time."""

import functools
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from giftrail_client import Inbox, Kept, MemoryInbox, SqliteInbox, inbox

T = TypeVar("T")
KIND = "ORDER_TERMINAL_STATE"
OPENING = "import os, sys, threading, time\nfrom giftrail_client import SqliteInbox\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inbox.sqlite3"


@pytest.fixture(params=["memory", "sqlite"])
def kept_in(request: pytest.FixtureRequest, path: Path) -> Inbox:
    return MemoryInbox() if request.param == "memory" else SqliteInbox(path)


def program(text: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", OPENING + textwrap.dedent(text), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def output(running: subprocess.Popen[str], given: str | None = None) -> list[str]:
    told, _ = running.communicate(given, timeout=30)
    assert running.returncode == 0
    return told.splitlines()


def ids(events: list[Kept]) -> list[str]:
    return [event.event_id for event in events]


def at_once(count: int, deed: Callable[[int], T]) -> list[T]:
    """What a deed returned in so many threads that began together."""
    begin = threading.Barrier(count)

    def run(number: int) -> T:
        begin.wait(10)
        return deed(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def claim_until_empty(kept_in: Inbox) -> list[str]:
    claimed: list[str] = []
    while came := kept_in.claim(now=1, lease_seconds=1000, limit=3):
        claimed += ids(came)
    return claimed


def test_an_event_is_kept_once_as_it_came_first(kept_in: Inbox) -> None:
    assert kept_in.put("evt_1", KIND, b'{"a": 1}', now=10)
    assert not kept_in.put("evt_1", "OTHER", b"other", now=20)
    assert kept_in.undone() == [Kept("evt_1", KIND, b'{"a": 1}', 0)]
    assert kept_in.claim(now=10, lease_seconds=5, limit=9) == [Kept("evt_1", KIND, b'{"a": 1}', 1)]


@pytest.mark.parametrize("raw_body", [b"", bytes(range(256)), b"x" * (1 << 20), '{"é": "\u2028"}\r\n'.encode()])
def test_the_bytes_and_names_come_back_as_they_were(kept_in: Inbox, raw_body: bytes) -> None:
    kept_in.put("évt 1'\x00\N{GRINNING FACE}", "KÍND", raw_body, now=10)
    kept_in.put("évt 1'", "", raw_body, now=10)
    assert kept_in.claim(now=10, lease_seconds=5, limit=9) == [
        Kept("évt 1'\x00\N{GRINNING FACE}", "KÍND", raw_body, 1),
        Kept("évt 1'", "", raw_body, 1),
    ]


def test_what_is_claimed_is_claimed_by_nobody_else_until_its_lease_is_over(kept_in: Inbox) -> None:
    kept_in.put("evt_1", KIND, b"1", now=10)
    assert [event.tries for event in kept_in.claim(now=10, lease_seconds=5, limit=9)] == [1]
    assert kept_in.claim(now=14.9, lease_seconds=5, limit=9) == []
    assert [event.tries for event in kept_in.claim(now=15, lease_seconds=5, limit=9)] == [2]
    assert kept_in.claim(now=15, lease_seconds=5, limit=9) == []
    assert [event.tries for event in kept_in.undone()] == [2]


def test_a_claim_takes_no_more_than_its_limit_in_the_order_of_arrival(kept_in: Inbox) -> None:
    for number in range(5):
        kept_in.put(f"evt_{number}", KIND, b"1", now=10)
    assert ids(kept_in.claim(now=10, lease_seconds=5, limit=2)) == ["evt_0", "evt_1"]
    assert ids(kept_in.claim(now=10, lease_seconds=5, limit=2)) == ["evt_2", "evt_3"]
    assert ids(kept_in.claim(now=10, lease_seconds=5, limit=2)) == ["evt_4"]
    assert kept_in.claim(now=10, lease_seconds=5, limit=2) == []


def test_an_event_that_is_not_due_yet_is_not_claimed(kept_in: Inbox) -> None:
    kept_in.put("evt_1", KIND, b"1", now=10)
    assert kept_in.claim(now=9.9, lease_seconds=5, limit=9) == []
    assert ids(kept_in.claim(now=10, lease_seconds=5, limit=9)) == ["evt_1"]


def test_a_renewed_lease_holds_for_longer_and_counts_no_try(kept_in: Inbox) -> None:
    for name in ("evt_1", "evt_2", "evt_3"):
        kept_in.put(name, KIND, b"1", now=10)
    kept_in.claim(now=10, lease_seconds=5, limit=9)
    kept_in.renew(["evt_1", "evt_2", "unknown"], now=14, lease_seconds=5)
    assert ids(kept_in.claim(now=18, lease_seconds=5, limit=9)) == ["evt_3"]
    assert [(event.event_id, event.tries) for event in kept_in.claim(now=19, lease_seconds=9, limit=9)] == [
        ("evt_1", 2),
        ("evt_2", 2),
    ]


def test_a_postponed_event_is_due_when_it_was_postponed_to(kept_in: Inbox) -> None:
    kept_in.put("evt_1", KIND, b"1", now=10)
    kept_in.claim(now=10, lease_seconds=5, limit=9)
    kept_in.postpone("evt_1", until=100)
    kept_in.postpone("unknown", until=0)
    assert kept_in.claim(now=99, lease_seconds=5, limit=9) == []
    assert ids(kept_in.claim(now=100, lease_seconds=5, limit=9)) == ["evt_1"]
    kept_in.postpone("evt_1", until=101)
    assert ids(kept_in.claim(now=101, lease_seconds=5, limit=9)) == ["evt_1"], "sooner than its lease, too"


def test_what_is_done_is_not_claimed_nor_kept_and_still_known(kept_in: Inbox) -> None:
    kept_in.put("evt_1", KIND, b"the body", now=10)
    kept_in.put("evt_2", KIND, b"another", now=10)
    kept_in.claim(now=10, lease_seconds=5, limit=1)
    kept_in.done("evt_1", now=11)
    assert ids(kept_in.undone()) == ["evt_2"]
    assert not kept_in.put("evt_1", KIND, b"the body", now=12)
    assert ids(kept_in.claim(now=1000, lease_seconds=5, limit=9)) == ["evt_2"]


def test_neither_a_late_renewal_nor_a_late_postponement_revives_what_is_done(kept_in: Inbox) -> None:
    kept_in.put("evt_1", KIND, b"1", now=10)
    kept_in.claim(now=10, lease_seconds=5, limit=9)
    kept_in.done("evt_1", now=11)
    kept_in.renew(["evt_1"], now=12, lease_seconds=1)
    kept_in.postpone("evt_1", until=12)
    kept_in.done("evt_1", now=13)
    assert kept_in.claim(now=1000, lease_seconds=5, limit=9) == []
    assert kept_in.undone() == []


def test_what_is_done_leaves_no_body_behind(path: Path) -> None:
    memory, file = MemoryInbox(), SqliteInbox(path)
    for kept_in in (memory, file):
        kept_in.put("evt_1", KIND, b"the body", now=10)
        kept_in.done("evt_1", now=11)
    assert [row.raw_body for row in memory._rows.values()] == [b""]
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT event_id, length(raw_body) FROM event").fetchall() == [("evt_1", 0)]


def test_marking_what_nobody_knows_as_done_does_nothing(kept_in: Inbox) -> None:
    kept_in.done("unknown", now=10)
    assert kept_in.put("unknown", KIND, b"1", now=11)


def test_what_is_undone_is_told_in_the_order_of_arrival(kept_in: Inbox) -> None:
    for name in ("c", "a", "d", "b"):
        kept_in.put(name, KIND, b"1", now=10)
    kept_in.claim(now=10, lease_seconds=5, limit=2)
    kept_in.postpone("c", until=1000)
    kept_in.done("d", now=11)
    assert ids(kept_in.undone()) == ["c", "a", "b"]


def test_handled_events_are_known_for_long_and_then_forgotten(kept_in: Inbox) -> None:
    for at, name in ((0, "old"), (10, "older than now")):
        kept_in.put(name, KIND, b"1", now=at)
        kept_in.done(name, now=at)
    kept_in.put("new", KIND, b"1", now=10)
    kept_in.done("new", now=inbox.REMEMBER_SECONDS - 1)
    assert not kept_in.put("old", KIND, b"1", now=inbox.REMEMBER_SECONDS - 1)
    kept_in.put("newer", KIND, b"1", now=inbox.REMEMBER_SECONDS + 1)
    kept_in.done("newer", now=inbox.REMEMBER_SECONDS + 1)
    assert kept_in.put("old", KIND, b"1", now=inbox.REMEMBER_SECONDS + 1)
    assert not kept_in.put("older than now", KIND, b"1", now=inbox.REMEMBER_SECONDS + 1)


def test_what_is_undone_is_never_forgotten_and_keeps_nothing_else_from_being_forgotten(kept_in: Inbox) -> None:
    for name in ("fails for ever", "old"):
        kept_in.put(name, KIND, b"1", now=0)
    kept_in.done("old", now=0)
    later = 3 * inbox.REMEMBER_SECONDS
    kept_in.put("new", KIND, b"1", now=later)
    kept_in.done("new", now=later)
    assert ids(kept_in.undone()) == ["fails for ever"]
    assert kept_in.put("old", KIND, b"1", now=later)


def test_of_many_threads_that_bring_an_event_one_is_told_that_it_is_new(kept_in: Inbox) -> None:
    told = at_once(16, lambda _: [kept_in.put(f"evt_{number}", KIND, b"1", now=10) for number in range(4)])
    assert [Counter(column)[True] for column in zip(*told, strict=True)] == [1, 1, 1, 1]
    assert len(kept_in.undone()) == 4


def test_claimers_in_threads_never_get_the_same_event(kept_in: Inbox) -> None:
    wanted = [f"evt_{number}" for number in range(60)]
    for name in wanted:
        kept_in.put(name, KIND, b"1", now=0)
    claimed = at_once(4, lambda _: claim_until_empty(kept_in))
    assert sorted(name for names in claimed for name in names) == sorted(wanted)


def test_claimers_in_processes_never_get_the_same_event(path: Path) -> None:
    kept_in = SqliteInbox(path)
    wanted = [f"evt_{number}" for number in range(60)]
    for name in wanted:
        kept_in.put(name, KIND, b"1", now=0)
    text = """
        kept_in = SqliteInbox(sys.argv[1])
        print("ready", flush=True)
        sys.stdin.readline()
        while came := kept_in.claim(now=1, lease_seconds=1000, limit=3):
            for event in came:
                print(event.event_id)
    """
    claimers = [program(text, path) for _ in range(3)]
    for one in claimers:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in claimers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    claimed = [name for one in claimers for name in output(one)]
    assert sorted(claimed) == sorted(wanted)


def test_a_file_that_is_opened_again_has_everything(path: Path) -> None:
    first = SqliteInbox(path)
    for name in ("done", "claimed", "new"):
        first.put(name, KIND, name.encode(), now=10)
    first.claim(now=10, lease_seconds=5, limit=2)
    first.done("done", now=11)
    again = SqliteInbox(str(path))
    assert again.undone() == [Kept("claimed", KIND, b"claimed", 1), Kept("new", KIND, b"new", 0)]
    assert not again.put("done", KIND, b"1", now=12)
    assert ids(again.claim(now=12, lease_seconds=5, limit=9)) == ["new"]


def test_what_put_returned_for_outlives_the_death_of_its_process(path: Path) -> None:
    text = """
        kept_in = SqliteInbox(sys.argv[1])
        number = 0
        while True:
            kept_in.put(f"evt_{number}", "KIND", b"body", now=0)
            print(f"evt_{number}", flush=True)
            number += 1
    """
    putting = program(text, path)
    assert putting.stdout is not None
    returned = [putting.stdout.readline().strip() for _ in range(20)]
    os.kill(putting.pid, signal.SIGKILL)
    returned += putting.communicate(timeout=30)[0].split()
    assert putting.returncode == -signal.SIGKILL
    kept = SqliteInbox(path).undone()
    assert ids(kept)[: len(returned)] == returned
    assert {event.raw_body for event in kept} == {b"body"}


def test_a_new_file_may_be_opened_by_several_at_once(tmp_path: Path) -> None:
    def put(where: Path, number: int) -> bool:
        return SqliteInbox(where).put(f"evt_{number}", KIND, b"1", now=0)

    for attempt in range(15):
        assert all(at_once(8, functools.partial(put, tmp_path / f"{attempt}.sqlite3")))


@contextmanager
def soon(deed: Callable[[], object]) -> Iterator[None]:
    """Something happens while the block waits for it."""
    timer = threading.Timer(0.2, deed)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_new_file_that_somebody_is_writing_is_waited_for(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        conn.execute("CREATE TABLE other (number INTEGER)")
        with soon(lambda: conn.execute("COMMIT")):
            assert SqliteInbox(path).put("evt_1", KIND, b"1", now=0)


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody who is writing to the file."""
    SqliteInbox(path)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        yield conn


def test_put_waits_for_another_writer(path: Path, writer: sqlite3.Connection) -> None:
    with soon(lambda: writer.execute("COMMIT")):
        assert SqliteInbox(path).put("evt_1", KIND, b"1", now=0)


def test_what_cannot_be_kept_is_an_error_and_not_known(
    path: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "BUSY_SECONDS", 0.05)
    kept_in = SqliteInbox(path)
    with pytest.raises(sqlite3.Error):
        kept_in.put("evt_1", KIND, b"1", now=0)
    with pytest.raises(sqlite3.Error):
        kept_in.claim(now=1, lease_seconds=5, limit=9)
    writer.execute("COMMIT")
    assert kept_in.put("evt_1", KIND, b"1", now=0)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error):
        SqliteInbox(tmp_path / "none" / "inbox.sqlite3")


# The children have 5 seconds each, and end by a signal when they hang.
FORKING = """
    import signal

    kept_in = SqliteInbox(sys.argv[1])

    def work(number):
        count = 0
        while True:
            kept_in.put(f"thread-{number}-{count}", "KIND", b"body", now=10)
            kept_in.claim(now=-1, lease_seconds=5, limit=2)
            count += 1

    for number in range(int(sys.argv[2])):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    for number in range(12):
        time.sleep(0.01)
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            came = kept_in.put(f"child-{number}", "KIND", b"body", now=0)
            claimed = kept_in.claim(now=0, lease_seconds=5, limit=9)
            kept_in.done(f"child-{number}", now=0)
            os._exit(0 if came and [one.event_id for one in claimed] == [f"child-{number}"] else 1)
        _, status = os.waitpid(child, 0)
        print(status, flush=True)
        if status:
            break
    os._exit(0)
"""


@pytest.mark.parametrize("threads", [0, 2], ids=["that is idle", "whose threads are using it"])
def test_a_child_of_a_process_can_use_it(path: Path, threads: int) -> None:
    assert output(program(FORKING, path, threads)) == ["0"] * 12


def test_a_slow_reader_does_not_hold_up_what_is_kept(path: Path) -> None:
    kept_in = SqliteInbox(path)
    kept_in.put("evt_1", KIND, b"1", now=0)
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("BEGIN")
        conn.execute("SELECT * FROM event").fetchall()
        began = time.monotonic()
        assert kept_in.put("evt_2", KIND, b"1", now=0)
        assert time.monotonic() - began < inbox.BUSY_SECONDS / 2
    assert ids(kept_in.undone()) == ["evt_1", "evt_2"]
