"""A breaker: open while its provider is left alone for a brand, then one probe decides."""

from dataclasses import dataclass
from datetime import UTC, datetime

# Until when a paused provider is not asked.
FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Breaker:
    """A breaker that is not closed; `openings` counts those in a row."""

    provider: str
    brand_id: str
    open_until: datetime
    openings: int
    probe_until: datetime | None
    is_paused: bool  # by the operator, until he resumes it

    def is_open(self, now: datetime) -> bool:
        """Whether new orders should not count on the provider; a probe under way keeps them out no longer."""
        return self.is_paused or self.open_until > now

    def closed_to_calls_until(self, now: datetime) -> datetime | None:
        """Until when the provider is not to be asked; None when it may be, as a probe."""
        if self.is_paused:
            return FOR_EVER
        if self.open_until > now:
            return self.open_until
        return self.probe_until if self.probe_until is not None and self.probe_until > now else None
