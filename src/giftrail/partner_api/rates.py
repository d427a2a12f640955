"""Rate limits: a bucket of tokens for each partner, and one of failures for each address and clientId."""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

# Buckets kept at once; the one idle longest makes room. A full bucket forgotten is a full bucket made anew.
MAX_BUCKETS = 100_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a bucket says: whether to go on, and what the answer's headers tell."""

    allowed: bool
    limit: int
    remaining: int
    window_seconds: int
    reset_seconds: int
    retry_after_seconds: int

    def headers(self, policy: str) -> dict[str, str]:
        """RateLimit and RateLimit-Policy of the IETF draft, and Retry-After when refused."""
        headers = {
            "RateLimit-Policy": f'"{policy}";q={self.limit};w={self.window_seconds}',
            "RateLimit": f'"{policy}";r={self.remaining};t={self.reset_seconds}',
        }
        if not self.allowed:
            headers["Retry-After"] = str(self.retry_after_seconds)
        return headers


class Buckets:
    """Token buckets by key; `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key: tokens, as of when

    def take(self, key: str, *, per_second: float, burst: int) -> Verdict | None:
        """Take a token; None when the limit is off (per_second 0)."""
        if per_second <= 0:
            return None
        now = self._clock()
        left, as_of = self._buckets.pop(key, (float(burst), now))
        left = min(float(burst), left + (now - as_of) * per_second)
        allowed = left >= 1
        if allowed:
            left -= 1
        self._buckets[key] = (left, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return Verdict(
            allowed=allowed,
            limit=burst,
            remaining=math.floor(left),
            window_seconds=math.ceil(burst / per_second),
            reset_seconds=math.ceil((burst - left) / per_second),
            retry_after_seconds=max(1, math.ceil((1 - left) / per_second)),
        )

    def put_back(self, key: str, *, burst: int) -> None:
        """Return a token that was taken for nothing."""
        left, as_of = self._buckets.get(key, (float(burst), 0.0))
        if key in self._buckets:
            self._buckets[key] = (min(float(burst), left + 1), as_of)
