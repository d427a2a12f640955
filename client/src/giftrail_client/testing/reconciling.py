"""What differs between a partner's list of orders and the fake's books."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from giftrail_client.testing import money, reading
from giftrail_client.testing.books import Books, FakeOrder
from giftrail_client.testing.wanted import read_reference

MAX_LINES = 1000


def reconcile(books: Books, members: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a partner's list. Raises Refused."""
    sheet = reading.Sheet(members)
    lines = [_read_line(line) for line in sheet.inners("orders", most=MAX_LINES)]
    sheet.check()
    seen: set[str | None] = set()
    for place, (reference_id, _, _) in enumerate(lines):
        if reference_id in seen:
            sheet.note(f"orders[{place}].referenceId", "stands in the list twice")
        seen.add(reference_id)
    sheet.check()
    differences = [
        difference
        for reference_id, status, amount in lines
        for difference in _differences(reference_id, status, amount, books.by_reference.get(reference_id))
    ]
    return {"matched": len(seen) - len({one["referenceId"] for one in differences}), "differences": differences}


def _read_line(sheet: reading.Sheet) -> tuple[str, str, Decimal]:
    """Reference, status and amount; whatever of it is wrong is noted."""
    status = sheet.text("status", least=1, most=20, required=True)
    return read_reference(sheet) or "", status or "", sheet.number("amount") or Decimal(0)


def _differences(reference_id: str, status: str, amount: Decimal, order: FakeOrder | None) -> list[dict[str, Any]]:
    if order is None:
        pairs: list[tuple[str, str | None, str | None]] = [("orderId", None, None)]
    else:
        pairs = [("status", status, order.status)] if status != order.status else []
        if amount != order.wanted.amount:
            pairs.append(("amount", str(money.plain(amount)), str(money.plain(order.wanted.amount))))
    order_id = order.id if order else None
    return [
        {"referenceId": reference_id, "orderId": order_id, "member": member, "yours": yours, "ours": ours}
        for member, yours, ours in pairs
    ]
