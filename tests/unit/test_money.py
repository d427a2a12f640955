from decimal import ROUND_HALF_UP, Decimal

import pytest

from giftrail.kit import money


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [
        ("0", "INR", 0),
        ("-0", "INR", 0),
        ("0E+999999", "INR", 0),
        ("200", "INR", 20_000),
        ("1000.5", "INR", 100_050),
        ("0.01", "INR", 1),
        ("-0.01", "INR", -1),
        ("5E+2", "INR", 50_000),
        ("1.10" + "0" * 10_000, "INR", 110),
        ("10000000000000", "INR", money.MAX_AMOUNT_MINOR),
        ("-10000000000000", "INR", -money.MAX_AMOUNT_MINOR),
        ("1E+13", "INR", money.MAX_AMOUNT_MINOR),
        ("500", "JPY", 500),
        ("500.0", "JPY", 500),
        ("1.234", "KWD", 1234),
        ("1.2345", "CLF", 12_345),
    ],
)
def test_an_amount_becomes_minor_units_exactly(amount: str, currency: str, minor: int) -> None:
    assert money.to_minor(Decimal(amount), currency=currency) == minor


@pytest.mark.parametrize(
    ("amount", "currency", "why"),
    [
        ("NaN", "INR", "finite"),
        ("sNaN", "INR", "finite"),
        ("Infinity", "INR", "finite"),
        ("-Infinity", "INR", "finite"),
        ("0.001", "INR", "decimals"),
        ("1E-400", "INR", "decimals"),
        ("0.5", "JPY", "decimals"),
        ("0.0001", "KWD", "decimals"),
        ("10000000000000.01", "INR", "larger"),
        ("-10000000000000.01", "INR", "larger"),
        ("9" * 17, "INR", "larger"),
        ("1E+400", "INR", "larger"),
        ("1E+999999", "INR", "larger"),
        ("9" * 10_000, "INR", "larger"),
        (str(2**63), "INR", "larger"),
    ],
)
def test_what_is_no_amount_of_the_currency_is_refused(amount: str, currency: str, why: str) -> None:
    with pytest.raises(money.AmountRefused, match=why):
        money.to_minor(Decimal(amount), currency=currency)


@pytest.mark.parametrize("currency", ["", "inr", "XXX", "RUPEE", "XAU"])
def test_an_unknown_currency_is_named(currency: str) -> None:
    with pytest.raises(money.UnknownCurrency, match=repr(currency)):
        money.decimals_of(currency)


@pytest.mark.parametrize(("currency", "decimals"), [("INR", 2), ("USD", 2), ("JPY", 0), ("BHD", 3), ("UYW", 4)])
def test_a_currency_has_the_decimals_of_iso_4217(currency: str, decimals: int) -> None:
    assert money.decimals_of(currency) == decimals


@pytest.mark.parametrize(
    ("minor", "currency", "major"),
    [
        (100_050, "INR", "1000.5"),
        (20_000, "INR", "200"),
        (1, "INR", "0.01"),
        (-150, "INR", "-1.5"),
        (-200, "INR", "-2"),
        (0, "INR", "0"),
        (7, "JPY", "7"),
        (1234, "KWD", "1.234"),
        (10 * money.MAX_AMOUNT_MINOR + 1, "INR", "100000000000000.01"),
    ],
)
def test_minor_units_stand_on_the_wire_without_needless_zeros(minor: int, currency: str, major: str) -> None:
    found = money.to_major(minor, currency=currency)
    assert str(found) == major
    assert isinstance(found, int) == ("." not in major)


@pytest.mark.parametrize("currency", ["INR", "JPY", "KWD", "CLF"])
@pytest.mark.parametrize("minor", [0, 1, 9, 10, 99, 100, 101, 12_345, -12_345, money.MAX_AMOUNT_MINOR])
def test_an_amount_survives_the_way_out_and_back(minor: int, currency: str) -> None:
    assert money.to_minor(Decimal(money.to_major(minor, currency=currency)), currency=currency) == minor


@pytest.mark.parametrize(
    ("amount_minor", "percentage", "debit_minor"),
    [
        (10_000, "0", 10_000),
        (10_000, "100", 0),
        (10_000, "2.5", 9_750),
        (1, "50", 0),  # half a unit of discount is rounded up
        (1, "49.9999", 1),
        (3, "50", 1),
        (5, "10", 4),
        (333, "33.3333", 222),
        (money.MAX_AMOUNT_MINOR, "0.0001", money.MAX_AMOUNT_MINOR - 10**9),
    ],
)
def test_the_debit_is_the_amount_less_the_discount_rounded_half_up(
    amount_minor: int, percentage: str, debit_minor: int
) -> None:
    assert money.discounted(amount_minor, percentage=Decimal(percentage)) == debit_minor


def test_every_discount_of_small_amounts_is_rounded_as_the_wire_contract_says() -> None:
    for amount in range(1, 60):
        for percentage in (Decimal(n) / 4 for n in range(0, 401, 3)):
            discount = (Decimal(amount) * percentage / 100).quantize(Decimal(1), ROUND_HALF_UP)
            assert money.discounted(amount, percentage=percentage) == amount - discount, (amount, percentage)


@pytest.mark.parametrize(
    ("number", "text"), [("5.0000", "5"), ("12.5000", "12.5"), ("0.0000", "0"), ("1E+2", "100"), ("100", "100")]
)
def test_a_number_is_told_plainly(number: str, text: str) -> None:
    assert str(money.plain(Decimal(number))) == text
