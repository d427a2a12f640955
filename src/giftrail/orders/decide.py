"""What becomes of each order of a batch: pure, over what the transaction has locked.

Orders are decided one after the other as they arrived; each sees the stock and the balance that those before it left.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from giftrail.catalog import rules
from giftrail.orders import failures, model
from giftrail.providers import protocol
from giftrail.spending import book
from giftrail.spending import model as spending

Shelves = Mapping[tuple[str, int], protocol.Shelf]
# By order id, the codes made for it by the generator, in the order of its lines.
Made = Mapping[str, Sequence[protocol.Code]]


@dataclass(frozen=True, slots=True)
class Known:
    """An order that has the reference already, stored before or earlier in this batch."""

    order_id: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Serve:
    """SUCCESS: debit it and hand over these codes, in the order of its lines."""

    provider: str
    codes: Sequence[protocol.Code]


@dataclass(frozen=True, slots=True)
class Hold:
    """PROCESSING: hold its debit, a remote provider will be asked."""


@dataclass(frozen=True, slots=True)
class Fail:
    """FAILED: store it with this code, move no money."""

    code: str


@dataclass(frozen=True, slots=True)
class Replay:
    """The order stands already: answer it as it is."""

    order_id: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The reference is taken by other content."""

    order_id: str


@dataclass(frozen=True, slots=True)
class Limited:
    """It would exceed a spending limit: store nothing."""

    exceeded: spending.SpendingLimitExceeded


@dataclass(frozen=True, slots=True)
class Again:
    """Codes that would serve it are held by another transaction: ask again, nothing was stored."""


Decision = Serve | Hold | Fail | Replay | Conflict | Limited | Again


def decide(
    drafts: Sequence[model.Draft],
    *,
    known: Mapping[str, Known],
    available_minor: int,
    shelves: Shelves,
    made: Made,
    limits: book.Book,
) -> list[Decision]:
    """One decision for each draft, in their order. The wallet never goes below zero and no code is given twice.

    What counts against spending limits is added to `limits`.
    """
    seen = dict(known)
    remaining = {place: list(shelf.codes) for place, shelf in shelves.items()}
    decisions: list[Decision] = []
    for draft in drafts:
        earlier = seen.get(draft.reference_id)
        if earlier is not None:
            same = earlier.fingerprint == draft.fingerprint
            decisions.append(Replay(earlier.order_id) if same else Conflict(earlier.order_id))
            continue
        decision = _decide_new(draft, available_minor, remaining, shelves, made, limits)
        if isinstance(decision, Serve | Hold):
            available_minor -= draft.debit_minor
            limits.add(brand_id=draft.brand.brand_id, amount_minor=draft.amount_minor, at=draft.placed_at)
            if isinstance(decision, Serve) and decision.provider == protocol.STOCK:
                for denomination, quantity in draft.lines.items():
                    del remaining[draft.brand.brand_id, denomination][:quantity]
        if not isinstance(decision, Again | Limited):
            seen[draft.reference_id] = Known(draft.order_id, draft.fingerprint)
        decisions.append(decision)
    return decisions


def unsold(shelves: Shelves, decisions: Iterable[Decision]) -> Shelves:
    """The shelves without the codes that the decisions hand over."""
    sold = {
        code.stock_id
        for decision in decisions
        if isinstance(decision, Serve) and decision.provider == protocol.STOCK
        for code in decision.codes
    }
    if not sold:
        return shelves
    return {
        place: protocol.Shelf([code for code in shelf.codes if code.stock_id not in sold], contended=shelf.contended)
        for place, shelf in shelves.items()
    }


def wants_stock(draft: model.Draft) -> bool:
    """Whether stock must be looked at: to serve the order, or to tell an empty shelf before an amount out of bounds."""
    return protocol.STOCK in draft.brand.providers and draft.refusal in {
        None,
        rules.Refusal.OUTSIDE_ORDER_BOUNDS,
    }


def _decide_new(  # noqa: PLR0917 — private, called once just above
    draft: model.Draft,
    available_minor: int,
    remaining: Mapping[tuple[str, int], list[protocol.Code]],
    shelves: Shelves,
    made: Made,
    limits: book.Book,
) -> Decision:
    if draft.refusal is not None and not wants_stock(draft):
        return Fail(draft.refusal)
    if draft.refusal is None:
        exceeded = limits.find_exceeded(
            brand_id=draft.brand.brand_id, amount_minor=draft.amount_minor, at=draft.placed_at
        )
        if exceeded is not None:
            return Limited(exceeded)
    found = _find_codes(draft, remaining, shelves, made)
    if draft.refusal is not None:
        # An empty shelf is told before it; one that others are emptying just now is not known to be empty.
        return found if isinstance(found, Fail) else Fail(draft.refusal)
    if not isinstance(found, Serve | Hold):
        return found
    if draft.debit_minor > available_minor:
        return Fail(failures.INSUFFICIENT_BALANCE)
    return found


def _find_codes(
    draft: model.Draft,
    remaining: Mapping[tuple[str, int], list[protocol.Code]],
    shelves: Shelves,
    made: Made,
) -> Serve | Hold | Fail | Again:
    found: Fail | Again = Fail(rules.Refusal.DENOMINATION_NOT_AVAILABLE)
    for provider in draft.brand.providers:
        if provider == protocol.GENERATOR:
            return Serve(provider, made.get(draft.order_id, ()))
        if provider == protocol.STOCK:
            places = {(draft.brand.brand_id, denomination): n for denomination, n in draft.lines.items()}
            if all(len(remaining[place]) >= quantity for place, quantity in places.items()):
                codes = [code for place, quantity in places.items() for code in remaining[place][:quantity]]
                return Serve(provider, codes)
            if any(len(remaining[place]) < n and shelves[place].contended for place, n in places.items()):
                found = Again()  # unless the next provider serves it
        if provider in draft.remote:
            return Hold()
    return found
