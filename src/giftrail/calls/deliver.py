"""What a provider hands over, checked and sealed until it is sold or set aside."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg
import msgspec

from giftrail.calls import model, store
from giftrail.db import pool
from giftrail.providers import protocol

MAX_CODE_CHARACTERS = 200


def check_delivery(
    delivered: protocol.Delivered, request: protocol.Request, *, provider: str, keys: protocol.Keys
) -> list[model.SealedCode]:
    """The vouchers of a delivery, each once, sealed. Raises WrongDelivery."""
    once: dict[str, protocol.Issued] = {}
    for issued in delivered.vouchers:
        if once.setdefault(issued.provider_voucher_id, issued) != issued:
            raise model.WrongDelivery(f"voucher {issued.provider_voucher_id!r} was delivered with two contents")
    if len(once) != request.quantity:
        raise model.WrongDelivery(f"{len(once)} vouchers were delivered, {request.quantity} were asked for")
    sealed = [_seal(issued, place, request, provider=provider, keys=keys) for place, issued in enumerate(once.values())]
    if len({code.code_digest for code in sealed}) != len(sealed):
        raise model.WrongDelivery("two vouchers were delivered with the same code")
    return sealed


async def append_delivery(
    conn: pool.Connection,
    *,
    codes: Sequence[model.SealedCode],
    provider: str,
    partner_id: str,
    order_id: str,
    part: model.Part,
    brand_id: str,
    aside: bool,
    now: datetime,
) -> None:
    """Record the codes for their part, or set them aside. Raises WrongDelivery when one belongs to another part."""
    try:
        async with conn.transaction():
            await store.append_codes(
                conn, codes=codes, provider=provider, partner_id=partner_id, order_id=order_id, part=part,
                brand_id=brand_id, aside=aside, now=now,
            )  # fmt: skip
    except asyncpg.UniqueViolationError:
        raise model.WrongDelivery("a voucher or code was delivered that had been delivered before") from None


def open_code(row: pool.Record, *, keys: protocol.Keys) -> protocol.Code:
    """The code of a stored delivery. Raises seal.CannotOpen."""
    plain = keys.ring.open(row["sealed"], bound_to=_place(row["provider"], row["provider_voucher_id"]))
    number, pin = msgspec.msgpack.decode(plain, type=tuple[str | None, str | None])
    return protocol.Code(number, pin, row["valid_till"], row["code_digest"])


def _seal(
    issued: protocol.Issued, place: int, request: protocol.Request, *, provider: str, keys: protocol.Keys
) -> model.SealedCode:
    for name, value, wanted in (
        ("cardNumber", issued.card_number, request.shows_number),
        ("cardPin", issued.card_pin, request.shows_pin),
    ):
        if wanted and not (value and len(value) <= MAX_CODE_CHARACTERS and value.isprintable()):
            raise model.WrongDelivery(f"voucher {issued.provider_voucher_id!r} was delivered without a sound {name}")
    number = issued.card_number if request.shows_number else None
    pin = issued.card_pin if request.shows_pin else None
    return model.SealedCode(
        provider_voucher_id=issued.provider_voucher_id,
        code_digest=keys.digest(source=provider, card_number=number, card_pin=pin),
        place=place,
        valid_till=issued.valid_till,
        sealed=keys.ring.seal(
            msgspec.msgpack.encode((number, pin)), bound_to=_place(provider, issued.provider_voucher_id)
        ),
    )


def _place(provider: str, provider_voucher_id: str) -> str:
    return f"delivered/{provider}/{provider_voucher_id}"
