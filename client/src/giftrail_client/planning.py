"""The fewest vouchers that make up an amount within a brand's rules: pure, in whole numbers of the smallest unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Combinations looked at before a plan is given up as too large: some tenths of a second.
MAX_STEPS = 200_000


class PlanTooLarge(Exception):
    """The denominations and limits leave too many combinations to look at."""


@dataclass(frozen=True)
class Rules:
    """What a brand allows; a limit that is None does not limit. `denominations` is empty for a FLEXIBLE brand."""

    denominations: Sequence[int]
    least: int
    most: int
    max_vouchers: int
    max_of_one: int | None
    max_denominations: int | None


def plan(amount: int, rules: Rules) -> dict[int, int] | None:
    """Quantity by denomination, largest first; None when nothing makes up the amount. Raises PlanTooLarge."""
    if amount <= 0:
        return None
    found = _Fixed(rules).plan(amount) if rules.denominations else _plan_flexible(amount, rules)
    if found is None or sum(found.values()) > rules.max_vouchers:
        return None
    return dict(sorted(found.items(), reverse=True))


class _Fixed:
    """Branch and bound over the denominations, largest first."""

    def __init__(self, rules: Rules) -> None:
        self._denominations = sorted(set(rules.denominations), reverse=True)
        self._cap = rules.max_vouchers if rules.max_of_one is None else min(rules.max_of_one, rules.max_vouchers)
        self._distinct = len(self._denominations) if rules.max_denominations is None else rules.max_denominations
        self._steps = 0
        self._known: dict[tuple[int, int, int], tuple[int, int] | None] = {}

    def plan(self, amount: int) -> dict[int, int] | None:
        if self._fewest(0, amount, self._distinct) is None:
            return None
        found, place, rest, distinct = {}, 0, amount, self._distinct
        while rest:
            best = self._known[place, rest, distinct]
            assert best is not None  # noqa: S101 — the whole has a plan, so each of its rests has one
            quantity = best[1]
            if quantity:
                found[self._denominations[place]] = quantity
                rest -= quantity * self._denominations[place]
                distinct -= 1
            place += 1
        return found

    def _fewest(self, place: int, rest: int, distinct: int) -> int | None:
        """The fewest vouchers from this denomination on, or None. One call for each denomination on the way."""
        if rest == 0:
            return 0
        if place == len(self._denominations) or distinct == 0:
            return None
        key = (place, rest, distinct)
        if key in self._known:
            known = self._known[key]
            return known[0] if known else None
        denomination = self._denominations[place]
        following = self._denominations[place + 1] if place + 1 < len(self._denominations) else None
        best: tuple[int, int] | None = None  # fewest vouchers, and how many of this denomination
        for quantity in range(min(self._cap, rest // denomination), -1, -1):
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise PlanTooLarge("there are too many combinations to look at")
            left = rest - quantity * denomination
            if left and following is None:
                break  # fewer of the last one leave more
            at_least = quantity + (-(-left // following) if following else 0)
            if best is not None and at_least >= best[0]:
                break
            more = self._fewest(place + 1, left, distinct - (1 if quantity else 0))
            if more is not None and (best is None or quantity + more < best[0]):
                best = (quantity + more, quantity)
        self._known[key] = best
        return best[0] if best else None


def _plan_flexible(amount: int, rules: Rules) -> dict[int, int] | None:
    for count in range(-(-amount // rules.most), min(rules.max_vouchers, amount // rules.least) + 1):
        for found in (_largest_first(amount, count, rules), _evenly(amount, count, rules)):
            if found is not None and _fits(found, rules):
                return found
    return None


def _largest_first(amount: int, count: int, rules: Rules) -> dict[int, int] | None:
    """All of the largest amount but one."""
    rest = amount - (count - 1) * rules.most
    if rest < rules.least:
        return None
    return {rest: 1} if count == 1 else _added([(rules.most, count - 1), (rest, 1)])


def _evenly(amount: int, count: int, rules: Rules) -> dict[int, int] | None:
    """Groups of the largest size allowed, whose amounts lie close together; what is left over raises some by one."""
    cap = count if rules.max_of_one is None else rules.max_of_one
    sizes = [cap] * (count // cap) + ([count % cap] if count % cap else [])
    base, left = divmod(amount - sum(2 * place * size for place, size in enumerate(sizes)), count)
    pairs = []
    for place, size in reversed(list(enumerate(sizes))):
        raised = min(left, size)
        left -= raised
        pairs += [(base + 2 * place + 1, raised), (base + 2 * place, size - raised)]
    return _added(pairs)


def _added(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for denomination, quantity in pairs:
        if quantity:
            found[denomination] = found.get(denomination, 0) + quantity
    return found


def _fits(found: dict[int, int], rules: Rules) -> bool:
    return (
        min(found) >= rules.least
        and max(found) <= rules.most
        and (rules.max_of_one is None or max(found.values()) <= rules.max_of_one)
        and (rules.max_denominations is None or len(found) <= rules.max_denominations)
    )
