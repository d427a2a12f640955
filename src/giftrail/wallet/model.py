"""Wallets, transfers and their entries, in minor units."""

from datetime import datetime
from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What moved (wire contract, reads: wallet transactions)."""

    TOP_UP = "TOP_UP"
    HOLD = "HOLD"
    CAPTURE = "CAPTURE"
    RELEASE = "RELEASE"
    DEBIT = "DEBIT"
    REFUND = "REFUND"
    ADJUSTMENT = "ADJUSTMENT"


class Account(StrEnum):
    """AVAILABLE and HELD are the partner's; the others are the house's, summed when asked and never updated."""

    AVAILABLE = "AVAILABLE"
    HELD = "HELD"
    SALES = "SALES"
    FUNDING = "FUNDING"
    CORRECTIONS = "CORRECTIONS"


class Wallet(msgspec.Struct, frozen=True):
    """A wallet as it stands. `posted` includes what is held; `available` is what can still be spent."""

    partner_id: str
    currency: str
    posted_minor: int
    held_minor: int
    version: int
    low_threshold_minor: int | None
    low_alerted: bool
    limited: bool = False  # whether there are spending limits
    moved_at: datetime | None = None  # when the last transfer was made

    @property
    def available_minor(self) -> int:
        """What can still be spent."""
        return self.posted_minor - self.held_minor


class Transfer(msgspec.Struct, frozen=True):
    """One movement of a wallet; `wallet_version` numbers a wallet's transfers from 1 without gaps."""

    partner_id: str
    wallet_version: int
    kind: Kind
    amount_minor: int
    available_after_minor: int
    held_after_minor: int
    order_id: str | None
    reference_id: str | None
    note: str | None
    created_at: datetime
    resolves_version: int | None = None  # the hold that a capture or release ends

    @property
    def transfer_id(self) -> str:
        """Unique within the partner's wallet; later transfers sort after earlier ones."""
        return f"trf_{self.wallet_version:012d}"


class Entry(msgspec.Struct, frozen=True):
    """One side of a transfer; a transfer's entries add to zero."""

    partner_id: str
    wallet_version: int
    account: Account
    amount_minor: int
    balance_after_minor: int | None
