from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from giftrail.catalog import model, rows, rules
from giftrail.orders import model as orders
from giftrail.orders.decide import Again, Conflict, Decision, Fail, Hold, Known, Limited, Replay, Serve, decide
from giftrail.providers import protocol
from giftrail.spending import book
from house import brand_row

NOW = datetime(2025, 3, 1, tzinfo=UTC)


def brand(*providers: str) -> model.Brand:
    row = rows.Row(1, brand_row("b", providers=list(providers)))
    made = row.brand(protocol.AT_ONCE)
    assert row.problems == []
    return made


GENERATED, STOCKED, BOTH = brand("generator"), brand("stock"), brand("stock", "generator")


def draft(
    number: int, lines: dict[int, int] | None = None, of: model.Brand = GENERATED, **changes: Any
) -> orders.Draft:
    lines = lines or {100: 1}
    amount = sum(denomination * quantity for denomination, quantity in lines.items())
    values: dict[str, Any] = {
        "order_id": f"ord_{number}",
        "partner_id": "prt_1",
        "reference_id": f"ref-{number}",
        "fingerprint": b"same",
        "brand": of,
        "lines": lines,
        "amount_minor": amount,
        "discount_percentage": Decimal(0),
        "debit_minor": amount,
        "customer": None,
        "delivery": None,
        "refusal": None,
        "placed_at": NOW,
    }
    return orders.Draft(**values | changes)


def code(number: int) -> protocol.Code:
    return protocol.Code(str(number), None, None, bytes([number]), stock_id=f"stk_{number}")


def shelf(*numbers: int, contended: bool = False) -> protocol.Shelf:
    return protocol.Shelf(codes=[code(number) for number in numbers], contended=contended)


def told(
    *drafts: orders.Draft,
    available: int = 10_000,
    known: dict[str, Known] | None = None,
    **shelves: protocol.Shelf,
) -> list[str]:
    """Each decision in short; shelves are named _100 for the denomination 100."""
    made = {one.order_id: [code(200 + n) for n in range(one.vouchers_count)] for one in drafts}
    decisions = decide(
        drafts,
        known=known or {},
        available_minor=available,
        shelves={("b", int(name[1:])): one for name, one in shelves.items()},
        made=made,
        limits=book.Book([], {}, currency="INR"),
    )
    assert len(decisions) == len(drafts)
    return [in_short(decision) for decision in decisions]


def in_short(decision: Decision) -> str:
    match decision:
        case Serve(provider, codes):
            return f"{provider}:" + ",".join(str(one.card_number) for one in codes)
        case Fail(failure):
            return f"FAILED {failure}"
        case Replay(order_id):
            return f"replay of {order_id}"
        case Conflict(order_id):
            return f"conflict with {order_id}"
        case Again():
            return "again"
        case Hold():
            return "hold"
        case Limited():
            return "limited"


E = rules.Refusal
UNLIKE: dict[str, Any] = {"fingerprint": b"other"}


@pytest.mark.parametrize(
    ("drafts", "given", "decisions"),
    [
        ([draft(1)], {}, ["generator:200"]),
        ([draft(1, {100: 2, 250: 1})], {}, ["generator:200,201,202"]),
        # money, in arrival order
        ([draft(1)], {"available": 99}, ["FAILED E300"]),
        ([draft(1)], {"available": 100}, ["generator:200"]),
        ([draft(1), draft(2)], {"available": 199}, ["generator:200", "FAILED E300"]),
        ([draft(1, {100: 5}), draft(2)], {"available": 100}, ["FAILED E300", "generator:200"]),
        ([draft(1, debit_minor=0), draft(2)], {"available": 0}, ["generator:200", "FAILED E300"]),
        ([draft(1, debit_minor=90)], {"available": 90}, ["generator:200"]),
        # the brand's refusal costs nothing and touches no neighbour
        ([draft(1, refusal=E.NOT_ACTIVE), draft(2)], {"available": 100}, ["FAILED E102", "generator:200"]),
        ([draft(1, refusal=E.OUTSIDE_ORDER_BOUNDS)], {"available": 0}, ["FAILED E152"]),
        # references
        ([draft(1)], {"known": {"ref-1": Known("ord_0", b"same")}, "available": 0}, ["replay of ord_0"]),
        ([draft(1)], {"known": {"ref-1": Known("ord_0", b"unlike")}}, ["conflict with ord_0"]),
        ([draft(1), draft(2, reference_id="ref-1")], {"available": 100}, ["generator:200", "replay of ord_1"]),
        ([draft(1), draft(2, reference_id="ref-1", **UNLIKE)], {}, ["generator:200", "conflict with ord_1"]),
        ([draft(1), draft(2, reference_id="ref-1")], {"available": 0}, ["FAILED E300", "replay of ord_1"]),
        (
            [draft(1, refusal=E.NOT_ENABLED), draft(2, reference_id="ref-1", refusal=E.NOT_ENABLED)],
            {},
            ["FAILED E101", "replay of ord_1"],
        ),
        # stock
        ([draft(1, {100: 2}, STOCKED)], {"_100": shelf(1, 2, 3)}, ["stock:1,2"]),
        ([draft(1, {250: 1, 100: 2}, STOCKED)], {"_100": shelf(1, 2), "_250": shelf(3)}, ["stock:3,1,2"]),
        ([draft(1, of=STOCKED), draft(2, of=STOCKED)], {"_100": shelf(1, 2)}, ["stock:1", "stock:2"]),
        ([draft(1, of=STOCKED), draft(2, of=STOCKED)], {"_100": shelf(1)}, ["stock:1", "FAILED E150"]),
        ([draft(1, {100: 2}, STOCKED), draft(2, of=STOCKED)], {"_100": shelf(1)}, ["FAILED E150", "stock:1"]),
        ([draft(1, of=STOCKED)], {"_100": shelf()}, ["FAILED E150"]),
        ([draft(1, of=STOCKED)], {"_100": shelf(contended=True)}, ["again"]),
        ([draft(1, of=STOCKED)], {"_100": shelf(1, contended=True)}, ["stock:1"]),
        (
            [draft(1, {100: 1, 250: 1}, STOCKED)],
            {"_100": shelf(1, contended=True), "_250": shelf()},
            ["FAILED E150"],
        ),
        (
            [draft(1, of=STOCKED), draft(2, of=STOCKED)],
            {"_100": shelf(1), "available": 100},
            ["stock:1", "FAILED E150"],
        ),
        ([draft(1, of=STOCKED), draft(2, of=STOCKED)], {"_100": shelf(1), "available": 0}, ["FAILED E300"] * 2),
        ([draft(1, of=STOCKED)], {"_100": shelf(), "available": 0}, ["FAILED E150"]),
        ([draft(1, of=STOCKED, refusal=E.NOT_ACTIVE)], {}, ["FAILED E102"]),
        # an empty shelf is told before an amount out of bounds
        ([draft(1, of=STOCKED, refusal=E.OUTSIDE_ORDER_BOUNDS)], {"_100": shelf()}, ["FAILED E150"]),
        ([draft(1, of=STOCKED, refusal=E.OUTSIDE_ORDER_BOUNDS)], {"_100": shelf(1)}, ["FAILED E152"]),
        (
            [draft(1, of=STOCKED, refusal=E.OUTSIDE_ORDER_BOUNDS), draft(2, of=STOCKED)],
            {"_100": shelf(1)},
            ["FAILED E152", "stock:1"],
        ),
        # the next provider in the brand's order
        ([draft(1, of=BOTH)], {"_100": shelf(1)}, ["stock:1"]),
        ([draft(1, of=BOTH)], {"_100": shelf()}, ["generator:200"]),
        ([draft(1, of=BOTH), draft(2, of=BOTH)], {"_100": shelf(1)}, ["stock:1", "generator:200"]),
        ([draft(1, {100: 2}, BOTH)], {"_100": shelf(1)}, ["generator:200,201"]),
        # one that asks again stores nothing, so its reference is still free
        (
            [draft(1, of=STOCKED), draft(2, reference_id="ref-1", of=STOCKED)],
            {"_100": shelf(contended=True)},
            ["again", "again"],
        ),
    ],
)
def test_each_order_sees_what_those_before_it_left(
    drafts: list[orders.Draft], given: dict[str, Any], decisions: list[str]
) -> None:
    assert told(*drafts, **given) == decisions


def test_no_code_is_given_twice_and_the_wallet_never_goes_below_zero() -> None:
    drafts = [draft(n, {100: 1 + n % 3}, STOCKED) for n in range(60)]
    decisions = decide(
        drafts,
        known={},
        available_minor=4_150,
        shelves={("b", 100): shelf(*range(50))},
        made={},
        limits=book.Book([], {}, currency="INR"),
    )
    served = [(one, decision) for one, decision in zip(drafts, decisions, strict=True) if isinstance(decision, Serve)]
    given = [one.card_number for _, decision in served for one in decision.codes]
    assert len(given) == len(set(given)) == 41
    assert sum(one.debit_minor for one, _ in served) == 4_100
