from typing import Any

import pytest

from giftrail.catalog import model, rows, rules
from giftrail.orders import failures
from giftrail.providers import protocol
from house import brand_row

Refusal = rules.Refusal


def brand(**members: Any) -> model.Brand:
    row = rows.Row(1, brand_row("b", **members))
    made = row.brand(protocol.AT_ONCE)
    assert row.problems == []
    return made


LIMITED = brand(
    minOrderAmount=200,
    maxOrderAmount=2000,
    maxVouchersPerOrder=6,
    maxVouchersPerDenomination=4,
    maxDenominationsPerOrder=2,
)
FLEXIBLE = brand(
    denominationType="FLEXIBLE",
    denominations=None,
    minVoucherAmount=10,
    maxVoucherAmount=500,
    minOrderAmount=10,
    maxOrderAmount=800,
)


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        ({100: 2}, None),
        ({100: 4, 250: 2}, None),
        ({500: 4}, None),
        ({100: 4, 250: 3}, Refusal.TOO_MANY_VOUCHERS),
        ({100: 5}, Refusal.TOO_MANY_OF_ONE_DENOMINATION),
        ({100: 1, 250: 1, 500: 1}, Refusal.TOO_MANY_DENOMINATIONS),
        ({101: 2}, Refusal.DENOMINATION_NOT_AVAILABLE),
        ({100: 1, 99: 2}, Refusal.DENOMINATION_NOT_AVAILABLE),
        ({100: 1}, Refusal.OUTSIDE_ORDER_BOUNDS),
        ({500: 4, 250: 1}, Refusal.OUTSIDE_ORDER_BOUNDS),
        # several at once: the first in the order of the wire contract
        ({99: 9}, Refusal.TOO_MANY_VOUCHERS),
        ({99: 5}, Refusal.TOO_MANY_OF_ONE_DENOMINATION),
        ({99: 1, 98: 1, 97: 1}, Refusal.TOO_MANY_DENOMINATIONS),
        ({99: 1}, Refusal.DENOMINATION_NOT_AVAILABLE),
    ],
)
def test_a_fixed_brand_with_every_limit(lines: dict[int, int], refusal: Refusal | None) -> None:
    minor = {denomination * 100: quantity for denomination, quantity in lines.items()}
    assert rules.judge(LIMITED, enabled=True, lines=minor, known_providers=protocol.AT_ONCE) is refusal


@pytest.mark.parametrize(
    ("lines_minor", "refusal"),
    [
        ({1_000: 1}, None),
        ({50_000: 1}, None),
        ({12_345: 1}, None),
        ({999: 1}, Refusal.OUTSIDE_VOUCHER_BOUNDS),
        ({50_001: 1}, Refusal.OUTSIDE_VOUCHER_BOUNDS),
        ({999: 1, 20_000: 1}, Refusal.OUTSIDE_VOUCHER_BOUNDS),
        ({40_000: 2}, None),
        ({40_001: 2}, Refusal.OUTSIDE_ORDER_BOUNDS),
        ({60_000: 2}, Refusal.OUTSIDE_VOUCHER_BOUNDS),
        ({1_000: 80}, None),
    ],
)
def test_a_flexible_brand_has_bounds(lines_minor: dict[int, int], refusal: Refusal | None) -> None:
    assert rules.judge(FLEXIBLE, enabled=True, lines=lines_minor, known_providers=protocol.AT_ONCE) is refusal


@pytest.mark.parametrize(
    ("members", "enabled", "known", "refusal"),
    [
        ({}, True, {"generator"}, None),
        ({"status": "INACTIVE"}, True, {"generator"}, Refusal.NOT_ACTIVE),
        ({"status": "INACTIVE"}, False, set(), Refusal.NOT_ACTIVE),
        ({}, False, {"generator"}, Refusal.NOT_ENABLED),
        ({}, False, set(), Refusal.NOT_ENABLED),
        ({}, True, {"stock"}, Refusal.NO_PROVIDER),
        ({}, True, set(), Refusal.NO_PROVIDER),
        ({"providers": ["stock", "generator"]}, True, {"generator"}, None),
    ],
)
def test_the_brand_itself_comes_before_the_order(
    members: dict[str, Any], *, enabled: bool, known: set[str], refusal: Refusal | None
) -> None:
    refused = brand(**members)
    for quantity in (1, 10**6):
        found = rules.judge(refused, enabled=enabled, lines={10_000: quantity}, known_providers=known)
        assert found is (refusal or (None if quantity == 1 else Refusal.OUTSIDE_ORDER_BOUNDS))


def test_every_refusal_has_one_of_the_specification_s_reasons() -> None:
    assert set(failures.REASONS) == {*Refusal, "E300", "E200"}
    told = ["E102", "E101", "E100", "E156", "E154", "E153", "E150", "E155", "E152"]
    assert [refusal.value for refusal in Refusal] == told
    reasons = {
        "Brand not available": {"E100", "E101", "E102"},
        "Denomination not available": {"E150", "E152", "E153", "E154", "E155", "E156"},
        "Insufficient balance": {"E300"},
        "Voucher generation failed": {"E200"},
    }
    assert {code: str(reason) for code, reason in failures.REASONS.items()} == {
        code: reason for reason, codes in reasons.items() for code in codes
    }
