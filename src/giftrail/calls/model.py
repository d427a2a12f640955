"""A part of an order and the calls it took (engines, fulfilment)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

PartId = tuple[int, int]


class State(StrEnum):
    """Where a call stands. Only of REFUSED and UNAVAILABLE is it certain that nothing was created."""

    ASKED = "ASKED"  # committed; no final answer yet
    DELIVERED = "DELIVERED"
    REFUSED = "REFUSED"
    UNAVAILABLE = "UNAVAILABLE"  # may be asked again from next_at on
    UNKNOWN = "UNKNOWN"  # the operator must find out
    RESOLVED = "RESOLVED"  # the operator found out that it was created


NOT_CREATED = frozenset({State.REFUSED, State.UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class Part:
    """So many vouchers of one line, asked for in one call. Lines and parts count from 1."""

    line: int
    part: int
    denomination_minor: int
    quantity: int

    @property
    def part_id(self) -> PartId:
        """Unique within the order."""
        return self.line, self.part

    def key(self, order_id: str) -> str:
        """The idempotency key for providers: order, line and part, at most 40 characters."""
        return f"{order_id.partition('_')[2]}-{self.line}-{self.part}"


def split(lines: Mapping[int, int], *, part_vouchers: int) -> tuple[Part, ...]:
    """The parts of an order, in the order of its lines: at most `part_vouchers` each."""
    parts = []
    for line, (denomination, quantity) in enumerate(lines.items(), 1):
        for part, start in enumerate(range(0, quantity, part_vouchers), 1):
            parts.append(Part(line, part, denomination, min(part_vouchers, quantity - start)))
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Call:
    """One part asked of one provider."""

    part: Part
    provider: str
    key: str
    state: State
    reason: str | None
    asks: int
    asked_at: datetime
    last_asked_at: datetime
    next_at: datetime


@dataclass(frozen=True, slots=True)
class SealedCode:
    """A delivered voucher as it is stored."""

    provider_voucher_id: str
    code_digest: bytes
    place: int
    valid_till: date | None
    sealed: bytes


class WrongDelivery(Exception):
    """A provider delivered what was not asked for; the message says what, and never a code."""
