"""A code that was set aside becomes stock: delivered too late or in part, paid for, and seen by no partner."""

from datetime import date, datetime

import asyncpg

from giftrail.calls import deliver, model, store
from giftrail.db import pool
from giftrail.kit import ids
from giftrail.providers import protocol, stock
from giftrail.providers import store as stock_store


class NotAside(Exception):
    """There is no such code set aside, or the stock has it already; the message says which."""


async def shelve(
    conn: pool.Connection, *, provider: str, provider_voucher_id: str, keys: protocol.Keys, now: datetime
) -> str:
    """Put the code into its brand's stock, inside the caller's transaction; returns the brand. Raises NotAside."""
    row = await store.lock_aside(conn, provider=provider, provider_voucher_id=provider_voucher_id)
    if row is None:
        raise NotAside(f"no code {provider_voucher_id!r} of {provider!r} is set aside")
    brand_id: str = row["brand_id"]
    code = deliver.open_code(row, keys=keys)
    stock_id = ids.new("stk", now=now)
    sealed = stock.seal_code(
        card_number=code.card_number, card_pin=code.card_pin, brand_id=brand_id, stock_id=stock_id, keys=keys
    )
    digest = keys.digest(source=stock.source_of(brand_id), card_number=code.card_number, card_pin=code.card_pin)
    try:
        async with conn.transaction():
            await stock_store.append_stock_code(
                conn,
                brand_id=brand_id,
                stock_id=stock_id,
                denomination_minor=row["denomination_minor"],
                sealed=sealed,
                code_digest=digest,
                valid_till=code.valid_till or date.max,
                now=now,
            )
    except asyncpg.UniqueViolationError:
        raise NotAside(f"the stock of {brand_id!r} has the code of {provider_voucher_id!r} already") from None
    await store.mark_shelved(conn, provider=provider, provider_voucher_id=provider_voucher_id)
    return brand_id


class CallKnown(Exception):
    """There is no such call of unknown outcome."""


async def resolve(conn: pool.Connection, *, provider: str, key: str, created: bool, now: datetime) -> None:
    """What the operator found out of the provider about a call of unknown outcome. Raises CallKnown.

    Not created: another provider may be asked. Created: nobody is asked again; import its vouchers as stock.
    """
    row = await store.lock_unknown(conn, provider=provider, key=key)
    if row is None:
        raise CallKnown(f"no call {key!r} of {provider!r} has an unknown outcome")
    state = model.State.RESOLVED if created else model.State.REFUSED
    await store.resolve_call(conn, row=row, state=state, now=now)
