"""Imported codes: sealed under the brand and the stock id, those that expire first sold first, each once."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime

import msgspec

from giftrail.db import pool
from giftrail.providers import protocol, store


def source_of(brand_id: str) -> str:
    """The source under which a brand's imported codes are unique."""
    return f"{protocol.STOCK}/{brand_id}"


async def pick(
    conn: pool.Connection, *, demands: Sequence[protocol.Demand], keys: protocol.Keys, now: datetime
) -> Mapping[tuple[str, int], protocol.Shelf]:
    """For each (brand, denomination) the codes found, locked until the transaction ends, opened.

    Codes locked by others are passed over; a shelf that came out short for that reason says so.
    """
    # One order for everyone, so that two transactions never wait for each other.
    demands = sorted(demands, key=lambda demand: (demand.brand_id, demand.denomination_minor))
    found: dict[tuple[str, int], list[protocol.Code]] = {
        (demand.brand_id, demand.denomination_minor): [] for demand in demands
    }
    today = now.date()
    for row in await store.pick_unsold(conn, demands=demands, today=today):
        found[row["brand_id"], row["denomination_minor"]].append(open_code(row, brand_id=row["brand_id"], keys=keys))
    short = [demand for demand in demands if len(found[demand.brand_id, demand.denomination_minor]) < demand.quantity]
    contended = set()
    if short:
        for demand, unsold in zip(short, await store.count_unsold(conn, demands=short, today=today), strict=True):
            if unsold > len(found[demand.brand_id, demand.denomination_minor]):
                contended.add((demand.brand_id, demand.denomination_minor))
    return {place: protocol.Shelf(codes=codes, contended=place in contended) for place, codes in found.items()}


async def mark_sold(
    conn: pool.Connection, *, sold: Sequence[tuple[str, str, str]], partner_id: str, now: datetime
) -> None:
    """Record (brand, stock id, voucher id) as sold to the partner; the transaction must hold their locks."""
    brand_ids, stock_ids, voucher_ids = zip(*sold, strict=True)
    await store.mark_sold(
        conn,
        brand_ids=brand_ids,
        stock_ids=stock_ids,
        voucher_ids=voucher_ids,
        partner_id=partner_id,
        now=now,
    )


def seal_code(
    *, card_number: str | None, card_pin: str | None, brand_id: str, stock_id: str, keys: protocol.Keys
) -> bytes:
    """The code sealed to its place in the stock."""
    return keys.ring.seal(msgspec.msgpack.encode((card_number, card_pin)), bound_to=_place(brand_id, stock_id))


def open_code(row: pool.Record, *, brand_id: str, keys: protocol.Keys) -> protocol.Code:
    """The code of a row of stock. Raises seal.CannotOpen."""
    plain = keys.ring.open(row["sealed"], bound_to=_place(brand_id, row["stock_id"]))
    card_number, card_pin = msgspec.msgpack.decode(plain, type=tuple[str | None, str | None])
    valid_till = None if row["valid_till"] == date.max else row["valid_till"]
    return protocol.Code(card_number, card_pin, valid_till, row["code_digest"], stock_id=row["stock_id"])


def _place(brand_id: str, stock_id: str) -> str:
    return f"stock/{brand_id}/{stock_id}"
