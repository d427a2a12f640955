"""Replay, conflict, and what a referenceId may be (wire contract §3, replay)."""

import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from giftrail import app
from giftrail.catalog import edit
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.kit import money
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.wallet import ledger
from house import House, PartnerProgram

MONEY = 100_000
CUSTOMER = {"name": "Asha Rao", "phoneNumber": "+919800000000", "email": "asha@example.com"}
DELIVERY = {
    "recipientName": "Ravi",
    "recipientType": "OTHER",
    "recipientPhoneNumber": "+919811111111",
    "recipientEmail": "ravi@example.com",
    "senderName": "Asha",
    "wishMessage": "Many happy returns",
}


def details(*lines: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"denomination": denomination, "quantity": quantity} for denomination, quantity in lines]


def rich_body(partner: PartnerProgram, **changes: Any) -> dict[str, Any]:
    """An order with every member the specification has."""
    body = partner.order_body(lines={500: 1, 100: 2}, customerDetails=dict(CUSTOMER), deliveryDetails=dict(DELIVERY))
    return body | changes


def by_reference(partner: PartnerProgram, reference_id: str) -> httpx.Response:
    return partner.get(f"/orders/by-reference/{quote(reference_id, safe='')}")


def assert_replayed(first: httpx.Response, again: httpx.Response) -> None:
    assert again.status_code == 200, again.text
    assert again.json() == first.json()
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"


def assert_conflict(first: httpx.Response, again: httpx.Response) -> None:
    assert again.status_code == 409, again.text
    error = again.json()
    assert (error["id"], error["code"]) == ("E008", "REFERENCE_ID_CONFLICT")
    assert error["orderId"] == first.json()["id"]
    assert first.json()["referenceId"] in error["message"]
    assert "Idempotent-Replayed" not in again.headers


def test_the_same_request_again_is_the_same_order(house: House) -> None:
    partner = house.partner()
    body = rich_body(partner)
    first = partner.place(body)
    for _ in range(3):
        assert_replayed(first, partner.place(body))
    assert partner.balance() == MONEY - 700
    assert len(partner.get("/orders").json()["data"]) == 1


EQUALS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "amount 700.0": lambda body: body | {"amount": 700.0},
    "denominations 500.0": lambda body: body | {"denominationDetails": details((500.0, 1), (100.0, 2))},
    "quantities 2.0": lambda body: body | {"denominationDetails": details((500, 1.0), (100, 2.0))},
    "lines reordered": lambda body: body | {"denominationDetails": details((100, 2), (500, 1))},
    "lines split": lambda body: body | {"denominationDetails": details((100, 1), (500, 1), (100, 1))},
    "extra member": lambda body: body | {"discountAmount": 12, "extra": {"deep": [1]}},
    "extra member in a line": lambda body: (
        body | {"denominationDetails": [line | {"sku": "x"} for line in body["denominationDetails"]]}
    ),
    "extra member in customerDetails": lambda body: body | {"customerDetails": CUSTOMER | {"loyalty": 7}},
    "extra member in deliveryDetails": lambda body: body | {"deliveryDetails": DELIVERY | {"gift": True}},
    "members in another order": lambda body: {
        name: dict(reversed(value.items())) if isinstance(value, dict) else value
        for name, value in reversed(body.items())
    },
}


@pytest.mark.parametrize("vary", EQUALS.values(), ids=EQUALS)
def test_equal_content_is_a_replay(house: House, vary: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    partner = house.partner()
    body = rich_body(partner)
    assert_replayed(partner.place(body), partner.place(vary(body)))
    assert partner.balance() == MONEY - 700


@pytest.mark.parametrize(
    ("was", "again"),
    [("500", "500.0"), ("500", "5e2"), ("500", "500.00000000000000"), ("5E+2", "500"), ("0.5e3", "50000e-2")],
)
def test_numbers_are_compared_by_value(house: House, was: str, again: str) -> None:
    partner = house.partner()
    reference_id = uuid.uuid4().hex
    bodies = [
        f'{{"productId":"fixed","referenceId":"{reference_id}","amount":{number},'
        f'"denominationDetails":[{{"denomination":{number},"quantity":1}}]}}'
        for number in (was, again)
    ]
    first, second = (partner.post("/orders", content=body) for body in bodies)
    assert_replayed(first, second)


@pytest.mark.parametrize("holder", ["customerDetails", "deliveryDetails"])
def test_an_absent_object_is_a_null_one(house: House, holder: str) -> None:
    partner = house.partner()
    null = rich_body(partner, **{holder: None})
    absent = {name: value for name, value in null.items() if name != holder}
    assert_replayed(partner.place(null), partner.place(absent))
    other = absent | {"referenceId": uuid.uuid4().hex}
    assert_replayed(partner.place(other), partner.place(other | {holder: None}))


OTHERS: dict[str, dict[str, Any]] = {
    "productId": {"productId": "flexible"},
    "productId inactive": {"productId": "inactive"},
    "productId unknown": {"productId": "never-imported"},
    "amount and a line": {"amount": 800, "denominationDetails": details((500, 1), (100, 3))},
    "other lines of the same amount": {"denominationDetails": details((100, 7))},
    "a denomination not available": {"amount": 700, "denominationDetails": details((700, 1))},
    "customerDetails null": {"customerDetails": None},
    "deliveryDetails null": {"deliveryDetails": None},
    **{f"customerDetails.{name}": {"customerDetails": CUSTOMER | {name: "other"}} for name in CUSTOMER},
    **{
        f"customerDetails without {name}": {"customerDetails": {n: v for n, v in CUSTOMER.items() if n != name}}
        for name in CUSTOMER
    },
    **{
        f"deliveryDetails.{name}": {
            "deliveryDetails": DELIVERY | {name: "SELF" if name == "recipientType" else "other"}
        }
        for name in DELIVERY
    },
    **{
        f"deliveryDetails without {name}": {"deliveryDetails": {n: v for n, v in DELIVERY.items() if n != name}}
        for name in DELIVERY
    },
    "customer's name in other letters": {"customerDetails": CUSTOMER | {"name": "ASHA RAO"}},
    "customer's name with a space": {"customerDetails": CUSTOMER | {"name": "Asha Rao "}},
}


@pytest.mark.parametrize("money_major", [MONEY, 0], ids=["SUCCESS", "FAILED"])
@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_other_content_is_a_conflict_and_changes_nothing(
    house: House, changes: dict[str, Any], money_major: int
) -> None:
    partner = house.partner(money_major=money_major)
    body = rich_body(partner)
    first = partner.place(body)
    balance = partner.balance()
    assert_conflict(first, partner.place(body | changes))
    assert partner.balance() == balance
    assert by_reference(partner, body["referenceId"]).json() == first.json()
    assert len(partner.get("/orders").json()["data"]) == 1
    assert_replayed(first, partner.place(body))


@pytest.mark.parametrize(
    ("changes", "error_id"), [({"amount": 701}, "E151"), ({"amount": 0}, "E001"), ({"productId": None}, "E001")]
)
def test_the_shape_is_judged_before_the_reference(house: House, changes: dict[str, Any], error_id: str) -> None:
    partner = house.partner()
    body = rich_body(partner)
    first = partner.place(body)
    answer = partner.place(body | changes)
    assert (answer.status_code, answer.json()["id"]) == (400, error_id)
    assert_replayed(first, partner.place(body))


def test_a_reference_is_unique_for_its_partner_only(house: House) -> None:
    one, other = house.partner(), house.partner()
    body = one.order_body()
    orders = [partner.place(body) for partner in (one, other)]
    assert [order.json()["status"] for order in orders] == ["SUCCESS", "SUCCESS"]
    assert all("Idempotent-Replayed" not in order.headers for order in orders)
    assert orders[0].json()["id"] != orders[1].json()["id"]
    assert_conflict(orders[1], other.place(body | {"customerDetails": None}))
    for partner, order in zip((one, other), orders, strict=True):
        assert by_reference(partner, body["referenceId"]).json() == order.json()


def deactivate(house: House, _: PartnerProgram, brand_id: str) -> None:
    set_status(house, brand_id, catalog.Status.INACTIVE)


def set_status(house: House, brand_id: str, status: catalog.Status) -> None:
    async def deed(conn: pool.Connection) -> None:
        await edit.set_status(conn, brand_id=brand_id, status=status, now=app.now())

    house.do(deed)


def disable(house: House, partner: PartnerProgram, brand_id: str) -> None:
    house.enable(partner, brand_id, enabled=False)


def become_b2c(house: House, partner: PartnerProgram, _: str) -> None:
    async def deed(conn: pool.Connection) -> None:
        await manage.set_partner(
            conn, partner_id=partner.partner.partner_id, values={"kind": partners.Kind.B2C}, now=app.now()
        )

    house.do(deed)


def change_discount(house: House, partner: PartnerProgram, brand_id: str) -> None:
    async def deed(conn: pool.Connection) -> None:
        await edit.set_discount(
            conn, partner=partner.partner, brand_id=brand_id, percentage=Decimal("12.5"), now=app.now()
        )

    house.do(deed)


def empty_wallet(_: House, partner: PartnerProgram, brand_id: str) -> None:
    assert partner.place(product_id=brand_id, lines={100: partner.balance() // 100}).json()["status"] == "SUCCESS"
    assert partner.balance() == 0


def narrow_brand(house: House, _: PartnerProgram, brand_id: str) -> None:
    house.brand(
        brand_id,
        denominations=[Decimal(900)],
        minOrderAmount=900,
        maxVouchersPerOrder=1,
        maxVouchersPerDenomination=1,
        maxDenominationsPerOrder=1,
    )


def change_card_type(house: House, _: PartnerProgram, brand_id: str) -> None:
    house.brand(brand_id, cardType="PIN_NO_SECURED", voucherExpiryInMonths=1)


@pytest.mark.parametrize(
    "change",
    [deactivate, disable, become_b2c, change_discount, empty_wallet, narrow_brand, change_card_type],
)
def test_a_replay_is_answered_the_same_after_the_world_has_changed(
    house: House, change: Callable[[House, PartnerProgram, str], None]
) -> None:
    brand_id = house.brand()
    partner = house.partner(brands=[brand_id], money_major=1000)
    body = partner.order_body(brand_id, {100: 2}, customerDetails=None)
    first = partner.place(body)
    assert first.json()["status"] == "SUCCESS"
    change(house, partner, brand_id)
    balance = partner.balance()
    assert_replayed(first, partner.place(body))
    assert_conflict(first, partner.place(body | {"amount": 100, "denominationDetails": details((100, 1))}))
    assert partner.balance() == balance


def test_a_replay_from_an_empty_shelf_is_answered_the_same(house: House) -> None:
    brand_id = house.brand(providers=["stock"])
    house.stock(brand_id, 100, 2)
    partner = house.partner(brands=[brand_id])
    body = partner.order_body(brand_id, {100: 2})
    first = partner.place(body)
    assert partner.place(product_id=brand_id).json()["failureCode"] == "E150"
    assert_replayed(first, partner.place(body))


def top_up(house: House, partner: PartnerProgram, major: int) -> None:
    async def deed(conn: pool.Connection) -> None:
        wallet = await ledger.open_wallet(conn, partner_id=partner.partner.partner_id)
        wallet.top_up(money.to_minor(Decimal(major), currency="INR"), note=None, now=app.now())
        await ledger.close_wallet(conn, wallet, now=app.now())

    house.do(deed)


def test_failed_replays_as_failed_when_its_cause_is_gone(house: House) -> None:
    brand_id = house.brand(providers=["stock"], status="INACTIVE")
    partner = house.partner(brands=[brand_id], money_major=0)
    removals: list[tuple[str, Callable[[], None]]] = [
        ("E102", lambda: set_status(house, brand_id, catalog.Status.ACTIVE)),
        ("E150", lambda: house.stock(brand_id, 100, 1)),
        ("E300", lambda: top_up(house, partner, 100)),
    ]
    for code, remove in removals:
        body = partner.order_body(brand_id)
        first = partner.place(body)
        assert first.json()["failureCode"] == code
        remove()
        assert_replayed(first, partner.place(body))
        assert by_reference(partner, body["referenceId"]).json() == first.json()
    assert partner.place(product_id=brand_id).json()["status"] == "SUCCESS"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"amount": 1}, 400),
        ({"amount": "700"}, 400),
        ({"denominationDetails": []}, 400),
        ({"denominationDetails": details((500, 1), (100, 1.5))}, 400),
        ({"customerDetails": None}, 400),
        ({"customerDetails": {"name": "x" * 101}}, 400),
        ({"productId": "never-imported"}, 404),
        ({"padding": "x" * 300_000}, 413),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_reference_whose_request_was_wrong_can_be_used_again(
    house: House, changes: dict[str, Any], status: int
) -> None:
    partner = house.partner(kind="B2C")
    body = rich_body(partner)
    assert partner.place(body | changes).status_code == status
    assert by_reference(partner, body["referenceId"]).status_code == 404
    right = partner.place(body)
    assert right.json()["status"] == "SUCCESS"
    assert "Idempotent-Replayed" not in right.headers


@pytest.mark.parametrize(
    "reference_id",
    ["", "x" * 41, "🎁" * 41, "a\nb", "a\tb", "a\rb", "\x00", "a\x00b", "\x1f", "\x7f", "\x85", "\x9f", ".", ".."],
    ids=ascii,
)
def test_a_reference_that_is_refused(house: House, reference_id: str) -> None:
    partner = house.partner()
    answer = partner.place(referenceId=reference_id)
    assert answer.status_code == 400, answer.text
    assert answer.json()["id"] == "E001"
    assert [error["fieldName"] for error in answer.json()["subErrors"]] == ["referenceId"]
    assert partner.get("/orders").json()["data"] == []
    assert partner.balance() == MONEY


@pytest.mark.parametrize(
    "reference_id",
    [
        "a", "x" * 40, "🎁" * 40, "a/b", "/", "//", "/a", "a/", "a//b", "a/../b", "../a", "a/..", "./a", "...", ".a",
        "a b", " ", " a ", "100%", "%", "%2F", "%252F", "a%2Fb", "%00", "%zz", "a#b", "#", "a?b=c", "?", "a+b", "+",
        "a&b=c;d", "a\\b", '"a"', "'a'", "<a>", "{a}", "[a]", "a:b", "http://a/b", "ümlaut", "e\u0301", "\u00e9",
        "参照", "مرجع", "👩‍👩‍👧", "\u200b", "\u202e", "by-reference", "vouchers/x", "null", "0", "~", "$1", "'; DROP--",
    ],
    ids=ascii,
)  # fmt: skip
def test_a_reference_that_is_accepted_is_found_again(house: House, reference_id: str) -> None:
    partner = house.partner()
    first = partner.place(referenceId=reference_id)
    assert first.status_code == 200, first.text
    assert first.json()["referenceId"] == reference_id
    found = by_reference(partner, reference_id)
    assert (found.status_code, found.json()) == (200, first.json())
    assert_replayed(first, partner.place(referenceId=reference_id))


def test_references_are_different_by_every_code_point(house: House) -> None:
    partner = house.partner()
    references = ["a", "A", "a ", " a", "a\u0301", "á", "%61", "a/", "a+", "a%20", "a%2B"]
    ids = [partner.place(referenceId=reference_id).json()["id"] for reference_id in references]
    assert len(set(ids)) == len(references)
    assert [by_reference(partner, reference_id).json()["id"] for reference_id in references] == ids


@pytest.mark.parametrize("sent", ["a/b", "a%2Fb", "a%2fb", "%61%2F%62"])
def test_the_path_is_percent_decoded_once(house: House, sent: str) -> None:
    partner = house.partner()
    literal, decoded = (partner.place(referenceId=reference).json()["id"] for reference in ("a%2Fb", "a/b"))
    assert partner.get(f"/orders/by-reference/{sent}").json()["id"] == decoded
    assert partner.get("/orders/by-reference/a%252Fb").json()["id"] == literal


@pytest.mark.parametrize("status", ["SUCCESS", "FAILED"])
def test_a_reference_is_not_freed_by_its_order(house: House, status: str) -> None:
    partner = house.partner(money_major=100 if status == "SUCCESS" else 0)
    body = partner.order_body()
    first = partner.place(body)
    assert first.json()["status"] == status
    top_up(house, partner, 5000)
    assert_conflict(first, partner.place(body | {"amount": 250, "denominationDetails": details((250, 1))}))
    assert partner.balance() == 5000


def test_money_is_told_exactly_on_a_replay(house: House) -> None:
    partner = house.partner()
    body = partner.order_body(house.flexible_brand, {10.1: 3}, amount=30.3)
    texts = [partner.place(body).text for _ in range(2)]
    assert texts[0] == texts[1]
    order = json.loads(texts[0], parse_float=Decimal)
    assert (order["amount"], order["debit"]) == (Decimal("30.3"), Decimal("30.3"))
