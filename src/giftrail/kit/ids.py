"""Ids: a prefix that tells the type, then a time that sorts, then randomness that nobody guesses."""

import os
from datetime import UTC, datetime

# 48 bits of milliseconds, then 80 random bits: 32 hexadecimal digits behind the prefix.
_RANDOM_BYTES = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new(prefix: str, *, now: datetime) -> str:
    """A new id such as `ord_0193a5c2f1e8…`; ids of later milliseconds sort after it."""
    return f"{prefix}_{_milliseconds(now):012x}{os.urandom(_RANDOM_BYTES).hex()}"


def floor(prefix: str, *, at: datetime) -> str:
    """A bound: ids made at or after `at` sort at or after it, earlier ones before it."""
    return f"{prefix}_{_milliseconds(at):012x}"


def _milliseconds(at: datetime) -> int:
    since = at - _EPOCH
    return max(0, since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000)
