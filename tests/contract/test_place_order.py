"""Place an order, and read it (specification, Orders; wire contract §3)."""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from giftrail import app
from giftrail.catalog import edit
from giftrail.db import pool
from giftrail.kit import checkdigit
from house import House, PartnerProgram

MONEY = 100_000
ORDER_MEMBERS = {
    "id", "referenceId", "status", "vouchers", "failureReason",
    "productId", "amount", "failureCode", "debit", "createdAt", "updatedAt", "delivery",
}  # fmt: skip
VOUCHER_MEMBERS = {"id", "cardType", "cardPin", "cardNumber", "validTill", "amount"}

BRAND = "Brand not available"
DENOMINATION = "Denomination not available"
BALANCE = "Insufficient balance"

FLEXIBLE: dict[str, Any] = {
    "denominationType": "FLEXIBLE",
    "denominations": None,
    "minVoucherAmount": 10,
    "maxVoucherAmount": 10_000,
}
EMPTY_SHELF: dict[str, Any] = {"providers": ["stock"]}


@dataclass(frozen=True)
class Case:
    """An order that is sound and cannot be served: what the brand and the partner are, what is asked for."""

    shows: str
    code: str
    reason: str
    brand: dict[str, Any] = field(default_factory=dict)
    lines: dict[Any, int] = field(default_factory=lambda: {100: 1})
    enabled: bool = True
    plugged: bool = True
    money: int = MONEY
    stock: dict[int, int] = field(default_factory=dict)

    def prepare(self, house: House) -> tuple[PartnerProgram, str]:
        brand_id = house.brand(**self.brand)
        for denomination, codes in self.stock.items():
            house.stock(brand_id, denomination, codes)
        if not self.plugged:
            unplug(house, brand_id)
        return house.partner(brands=[brand_id] if self.enabled else [], money_major=self.money), brand_id


def unplug(house: House, brand_id: str) -> None:
    """Leave the brand with a provider that this service does not have."""

    async def deed(conn: pool.Connection) -> None:
        brand = await edit.read_brand(conn, brand_id=brand_id)
        await edit.upsert_brands(conn, [dataclasses.replace(brand, providers=("vendor",))], now=app.now())

    house.do(deed)


ROWS = [
    Case("no provider can serve it", "E100", BRAND, plugged=False),
    Case("never enabled", "E101", BRAND, enabled=False),
    Case("inactive", "E102", BRAND, {"status": "INACTIVE"}),
    Case("not in the list", "E150", DENOMINATION, lines={300: 1}),
    Case("one of two not in the list", "E150", DENOMINATION, lines={100: 1, 300: 1}),
    Case("a cent beside the list", "E150", DENOMINATION, lines={Decimal("100.01"): 1}),
    Case("stock never filled", "E150", DENOMINATION, EMPTY_SHELF),
    Case("stock too small", "E150", DENOMINATION, EMPTY_SHELF, {100: 3}, stock={100: 2}),
    Case("stock of another denomination", "E150", DENOMINATION, EMPTY_SHELF, {100: 1, 250: 1}, stock={250: 5}),
    Case("flexible, stock never filled", "E150", DENOMINATION, FLEXIBLE | EMPTY_SHELF, {77: 1}),
    Case("order too small", "E152", DENOMINATION, {"minOrderAmount": 500}, {100: 4}),
    Case("order too large", "E152", DENOMINATION, {"maxOrderAmount": 1000}, {250: 5}),
    Case("too many denominations", "E153", DENOMINATION, {"maxDenominationsPerOrder": 1}, {100: 1, 250: 1}),
    Case("too many of one", "E154", DENOMINATION, {"maxVouchersPerDenomination": 2}, {100: 3}),
    Case("below the smallest voucher", "E155", DENOMINATION, FLEXIBLE, {Decimal("9.99"): 1}),
    Case("above the largest voucher", "E155", DENOMINATION, FLEXIBLE, {Decimal("10000.01"): 1}),
    Case("one of two outside", "E155", DENOMINATION, FLEXIBLE, {50: 1, 5: 1}),
    Case("too many vouchers", "E156", DENOMINATION, {"maxVouchersPerOrder": 2}, {100: 2, 250: 1}),
    Case("empty wallet", "E300", BALANCE, money=0),
    Case("a rupee short", "E300", BALANCE, money=99),
]

# E102, E101, E100, E156/E154/E153, E150/E155, E152, E300: each cause together with one that is told later.
_MANY = {100: 3, 300: 1}
PAIRS = [
    Case("E102 before E101", "E102", BRAND, {"status": "INACTIVE"}, enabled=False),
    Case("E101 before E100", "E101", BRAND, enabled=False, plugged=False),
    Case("E102 before E100", "E102", BRAND, {"status": "INACTIVE"}, plugged=False),
    Case("E100 before E156", "E100", BRAND, {"maxVouchersPerOrder": 1}, {100: 2}, plugged=False),
    Case("E100 before E154", "E100", BRAND, {"maxVouchersPerDenomination": 1}, {100: 2}, plugged=False),
    Case("E100 before E153", "E100", BRAND, {"maxDenominationsPerOrder": 1}, {100: 1, 250: 1}, plugged=False),
    Case(
        "E156 before E154", "E156", DENOMINATION, {"maxVouchersPerOrder": 1, "maxVouchersPerDenomination": 1}, {100: 2}
    ),
    Case(
        "E154 before E153", "E154", DENOMINATION,
        {"maxVouchersPerDenomination": 1, "maxDenominationsPerOrder": 1}, {100: 2, 250: 1},
    ),
    Case("E156 before E150", "E156", DENOMINATION, {"maxVouchersPerOrder": 1}, _MANY),
    Case("E154 before E150", "E154", DENOMINATION, {"maxVouchersPerDenomination": 2}, _MANY),
    Case("E153 before E150", "E153", DENOMINATION, {"maxDenominationsPerOrder": 1}, _MANY),
    Case("E153 before E155", "E153", DENOMINATION, FLEXIBLE | {"maxDenominationsPerOrder": 1}, {50: 1, 5: 1}),
    Case(
        "E153 before empty shelf", "E153", DENOMINATION,
        EMPTY_SHELF | {"maxDenominationsPerOrder": 1}, {100: 1, 250: 1},
    ),
    Case("E150 before E152", "E150", DENOMINATION, {"minOrderAmount": 500}, {300: 1}),
    Case("empty shelf before E152, too small", "E150", DENOMINATION, EMPTY_SHELF | {"minOrderAmount": 500}),
    Case("empty shelf before E152, too large", "E150", DENOMINATION, EMPTY_SHELF | {"maxOrderAmount": 100}, {100: 2}),
    Case("E152 where the shelf is full", "E152", DENOMINATION, EMPTY_SHELF | {"minOrderAmount": 500}, stock={100: 1}),
    Case("E155 before E152", "E155", DENOMINATION, FLEXIBLE | {"minOrderAmount": 500}, {5: 1}),
    Case("E152 before E300", "E152", DENOMINATION, {"minOrderAmount": 500}, money=0),
    Case("E150 before E300", "E150", DENOMINATION, lines={300: 1}, money=0),
    Case("empty shelf before E300", "E150", DENOMINATION, EMPTY_SHELF, money=0),
    Case("E155 before E300", "E155", DENOMINATION, FLEXIBLE, {5: 1}, money=0),
    Case(
        "E102 before everything", "E102", BRAND, {"status": "INACTIVE", "maxVouchersPerOrder": 1}, _MANY,
        enabled=False, plugged=False, money=0,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", ROWS + PAIRS, ids=lambda case: f"{case.code} {case.shows}")
def test_an_order_that_cannot_be_served_is_stored_as_failed(house: House, case: Case) -> None:
    partner, brand_id = case.prepare(house)
    body = exact(partner.order_body(brand_id, case.lines))
    answer = place_exactly(partner, body)
    assert answer.status_code == 200, answer.text
    order = answer.json()
    assert order.keys() >= ORDER_MEMBERS
    assert (order["status"], order["failureReason"], order["failureCode"]) == ("FAILED", case.reason, case.code)
    assert order["vouchers"] == []
    assert (order["referenceId"], order["productId"]) == (body["referenceId"], brand_id)
    assert partner.get(f"/orders/{order['id']}").json() == order
    assert by_reference(partner, body["referenceId"]).json() == order
    again = place_exactly(partner, body)
    assert (again.status_code, again.json()) == (200, order)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert partner.balance() == case.money
    kinds = [line["kind"] for line in partner.get("/wallet/transactions").json()["data"]]
    assert kinds == ["TOP_UP"] * bool(case.money)


def test_a_brand_disabled_again_is_not_enabled(house: House) -> None:
    brand_id = house.brand()
    partner = house.partner(brands=[brand_id])
    house.enable(partner, brand_id, enabled=False)
    assert partner.place(product_id=brand_id).json()["failureCode"] == "E101"


def exact(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with its Decimals as JSON numbers."""
    return dict(json.loads(json.dumps(body, default=float)))


def place_exactly(partner: PartnerProgram, body: Mapping[str, Any]) -> httpx.Response:
    return partner.post("/orders", dict(body))


def by_reference(partner: PartnerProgram, reference_id: str) -> httpx.Response:
    return partner.get(f"/orders/by-reference/{quote(reference_id, safe='')}")


def test_a_served_order_has_every_member(house: House) -> None:
    partner = house.partner()
    body = partner.order_body(lines={100: 2, 250: 1})
    answer = partner.place(body)
    order = answer.json()
    assert answer.status_code == 200
    assert "Idempotent-Replayed" not in answer.headers
    assert order.keys() >= ORDER_MEMBERS
    assert (order["status"], order["failureReason"], order["failureCode"]) == ("SUCCESS", None, None)
    assert (order["referenceId"], order["productId"]) == (body["referenceId"], house.fixed_brand)
    assert (order["amount"], order["debit"], order["delivery"]) == (450, 450, None)
    assert isinstance(order["id"], str)
    assert order["id"]
    for moment in (order["createdAt"], order["updatedAt"]):
        told = datetime.fromisoformat(moment)
        assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)
    assert sorted(voucher["amount"] for voucher in order["vouchers"]) == [100, 100, 250]
    assert len({voucher["id"] for voucher in order["vouchers"]}) == 3
    assert all(voucher.keys() == VOUCHER_MEMBERS for voucher in order["vouchers"])
    assert partner.balance() == MONEY - 450


@pytest.mark.parametrize("provider", ["generator", "stock"])
@pytest.mark.parametrize(
    ("card_type", "shown"),
    [
        ("CARD_AND_PIN_NO_SECURED", {"cardNumber", "cardPin"}),
        ("CARD_NUMBER_SECURED", {"cardNumber"}),
        ("PIN_NO_SECURED", {"cardPin"}),
    ],
)
def test_a_voucher_holds_what_its_card_type_shows(house: House, provider: str, card_type: str, shown: set[str]) -> None:
    brand_id = house.brand(cardType=card_type, providers=[provider])
    if provider == "stock":
        house.stock(brand_id, 100, 2)
    partner = house.partner(brands=[brand_id])
    vouchers = partner.place(product_id=brand_id, lines={100: 2}).json()["vouchers"]
    assert len(vouchers) == 2
    for voucher in vouchers:
        assert voucher["cardType"] == card_type
        assert {name for name in ("cardNumber", "cardPin") if voucher[name] is not None} == shown
        assert all(isinstance(voucher[name], str) and voucher[name] for name in shown)
    for name in shown:
        if not (name == "cardPin" and "cardNumber" in shown):
            assert vouchers[0][name] != vouchers[1][name]


@pytest.mark.parametrize(
    ("card_type", "member", "alphabet"),
    [
        ("CARD_AND_PIN_NO_SECURED", "cardNumber", checkdigit.DIGITS),
        ("CARD_NUMBER_SECURED", "cardNumber", checkdigit.DIGITS),
        ("PIN_NO_SECURED", "cardPin", checkdigit.BASE32),
    ],
)
def test_generated_codes_carry_a_check_digit(house: House, card_type: str, member: str, alphabet: str) -> None:
    brand_id = house.brand(cardType=card_type)
    partner = house.partner(brands=[brand_id])
    codes = [voucher[member] for voucher in partner.place(product_id=brand_id, lines={100: 50}).json()["vouchers"]]
    assert len(set(codes)) == 50
    assert all(checkdigit.is_valid(code, alphabet=alphabet) for code in codes)


@pytest.mark.parametrize(("months", "days"), [(None, None), (1, (28, 31)), (12, (365, 366)), (24, (730, 731))])
def test_generated_vouchers_are_valid_as_long_as_the_brand_says(
    house: House, months: int | None, days: tuple[int, int] | None
) -> None:
    brand_id = house.brand(voucherExpiryInMonths=months)
    partner = house.partner(brands=[brand_id])
    before = datetime.now(UTC).date()
    (voucher,) = partner.place(product_id=brand_id).json()["vouchers"]
    if days is None:
        assert voucher["validTill"] is None
    else:
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", voucher["validTill"])
        assert days[0] - 1 <= (date.fromisoformat(voucher["validTill"]) - before).days <= days[1] + 1


@pytest.mark.parametrize(("imported", "told"), [("", None), ("2099-12-31", "2099-12-31"), ("2096-02-29", "2096-02-29")])
def test_stock_vouchers_are_valid_as_long_as_their_code(house: House, imported: str, told: str | None) -> None:
    brand_id = house.brand(providers=["stock"])
    house.stock(brand_id, 100, 1, valid_till=imported)
    partner = house.partner(brands=[brand_id])
    (voucher,) = partner.place(product_id=brand_id).json()["vouchers"]
    assert voucher["validTill"] == told


@pytest.mark.parametrize(
    ("percentage", "amount", "debit"),
    [
        ("0", "100", "100"),
        ("10", "100", "90"),
        ("2.5", "10.1", "9.85"),  # 0.2525 less
        ("5", "10.1", "9.59"),  # 0.505, half up to 0.51
        ("5", "10.3", "9.78"),  # 0.515, half up to 0.52
        ("33.3333", "10.01", "6.67"),
        ("0.0001", "10", "10"),
        ("100", "99.99", "0"),
    ],
)
def test_the_debit_is_the_amount_less_the_discount(house: House, percentage: str, amount: str, debit: str) -> None:
    brand_id = house.brand(**FLEXIBLE)
    partner = house.partner(brands=[brand_id], money_major=1000)
    set_discount(house, partner, brand_id, percentage)
    body = exact(partner.order_body(brand_id, {Decimal(amount): 1}))
    answer = place_exactly(partner, body)
    order = json.loads(answer.text, parse_float=Decimal, parse_int=Decimal)
    assert order["status"] == "SUCCESS", answer.text
    assert (order["amount"], order["debit"]) == (Decimal(amount), Decimal(debit))
    assert order["vouchers"][0]["amount"] == Decimal(amount)
    balance = json.loads(partner.get("/wallet/balance").text, parse_float=Decimal, parse_int=Decimal)
    assert balance["balance"] == 1000 - Decimal(debit)


def set_discount(house: House, partner: PartnerProgram, brand_id: str, percentage: str) -> None:
    async def deed(conn: pool.Connection) -> None:
        await edit.set_discount(
            conn, partner=partner.partner, brand_id=brand_id, percentage=Decimal(percentage), now=app.now()
        )

    house.do(deed)


def test_an_order_may_spend_the_last_of_the_wallet(house: House) -> None:
    partner = house.partner(money_major=100)
    assert partner.place().json()["status"] == "SUCCESS"
    assert partner.balance() == 0
    assert partner.place().json()["failureCode"] == "E300"


@pytest.mark.parametrize(
    ("brand", "lines"),
    [
        ({"minOrderAmount": 200}, {100: 2}),
        ({"maxOrderAmount": 200}, {100: 2}),
        ({"maxVouchersPerOrder": 3}, {100: 2, 250: 1}),
        ({"maxVouchersPerDenomination": 2}, {100: 2, 250: 2}),
        ({"maxDenominationsPerOrder": 2}, {100: 3, 250: 1}),
        (FLEXIBLE, {10: 1}),
        (FLEXIBLE, {10_000: 1}),
        (FLEXIBLE, {Decimal("10.01"): 3}),
    ],
    ids=str,
)
def test_the_bounds_of_a_brand_are_inclusive(house: House, brand: dict[str, Any], lines: dict[Any, int]) -> None:
    brand_id = house.brand(**brand)
    partner = house.partner(brands=[brand_id])
    assert place_exactly(partner, exact(partner.order_body(brand_id, lines))).json()["status"] == "SUCCESS"


def details(*lines: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"denomination": denomination, "quantity": quantity} for denomination, quantity in lines]


def test_duplicate_denominations_are_merged(house: House) -> None:
    brand_id = house.brand(maxVouchersPerDenomination=3, maxDenominationsPerOrder=2)
    partner = house.partner(brands=[brand_id])
    merged = partner.place(product_id=brand_id, amount=550, denominationDetails=details((100, 1), (250, 1), (100, 2)))
    assert sorted(voucher["amount"] for voucher in merged.json()["vouchers"]) == [100, 100, 100, 250]
    over = partner.place(product_id=brand_id, amount=400, denominationDetails=details((100, 2), (100, 2)))
    assert over.json()["failureCode"] == "E154"


@pytest.mark.parametrize("quantity", [2, 2.0])
@pytest.mark.parametrize("denomination", [100, 100.0])
def test_numbers_are_read_by_their_value(house: House, quantity: float, denomination: float) -> None:
    partner = house.partner()
    answer = partner.place(amount=200.00, denominationDetails=details((denomination, quantity)))
    assert [voucher["amount"] for voucher in answer.json()["vouchers"]] == [100, 100]


@pytest.mark.parametrize(
    ("currency", "amount", "status"),
    [("INR", "100.25", 200), ("INR", "100.255", 400), ("JPY", "100", 200), ("JPY", "100.5", 400),
     ("BHD", "100.125", 200), ("BHD", "100.1255", 400)],
)  # fmt: skip
def test_an_amount_has_no_more_decimals_than_its_currency(
    house: House, currency: str, amount: str, status: int
) -> None:
    brand_id = house.brand(**FLEXIBLE, currency=currency)
    partner = house.partner(currency=currency, brands=[brand_id])
    answer = place_exactly(partner, exact(partner.order_body(brand_id, {Decimal(amount): 1})))
    assert answer.status_code == status, answer.text
    if status == 200:
        assert json.loads(answer.text, parse_float=Decimal)["amount"] == Decimal(amount)
    else:
        assert {error["fieldName"] for error in answer.json()["subErrors"]} >= {"denominationDetails[0].denomination"}
        assert amount in answer.text


def test_each_code_in_stock_is_sold_once(house: House) -> None:
    brand_id = house.brand(providers=["stock"])
    house.stock(brand_id, 100, 5)
    partners = [house.partner(brands=[brand_id]) for _ in range(2)]
    sold = [
        voucher["cardNumber"]
        for place, quantity in enumerate((2, 2, 1))
        for voucher in partners[place % 2].place(product_id=brand_id, lines={100: quantity}).json()["vouchers"]
    ]
    assert len(sold) == len(set(sold)) == 5
    assert partners[0].place(product_id=brand_id).json()["failureCode"] == "E150"


def test_a_failed_order_takes_nothing_from_stock(house: House) -> None:
    brand_id = house.brand(providers=["stock"])
    house.stock(brand_id, 100, 1)
    poor, rich = house.partner(brands=[brand_id], money_major=0), house.partner(brands=[brand_id])
    assert poor.place(product_id=brand_id).json()["failureCode"] == "E300"
    assert rich.place(product_id=brand_id).json()["status"] == "SUCCESS"


def test_an_empty_stock_falls_back_to_the_generator(house: House) -> None:
    brand_id = house.brand(providers=["stock", "generator"])
    house.stock(brand_id, 100, 2)
    partner = house.partner(brands=[brand_id])

    def is_generated(quantity: int) -> list[bool]:
        vouchers = partner.place(product_id=brand_id, lines={100: quantity}).json()["vouchers"]
        assert len(vouchers) == quantity
        return [checkdigit.is_valid(voucher["cardNumber"], alphabet=checkdigit.DIGITS) for voucher in vouchers]

    assert is_generated(2) == [False, False]
    assert is_generated(2) == [True, True]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([(10 + place, 1) for place in range(100)], 200),
        ([(10, 1)] * 100, 200),
        ([(10, 1)] * 101, 400),
        ([(10, 1000)], 200),
        ([(10, 500), (20, 500)], 200),
        ([(10, 1001)], 400),
        ([(10, 500), (20, 501)], 400),
        ([(10, 501), (10, 500)], 400),
    ],
    ids=["100 lines", "100 same lines", "101 lines", "1000", "500 + 500", "1001", "500 + 501", "501 + 500 of one"],
)
def test_at_most_100_lines_and_1000_vouchers(house: House, lines: list[tuple[int, int]], status: int) -> None:
    partner = house.partner()
    body = partner.order_body(
        house.flexible_brand, amount=sum(amount * n for amount, n in lines), denominationDetails=details(*lines)
    )
    answer = partner.place(body)
    assert answer.status_code == status, answer.text
    if status == 200:
        assert len(answer.json()["vouchers"]) == sum(quantity for _, quantity in lines)
    else:
        assert answer.json()["subErrors"][0]["fieldName"].startswith("denominationDetails")
        assert by_reference(partner, body["referenceId"]).status_code == 404


@pytest.mark.parametrize(
    ("kind", "customer", "status"),
    [
        ("B2B", None, 200),
        ("B2B", {}, 200),
        ("B2B", {"email": "no address"}, 200),
        ("B2C", {"name": "A", "phoneNumber": "1", "email": "e"}, 200),
        ("B2C", {"name": "A", "phoneNumber": "1"}, 200),
        ("B2C", {"name": "A", "email": "e"}, 200),
        ("B2C", {"name": "A", "phoneNumber": None, "email": "e"}, 200),
        ("B2C", {"name": "A"}, 400),
        ("B2C", {"name": "A", "phoneNumber": None, "email": None}, 400),
        ("B2C", {"phoneNumber": "1", "email": "e"}, 400),
        ("B2C", {"name": None, "phoneNumber": "1"}, 400),
        ("B2C", {"name": "", "phoneNumber": "1"}, 400),
        ("B2C", {"name": "A", "phoneNumber": "", "email": ""}, 400),
        ("B2C", {}, 400),
        ("B2C", None, 400),
    ],
    ids=str,
)
def test_a_b2c_partner_names_the_customer(
    house: House, kind: str, customer: dict[str, Any] | None, status: int
) -> None:
    partner = house.partner(kind=kind)
    body = partner.order_body(customerDetails=customer)
    answer = partner.place(body)
    assert answer.status_code == status, answer.text
    if status == 400:
        assert answer.json()["id"] == "E001"
        assert answer.json()["subErrors"][0]["fieldName"].startswith("customerDetails")
        assert by_reference(partner, body["referenceId"]).status_code == 404


@pytest.mark.parametrize("kind", ["B2B", "B2C"])
def test_customer_details_may_be_absent_for_b2b_only(house: House, kind: str) -> None:
    partner = house.partner(kind=kind)
    body = partner.order_body()
    del body["customerDetails"]
    assert partner.place(body).status_code == (200 if kind == "B2B" else 400)


LENGTHS = [
    ("customerDetails", "name", 100),
    ("customerDetails", "phoneNumber", 20),
    ("customerDetails", "email", 254),
    ("deliveryDetails", "recipientName", 100),
    ("deliveryDetails", "recipientPhoneNumber", 20),
    ("deliveryDetails", "recipientEmail", 254),
    ("deliveryDetails", "senderName", 100),
    ("deliveryDetails", "wishMessage", 500),
]


@pytest.mark.parametrize("character", ["x", "ü", "🎁"])
@pytest.mark.parametrize(("holder", "member", "limit"), LENGTHS, ids=str)
def test_texts_have_a_longest_length(house: House, holder: str, member: str, limit: int, character: str) -> None:
    partner = house.partner()
    assert partner.place(partner.order_body() | {holder: {member: character * limit}}).json()["status"] == "SUCCESS"
    body = partner.order_body() | {holder: {member: character * (limit + 1)}}
    answer = partner.place(body)
    assert answer.status_code == 400
    assert [error["fieldName"] for error in answer.json()["subErrors"]] == [f"{holder}.{member}"]
    assert str(limit) in answer.json()["message"]
    assert by_reference(partner, body["referenceId"]).status_code == 404


@pytest.mark.parametrize(
    ("recipient_type", "status"),
    [("SELF", 200), ("OTHER", 200), (None, 200), ("self", 400), ("", 400), ("BOTH", 400), ("SELF\n", 400)],
)
def test_the_recipient_is_self_or_other(house: House, recipient_type: str | None, status: int) -> None:
    answer = house.partner().place(deliveryDetails={"recipientType": recipient_type})
    assert answer.status_code == status, answer.text
    if status == 400:
        assert answer.json()["subErrors"][0]["fieldName"] == "deliveryDetails.recipientType"


@pytest.mark.parametrize(
    "delivery",
    [
        None,
        {},
        {
            "recipientName": "Ravi", "recipientType": "OTHER", "recipientPhoneNumber": "no number",
            "recipientEmail": "no address", "senderName": "Asha", "wishMessage": "Many happy returns!\nAsha",
        },
        {"recipientType": "OTHER"},
        {"recipientName": None, "recipientType": None, "wishMessage": None},
    ],
    ids=str,
)  # fmt: skip
def test_delivery_details_are_accepted_and_not_acted_on(house: House, delivery: dict[str, Any] | None) -> None:
    partner = house.partner()
    order = partner.place(deliveryDetails=delivery).json()
    assert (order["status"], order["delivery"]) == ("SUCCESS", None)


def test_unknown_members_are_ignored(house: House) -> None:
    partner = house.partner()
    answer = partner.place(
        discountAmount=12.5,
        amountPaid="90",
        denominationDetails=[{"denomination": 100, "quantity": 1, "sku": {"deep": [1, None]}}],
        customerDetails={"name": "Asha", "email": "a@b.example", "loyalty": 7},
        deliveryDetails={"recipientType": "SELF", "gift": True},
    )
    assert answer.json()["status"] == "SUCCESS"


def test_an_order_and_its_vouchers_are_read_again(house: House) -> None:
    partner = house.partner()
    order = partner.place(lines={100: 2, 250: 1}).json()
    assert partner.get(f"/orders/{order['id']}").json() == order
    assert by_reference(partner, order["referenceId"]).json() == order
    for voucher in order["vouchers"]:
        assert partner.get(f"/orders/vouchers/{voucher['id']}").json() == voucher


NOWHERE = [
    "/orders/ord_0000000000",
    "/orders/by-reference/never-used",
    "/orders/vouchers/vch_0000000000",
    "/orders/{voucher}",
    "/orders/vouchers/{order}",
    "/orders/{reference}",
    "/orders/by-reference/{order}",
]
ANOTHERS = ["/orders/{order}", "/orders/by-reference/{reference}", "/orders/vouchers/{voucher}"]


def path_to(form: str, order: Mapping[str, Any]) -> str:
    return form.format(order=order["id"], reference=order["referenceId"], voucher=order["vouchers"][0]["id"])


@pytest.mark.parametrize("path", NOWHERE)
def test_what_does_not_exist_is_404(house: House, path: str) -> None:
    partner = house.partner()
    answer = partner.get(path_to(path, partner.place().json()))
    assert (answer.status_code, answer.json()["id"]) == (404, "E004")


@pytest.mark.parametrize("path", ANOTHERS)
def test_what_belongs_to_another_partner_is_404_with_the_same_body(house: House, path: str) -> None:
    owner, stranger = house.partner(), house.partner()
    theirs = path_to(path, owner.place().json())
    assert owner.get(theirs).status_code == 200
    answers = [stranger.get(theirs), stranger.get(re.sub(r"[^/]+$", "never-was", theirs))]
    assert [answer.status_code for answer in answers] == [404, 404]
    bodies = [{name: value for name, value in answer.json().items() if name != "requestId"} for answer in answers]
    assert bodies[0] == bodies[1]


def test_answers_with_vouchers_or_tokens_are_not_stored_by_anyone(house: House) -> None:
    partner = house.partner()
    body = partner.order_body()
    placed = partner.place(body)
    order = placed.json()
    answers = [
        placed,
        partner.place(body),
        partner.get(f"/orders/{order['id']}"),
        by_reference(partner, order["referenceId"]),
        partner.get(f"/orders/vouchers/{order['vouchers'][0]['id']}"),
        partner.log_in(),
    ]
    assert [answer.status_code for answer in answers] == [200] * 6
    assert all("no-store" in answer.headers["Cache-Control"] for answer in answers)


@pytest.mark.parametrize("product_id", ["never-imported", "FIXED", " fixed", "x" * 200])
def test_an_unknown_product_is_404_and_nothing_is_stored(house: House, product_id: str) -> None:
    partner = house.partner()
    body = partner.order_body(product_id)
    answer = partner.place(body)
    assert (answer.status_code, answer.json()["id"]) == (404, "E004")
    assert by_reference(partner, body["referenceId"]).status_code == 404
    assert partner.place(body | {"productId": house.fixed_brand}).json()["status"] == "SUCCESS"


@pytest.mark.parametrize("amount", [900, 999.99, 1000.01, 1, 10**9])
def test_an_amount_that_is_not_the_sum_is_e151(house: House, amount: float) -> None:
    partner = house.partner()
    body = partner.order_body(lines={500: 2}, amount=amount)
    answer = partner.place(body)
    error = answer.json()
    message = f"amount is {amount} but the denominations add up to 1000"
    assert answer.status_code == 400
    assert {name: error[name] for name in ("id", "code", "message", "subErrors")} == {
        "id": "E151",
        "code": "ORDER_AMOUNT_MISMATCH",
        "message": message,
        "subErrors": [{"fieldName": "amount", "message": message}],
    }
    assert error["requestId"] == answer.headers["X-REQUEST-ID"]
    assert by_reference(partner, body["referenceId"]).status_code == 404
    assert partner.balance() == MONEY
