"""Vouchers of orders that succeed: made from codes, sealed, and each code recorded as sold."""

from collections.abc import Sequence
from datetime import date, datetime

import msgspec

from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.kit import ids
from giftrail.orders import model
from giftrail.providers import generator, protocol, stock
from giftrail.vouchers import model as vouchers
from giftrail.vouchers import store as voucher_store


class Issue(msgspec.Struct, frozen=True):
    """A code that serves a voucher of that amount, in minor units, and the provider it is from."""

    amount_minor: int
    provider: str
    code: protocol.Code


def generate(brand: catalog.Brand, *, quantity: int, placed_on: date, keys: protocol.Keys) -> list[protocol.Code]:
    """New codes of our own for a brand."""
    valid_till = _add_months(placed_on, brand.voucher_expiry_months)
    return [
        generator.issue(
            shows_number=brand.card_type.shows_number,
            shows_pin=brand.card_type.shows_pin,
            valid_till=valid_till,
            keys=keys,
        )
        for _ in range(quantity)
    ]


def make_vouchers(
    codes: Sequence[Issue], *, partner_id: str, order_id: str, brand: catalog.Brand, now: datetime
) -> tuple[vouchers.Voucher, ...]:
    """The vouchers of an order of the brand, in the order of the codes."""
    return tuple(
        vouchers.Voucher(
            partner_id=partner_id,
            voucher_id=ids.new("vch", now=now),
            order_id=order_id,
            position=position,
            card_type=brand.card_type.value,
            amount_minor=issue.amount_minor,
            currency=brand.currency,
            provider=issue.provider,
            code=issue.code,
        )
        for position, issue in enumerate(codes)
    )


async def append_vouchers(
    conn: pool.Connection, orders: Sequence[model.Order], *, keys: protocol.Keys, now: datetime
) -> None:
    """Write the vouchers of orders and record their codes as sold, inside the caller's transaction."""
    issued = [voucher for order in orders for voucher in order.vouchers]
    if not issued:
        return
    await voucher_store.append_vouchers(conn, vouchers=issued, ring=keys.ring)
    for source in {voucher.provider for voucher in issued if voucher.code.stock_id is None}:
        of_source = [voucher for voucher in issued if voucher.provider == source and voucher.code.stock_id is None]
        await voucher_store.append_issued_codes(conn, source=source, vouchers=of_source)
    from_stock = [
        (order.brand_id, voucher.code.stock_id, order.partner_id, voucher.voucher_id)
        for order in orders
        for voucher in order.vouchers
        if voucher.code.stock_id is not None
    ]
    if from_stock:
        await stock.mark_sold(conn, sold=from_stock, now=now)


def _add_months(day: date, months: int | None) -> date | None:
    """The same day so many months later, or the last day of that month."""
    if months is None:
        return None
    year, month = divmod(day.month - 1 + months, 12)
    for last in (day.day, 30, 29, 28):
        try:
            return date(day.year + year, month + 1, min(day.day, last))
        except ValueError:
            continue
    raise AssertionError("every month has 28 days")
