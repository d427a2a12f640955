"""How long to wait before the next try."""

from dataclasses import dataclass

# Beyond so many doublings the last wait was reached long ago.
_MAX_DOUBLINGS = 40


@dataclass(frozen=True, slots=True)
class Doubling:
    """Waits that double from the first to the last."""

    first_seconds: float
    last_seconds: float

    def seconds(self, tries: int) -> float:
        """The wait after so many tries; tries count from 1."""
        return min(self.first_seconds * 2.0 ** min(tries - 1, _MAX_DOUBLINGS), self.last_seconds)
