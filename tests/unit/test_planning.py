"""The fewest vouchers that make up an amount, against every combination there is."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrail_client import planning

fixed_rules = st.builds(
    planning.Rules,
    denominations=st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True),
    least=st.just(1),
    most=st.just(12),
    max_vouchers=st.integers(1, 6),
    max_of_one=st.none() | st.integers(1, 4),
    max_denominations=st.none() | st.integers(1, 3),
)
flexible_rules = st.builds(
    lambda least, more, **others: planning.Rules(denominations=(), least=least, most=least + more, **others),
    st.integers(1, 20),
    st.integers(0, 60),
    max_vouchers=st.integers(1, 30),
    max_of_one=st.none() | st.integers(1, 6),
    max_denominations=st.none() | st.integers(1, 6),
)


def allowed(found: dict[int, int], rules: planning.Rules) -> bool:
    return (
        all(rules.least <= one <= rules.most for one in found)
        and (not rules.denominations or set(found) <= set(rules.denominations))
        and sum(found.values()) <= rules.max_vouchers
        and (rules.max_of_one is None or max(found.values()) <= rules.max_of_one)
        and (rules.max_denominations is None or len(found) <= rules.max_denominations)
    )


def fewest(amount: int, rules: planning.Rules) -> int | None:
    """By trying everything."""
    choices = [range(rules.max_vouchers + 1)] * len(rules.denominations)
    counts = []
    for quantities in itertools.product(*choices):
        found = {one: n for one, n in zip(rules.denominations, quantities, strict=True) if n}
        if found and sum(one * n for one, n in found.items()) == amount and allowed(found, rules):
            counts.append(sum(quantities))
    return min(counts, default=None)


@given(amount=st.integers(1, 60), rules=fixed_rules)
@settings(deadline=None, max_examples=150)
def test_a_fixed_plan_is_the_fewest_there_is(amount: int, rules: planning.Rules) -> None:
    found = planning.plan(amount, rules)
    wanted = fewest(amount, rules)
    assert (found is None) == (wanted is None)
    if found is not None:
        assert sum(one * n for one, n in found.items()) == amount
        assert allowed(found, rules)
        assert sum(found.values()) == wanted


@given(amount=st.integers(1, 2000), rules=flexible_rules)
@settings(deadline=None, max_examples=300)
def test_a_flexible_plan_adds_up_within_the_rules(amount: int, rules: planning.Rules) -> None:
    found = planning.plan(amount, rules)
    if found is not None:
        assert sum(one * n for one, n in found.items()) == amount
        assert allowed(found, rules)
    elif rules.max_of_one is None and rules.max_denominations is None:
        least_vouchers = -(-amount // rules.most)
        assert least_vouchers > min(rules.max_vouchers, amount // rules.least)


def test_a_plan_of_many_vouchers_is_found_at_once() -> None:
    rules = planning.Rules((10_000, 25_000, 50_000, 100_000), 10_000, 100_000, 1_000, None, None)
    assert planning.plan(99_985_000, rules) is None
    assert planning.plan(99_935_000 + 15_000, rules) == {100_000: 999, 50_000: 1}


def test_a_plan_over_as_many_denominations_as_a_brand_may_have_does_not_run_out_of_frames() -> None:
    rules = planning.Rules([1000 + number for number in range(500)], 1000, 1499, 1_000, None, None)
    assert planning.plan(999, rules) is None
    assert planning.plan(2_998, rules) == {1499: 2}


def test_a_plan_that_would_take_for_ever_is_refused() -> None:
    rules = planning.Rules([2 * (1000 + 7 * number) for number in range(60)], 2000, 2826, 1_000, None, 30)
    with pytest.raises(planning.PlanTooLarge):
        planning.plan(1_234_567, rules)
