"""Imported codes: sealed under the brand and the stock id, those that expire first sold first, each once."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime

import msgspec
import structlog

from giftrail.db import pool
from giftrail.kit import seal
from giftrail.providers import protocol, store

# A few damaged codes are left lying; more mean that the keys are wrong, and nothing is sold.
MAX_UNREADABLE = 20

_log = structlog.get_logger()


def source_of(brand_id: str) -> str:
    """The source under which a brand's imported codes are unique."""
    return f"{protocol.STOCK}/{brand_id}"


async def pick(
    conn: pool.Connection, *, demands: Sequence[protocol.Demand], keys: protocol.Keys, now: datetime
) -> Mapping[tuple[str, int], protocol.Shelf]:
    """For each (brand, denomination) the codes found, locked until the transaction ends, opened.

    Codes locked by others are passed over; a shelf that came out short for that reason says so. Codes that cannot be
    read are passed over too, up to MAX_UNREADABLE. Raises seal.CannotOpen when there are more.
    """
    # One order for everyone, so that two transactions never wait for each other.
    demands = sorted(demands, key=lambda demand: (demand.brand_id, demand.denomination_minor))
    today = now.date()
    unreadable: list[str] = []
    while True:
        rows = await store.pick_unsold(conn, demands=demands, today=today, but=unreadable)
        found, damaged = _open(rows, keys=keys)
        if not damaged:
            break
        unreadable += damaged
        if len(unreadable) > MAX_UNREADABLE:
            raise seal.CannotOpen(f"more than {MAX_UNREADABLE} codes in stock cannot be read: are the keys right?")
    shelves = {place: protocol.Shelf(found.get(place, []), contended=False) for place in map(_place_of, demands)}
    short = [demand for demand in demands if len(shelves[_place_of(demand)].codes) < demand.quantity]
    if short:
        counts = await store.list_unsold(conn, demands=short, today=today, but=unreadable)
        for place, unsold in zip(map(_place_of, short), counts, strict=True):
            codes = shelves[place].codes
            shelves[place] = protocol.Shelf(codes, contended=unsold > len(codes))
    return shelves


def _place_of(demand: protocol.Demand) -> tuple[str, int]:
    return demand.brand_id, demand.denomination_minor


def _open(
    rows: Sequence[pool.Record], *, keys: protocol.Keys
) -> tuple[dict[tuple[str, int], list[protocol.Code]], list[str]]:
    """The codes by brand and denomination, and the stock ids of those that cannot be read."""
    found: dict[tuple[str, int], list[protocol.Code]] = {}
    damaged = []
    for row in rows:
        try:
            code = open_code(row, brand_id=row["brand_id"], keys=keys)
        except seal.CannotOpen as error:
            _log.error("a code in stock cannot be read", stock_id=row["stock_id"], error=str(error))
            damaged.append(row["stock_id"])
        else:
            found.setdefault((row["brand_id"], row["denomination_minor"]), []).append(code)
    return found, damaged


async def mark_sold(conn: pool.Connection, *, sold: Sequence[tuple[str, str, str, str]], now: datetime) -> None:
    """Record (brand, stock id, partner, voucher id) as sold; the transaction must hold the codes' locks."""
    brand_ids, stock_ids, partner_ids, voucher_ids = zip(*sold, strict=True)
    await store.mark_sold(
        conn,
        brand_ids=brand_ids,
        stock_ids=stock_ids,
        voucher_ids=voucher_ids,
        partner_ids=partner_ids,
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
