"""Batches are decided as if their orders came one by one (wire contract §3: causes, replay, order of work)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from giftrail.catalog import model as catalog
from giftrail.catalog import rules
from giftrail.orders import decide, model
from giftrail.providers import protocol
from giftrail.spending import book

NOW = datetime(2026, 1, 31, tzinfo=UTC)
DENOMINATIONS = (100, 250)
PROVIDERS = {
    "generated": ("generator",),
    "stocked": ("stock",),
    "stocked first": ("stock", "generator"),
    "generated first": ("generator", "stock"),
    "vendor, then stock": ("vendor", "stock"),
}


def brand(brand_id: str) -> catalog.Brand:
    return catalog.Brand(
        brand_id=brand_id, status=catalog.Status.ACTIVE, title=brand_id, description=None, category=(), tags=(),
        denomination_type=catalog.DenominationType.FIXED, redemption_type=catalog.RedemptionType.ONLINE,
        card_type=catalog.CardType.CARD_NUMBER_SECURED, currency="INR", denominations_minor=DENOMINATIONS,
        min_order_minor=1, max_order_minor=10**9, min_voucher_minor=100, max_voucher_minor=250,
        max_vouchers_per_order=None, max_vouchers_per_denomination=None, max_denominations_per_order=None,
        thumbnail_url="", icon_image_url="", logo_url=None, tnc_url=None, terms=(), how_to_use=(),
        voucher_expiry_months=None, providers=PROVIDERS[brand_id], reversible=False,
        reversal_window_hours=24, version=1, updated_at=NOW,
    )  # fmt: skip


BRANDS = {brand_id: brand(brand_id) for brand_id in PROVIDERS}


@dataclass(frozen=True)
class Batch:
    """What a transaction has locked, and the orders that wait for it."""

    drafts: list[model.Draft]
    known: dict[str, decide.Known] = field(default_factory=dict)
    available: int = 0
    shelves: dict[tuple[str, int], protocol.Shelf] = field(default_factory=dict)
    made: dict[str, list[protocol.Code]] = field(default_factory=dict)


def code(name: str) -> protocol.Code:
    return protocol.Code(card_number=name, card_pin=None, valid_till=None, digest=name.encode(), stock_id=name)


def draft(number: int, *, reference: str, brand_id: str, lines: Mapping[int, int], **more: Any) -> model.Draft:
    amount = sum(denomination * quantity for denomination, quantity in lines.items())
    values = {"refusal": None, "fingerprint": b"1", "debit_minor": amount} | more
    return model.Draft(
        order_id=f"order-{number}", partner_id="partner", reference_id=reference, brand=BRANDS[brand_id], lines=lines,
        amount_minor=amount, discount_percentage=Decimal(0), customer=None, delivery=None, placed_at=NOW, **values,
    )  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    references = st.sampled_from([f"ref-{number}" for number in range(draw(st.integers(1, 12)))])
    lines = st.dictionaries(st.sampled_from(DENOMINATIONS), st.integers(1, 3), min_size=1)
    refusals = st.none() | st.none() | st.sampled_from(list(rules.Refusal))
    brands = st.sampled_from(draw(st.lists(st.sampled_from(sorted(PROVIDERS)), min_size=1, unique=True)))
    drafts = []
    for number in range(draw(st.integers(0, 12))):
        asked = draw(lines)
        full = sum(denomination * quantity for denomination, quantity in asked.items())
        drafts.append(
            draft(
                number,
                reference=draw(references),
                brand_id=draw(brands),
                lines=asked,
                refusal=draw(refusals),
                fingerprint=draw(st.sampled_from([b"1", b"1", b"2"])),
                debit_minor=draw(st.sampled_from([full, full, full // 2, 0])),
            )
        )
    return Batch(
        drafts=drafts,
        known=draw(
            st.dictionaries(references, st.sampled_from([decide.Known("old", b"1"), decide.Known("old", b"2")]))
        ),
        available=draw(st.integers(0, 3000)),
        shelves={
            (brand_id, denomination): protocol.Shelf(
                codes=[code(f"{brand_id}/{denomination}/{n}") for n in range(draw(st.integers(0, 8)))],
                contended=draw(st.sampled_from([False, False, True])),
            )
            for brand_id in PROVIDERS
            for denomination in DENOMINATIONS
        },
        made={one.order_id: [code(f"{one.order_id}/{n}") for n in range(one.vouchers_count)] for one in drafts},
    )


def decided(batch: Batch) -> list[decide.Decision]:
    return decide.decide(
        batch.drafts,
        known=batch.known,
        available_minor=batch.available,
        shelves=batch.shelves,
        made=batch.made,
        limits=book.Book([], {}, currency="INR"),
    )


def one_by_one(batch: Batch) -> list[decide.Decision]:
    """The same, the long way: each order alone in a world that the ones before it left behind."""
    references = dict(batch.known)
    balance = batch.available
    stock = {place: list(shelf.codes) for place, shelf in batch.shelves.items()}
    decisions: list[decide.Decision] = []
    for one in batch.drafts:
        decision = alone(one, references, balance, stock, batch)
        if isinstance(decision, decide.Serve):
            balance -= one.debit_minor
            for shelf in stock.values():
                shelf[:] = [left for left in shelf if left not in decision.codes]
        if isinstance(decision, decide.Serve | decide.Fail):
            references[one.reference_id] = decide.Known(one.order_id, one.fingerprint)
        decisions.append(decision)
    return decisions


def alone(
    one: model.Draft,
    references: Mapping[str, decide.Known],
    balance: int,
    stock: Mapping[tuple[str, int], Sequence[protocol.Code]],
    batch: Batch,
) -> decide.Decision:
    if one.reference_id in references:
        order = references[one.reference_id]
        is_same = order.fingerprint == one.fingerprint
        return decide.Replay(order.order_id) if is_same else decide.Conflict(order.order_id)
    if one.refusal not in {None, "E152"}:
        return decide.Fail(str(one.refusal))
    served: decide.Decision = decide.Fail("E150")
    for provider in one.brand.providers:
        if provider == "generator":
            served = decide.Serve(provider, batch.made[one.order_id])
            break
        if provider == "stock":
            shelves = {denomination: (one.brand.brand_id, denomination) for denomination in one.lines}
            short = [place for denomination, place in shelves.items() if len(stock[place]) < one.lines[denomination]]
            if not short:
                taken = [c for denomination, place in shelves.items() for c in stock[place][: one.lines[denomination]]]
                served = decide.Serve(provider, taken)
                break
            if any(batch.shelves[place].contended for place in short):
                served = decide.Again()  # unless the next one serves it
    # An amount out of bounds needs no code, so that only an empty shelf is told before it.
    if isinstance(served, decide.Fail):
        return served if "stock" in one.brand.providers else decide.Fail(one.refusal or "E150")
    if one.refusal is not None:
        return decide.Fail("E152")
    if isinstance(served, decide.Again):
        return served
    return decide.Fail("E300") if one.debit_minor > balance else served


def spelt(decision: decide.Decision) -> Any:
    """A decision as it can be compared, whatever sequence holds its codes."""
    match decision:
        case decide.Serve(provider, codes):
            return provider, [one.card_number for one in codes]
        case decide.Fail(failure):
            return str(failure)
        case _:
            return decision


SAME_TWICE = Batch(
    [draft(n, reference="ref", brand_id="stocked", lines={100: 1}) for n in range(2)],
    available=100,
    shelves={("stocked", 100): protocol.Shelf([code("a")], contended=False)},
)
LAST_CODE = Batch(
    [draft(n, reference=f"ref-{n}", brand_id="stocked", lines={100: 1}) for n in range(2)],
    available=1000,
    shelves={("stocked", 100): protocol.Shelf([code("a")], contended=False)},
)
POOR_THEN_CHEAP = Batch(
    [
        draft(n, reference=f"ref-{n}", brand_id="generated", lines={denomination: 1})
        for n, denomination in enumerate((250, 100))
    ],
    available=100,
    made={"order-0": [code("x")], "order-1": [code("y")]},
)


@example(SAME_TWICE)
@example(LAST_CODE)
@example(POOR_THEN_CHEAP)
@given(batches())
def test_a_batch_is_decided_as_if_its_orders_came_one_by_one(batch: Batch) -> None:
    assert [spelt(one) for one in decided(batch)] == [spelt(one) for one in one_by_one(batch)]


@given(batches())
def test_the_balance_never_goes_below_zero(batch: Batch) -> None:
    balance = batch.available
    for one, decision in zip(batch.drafts, decided(batch), strict=True):
        if isinstance(decision, decide.Serve):
            balance -= one.debit_minor
        assert balance >= 0


@given(batches())
def test_no_code_is_given_twice_and_each_is_of_what_was_ordered(batch: Batch) -> None:
    given_out: list[str | None] = []
    for one, decision in zip(batch.drafts, decided(batch), strict=True):
        if isinstance(decision, decide.Serve):
            assert len(decision.codes) == one.vouchers_count
            amounts = [denomination for denomination, quantity in one.lines.items() for _ in range(quantity)]
            if decision.provider == "stock":
                for amount, given in zip(amounts, decision.codes, strict=True):
                    assert given in batch.shelves[one.brand.brand_id, amount].codes
            given_out += [given.card_number for given in decision.codes]
    assert len(given_out) == len(set(given_out))


@given(batches())
def test_one_reference_is_at_most_one_new_order(batch: Batch) -> None:
    first: dict[str, model.Draft] = {}
    for one, decision in zip(batch.drafts, decided(batch), strict=True):
        if isinstance(decision, decide.Serve | decide.Fail):
            assert one.reference_id not in first
            assert one.reference_id not in batch.known
            first[one.reference_id] = one
        elif isinstance(decision, decide.Replay | decide.Conflict):
            stored = batch.known.get(one.reference_id)
            earlier = stored or decide.Known(first[one.reference_id].order_id, first[one.reference_id].fingerprint)
            assert decision.order_id == earlier.order_id
            assert isinstance(decision, decide.Replay) == (one.fingerprint == earlier.fingerprint)


@given(batches(), st.integers(0, 12))
def test_who_came_later_changes_nothing_for_who_came_before(batch: Batch, cut: int) -> None:
    early = Batch(batch.drafts[:cut], batch.known, batch.available, batch.shelves, batch.made)
    assert [spelt(one) for one in decided(early)] == [spelt(one) for one in decided(batch)[:cut]]


@given(batches())
def test_nobody_is_refused_for_want_of_money_that_was_there(batch: Batch) -> None:
    balance = batch.available
    for one, decision in zip(batch.drafts, decided(batch), strict=True):
        if isinstance(decision, decide.Serve):
            balance -= one.debit_minor
        elif isinstance(decision, decide.Fail) and decision.code == "E300":
            assert one.debit_minor > balance
