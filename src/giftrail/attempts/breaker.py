"""What a worker knows of one endpoint: requests that are open, how it has done lately, how fast it may be called."""

from collections import deque
from dataclasses import dataclass, field

from giftrail.kit import backoff

WINDOW_SECONDS = 300.0
MIN_ATTEMPTS = 10
MAX_FAILING = 0.7
OPEN = backoff.Doubling(first_seconds=30.0, last_seconds=900.0)
# Enough to judge by; older attempts within the window are forgotten first.
MAX_REMEMBERED = 200


@dataclass(slots=True)
class Line:
    """One endpoint as this process sees it; times are readings of a monotonic clock.

    While it does badly its deliveries are left where they are, and use up nothing: that is all a breaker does here.
    """

    in_flight: int = 0
    is_hungry: bool = True  # there may be more due than was claimed
    open_until: float | None = None
    openings: int = 0
    allowance: float = 0.0
    allowance_at: float | None = None
    lately: deque[tuple[float, bool]] = field(default_factory=lambda: deque(maxlen=MAX_REMEMBERED))

    def room(self, *, per_endpoint: int, rate_per_second: int | None, clock: float) -> int:
        """How many deliveries may be claimed for it now."""
        if self.open_until is not None:
            return 1 if clock >= self.open_until and self.in_flight == 0 else 0
        room = per_endpoint - self.in_flight
        if rate_per_second is None:
            self.allowance, self.allowance_at = 0.0, None
        else:
            since = clock - self.allowance_at if self.allowance_at is not None else 1.0
            self.allowance = min(float(rate_per_second), self.allowance + since * rate_per_second)
            self.allowance_at = clock
            room = min(room, int(self.allowance))
        return room

    def take(self, count: int) -> None:
        """So many were claimed."""
        self.in_flight += count
        if self.allowance_at is not None:
            self.allowance -= count

    def heard(self, *, succeeded: bool, clock: float) -> None:
        """One came back."""
        self.in_flight -= 1
        if self.open_until is not None:
            if succeeded:
                self.open_until, self.openings = None, 0
                self.lately.clear()
            elif clock >= self.open_until:  # the probe failed too
                self._open(clock)
            return
        self.lately.append((clock, succeeded))
        while self.lately and self.lately[0][0] < clock - WINDOW_SECONDS:
            self.lately.popleft()
        failures = sum(1 for _, went_well in self.lately if not went_well)
        if len(self.lately) >= MIN_ATTEMPTS and failures >= len(self.lately) * MAX_FAILING:
            self._open(clock)

    def _open(self, clock: float) -> None:
        self.openings += 1
        self.open_until = clock + OPEN.seconds(self.openings)
