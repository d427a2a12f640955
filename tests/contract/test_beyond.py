"""Quote, plan and reconcile (wire contract, beyond)."""

from decimal import Decimal
from typing import Any

import pytest

from house import House, PartnerProgram


@pytest.fixture
def program(house: House) -> PartnerProgram:
    return house.partner(money_major=1_000)


def quote(program: PartnerProgram, brand_id: str = "", lines: dict[Any, Any] | None = None, **more: Any) -> Any:
    body = program.order_body(brand_id, lines, **more)
    del body["referenceId"]
    return program.post("/orders/quote", body)


def codes(answer: Any) -> list[str]:
    return [violation["failureCode"] for violation in answer.json()["violations"]]


def test_a_quote_tells_the_debit_and_stores_nothing(program: PartnerProgram) -> None:
    answer = quote(program, lines={100: 2, 250: 1})
    assert answer.status_code == 200
    assert answer.json() == {
        "productId": "fixed", "amount": 450, "discountPercentage": 0, "debit": 450, "balance": 1000,
        "balanceAfter": 550, "currency": "INR", "violations": [],
    }  # fmt: skip
    assert program.balance() == 1000
    assert program.get("/orders").json()["data"] == []


def test_a_quote_tells_every_violation_at_once(house: House, program: PartnerProgram) -> None:
    brand = house.brand(
        status="INACTIVE", providers=["stock"], maxVouchersPerOrder=2, maxVouchersPerDenomination=1,
        maxDenominationsPerOrder=1, maxOrderAmount=300,
    )  # fmt: skip
    answer = quote(program, brand, {123: 2, 500: 2})
    assert codes(answer) == ["E102", "E101", "E156", "E154", "E153", "E150", "E152", "E300"]
    assert {violation["failureReason"] for violation in answer.json()["violations"]} == {
        "Brand not available", "Denomination not available", "Insufficient balance",
    }  # fmt: skip
    assert answer.json()["balanceAfter"] == 1000 - 1246


def test_a_quote_sees_an_empty_shelf(house: House, program: PartnerProgram) -> None:
    brand = house.brand(providers=["stock"], cardType="CARD_NUMBER_SECURED")
    house.enable(program, brand)
    house.stock(brand, 100, 2)
    assert codes(quote(program, brand, {100: 2})) == []
    assert codes(quote(program, brand, {100: 3})) == ["E150"]


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"amount": 99}, 400, "E151"),
        ({"amount": "100"}, 400, "E001"),
        ({"productId": "nobody"}, 404, "E004"),
        ({"denominationDetails": []}, 400, "E001"),
    ],
)
def test_a_quote_that_is_wrong_in_itself_is_an_error(
    program: PartnerProgram, change: dict[str, Any], status: int, error: str
) -> None:
    answer = quote(program, **change)
    assert (answer.status_code, answer.json()["id"]) == (status, error)


@pytest.mark.parametrize(
    ("amount", "lines"),
    [
        (850, [(500, 1), (250, 1), (100, 1)]),
        (300, [(100, 3)]),
        (1100, [(500, 2), (100, 1)]),
        (150, None),
        (50, None),
        (2_000_000, None),
    ],
)
def test_a_plan_is_the_fewest_vouchers_within_the_rules(
    program: PartnerProgram, amount: int, lines: list[tuple[int, int]] | None
) -> None:
    answer = program.post("/products/fixed/plan", {"amount": amount}).json()
    details = answer["denominationDetails"]
    assert (details and [(one["denomination"], one["quantity"]) for one in details]) == lines
    assert answer["amount"] == amount


def test_a_plan_of_a_flexible_brand_and_of_none(program: PartnerProgram) -> None:
    answer = program.post("/products/flexible/plan", {"amount": 12_345.5}).json()
    assert sum(Decimal(str(one["denomination"])) * one["quantity"] for one in answer["denominationDetails"]) == Decimal(
        "12345.5"
    )
    assert sum(one["quantity"] for one in answer["denominationDetails"]) == 2
    assert program.post("/products/nobody/plan", {"amount": 1}).status_code == 404
    assert program.post("/products/fixed/plan", {"amount": 1.234}).status_code == 400
    assert program.post("/products/fixed/plan", {}).status_code == 400


def test_a_plan_can_be_ordered(program: PartnerProgram) -> None:
    details = program.post("/products/fixed/plan", {"amount": 850}).json()["denominationDetails"]
    order = program.place(program.order_body(amount=850, denominationDetails=details))
    assert order.json()["status"] == "SUCCESS"


def test_books_that_agree_and_differ(house: House, program: PartnerProgram) -> None:
    right, wrong, failed = (program.place().json() for _ in range(3))
    others = house.partner().place().json()
    lines = [
        {"referenceId": right["referenceId"], "status": "SUCCESS", "amount": 100.0},
        {"referenceId": wrong["referenceId"], "status": "FAILED", "amount": 99.5},
        {"referenceId": "never-sent", "status": "SUCCESS", "amount": 1},
        {"referenceId": others["referenceId"], "status": "SUCCESS", "amount": 100},
        {"referenceId": failed["referenceId"], "status": "SUCCESS", "amount": 100},
    ]
    answer = program.post("/reconcile", {"orders": lines}).json()
    assert answer["matched"] == 2
    assert answer["differences"] == [
        {"referenceId": wrong["referenceId"], "orderId": wrong["id"], "member": "status", "yours": "FAILED",
         "ours": "SUCCESS"},
        {"referenceId": wrong["referenceId"], "orderId": wrong["id"], "member": "amount", "yours": "99.5",
         "ours": "100"},
        {"referenceId": "never-sent", "orderId": None, "member": "orderId", "yours": None, "ours": None},
        {"referenceId": others["referenceId"], "orderId": None, "member": "orderId", "yours": None, "ours": None},
    ]  # fmt: skip


@pytest.mark.parametrize("amount", ["1e999999", "-1e999999", "1e-999999", "1" + "0" * 100_000])
def test_an_amount_out_of_all_bounds_differs_and_costs_nothing(program: PartnerProgram, amount: str) -> None:
    order = program.place().json()
    line = f'{{"referenceId": "{order["referenceId"]}", "status": "SUCCESS", "amount": {amount}}}'
    answer = program.post("/reconcile", content=f'{{"orders": [{line}]}}')
    assert answer.status_code == 200
    assert [one["member"] for one in answer.json()["differences"]] == ["amount"]


def test_a_quote_tells_causes_in_the_order_of_a_placement(house: House, program: PartnerProgram) -> None:
    brand = house.brand(providers=["stock"], cardType="CARD_NUMBER_SECURED", minOrderAmount=1_000)
    house.enable(program, brand)
    assert codes(quote(program, brand, {100: 1})) == ["E150", "E152"]
    assert program.place(product_id=brand).json()["failureCode"] == "E150"


def test_a_list_to_reconcile_is_checked(program: PartnerProgram) -> None:
    line = {"referenceId": "twice", "status": "SUCCESS", "amount": 1}
    for orders in ([], [line, line], [{"referenceId": "x"}], [line | {"amount": "1"}], [line | {"referenceId": ".."}]):
        answer = program.post("/reconcile", {"orders": orders})
        assert answer.status_code == 400, orders
        assert answer.json()["subErrors"][0]["fieldName"].startswith("orders")
