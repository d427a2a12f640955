"""A reversal as it stands (wire contract, cancel and reverse)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_REASON_CHARACTERS = 200


class Outcome(StrEnum):
    """How a reversal ended. UNKNOWN: some vouchers may be void and others not, the operator must find out."""

    REVERSED = "REVERSED"
    REFUSED = "REFUSED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Reversal:
    """One for each order, once it was asked for. `voided` are the keys of the calls whose vouchers are void."""

    partner_id: str
    order_id: str
    requested_at: datetime
    outcome: Outcome | None
    why: str | None
    voided: tuple[str, ...]
