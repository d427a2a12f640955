"""The end of an endurance run: what the clients were told, beside what stands in the database."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.told import Book, Kept

from giftrail import app
from giftrail.audit import findings as auditor
from giftrail.db import pool
from giftrail.orders.states import Status

_DEBITED_TWICE = (
    "SELECT partner_id, order_id, array_agg(kind ORDER BY wallet_version) AS kinds FROM transfer"
    " WHERE order_id IS NOT NULL GROUP BY partner_id, order_id"
    " HAVING count(*) FILTER (WHERE kind IN ('DEBIT', 'CAPTURE')) > 1 OR count(*) FILTER (WHERE kind = 'HOLD') > 1"
    " OR count(*) FILTER (WHERE kind IN ('DEBIT', 'HOLD')) > 1"
)
_SOLD_TWICE = (
    "SELECT provider, encode(code_digest, 'hex') AS code, count(*) AS times FROM voucher"
    " GROUP BY provider, code_digest HAVING count(*) > 1"
)
_UNTOLD_ENDINGS = (
    "SELECT o.partner_id, o.order_id, o.status, count(e.event_id) AS events FROM orders o LEFT JOIN event e"
    " ON e.partner_id = o.partner_id AND e.kind = 'ORDER_TERMINAL_STATE' AND e.order_id = o.order_id"
    " GROUP BY o.partner_id, o.order_id, o.status, o.stored_processing HAVING count(e.event_id) <>"
    " CASE WHEN o.stored_processing AND o.status IN ('SUCCESS', 'FAILED', 'REVERSED') THEN 1 ELSE 0 END"
)
# Cancelled and reversed orders tell of it too, once.
_UNTOLD_CHANGES = (
    "SELECT o.partner_id, o.order_id, o.status, count(e.event_id) AS events FROM orders o LEFT JOIN event e"
    " ON e.partner_id = o.partner_id AND e.kind = 'ORDER_STATUS_CHANGED' AND e.order_id = o.order_id"
    " GROUP BY o.partner_id, o.order_id, o.status"
    " HAVING count(e.event_id) <> CASE WHEN o.status IN ('CANCELLED', 'REVERSED') THEN 1 ELSE 0 END"
)
_UNENDED = (
    "SELECT partner_id, order_id FROM orders WHERE (status = 'PROCESSING' OR reversal_pending)"
    " AND brand_id <> ALL ($1::text[])"
)
# Money in minor units that was spent by orders as they stand; the rest of the opening balance must still be there.
_SPENT = (
    "SELECT w.partner_id, w.posted_minor AS posted, coalesce(sum(o.amount_minor), 0) AS spent FROM wallet w"
    " LEFT JOIN orders o ON o.partner_id = w.partner_id AND o.status = 'SUCCESS' GROUP BY w.partner_id, w.posted_minor"
)
_STOCK = "SELECT count(*) AS imported, count(sold_at) AS sold FROM stock_code"


@dataclass(slots=True)
class Verdict:
    """Sentences for each thing that must not be, by column; and figures."""

    wrong: dict[str, list[str]]
    figures: dict[str, Any]


async def count_unended(url: str, *, never_ending: Sequence[str]) -> int:
    """How many orders still have to end, but for those of brands that end at their deadline only."""
    async with pool.connect(url) as conn:
        return len(await conn.fetch(_UNENDED, never_ending))


async def reckon(url: str, book: Book, *, money_minor: int, never_ending: Sequence[str]) -> Verdict:
    """Compare everything, and let the auditor read everything."""
    async with pool.connect(url) as conn:
        stored = {
            (row["partner_id"], row["reference_id"]): row
            for row in await conn.fetch("SELECT partner_id, reference_id, order_id, status FROM orders")
        }
        vouchers: dict[str, set[str]] = {}
        for row in await conn.fetch("SELECT order_id, voucher_id FROM voucher"):
            vouchers.setdefault(row["order_id"], set()).add(row["voucher_id"])
        untold = [*await conn.fetch(_UNTOLD_ENDINGS), *await conn.fetch(_UNTOLD_CHANGES)]
        stock = await conn.fetchrow(_STOCK)
        wrong = {
            "lost": [told for kept in book.orders if (told := _what_is_lost(kept, stored, vouchers))],
            "debitedTwice": [f"{row['order_id']}: {row['kinds']}" for row in await conn.fetch(_DEBITED_TWICE)],
            "codesSoldTwice": [*book.sold_twice, *(str(dict(row)) for row in await conn.fetch(_SOLD_TWICE))],
            "eventsLost": [f"{row['order_id']}: {row['status']} with {row['events']} events" for row in untold],
            "moneyAdrift": [
                f"{row['partner_id']}: {row['posted']} left of {money_minor}, but its orders cost {row['spent']}"
                for row in await conn.fetch(_SPENT)
                if row["posted"] + row["spent"] != money_minor
            ],
            "neverOffered": [str(place) for place in stored.keys() - _offered(book)],
            "auditFindings": await auditor.list_findings(conn, now=app.now()),
            "stillProcessing": [row["order_id"] for row in await conn.fetch(_UNENDED, never_ending)],
            "contradictions": book.contradictions,
            "unexpectedAnswers": book.unexpected,
        }
    acknowledged = [kept for kept in book.orders if kept.status is not None]
    figures = {
        "offered": len(book.orders),
        "acknowledged": len(acknowledged),
        "givenUp": sum(kept.given_up for kept in book.orders),
        "vouchersSeen": sum(len(kept.vouchers) for kept in acknowledged),
        "statuses": dict(Counter(row["status"] for row in stored.values()).most_common()),
        "byBrand": _by_brand(book, stored),
        "answers": dict(book.answers.most_common()),
        "stock": dict(stock) if stock else {},
    }
    return Verdict(wrong, figures)


def _offered(book: Book) -> set[tuple[str, str]]:
    return {(kept.partner_id, kept.reference_id) for kept in book.orders}


def _what_is_lost(kept: Kept, stored: dict[tuple[str, str], pool.Record], vouchers: dict[str, set[str]]) -> str | None:
    """A sentence when an order that was acknowledged is not there, or not as it was acknowledged."""
    if kept.status is None:
        return None
    label = f"{kept.partner_id} {kept.reference_id} of {kept.offer.brand_id}, told {kept.order_id} {kept.status}"
    row = stored.get((kept.partner_id, kept.reference_id))
    if row is None:
        return f"{label}: it is not there"
    if row["order_id"] != kept.order_id or not kept.may_become(Status(row["status"])):
        return f"{label}: it is {row['order_id']} {row['status']}"
    if kept.reversal_pending and row["status"] == Status.SUCCESS and kept.offer.voids:
        return f"{label}: its reversal was promised"
    if kept.vouchers and set(kept.vouchers) != vouchers.get(kept.order_id, set()):
        return f"{label}: its vouchers are not those that were shown"
    return None


def _by_brand(book: Book, stored: dict[tuple[str, str], pool.Record]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for kept in book.orders:
        row = stored.get((kept.partner_id, kept.reference_id))
        found.setdefault(kept.offer.brand_id, Counter())[row["status"] if row else "none"] += 1
    return {brand: dict(counts.most_common()) for brand, counts in sorted(found.items())}
