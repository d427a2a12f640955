"""A shop that survives its own crashes: the reference is kept before the order is placed, and looked up after."""

import os
import sqlite3
import sys
import uuid

from giftrail_client import Giftrail, NotFound, Order, OrderStillProcessing, OutcomeUnknown

GIFTS = "CREATE TABLE IF NOT EXISTS gift (reference_id TEXT PRIMARY KEY, brand_id TEXT, amount INTEGER, status TEXT)"


def give(giftrail: Giftrail, books: sqlite3.Connection, brand_id: str, amount: int) -> Order | None:
    """Place an order under a reference that is in our books first."""
    reference_id = str(uuid.uuid4())
    with books:
        books.execute("INSERT INTO gift VALUES (?, ?, ?, 'PLACING')", (reference_id, brand_id, amount))
    try:
        order = giftrail.orders.place(brand_id, {amount: 1}, reference_id=reference_id)
        if order.failed and order.failure_code in {"E100", "E200"}:  # worth another try, under another reference
            write(books, order)
            order = giftrail.orders.retry(order)
        order = giftrail.orders.wait(order)
    except OutcomeUnknown as unknown:  # nobody answers: `recover` finds out later
        print("not known yet:", unknown, file=sys.stderr)
        return None
    except OrderStillProcessing as late:  # after 15 minutes it is an OrderTimedOut: tell the service's support
        order = late.order
    write(books, order)
    return order


def recover(giftrail: Giftrail, books: sqlite3.Connection) -> None:
    """After a crash: what became of the orders whose end is not in our books."""
    for reference_id, brand_id, amount in books.execute(
        "SELECT reference_id, brand_id, amount FROM gift WHERE status IN ('PLACING', 'PROCESSING')"
    ).fetchall():
        try:
            order = giftrail.orders.by_reference(reference_id)
        except NotFound:  # it was not created: the same reference is safe
            order = giftrail.orders.place(brand_id, {amount: 1}, reference_id=reference_id)
        write(books, order)


def write(books: sqlite3.Connection, order: Order) -> None:
    """The order's status into our books."""
    with books:
        gift = (order.reference_id, order.product_id, int(order.amount or 0), order.status)
        books.execute("INSERT OR REPLACE INTO gift VALUES (?, ?, ?, ?)", gift)


def main() -> None:
    """Finish what was begun, give one gift, and compare the books with the service's."""
    books = sqlite3.connect(os.environ.get("SHOP_BOOKS", "shop.db"))
    books.execute(GIFTS)
    base_url, client_id = os.environ["GIFTRAIL_BASE_URL"], os.environ["GIFTRAIL_CLIENT_ID"]
    with Giftrail(base_url, client_id, os.environ["GIFTRAIL_CLIENT_SECRET"]) as giftrail:
        recover(giftrail, books)
        order = give(giftrail, books, sys.argv[1], int(sys.argv[2]))
        print(order.status if order else "unknown")
        known = books.execute("SELECT reference_id, status, amount FROM gift WHERE status <> 'PLACING'").fetchall()
        print("differences:", giftrail.orders.reconcile(known).differences)


if __name__ == "__main__":
    main()
