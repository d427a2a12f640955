"""When an endpoint is tried again: pure (engines, webhooks)."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum

# Waits after each try of a round, in seconds: 14 tries over 72 h 52 m, five of them inside 8 minutes, because clients
# give an order up at 15.
DELAYS_SECONDS = (5, 30, 120, 300, 900, 1800, 3600, 7200, 18000, 36000, 50400, 72000, 72000)
JITTER = 0.2
# After these, and after a time-out, the wait is at least so long from the third try on.
BUSY_STATUSES = frozenset({429, 502, 504})
BUSY_SECONDS = 60.0
BUSY_FROM_TRY = 3
GONE = 410
# More digits than these mean for ever, which is cut to twice the wait anyway.
MAX_RETRY_AFTER_DIGITS = 12
# An endpoint whose events ran out of tries is switched off when nothing succeeded for so long.
HOPELESS_SECONDS = 120 * 3600.0


class State(StrEnum):
    """Where a delivery stands (wire contract, webhooks)."""

    DUE = "DUE"
    DELIVERED = "DELIVERED"
    EXHAUSTED = "EXHAUSTED"
    HELD = "HELD"


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt went: a status, or the class of the error when there was none."""

    status: int | None
    error: str | None
    milliseconds: int
    answer: bytes
    retry_after: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def timed_out(self) -> bool:
        """Whether there was no answer in time."""
        return self.error == "TIMEOUT"


def next_delay_seconds(result: Result, *, round_tries: int, now: datetime, chance: random.Random) -> float | None:
    """How long to wait after that many tries of the round; None when there are no more."""
    if round_tries > len(DELAYS_SECONDS):
        return None
    delay = float(DELAYS_SECONDS[round_tries - 1])
    seconds = delay * chance.uniform(1 - JITTER, 1 + JITTER)
    asked = _retry_after_seconds(result.retry_after, now=now)
    if asked is not None:
        seconds = min(max(asked, delay), 2 * delay)
    if round_tries >= BUSY_FROM_TRY and (result.status in BUSY_STATUSES or result.timed_out):
        seconds = max(seconds, BUSY_SECONDS)
    return seconds


def _retry_after_seconds(value: str | None, *, now: datetime) -> float | None:
    if value is None:
        return None
    if value.isascii() and value.isdecimal():
        return float(value[:MAX_RETRY_AFTER_DIGITS])
    try:
        return max(0.0, (parsedate_to_datetime(value) - now) / timedelta(seconds=1))
    except (TypeError, ValueError, OverflowError):
        return None
