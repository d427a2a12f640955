"""A spending limit and the UTC calendar window in which it counts (wire contract, errors: E013)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

ALL_BRANDS = ""


class Period(StrEnum):
    """The calendar windows, in UTC."""

    HOUR = "HOUR"
    DAY = "DAY"
    MONTH = "MONTH"

    def window_start(self, at: datetime) -> datetime:
        """The beginning of the window that holds the moment."""
        hour = at.replace(minute=0, second=0, microsecond=0)
        if self is Period.HOUR:
            return hour
        day = hour.replace(hour=0)
        return day if self is Period.DAY else day.replace(day=1)

    def window_end(self, at: datetime) -> datetime:
        """When the next window begins."""
        start = self.window_start(at)
        if self is Period.MONTH:
            return (start + timedelta(days=31)).replace(day=1)
        return start + (timedelta(hours=1) if self is Period.HOUR else timedelta(days=1))


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    """At most so much, and so many orders, of one brand or of ALL_BRANDS together, in a period."""

    partner_id: str
    brand_id: str
    period: Period
    max_amount_minor: int | None
    max_orders: int | None
    set_at: datetime

    def counts(self, at: datetime) -> bool:
        """Whether an order of that moment counts: not in a window that was over before the limit was set."""
        return at >= self.period.window_start(self.set_at)

    def concerns(self, brand_id: str) -> bool:
        """Whether an order of that brand counts."""
        return self.brand_id in {ALL_BRANDS, brand_id}


@dataclass(slots=True)
class Spent:
    """What was ordered in one window."""

    amount_minor: int = 0
    orders: int = 0


class SpendingLimitExceeded(Exception):
    """An order would exceed a limit; nothing is stored. `ends_at` is when the limit's window ends."""

    def __init__(self, message: str, *, limit: SpendingLimit, ends_at: datetime) -> None:
        self.limit = limit
        self.ends_at = ends_at
        super().__init__(message)
