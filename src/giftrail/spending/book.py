"""The spending of one partner, opened with its wallet and written back with it; the wallet's lock puts it in order."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from giftrail.db import pool
from giftrail.kit import money
from giftrail.spending import model, store

Key = tuple[str, model.Period, datetime]


class Book:
    """The limits of a partner and what was spent in their windows. Made by `open_book`, written by `close_book`."""

    def __init__(self, limits: Sequence[model.SpendingLimit], spent: dict[Key, model.Spent], *, currency: str) -> None:
        self.limits = limits
        self.changed: dict[Key, model.Spent] = {}
        self._spent = spent
        self._currency = currency

    def find_exceeded(self, *, brand_id: str, amount_minor: int, at: datetime) -> model.SpendingLimitExceeded | None:
        """The limit that an order would exceed, if there is one."""
        for limit in self.limits:
            if not (limit.concerns(brand_id) and limit.counts(at)):
                continue
            spent = self._spent.get((limit.brand_id, limit.period, limit.period.window_start(at)), model.Spent())
            amount_after = spent.amount_minor + amount_minor
            if limit.max_amount_minor is not None and amount_after > limit.max_amount_minor:
                what = (
                    f"an amount of {self._major(limit.max_amount_minor)}; {self._major(spent.amount_minor)} is ordered"
                )
            elif limit.max_orders is not None and spent.orders >= limit.max_orders:
                what = f"{limit.max_orders} orders; {spent.orders} are placed"
            else:
                continue
            ends_at = limit.period.window_end(at)
            whom = f"of brand {limit.brand_id!r} " if limit.brand_id else ""
            message = (
                f"the spending limit {whom}per {limit.period.lower()} is {what}; it ends {ends_at:%Y-%m-%dT%H:%MZ}"
            )
            return model.SpendingLimitExceeded(message, limit=limit, ends_at=ends_at)
        return None

    def add(self, *, brand_id: str, amount_minor: int, at: datetime, orders: int = 1) -> None:
        """Count an order placed at that moment; with a negative amount and -1 orders, one that no longer counts."""
        for limit in self.limits:
            if limit.concerns(brand_id) and limit.counts(at):
                key = (limit.brand_id, limit.period, limit.period.window_start(at))
                if orders < 0 and key not in self._spent:
                    continue  # forgotten with its window
                spent = self._spent.setdefault(key, model.Spent())
                spent.amount_minor += amount_minor
                spent.orders += orders
                self.changed[key] = spent

    def _major(self, minor: int) -> object:
        return money.to_major(minor, currency=self._currency)


async def open_book(
    conn: pool.Connection, *, partner_id: str, limited: bool, moments: Iterable[datetime], currency: str
) -> Book:
    """The book for orders of those moments; the wallet must be locked. A partner without limits has an empty one."""
    if not limited:
        return Book([], {}, currency=currency)
    limits = await store.list_limits(conn, partner_id=partner_id)
    keys = {(limit.brand_id, limit.period, limit.period.window_start(at)) for limit in limits for at in moments}
    spent = await store.list_spent(conn, partner_id=partner_id, keys=sorted(keys))
    return Book(limits, spent, currency=currency)


async def forget_windows(conn: pool.Pool, *, before: datetime) -> None:
    """Forget windows that ended long ago."""
    await store.delete_windows(conn, before=before)


async def close_book(conn: pool.Connection, book: Book, *, partner_id: str) -> None:
    """Write what changed, inside the caller's transaction."""
    if book.changed:
        await store.upsert_spent(conn, partner_id=partner_id, spent=book.changed)
