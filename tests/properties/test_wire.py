"""Money on the wire, and reading what anyone may send."""

import json
import re
import uuid
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from giftrail.kit import money
from giftrail.partner_api import problems, requests, shapes, wire
from house import House, PartnerProgram

DECIMALS = {"JPY": 0, "INR": 2, "BHD": 3, "CLF": 4}
currencies = st.sampled_from(sorted(DECIMALS))
amounts_minor = st.integers(1, money.MAX_AMOUNT_MINOR) | st.integers(1, 10_000)
all_minor = amounts_minor | st.integers(-money.MAX_AMOUNT_MINOR, money.MAX_AMOUNT_MINOR)


@given(all_minor, currencies)
def test_minor_to_major_and_back(minor: int, currency: str) -> None:
    major = money.to_major(minor, currency=currency)
    assert Fraction(major) == Fraction(minor, 10 ** DECIMALS[currency])
    assert money.to_minor(Decimal(major), currency=currency) == minor


@given(all_minor, currencies, st.integers(0, 30))
def test_trailing_zeros_change_nothing(minor: int, currency: str, zeros: int) -> None:
    spelt = Decimal(f"{Decimal(minor).scaleb(-DECIMALS[currency]):f}")
    with_zeros = Decimal((spelt.as_tuple().sign, (*spelt.as_tuple().digits, *[0] * zeros), _exponent(spelt) - zeros))
    assert money.to_minor(with_zeros, currency=currency) == minor


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


@given(
    st.decimals(allow_nan=False, allow_infinity=False)
    | st.decimals(-(10**16), 10**16, places=2)
    | st.decimals(0, 1000, places=4)
    | st.builds(
        lambda sign, digits, exponent: Decimal((sign, tuple(map(int, str(digits))), exponent)),
        st.integers(0, 1), st.integers(0, 10**40), st.integers(-60, 60),
    ),
    currencies,
)  # fmt: skip
def test_to_minor_is_exact_or_refuses(amount: Decimal, currency: str) -> None:
    minor = Fraction(amount) * 10 ** DECIMALS[currency]
    if minor.denominator == 1 and abs(minor) <= money.MAX_AMOUNT_MINOR:
        assert money.to_minor(amount, currency=currency) == minor
    else:
        with pytest.raises(money.AmountRefused):
            money.to_minor(amount, currency=currency)


@given(
    st.sampled_from(["1e999999999", "-1e999999999", "1e-999999999", "NaN", "-NaN", "sNaN", "Infinity", "-Infinity"]),
    currencies,
)
def test_to_minor_refuses_the_outlandish(text: str, currency: str) -> None:
    with pytest.raises(money.AmountRefused):
        money.to_minor(Decimal(text), currency=currency)


@given(all_minor, currencies)
def test_an_amount_survives_json_exactly(minor: int, currency: str) -> None:
    text = wire.encode({"amount": money.to_major(minor, currency=currency)})
    assert re.fullmatch(rb'\{"amount":-?(0|[1-9]\d*)(\.\d*[1-9])?\}', text)
    read = requests.read_json(text)["amount"]
    assert money.to_minor(read, currency=currency) == minor


percentages = st.decimals(0, 100, places=4) | st.sampled_from([Decimal(0), Decimal(100), Decimal("0.5"), Decimal(50)])


@given(amounts_minor, percentages)
def test_a_discount_is_rounded_half_up_once(amount_minor: int, percentage: Decimal) -> None:
    discount = floor(Fraction(amount_minor) * Fraction(percentage) / 100 + Fraction(1, 2))
    debit = money.discounted(amount_minor, percentage=percentage)
    assert debit == amount_minor - discount
    assert 0 <= debit <= amount_minor


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)
# What nearly is JSON: pieces of it in any order.
pieces = st.lists(
    st.sampled_from(
        [*'{}[]:,"0123456789-+.eE \n\t\\/', '"a"', '"a":', "null", "true", "false", "NaN", "Infinity", "-Infinity",
         "1e400", "1e999999999", "1e99999999999999999999", "-1e-99999999999999999999", "9" * 5000, "\\u0000", "\\ud800",
         "\ufeff", "\x00", '{"a":1', "é", "🎁", "[" * 2000, '{"a":' * 2000]
    ),
    max_size=30,
).map("".join)  # fmt: skip
bodies = (
    st.binary(max_size=200)
    | pieces.map(str.encode)
    | pieces.map(lambda text: f'{{"a":{text}}}'.encode())
    | json_values.map(lambda value: json.dumps(value).encode())
    | json_values.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    | json_values.map(lambda value: json.dumps(value).encode("utf-16"))
)


@given(bodies)
def test_read_json_gives_an_object_or_a_problem(body: bytes) -> None:
    read: dict[str, Any] | problems.Problem
    try:
        read = requests.read_json(body)
    except problems.Problem as problem:
        read = problem
    if isinstance(read, problems.Problem):
        assert read.code is problems.Code.INVALID_REQUEST
        assert msgspec.json.decode(read.body("id"))["subErrors"]
    else:
        assert isinstance(read, dict)


number_texts = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{whole}{fraction}{exponent}",
    st.sampled_from(["", "-"]),
    st.integers(0).map(str),
    st.just("") | st.from_regex(r"\.[0-9]{1,20}", fullmatch=True),
    st.just("") | st.from_regex(r"[eE][+-]?[0-9]{1,25}", fullmatch=True),
)


@given(number_texts)
def test_every_json_number_is_read_exactly_or_refused(text: str) -> None:
    try:
        members = requests.read_json(f'{{"a":{text}}}'.encode())
    except problems.Problem:
        return
    read = members["a"]
    assert isinstance(read, Decimal)
    assert read == Decimal(text)
    assert read.is_finite()


ORDER_MEMBERS = ["productId", "referenceId", "amount", "denominationDetails", "customerDetails", "deliveryDetails"]
LINE_MEMBERS = ["denomination", "quantity"]
DETAIL_MEMBERS = [
    "name", "phoneNumber", "email", "recipientName", "recipientType", "recipientPhoneNumber", "recipientEmail",
    "senderName", "wishMessage",
]  # fmt: skip


def objects(names: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), values, max_size=len(names))


decimals = st.decimals() | st.sampled_from([Decimal("1e999999999"), Decimal("1e-999999999"), Decimal("-0")])
read_values = st.recursive(
    st.none() | st.booleans() | decimals | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
lines = st.lists(read_values | objects(LINE_MEMBERS, read_values), max_size=4)
orders_of_any_kind = objects(ORDER_MEMBERS, read_values | lines | objects(DETAIL_MEMBERS, read_values)) | read_values
FIELD_NAME = re.compile(r"[A-Za-z]+(\[\d+\])?(\.[A-Za-z]+(\[\d+\])?)*")


@pytest.mark.parametrize("type_", [shapes.OrderRequest, shapes.LoginRequest])
@given(members=orders_of_any_kind.filter(lambda value: isinstance(value, dict)))
def test_read_struct_gives_a_struct_or_violations(type_: type[msgspec.Struct], members: dict[str, Any]) -> None:
    struct, violations = requests.read_struct(members, type_)
    assert (struct is None) == bool(violations)
    for violation in violations:
        assert FIELD_NAME.fullmatch(violation.field_name)
        assert violation.message
        assert len(violation.message) < 1000
        wire.encode(violation)


@given(st.text(st.characters(exclude_categories=())) | decimals)
def test_what_is_shown_is_short_and_printable(value: object) -> None:
    shown = requests.show(value)
    assert shown.isprintable()
    assert len(shown) < 10 * requests.MAX_SHOWN_CHARACTERS + 10
    wire.encode(shown)


wild_texts = (
    number_texts
    | json_values.map(json.dumps)
    | st.sampled_from(
        ["1e999999999", "-1e-999999999", "1e99999999999999999999", "9" * 100, "NaN", '"\\ud800"', "[" * 100]
    )
)
_partners: dict[str, PartnerProgram] = {}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    members=st.dictionaries(st.sampled_from([*ORDER_MEMBERS, "ignored"]), wild_texts, max_size=3),
    line=st.dictionaries(st.sampled_from(LINE_MEMBERS), wild_texts, max_size=2),
    path=st.sampled_from(["/orders", "/auth/login"]),
)
def test_no_body_makes_the_service_fail(house: House, members: dict[str, str], line: dict[str, str], path: str) -> None:
    if house.base_url not in _partners:
        _partners[house.base_url] = house.partner()
    lines = {"denomination": "100", "quantity": "1"} | line
    sound = {
        "productId": '"fixed"',
        "referenceId": f'"{uuid.uuid4().hex}"',
        "amount": lines["denomination"],
        "denominationDetails": f'[{{"denomination":{lines["denomination"]},"quantity":{lines["quantity"]}}}]',
    }
    body = "{" + ",".join(f'"{name}":{text}' for name, text in (sound | members).items()) + "}"
    answer = _partners[house.base_url].post(path, content=body.encode())
    assert answer.status_code in {200, 400, 401, 404}, answer.text
