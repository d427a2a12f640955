from dataclasses import dataclass

import pytest

from giftrail.partner_api import rates


@dataclass
class Clock:
    seconds: float = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def buckets(clock: Clock) -> rates.Buckets:
    return rates.Buckets(clock)


def taken(buckets: rates.Buckets, times: int, key: str = "p") -> list[bool]:
    verdicts = [buckets.take(key, per_second=2, burst=3) for _ in range(times)]
    return [verdict.allowed for verdict in verdicts if verdict is not None]


def test_a_burst_is_allowed_and_no_more(buckets: rates.Buckets) -> None:
    assert taken(buckets, 5) == [True, True, True, False, False]


def test_tokens_come_back_at_the_rate_and_never_above_the_burst(buckets: rates.Buckets, clock: Clock) -> None:
    taken(buckets, 3)
    clock.seconds += 0.49
    assert taken(buckets, 1) == [False]
    clock.seconds += 0.01
    assert taken(buckets, 2) == [True, False]
    clock.seconds += 1_000
    assert taken(buckets, 4) == [True, True, True, False]


def test_a_refused_request_costs_nothing(buckets: rates.Buckets, clock: Clock) -> None:
    assert taken(buckets, 50).count(True) == 3
    clock.seconds += 0.5
    assert taken(buckets, 1) == [True]


def test_keys_have_buckets_of_their_own(buckets: rates.Buckets) -> None:
    assert taken(buckets, 4, "a") == taken(buckets, 4, "b") == [True, True, True, False]


def test_a_limit_of_0_is_off(buckets: rates.Buckets) -> None:
    assert all(buckets.take("p", per_second=0, burst=1) is None for _ in range(10))


def test_what_was_taken_for_nothing_is_put_back(buckets: rates.Buckets) -> None:
    for _ in range(10):
        assert taken(buckets, 1) == [True]
        buckets.put_back("p", burst=3)
    assert taken(buckets, 4) == [True, True, True, False]
    buckets.put_back("never taken", burst=3)
    assert taken(buckets, 4, "never taken") == [True, True, True, False]


def test_the_headers_tell_the_policy_what_is_left_and_when_to_come_back(buckets: rates.Buckets, clock: Clock) -> None:
    first = buckets.take("p", per_second=2, burst=3)
    assert first is not None
    assert first.headers("partner") == {"RateLimit-Policy": '"partner";q=3;w=2', "RateLimit": '"partner";r=2;t=1'}
    taken(buckets, 2)
    refused = buckets.take("p", per_second=2, burst=3)
    assert refused is not None
    assert refused.headers("partner") == {
        "RateLimit-Policy": '"partner";q=3;w=2',
        "RateLimit": '"partner";r=0;t=2',
        "Retry-After": "1",
    }
    clock.seconds += refused.retry_after_seconds
    assert taken(buckets, 1) == [True]


@pytest.mark.parametrize("per_second", [0.05, 1 / 6, 1, 7])
def test_whoever_waits_as_told_is_allowed(per_second: float, buckets: rates.Buckets, clock: Clock) -> None:
    verdict = buckets.take("p", per_second=per_second, burst=1)
    while verdict is not None and verdict.allowed:
        verdict = buckets.take("p", per_second=per_second, burst=1)
    assert verdict is not None
    clock.seconds += verdict.retry_after_seconds
    again = buckets.take("p", per_second=per_second, burst=1)
    assert again is not None
    assert again.allowed


def test_the_number_of_buckets_is_bounded(buckets: rates.Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_BUCKETS", 10)
    taken(buckets, 4, "first")
    for number in range(9):
        taken(buckets, 1, str(number))
    assert taken(buckets, 1, "first") == [False]  # still remembered, and now the latest
    for number in range(9, 30):
        taken(buckets, 1, str(number))
    assert len(buckets._buckets) == 10
