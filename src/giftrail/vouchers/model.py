"""A voucher (specification, Voucher)."""

import msgspec

from giftrail.providers import protocol


class Voucher(msgspec.Struct, frozen=True):
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
