"""The vault: seals a code to its partner, order and voucher, so that a row moved elsewhere does not open."""

from datetime import date

import msgspec

from giftrail.kit import seal
from giftrail.providers import protocol
from giftrail.vouchers import model


def seal_code(voucher: model.Voucher, *, ring: seal.KeyRing) -> bytes:
    """The code of the voucher, sealed to its place."""
    plain = msgspec.msgpack.encode((voucher.code.card_number, voucher.code.card_pin))
    return ring.seal(plain, bound_to=_place(voucher.partner_id, voucher.order_id, voucher.voucher_id))


def open_code(
    sealed: bytes,
    *,
    partner_id: str,
    order_id: str,
    voucher_id: str,
    valid_till: date | None,
    digest: bytes,
    ring: seal.KeyRing,
) -> protocol.Code:
    """The code of a voucher. Raises seal.CannotOpen."""
    plain = ring.open(sealed, bound_to=_place(partner_id, order_id, voucher_id))
    card_number, card_pin = msgspec.msgpack.decode(plain, type=tuple[str | None, str | None])
    return protocol.Code(card_number, card_pin, valid_till, digest)


def _place(partner_id: str, order_id: str, voucher_id: str) -> str:
    return f"voucher/{partner_id}/{order_id}/{voucher_id}"
