"""A breaker: open while its provider is left alone for a brand, then one probe decides."""

from dataclasses import dataclass
from datetime import UTC, datetime

# Paused by the operator: until he resumes it.
FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Breaker:
    """A breaker that is not closed; `openings` counts those in a row."""

    provider: str
    brand_id: str
    open_until: datetime
    openings: int
    probe_until: datetime | None

    @property
    def is_paused(self) -> bool:
        """Whether the operator opened it, by hand."""
        return self.open_until == FOR_EVER

    def closed_to_calls_until(self, now: datetime) -> datetime | None:
        """Until when the provider is not to be asked; None when it may be, as a probe."""
        if self.open_until > now:
            return self.open_until
        return self.probe_until if self.probe_until is not None and self.probe_until > now else None
