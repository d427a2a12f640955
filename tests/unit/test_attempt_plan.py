"""When an endpoint is tried again, and when it is left alone (engines, webhooks)."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrail.attempts import breaker, plan

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
# The schedule, written down a second time: the wait after each try but the last, and whole tries in seconds.
DELAYS = [5, 30, 120, 300, 900, 1800, 3600, 7200, 18000, 36000, 50400, 72000, 72000]
TRIES = 14
rounds = st.integers(1, TRIES - 1)
chances = st.integers(0, 2**32).map(random.Random)


class Extreme(random.Random):
    """Chance that always falls on one end: 0.0 or 1.0."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def random(self) -> float:
        return self._end


def failure(status: int | None = 500, *, error: str | None = None, retry_after: str | None = None) -> plan.Result:
    return plan.Result(status if error is None else None, error, 12, b"", retry_after)


def wait_after(tries: int, result: plan.Result | None = None, *, chance: random.Random | None = None) -> float | None:
    return plan.next_delay_seconds(
        result or failure(), round_tries=tries, now=NOW, chance=chance or random.Random(tries)
    )


@pytest.mark.parametrize(("tries", "delay"), list(enumerate(DELAYS, 1)))
def test_each_wait_is_that_of_the_table_give_or_take_a_fifth(tries: int, delay: float) -> None:
    assert wait_after(tries, chance=Extreme(0.0)) == pytest.approx(0.8 * delay)
    assert wait_after(tries, chance=Extreme(0.5)) == pytest.approx(delay)
    assert wait_after(tries, chance=Extreme(1.0)) == pytest.approx(1.2 * delay)


def test_there_are_fourteen_tries_over_three_days_five_of_them_within_eight_minutes() -> None:
    starts = [0.0]
    while (seconds := wait_after(len(starts), chance=Extreme(0.5))) is not None:
        starts.append(starts[-1] + seconds)
    assert len(starts) == TRIES
    assert timedelta(seconds=starts[-1]) == timedelta(hours=72, minutes=52, seconds=35)
    assert sum(1 for start in starts if start < 8 * 60) == 5


@given(st.integers(TRIES, 1000), chances, st.sampled_from([429, 500, 502, 504, None]))
def test_nothing_comes_after_the_fourteenth(tries: int, chance: random.Random, status: int | None) -> None:
    result = failure(status, error="TIMEOUT" if status is None else None, retry_after="5")
    assert wait_after(tries, result, chance=chance) is None


@given(rounds, chances, st.sampled_from([199, 301, 404, 410, 429, 500, 502, 504]))
def test_the_jitter_is_used_and_stays_within_its_bounds(tries: int, chance: random.Random, status: int) -> None:
    seconds = wait_after(tries, failure(status), chance=chance)
    assert seconds is not None
    assert 0.8 * DELAYS[tries - 1] <= seconds <= 1.2 * DELAYS[tries - 1]


def test_two_that_fail_together_do_not_come_back_together() -> None:
    chance = random.Random(1)
    assert len({wait_after(3, chance=chance) for _ in range(100)}) == 100


@given(rounds, st.integers(0, 10**7), chances)
def test_retry_after_in_seconds_counts_between_the_wait_and_twice_the_wait(
    tries: int, asked: int, chance: random.Random
) -> None:
    delay = DELAYS[tries - 1]
    wanted = min(max(asked, delay), 2 * delay)
    assert wait_after(tries, failure(503, retry_after=str(asked)), chance=chance) == wanted


@given(rounds, st.integers(-(10**6), 10**7), chances)
def test_retry_after_as_a_date_counts_alike(tries: int, ahead: int, chance: random.Random) -> None:
    delay = DELAYS[tries - 1]
    asked = format_datetime(NOW + timedelta(seconds=ahead), usegmt=True)
    wanted = min(max(ahead, delay), 2 * delay)
    assert wait_after(tries, failure(429, retry_after=asked), chance=chance) == wanted


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("0", 300), ("299", 300), ("300", 300), ("450", 450), ("600", 600), ("601", 600), ("999999999", 600),
        ("9999999999", 600), ("00450", 450),
        ("Sat, 31 Jan 2026 12:07:30 GMT", 450), ("Saturday, 31-Jan-26 12:07:30 GMT", 450),
        ("Sat, 31 Jan 2026 12:07:30 +0000", 450), ("Sat, 31 Jan 2026 13:07:30 +0100", 450),
        ("Sat, 31 Jan 2026 11:00:00 GMT", 300), ("Fri, 31 Dec 9999 23:59:59 GMT", 600),
    ],
)  # fmt: skip
def test_what_retry_after_says_is_understood(asked: str, seconds: float) -> None:
    assert wait_after(4, failure(429, retry_after=asked)) == seconds


RUBBISH = [
    "", " ", "soon", "-1", "1.5", "1e3", "NaN", "inf", "0x10", "٣", "²", "12 s", "120,120", ",", "\x00", "9" * 5000,
    "Sat, 31 Feb 2026 12:00:00 GMT", "Sat, 31 Jan 2026 99:99:99 GMT", "Sat, 31 Jan 2026 12:00:00 -0000",
    "Sat, 31 Jan 20260000000000000000000 12:00:00 GMT", "Sat, 31 Jan 2026 12:00:00 +99999999999999999999",
    "Sat, 999999999999999999999999 Jan 2026 12:00:00 GMT", "2026-01-31T12:00:00Z",
]  # fmt: skip


@pytest.mark.parametrize("asked", RUBBISH, ids=lambda asked: ascii(asked[:50]))
def test_rubbish_in_retry_after_never_stops_the_next_try(asked: str) -> None:
    seconds = wait_after(4, failure(429, retry_after=asked))
    assert seconds is not None
    assert 0.8 * 300 <= seconds <= 600


@given(
    rounds,
    st.text(max_size=60)
    | st.from_regex(r"(Sat|Mon)?,? ?\d{1,25} (Jan|Feb|Xyz) \d{1,25} \d{1,20}:\d{1,4}:\d{1,4} ([+-]\d{1,25}|GMT|)"),
)
def test_nothing_that_a_receiver_sends_in_retry_after_stops_the_next_try(tries: int, asked: str) -> None:
    seconds = wait_after(tries, failure(503, retry_after=asked))
    assert seconds is not None
    assert 0.8 * DELAYS[tries - 1] <= seconds <= 2 * DELAYS[tries - 1]


@given(st.integers(3, TRIES - 1), st.sampled_from([429, 502, 504, None]), chances, st.none() | st.just("0"))
def test_a_busy_receiver_is_left_alone_for_a_minute_from_the_third_try_on(
    tries: int, status: int | None, chance: random.Random, asked: str | None
) -> None:
    result = failure(status, error="TIMEOUT" if status is None else None, retry_after=asked)
    seconds = wait_after(tries, result, chance=chance)
    assert seconds is not None
    assert seconds >= 60


@pytest.mark.parametrize(("status", "error"), [(429, None), (502, None), (504, None), (None, "TIMEOUT")])
def test_the_minute_is_not_for_the_first_two_tries(status: int | None, error: str | None) -> None:
    result = failure(status, error=error)
    assert (wait_after(1, result, chance=Extreme(0.0)), wait_after(2, result, chance=Extreme(0.0))) == (4, 24)


@pytest.mark.parametrize(
    ("status", "succeeded"),
    [(100, False), (199, False), (200, True), (204, True), (299, True), (300, False), (301, False), (410, False),
     (None, False)],
)  # fmt: skip
def test_only_2xx_is_success(status: int | None, succeeded: bool) -> None:  # noqa: FBT001
    assert failure(status).succeeded is succeeded


def heard(line: breaker.Line, outcomes: str, *, clock: float = 0.0) -> None:
    """Attempts that went well (+) or badly (-), one after the other."""
    for outcome in outcomes:
        line.take(1)
        line.heard(succeeded=outcome == "+", clock=clock)


def room(line: breaker.Line, clock: float, *, rate: int | None = None, per_endpoint: int = 20) -> int:
    return line.room(per_endpoint=per_endpoint, rate_per_second=rate, clock=clock)


@pytest.mark.parametrize(
    ("outcomes", "opens"),
    [
        ("-" * 9, False), ("-" * 10, True), ("+++-------", True), ("++++------", False), ("+" * 60 + "-" * 139, False),
        ("+" * 60 + "-" * 140, True), ("+" * 200, False),
    ],
)  # fmt: skip
def test_ten_attempts_of_which_seven_in_ten_fail_open_it(outcomes: str, opens: bool) -> None:  # noqa: FBT001
    line = breaker.Line()
    heard(line, outcomes)
    assert (line.open_until is not None) is opens
    assert room(line, 29.9) == (0 if opens else 20)


def test_what_is_older_than_five_minutes_does_not_count() -> None:
    line = breaker.Line()
    heard(line, "-" * 9, clock=0.0)
    heard(line, "-", clock=300.1)
    assert line.open_until is None
    other = breaker.Line()
    heard(other, "-" * 9, clock=0.0)
    heard(other, "-", clock=299.9)
    assert other.open_until == pytest.approx(329.9)


def test_it_opens_for_thirty_seconds_then_twice_as_long_up_to_a_quarter_of_an_hour() -> None:
    line, clock = breaker.Line(), 1000.0
    heard(line, "-" * 10, clock=clock)
    for seconds in (30, 60, 120, 240, 480, 900, 900, 900):
        assert room(line, clock + seconds - 0.01) == 0
        assert room(line, clock + seconds) == 1, "one probe"
        clock += seconds
        heard(line, "-", clock=clock)


def test_there_is_one_probe_at_a_time_and_none_while_others_are_still_out() -> None:
    line = breaker.Line()
    line.take(11)
    for _ in range(10):
        line.heard(succeeded=False, clock=0.0)
    assert room(line, 31.0) == 0, "one is still out from before"
    line.heard(succeeded=False, clock=29.0)
    assert line.open_until == 30.0, "one from before prolongs nothing"
    assert room(line, 30.0) == 1
    line.take(1)
    assert room(line, 45.0) == 0, "the probe is out"


def test_it_closes_on_success_and_begins_anew() -> None:
    line = breaker.Line()
    heard(line, "-" * 10, clock=0.0)
    heard(line, "-", clock=30.0)
    heard(line, "+", clock=90.0)
    assert (line.open_until, room(line, 90.0)) == (None, 20)
    heard(line, "-" * 9, clock=90.0)
    assert line.open_until is None, "what was before is forgotten"
    heard(line, "-", clock=90.0)
    assert line.open_until == 120.0, "thirty seconds again"


@given(st.integers(1, 50), st.lists(st.booleans(), max_size=200))
def test_no_more_than_its_share_is_ever_out(per_endpoint: int, takes: list[bool]) -> None:
    line = breaker.Line()
    for takes_all in takes:
        free = room(line, 0.0, per_endpoint=per_endpoint)
        assert 0 <= free == per_endpoint - line.in_flight
        if takes_all:
            line.take(free)
        elif line.in_flight:
            line.heard(succeeded=True, clock=0.0)


@given(
    st.integers(1, 1000),
    st.lists(st.tuples(st.floats(0, 3, allow_subnormal=False), st.integers(0, 2000)), min_size=1, max_size=60),
)
def test_a_rate_holds_over_every_stretch_of_time(rate: int, steps: list[tuple[float, int]]) -> None:
    line, clock, taken = breaker.Line(), 100.0, []
    for pause, wanted in steps:
        clock += pause
        count = min(wanted, max(0, room(line, clock, rate=rate, per_endpoint=10**6)))
        line.take(count)
        taken.append((clock, count))
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            seconds = taken[last][0] - taken[first][0]
            assert sum(count for _, count in taken[first : last + 1]) <= rate * (1 + seconds) + 1e-6


@given(st.integers(1, 1000))
def test_a_rate_is_reached_and_not_saved_up(rate: int) -> None:
    line, sent = breaker.Line(), 0
    for tick in range(101):
        count = room(line, tick / 10, rate=rate, per_endpoint=10**6)
        line.take(count)
        sent += count
    assert rate * 11 - 1 <= sent <= rate * 11
    assert room(line, 1000.0, rate=rate, per_endpoint=10**6) == rate


def test_a_rate_that_is_set_later_does_not_charge_for_what_was_sent_before() -> None:
    line = breaker.Line()
    for _ in range(100):
        count = room(line, 0.0)
        line.take(count)
        for _ in range(count):
            line.heard(succeeded=True, clock=0.0)
    assert room(line, 1.0, rate=5) == 5
