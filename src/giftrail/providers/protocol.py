"""What every source of codes delivers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from giftrail.kit import seal

STOCK = "stock"
GENERATOR = "generator"
# The sources that serve an order inside the request. A brand names some of them, in the order they are asked.
AT_ONCE = frozenset({STOCK, GENERATOR})


@dataclass(frozen=True, slots=True)
class Code:
    """A card number, a PIN or both, and until when it is valid (None: for ever).

    `digest` finds the code without reading it. `stock_id` is set when it was taken from stock.
    """

    card_number: str | None
    card_pin: str | None
    valid_till: date | None
    digest: bytes
    stock_id: str | None = None

    def __repr__(self) -> str:
        """Nothing that could be spent."""
        return "Code(…)"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the codes: a ring that seals them, and a key that finds them."""

    ring: seal.KeyRing
    index_key: bytes

    def digest(self, *, source: str, card_number: str | None, card_pin: str | None) -> bytes:
        """What is unique of a code within its source: the card number, or the PIN where there is no number."""
        return seal.digest(self.index_key, source, card_number or card_pin or "")


@dataclass(frozen=True, slots=True)
class Demand:
    """So many codes of one denomination of a brand."""

    brand_id: str
    denomination_minor: int
    quantity: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """What was found for a demand: codes that are ours until the transaction ends.

    `contended` says that there are unsold codes besides, which another transaction holds just now.
    """

    codes: Sequence[Code]
    contended: bool
