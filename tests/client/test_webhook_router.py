"""The router keeps an event before it answers, and then handles it: once, until it succeeded, whatever dies between."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from giftrail_client import Event, Inbox, MemoryInbox, SqliteInbox, WebhookRouter, router, webhooks

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB3ZWJob29rcyBpbiB0ZXN0cyE="
OTHER_SECRET = "whsec_YW5vdGhlciBzZWNyZXQgb2YgMzIgYnl0ZXMgZm9yIHRlc3Q="
TERMINAL, LOW = webhooks.ORDER_TERMINAL_STATE, webhooks.WALLET_LOW_BALANCE


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


def until(condition: Callable[[], object], *, seconds: float = 10.0) -> bool:
    """Whether something came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def pass_until(clock: Clock, condition: Callable[[], object]) -> bool:
    """Whether something came true while time passed."""

    def passed() -> bool:
        if condition():
            return True
        clock.seconds += 0.4
        return False

    return until(passed)


def body_of(event_id: str, kind: str = TERMINAL, **members: Any) -> bytes:
    return json.dumps({"eventId": event_id, "eventType": kind, "orderId": "ord_1", **members}).encode()


def signed(raw_body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"X-Verify": webhooks.sign(raw_body, secret)}


def send(to: WebhookRouter, event_id: str, kind: str = TERMINAL, *, secret: str = SECRET) -> int:
    raw_body = body_of(event_id, kind)
    return to.answer(raw_body, signed(raw_body, secret)).status


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "LOOK_EVERY_SECONDS", 0.02)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def inbox(request: pytest.FixtureRequest, tmp_path: Path) -> Inbox:
    return MemoryInbox() if request.param == "memory" else SqliteInbox(tmp_path / "inbox.sqlite3")


@pytest.fixture
def hooks(inbox: Inbox, clock: Clock) -> Iterator[WebhookRouter]:
    made = WebhookRouter(SECRET, inbox=inbox, clock=clock)
    yield made
    made.stop(timeout_seconds=2)


def handled(hooks: WebhookRouter) -> bool:
    return until(lambda: not hooks.inbox.undone())


@pytest.fixture
def postponed(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The events that were postponed, each after that is kept."""
    seen: list[str] = []
    renewing: set[int] = set()
    postpone, renew = inbox.postpone, inbox.renew

    def note(event_id: str, *, until: float) -> None:
        postpone(event_id, until=until)
        if threading.get_ident() not in renewing:
            seen.append(event_id)

    def renew_unnoted(event_ids: list[str], *, now: float, lease_seconds: float) -> None:
        renewing.add(threading.get_ident())  # the memory's renewal is made of postponements
        renew(event_ids, now=now, lease_seconds=lease_seconds)
        renewing.discard(threading.get_ident())

    monkeypatch.setattr(inbox, "postpone", note)
    monkeypatch.setattr(inbox, "renew", renew_unnoted)
    return seen


def test_handlers_get_the_events_of_their_kinds(hooks: WebhookRouter) -> None:
    seen: list[tuple[str, str, str | None]] = []

    @hooks.on(TERMINAL)
    def on_order(event: Event) -> None:
        seen.append(("order", event.id, event.order_id))

    @hooks.on(LOW, "OTHER")
    def on_others(event: Event) -> None:
        seen.append(("others", event.id, event.kind))

    for event_id, kind in (("1", TERMINAL), ("2", LOW), ("3", "OTHER"), ("4", "NOBODY_WANTS_THIS")):
        assert send(hooks, event_id, kind) == 202
    assert handled(hooks), "a kind that nothing handles is done, too"
    assert sorted(seen) == [("order", "1", "ord_1"), ("others", "2", LOW), ("others", "3", "OTHER")]
    assert on_order.__name__ == "on_order", "the decorated function stays what it was"


def test_the_catch_all_gets_what_nothing_else_handles(hooks: WebhookRouter) -> None:
    seen: list[tuple[str, str]] = []
    hooks.on(TERMINAL)(lambda event: seen.append(("order", event.kind)))
    hooks.on()(lambda event: seen.append(("rest", event.kind)))
    for number, kind in enumerate((TERMINAL, LOW, "SOMETHING_NEW")):
        send(hooks, str(number), kind)
    assert handled(hooks)
    assert sorted(seen) == [("order", TERMINAL), ("rest", "SOMETHING_NEW"), ("rest", LOW)]


def test_the_kind_is_told_by_the_members_when_the_service_names_none(hooks: WebhookRouter) -> None:
    seen: list[tuple[str, str]] = []
    hooks.on(LOW)(lambda event: seen.append((event.id, event.kind)))
    raw_body = b'{"balance": 10, "threshold": 20.5}'
    answer = hooks.answer(raw_body, signed(raw_body) | {"webhook-id": "evt_1"})
    assert answer.status == 202
    assert handled(hooks)
    assert seen == [(answer.text, LOW)]
    assert answer.text != "evt_1", "X-Verify signs no header"


def test_several_handlers_of_a_kind_run_one_after_the_other(hooks: WebhookRouter) -> None:
    seen: list[str] = []

    @hooks.on(TERMINAL)
    async def first(event: Event) -> None:
        await asyncio.sleep(0.01)
        seen.append("first " + event.id)

    hooks.on(TERMINAL)(lambda event: seen.append("second " + event.id))
    send(hooks, "1")
    assert handled(hooks)
    assert seen == ["first 1", "second 1"]


def test_all_handlers_of_an_event_run_again_when_one_failed(
    hooks: WebhookRouter, clock: Clock, postponed: list[str]
) -> None:
    seen: list[str] = []

    def second(_: Event) -> None:
        seen.append("second")
        if len(seen) < 3:
            raise ValueError("not yet")

    hooks.on(TERMINAL)(lambda _: seen.append("first"))
    hooks.on(TERMINAL)(second)
    send(hooks, "1")
    assert until(lambda: postponed)
    assert pass_until(clock, lambda: not hooks.inbox.undone())
    assert seen == ["first", "second"] * 2


def test_a_duplicate_is_answered_and_handled_once(hooks: WebhookRouter) -> None:
    seen: list[str] = []
    entered, go_on = threading.Event(), threading.Event()

    @hooks.on(TERMINAL)
    def handle(event: Event) -> None:
        seen.append(event.id)
        entered.set()
        go_on.wait(10)

    assert send(hooks, "1") == 202
    assert entered.wait(10)
    assert send(hooks, "1") == 202, "while it is handled"
    go_on.set()
    assert handled(hooks)
    assert send(hooks, "1") == 202, "after it was handled"
    assert send(hooks, "2") == 202
    assert handled(hooks)
    assert seen == ["1", "2"]


def test_a_handler_that_fails_is_tried_again_later_and_later_while_others_go_on(
    hooks: WebhookRouter, clock: Clock, postponed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[float] = []
    seen: list[str] = []

    @hooks.on(TERMINAL)
    def fail(_: Event) -> None:
        tries.append(clock.seconds)
        if len(tries) <= 6:
            raise ValueError("the database is away")

    hooks.on(LOW)(lambda event: seen.append(event.id))
    send(hooks, "failing")
    waits = [*router.RETRY_AFTER_SECONDS, router.RETRY_AFTER_SECONDS[-1]]
    for number, wait in enumerate(waits, 1):
        assert until(lambda number=number: len(postponed) == number)  # type: ignore[misc]
        send(hooks, f"other {number}", LOW)
        assert until(lambda number=number: len(seen) == number), "the others are handled meanwhile"  # type: ignore[misc]
        clock.seconds += wait - 0.5
        time.sleep(0.06)
        assert len(tries) == number, "not before its time"
        assert pass_until(clock, lambda number=number: len(tries) > number)  # type: ignore[misc]
    assert handled(hooks)
    assert len(tries) == 7
    assert "the database is away" in caplog.text


def test_handlers_that_are_slow_hold_up_neither_the_answer_nor_the_others(hooks: WebhookRouter) -> None:
    go_on = threading.Event()
    ended: list[str] = []

    @hooks.on(TERMINAL)
    def slow(event: Event) -> None:
        go_on.wait(20)
        ended.append(event.id)

    hooks.on(LOW)(lambda event: ended.append(event.id))
    for number in range(router.MAX_HANDLERS - 1):
        assert send(hooks, f"slow {number}") == 202
    assert send(hooks, "quick", LOW) == 202
    assert until(lambda: ended == ["quick"])
    assert until(lambda: len(hooks.inbox.undone()) == router.MAX_HANDLERS - 1)
    go_on.set()
    assert handled(hooks)


def test_no_more_handlers_than_allowed_run_side_by_side_and_the_rest_follows(hooks: WebhookRouter) -> None:
    lock, running, most = threading.Lock(), 0, 0

    @hooks.on(TERMINAL)
    def handle(_: Event) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    for number in range(5 * router.MAX_HANDLERS):
        send(hooks, str(number))
    assert handled(hooks)
    assert 1 < most <= router.MAX_HANDLERS


@pytest.mark.parametrize(
    "headers", [{}, signed(body_of("1"), "another"), signed(body_of("2")), {"X-Verify": ""}, {"X-Verify": "\udc80"}]
)
def test_what_is_not_verified_is_answered_400_and_not_kept(hooks: WebhookRouter, headers: dict[str, str]) -> None:
    seen: list[str] = []
    hooks.on()(lambda event: seen.append(event.id))
    assert hooks.answer(body_of("1"), headers).status == 400
    assert hooks.inbox.undone() == []
    assert send(hooks, "1") == 202, "the real one is new"
    assert handled(hooks)
    assert seen == ["1"]


@pytest.mark.parametrize("raw_body", [b"", b"[]", b"null", b"{", b"\xff", b'"text"'])
def test_signed_bytes_that_are_no_event_are_answered_400(hooks: WebhookRouter, raw_body: bytes) -> None:
    assert hooks.answer(raw_body, signed(raw_body)).status == 400
    assert hooks.inbox.undone() == []


class Flaky(MemoryInbox):
    """An inbox whose disk is full until it is not."""

    def __init__(self) -> None:
        super().__init__()
        self.full = True

    def put(self, event_id: str, kind: str, raw_body: bytes, *, now: float) -> bool:
        if self.full:
            raise OSError("no space is left")
        return super().put(event_id, kind, raw_body, now=now)

    def claim(self, *, now: float, lease_seconds: float, limit: int) -> list[Any]:
        if self.full:
            raise OSError("no space is left")
        return list(super().claim(now=now, lease_seconds=lease_seconds, limit=limit))


def test_what_cannot_be_kept_is_answered_503_and_accepted_when_it_comes_again(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    kept_in, seen = Flaky(), list[str]()
    hooks = WebhookRouter(SECRET, inbox=kept_in, clock=clock)
    hooks.on()(lambda event: seen.append(event.id))
    hooks.start()
    assert send(hooks, "1") == 503
    assert until(lambda: "could not be read" in caplog.text)
    assert "no space is left" in caplog.text
    kept_in.full = False
    assert send(hooks, "1") == 202
    assert until(lambda: seen == ["1"]), "the worker has outlived the failure"
    hooks.stop()


def test_an_outcome_that_cannot_be_kept_is_told_and_the_event_runs_again_after_its_lease(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(MemoryInbox):
        failures = 1

        def done(self, event_id: str, *, now: float) -> None:
            if self.failures:
                self.failures -= 1
                raise OSError("no space is left")
            super().done(event_id, now=now)

    hooks, seen = WebhookRouter(SECRET, inbox=Forgetful(), clock=clock), list[str]()
    hooks.on()(lambda event: seen.append(event.id))
    send(hooks, "1")
    assert until(lambda: "it will run again" in caplog.text)
    clock.seconds += router.LEASE_SECONDS + 1
    assert handled(hooks)
    assert seen == ["1", "1"]
    hooks.stop()


@pytest.mark.parametrize("failure", [SystemExit(1), asyncio.CancelledError()])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_handler_that_ends_with_more_than_an_error_is_tried_again(
    inbox: Inbox, clock: Clock, failure: BaseException
) -> None:
    hooks, seen = WebhookRouter(SECRET, inbox=inbox, clock=clock), list[str]()

    @hooks.on()
    async def handle(event: Event) -> None:
        await asyncio.sleep(0)
        seen.append(event.id)
        if len(seen) == 1:
            raise failure

    send(hooks, "1")
    assert until(lambda: seen)
    for _ in range(20):
        clock.seconds += router.LEASE_SECONDS + 1
        if until(lambda: not inbox.undone(), seconds=0.05):
            break
    assert (seen, inbox.undone()) == (["1", "1"], [])
    hooks.stop()


def test_an_event_whose_thread_could_not_be_started_is_handled_later(
    hooks: WebhookRouter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Thread.start
    refused: list[str] = []

    def start(self: threading.Thread) -> None:
        if self.name == "giftrail-webhook" and not refused:
            refused.append(self.name)
            raise RuntimeError("can't start new thread")
        started(self)

    seen: list[str] = []
    hooks.on()(lambda event: seen.append(event.id))
    monkeypatch.setattr(threading.Thread, "start", start)
    send(hooks, "1")
    assert until(lambda: refused)
    for _ in range(10):
        clock.seconds += router.LEASE_SECONDS + 1
        if until(lambda: seen, seconds=0.05):
            break
    assert seen == ["1"]


def test_a_late_renewal_does_not_undo_a_postponement(clock: Clock) -> None:
    postponed, renewing, renewed = threading.Event(), threading.Event(), threading.Event()

    class Slow(MemoryInbox):
        def postpone(self, event_id: str, *, until: float) -> None:
            super().postpone(event_id, until=until)
            postponed.set()

        def renew(self, event_ids: list[str], *, now: float, lease_seconds: float) -> None:
            renewing.set()
            postponed.wait(1)  # unless it waits for this
            for event_id in event_ids:
                super().postpone(event_id, until=now + lease_seconds)
            renewed.set()

    hooks, seen = WebhookRouter(SECRET, inbox=Slow(), clock=clock), list[str]()

    @hooks.on()
    def handle(event: Event) -> None:
        seen.append(event.id)
        if len(seen) == 1:
            renewing.wait(10)
            raise ValueError("not yet")

    send(hooks, "1")
    assert postponed.wait(10)
    assert renewed.wait(10)
    time.sleep(0.05)
    clock.seconds += router.RETRY_AFTER_SECONDS[0] + 0.5
    assert until(lambda: len(seen) == 2, seconds=1)
    hooks.stop()


@pytest.mark.parametrize("secret", [SECRET, [OTHER_SECRET, SECRET], (SECRET,), lambda: SECRET, lambda: [SECRET]])
def test_secrets_are_a_text_a_list_or_a_function(clock: Clock, secret: Any) -> None:
    hooks = WebhookRouter(secret, inbox=MemoryInbox(), clock=clock)
    assert send(hooks, "1") == 202
    assert send(hooks, "2", secret="another") == 400
    hooks.stop()


def test_a_function_of_secrets_is_asked_at_each_event_so_that_they_can_be_rotated(clock: Clock) -> None:
    secrets = [SECRET]
    hooks = WebhookRouter(lambda: secrets, inbox=MemoryInbox(), clock=clock)
    assert [send(hooks, "1"), send(hooks, "2", secret=OTHER_SECRET)] == [202, 400]
    secrets.append(OTHER_SECRET)
    assert [send(hooks, "3"), send(hooks, "4", secret=OTHER_SECRET)] == [202, 202]
    secrets.remove(SECRET)
    assert [send(hooks, "5"), send(hooks, "6", secret=OTHER_SECRET)] == [400, 202]
    hooks.stop()


def test_without_a_secret_nothing_is_verified_and_a_function_that_fails_is_answered_503(clock: Clock) -> None:
    def fail() -> str:
        raise OSError("the vault is away")

    for secret, wanted in (([], 400), (fail, 503)):
        hooks = WebhookRouter(secret, inbox=MemoryInbox(), clock=clock)
        assert send(hooks, "1") == wanted
        assert hooks.inbox.undone() == []


@pytest.mark.parametrize("secret", ["", [""], ["", SECRET], webhooks.PREFIX])
def test_an_empty_secret_verifies_nothing(clock: Clock, secret: Any) -> None:
    hooks = WebhookRouter(secret, inbox=MemoryInbox(), clock=clock)
    raw_body, at = body_of("1"), int(clock.seconds)
    standard = webhooks.sign_standard(raw_body, "", event_id="1", timestamp=at)
    headers = {"webhook-id": "1", "webhook-timestamp": str(at), "webhook-signature": standard}
    statuses = [hooks.answer(raw_body, signed(raw_body, "")).status, hooks.answer(raw_body, headers).status]
    hooks.stop()
    assert 202 not in statuses, "anybody can sign with nothing"


def test_the_clock_decides_whether_a_standard_timestamp_is_too_old(hooks: WebhookRouter, clock: Clock) -> None:
    raw_body, at = body_of("1"), int(clock.seconds)
    signature = webhooks.sign_standard(raw_body, SECRET, event_id="1", timestamp=at)
    headers = {"webhook-id": "1", "webhook-timestamp": str(at), "webhook-signature": signature}
    clock.seconds += webhooks.TOLERANCE_SECONDS + 1
    assert hooks.answer(raw_body, headers).status == 400
    clock.seconds = at
    assert hooks.answer(raw_body, headers).status == 202


def test_stop_waits_for_the_handlers_that_run_and_what_comes_then_waits_for_start(hooks: WebhookRouter) -> None:
    entered, go_on, seen = threading.Event(), threading.Event(), list[str]()

    @hooks.on()
    def handle(event: Event) -> None:
        entered.set()
        go_on.wait(10)
        seen.append(event.id)

    send(hooks, "1")
    assert entered.wait(10)
    stopping = threading.Thread(target=hooks.stop)
    stopping.start()
    stopping.join(0.1)
    assert stopping.is_alive()
    go_on.set()
    stopping.join(10)
    assert not stopping.is_alive()
    assert seen == ["1"]
    assert hooks.inbox.undone() == [], "and it is done"
    hooks.inbox.put("2", TERMINAL, body_of("2"), now=0)
    time.sleep(0.06)
    assert seen == ["1"]
    hooks.start()
    assert until(lambda: seen == ["1", "2"])


def test_stop_gives_up_after_its_time(hooks: WebhookRouter) -> None:
    entered, go_on = threading.Event(), threading.Event()

    @hooks.on()
    def handle(_: Event) -> None:
        entered.set()
        go_on.wait(10)

    send(hooks, "1")
    assert entered.wait(10)
    began = time.monotonic()
    hooks.stop(timeout_seconds=0.05)
    assert time.monotonic() - began < 5
    assert len(hooks.inbox.undone()) == 1
    go_on.set()
    assert handled(hooks)


def test_starting_and_stopping_again_and_again_does_no_harm(hooks: WebhookRouter) -> None:
    seen, before = list[str](), threading.enumerate()
    hooks.on()(lambda event: seen.append(event.id))
    hooks.stop()
    for number in range(5):
        hooks.start()
        hooks.start()
        send(hooks, str(number))
        assert handled(hooks)
        hooks.stop()
        hooks.stop()
    assert seen == ["0", "1", "2", "3", "4"]
    assert until(lambda: set(threading.enumerate()) <= set(before)), "no thread is left behind"


def test_what_was_undone_from_before_runs_at_start_oldest_first(
    inbox: Inbox, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "MAX_HANDLERS", 1)
    before = WebhookRouter(SECRET, inbox=inbox, clock=clock)
    before.start = lambda **_: None  # type: ignore[method-assign] # the process dies right after its answer
    for event_id in ("c", "a", "b"):
        assert send(before, event_id) == 202
    now, seen = WebhookRouter(SECRET, inbox=inbox, clock=clock), list[str]()
    now.on()(lambda event: seen.append(event.id))
    now.start()
    assert until(lambda: len(seen) == 3)
    assert seen == ["c", "a", "b"]
    now.stop()


def test_an_event_is_handled_as_it_was_verified(hooks: WebhookRouter) -> None:
    seen: list[Event] = []
    hooks.on()(seen.append)
    raw_body = '{"orderId":\t"ord_é", "amount": 10.10, "status" : "SUCCESS"}\r\n'.encode()
    came = hooks.receive(raw_body, signed(raw_body) | {"webhook-id": "evt_1"})
    assert handled(hooks)
    assert seen == [came]
    assert str(seen[0].body["amount"]) == "10.10"


def test_async_handlers_run_on_the_loop_that_is_given_and_otherwise_on_their_own(hooks: WebhookRouter) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @hooks.on()
    async def handle(_: Event) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    async def given() -> asyncio.AbstractEventLoop:
        hooks.start(loop=asyncio.get_running_loop())
        await asyncio.to_thread(send, hooks, "given")
        assert await asyncio.to_thread(handled, hooks)
        return asyncio.get_running_loop()

    send(hooks, "own")
    assert handled(hooks)
    loop = asyncio.run(given())
    send(hooks, "own again, for the other loop is closed")
    assert handled(hooks)
    assert len(loops) == 3
    assert loops[0] is not loop
    assert loops[1] is loop
    assert loops[2] is not loop


def test_a_failing_async_handler_is_tried_again(hooks: WebhookRouter, clock: Clock, postponed: list[str]) -> None:
    seen: list[str] = []

    @hooks.on()
    async def handle(event: Event) -> None:
        await asyncio.sleep(0)
        seen.append(event.id)
        if len(seen) == 1:
            raise ValueError("not yet")

    send(hooks, "1")
    assert until(lambda: postponed)
    assert pass_until(clock, lambda: not hooks.inbox.undone())
    assert seen == ["1", "1"]


class Counting(SqliteInbox):
    """Knows how often its claims were renewed, and how often it was looked into."""

    renewals = looks = 0

    def claim(self, *, now: float, lease_seconds: float, limit: int) -> list[Any]:
        claimed = super().claim(now=now, lease_seconds=lease_seconds, limit=limit)
        self.looks += 1
        return list(claimed)

    def renew(self, event_ids: list[str], *, now: float, lease_seconds: float) -> None:
        super().renew(event_ids, now=now, lease_seconds=lease_seconds)
        self.renewals += 1


@pytest.mark.parametrize("is_stopping", [False, True], ids=["as long as it runs", "also while it is being stopped"])
def test_a_lease_is_renewed_while_a_handler_runs_so_that_nobody_else_handles_its_event(
    tmp_path: Path, clock: Clock, *, is_stopping: bool
) -> None:
    kept_in, go_on, seen = Counting(tmp_path / "inbox.sqlite3"), threading.Event(), list[str]()
    entered = threading.Event()
    first = WebhookRouter(SECRET, inbox=kept_in, clock=clock)
    others = Counting(tmp_path / "inbox.sqlite3")
    second = WebhookRouter(SECRET, inbox=others, clock=clock)

    @first.on()
    def slow(_: Event) -> None:
        seen.append("first")
        entered.set()
        go_on.wait(20)

    second.on()(lambda _: seen.append("second"))
    send(first, "1")
    assert entered.wait(10)
    second.start()
    stopping = threading.Thread(target=first.stop)
    if is_stopping:
        stopping.start()
        time.sleep(0.06)
    for _ in range(4):
        clock.seconds += router.LEASE_SECONDS * 0.7
        wanted = kept_in.renewals + 2  # one may have begun at the old time
        if not until(lambda wanted=wanted: kept_in.renewals >= wanted, seconds=3):  # type: ignore[misc]
            clock.seconds += router.LEASE_SECONDS
            break
    looks = others.looks + 2  # one may have begun at the old time
    assert until(lambda: others.looks >= looks)
    go_on.set()
    assert until(lambda: not kept_in.undone())
    if is_stopping:
        stopping.join(10)
    first.stop()
    second.stop()
    assert seen == ["first"]


def test_a_router_that_is_started_again_leaves_the_handler_that_still_runs_alone(inbox: Inbox, clock: Clock) -> None:
    hooks, seen, go_on = WebhookRouter(SECRET, inbox=inbox, clock=clock), list[str](), threading.Event()

    @hooks.on()
    def slow(event: Event) -> None:
        seen.append(event.id)
        go_on.wait(20)

    send(hooks, "1")
    assert until(lambda: seen)
    hooks.stop(timeout_seconds=0.05)
    hooks.start()
    for _ in range(3):
        time.sleep(0.06)
        clock.seconds += router.LEASE_SECONDS * 0.7
    time.sleep(0.1)
    running = list(seen)
    go_on.set()
    assert handled(hooks)
    hooks.stop()
    assert running == ["1"]


def test_hundreds_of_events_from_many_threads_are_handled_once_each(inbox: Inbox) -> None:
    hooks, seen = WebhookRouter(SECRET, inbox=inbox), Counter[str]()
    lock = threading.Lock()

    @hooks.on()
    def handle(event: Event) -> None:
        with lock:
            seen[event.id] += 1

    def bring(thread: int) -> list[int]:
        # Each of them comes from two threads.
        return [send(hooks, f"evt_{(thread // 2) * 125 + number}") for number in range(125)]

    with ThreadPoolExecutor(8) as pool:
        statuses = [status for told in pool.map(bring, range(8)) for status in told]
    assert statuses == [202] * 1000
    assert until(lambda: not inbox.undone(), seconds=30)
    hooks.stop()
    assert seen == {f"evt_{number}": 1 for number in range(500)}


OPENING = """
import asyncio, json, os, signal, sys, threading, time
from giftrail_client import MemoryInbox, SqliteInbox, WebhookRouter, router, webhooks

SECRET, BODY = "a secret", json.dumps({"eventId": "evt_1", "eventType": "KIND"}).encode()
HEADERS = {"X-Verify": webhooks.sign(BODY, SECRET)}
router.LEASE_SECONDS, router.LOOK_EVERY_SECONDS = 1.0, 0.05
"""


def program(text: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", OPENING + textwrap.dedent(text), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def test_an_event_whose_process_was_killed_while_handling_it_is_handled_by_the_next(tmp_path: Path) -> None:
    text = """
        hooks = WebhookRouter(SECRET, inbox=SqliteInbox(sys.argv[1]))

        @hooks.on()
        def handle(event):
            print("handling", event.id, flush=True)
            time.sleep(60 if sys.argv[2] == "die" else 0)

        if sys.argv[2] == "die":
            print(hooks.answer(BODY, HEADERS).status, flush=True)
        else:
            hooks.start()
            while hooks.inbox.undone():
                time.sleep(0.02)
            hooks.stop()
            print(hooks.answer(BODY, HEADERS).status, "and not handled again", flush=True)
            hooks.stop()
            sys.exit()
        time.sleep(60)
    """
    path = tmp_path / "inbox.sqlite3"
    first = program(text, path, "die")
    assert {line(first), line(first)} == {"202", "handling evt_1"}
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=10)
    assert [event.tries for event in SqliteInbox(path).undone()] == [1]
    second = program(text, path, "live")
    told, _ = second.communicate(timeout=30)
    assert told.splitlines() == ["handling evt_1", "202 and not handled again"]
    assert SqliteInbox(path).undone() == []


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("has_loop", [False, True], ids=["no loop given", "a loop given"])
def test_after_a_fork_the_child_handles_what_it_receives(tmp_path: Path, kind: str, *, has_loop: bool) -> None:
    text = """
        hooks = WebhookRouter(SECRET, inbox=SqliteInbox(sys.argv[1]))
        seen = []
        if sys.argv[2] == "async":
            @hooks.on()
            async def handle(event):
                seen.append(os.getpid())
        else:
            hooks.on()(lambda event: seen.append(os.getpid()))

        def fork():
            hooks.stop()  # so that no thread uses the inbox at this moment
            child = os.fork()
            if child == 0:
                signal.alarm(5)
                status = hooks.answer(BODY, HEADERS).status
                while hooks.inbox.undone():
                    time.sleep(0.01)
                hooks.stop()
                print(status, seen == [os.getpid()], flush=True)
                os._exit(0)
            return os.waitpid(child, 0)[1]

        async def main():
            hooks.start(loop=asyncio.get_running_loop() if sys.argv[3] == "True" else None)
            return fork()

        print(asyncio.run(main()), flush=True)
    """
    running = program(text, tmp_path / "inbox.sqlite3", kind, has_loop)
    told, _ = running.communicate(timeout=30)
    assert told.splitlines() == ["202 True", "0"]


def test_a_process_ends_while_a_handler_runs(tmp_path: Path) -> None:
    text = """
        hooks = WebhookRouter(SECRET, inbox=SqliteInbox(sys.argv[1]))

        @hooks.on()
        def handle(event):
            print("handling", flush=True)
            time.sleep(60)

        hooks.answer(BODY, HEADERS)
        time.sleep(0.5)
    """
    running = program(text, tmp_path / "inbox.sqlite3")
    told, _ = running.communicate(timeout=20)
    assert (told, running.returncode) == ("handling\n", 0)
    assert len(SqliteInbox(tmp_path / "inbox.sqlite3").undone()) == 1


def test_an_id_that_is_no_text_is_answered_and_not_raised(hooks: WebhookRouter) -> None:
    raw_body = b'{"eventId": "\\ud800", "eventType": "KIND"}'
    answer = hooks.answer(raw_body, signed(raw_body))
    assert answer.status in {202, 400}, "sending it again would not help"
    assert answer.text.encode()


def test_refusals_and_repeats_are_told_without_the_body(hooks: WebhookRouter, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "giftrail_client")
    raw_body = body_of("1", pin="0042-secret")
    for headers in (signed(raw_body), signed(raw_body), {}):
        hooks.answer(raw_body, headers)
    assert "refused" in caplog.text
    assert "came again" in caplog.text
    assert "0042" not in caplog.text
    assert SECRET not in caplog.text
