"""A voucher (specification, Voucher)."""

from dataclasses import dataclass

from giftrail.providers import protocol


@dataclass(frozen=True, slots=True)
class Voucher:
    """A voucher of an order, opened; `position` is its place in the order, from 0. Amount in minor units."""

    partner_id: str
    voucher_id: str
    order_id: str
    position: int
    card_type: str
    amount_minor: int
    currency: str
    provider: str
    code: protocol.Code
