import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from giftrail import app
from giftrail.catalog import edit
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import money
from giftrail.wallet import ledger
from house import House, PartnerProgram

MEMBERS = {"id", "kind", "amount", "balance", "orderId", "referenceId", "note", "createdAt"}
SMALLEST = {"INR": "0.01", "JPY": "1", "KWD": "0.001"}


def exact(answer: httpx.Response) -> Any:
    """The answer's JSON, numbers without a binary floating point in between."""
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_float=Decimal)


def move(house: House, partner: PartnerProgram, deed: Callable[[ledger.OpenWallet], None]) -> None:
    """Do something to a partner's wallet, as an operator does."""

    async def run(conn: pool.Connection) -> None:
        wallet = await ledger.open_wallet(conn, partner_id=partner.partner.partner_id)
        deed(wallet)
        await ledger.close_wallet(conn, wallet, now=app.now())

    house.do(run, settle=False)


def minor(partner: PartnerProgram, major: int | str) -> int:
    return money.to_minor(Decimal(major), currency=partner.partner.currency)


def top_up(house: House, partner: PartnerProgram, major: int | str, note: str | None = None) -> None:
    move(house, partner, lambda wallet: wallet.top_up(minor(partner, major), note=note, now=app.now()))


def adjust(house: House, partner: PartnerProgram, major: int | str, note: str = "correction") -> None:
    move(house, partner, lambda wallet: wallet.adjust(minor(partner, major), note=note, now=app.now()))


def set_threshold(house: House, partner: PartnerProgram, major: int | str | None) -> None:
    threshold = None if major is None else minor(partner, major)
    move(house, partner, lambda wallet: wallet.set_threshold(threshold))


def discount(house: House, partner: PartnerProgram, brand_id: str, percentage: str) -> None:
    async def deed(conn: pool.Connection) -> None:
        await edit.set_discount(
            conn, partner=partner.partner, brand_id=brand_id, percentage=Decimal(percentage), now=app.now()
        )

    house.do(deed)


def told(house: House, partner: PartnerProgram, kind: events.Kind) -> list[dict[str, Any]]:
    """The bodies of a partner's events of a kind, oldest first."""

    async def deed(conn: pool.Connection) -> list[events.Event]:
        return await outbox.list_events(conn, partner_id=partner.partner.partner_id)

    return [event.body for event in house.do(deed, settle=False) if event.kind is kind]


def buy(partner: PartnerProgram, brand_id: str, denomination: int | str, quantity: int = 1) -> Any:
    """Place an order with amounts written exactly so."""
    amount = Decimal(denomination) * quantity
    body = (
        f'{{"productId": "{brand_id}", "referenceId": "{uuid.uuid4().hex}", "amount": {amount},'
        f' "denominationDetails": [{{"denomination": {denomination}, "quantity": {quantity}}}]}}'
    )
    return exact(partner.post("/orders", content=body))


def statement(partner: PartnerProgram, **query: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = exact(partner.get("/wallet/transactions", params=query))["data"]
    return rows


@pytest.fixture(scope="module")
def flexible(_session_house: House) -> dict[str, str]:
    """By currency, a brand that takes any amount."""
    return {
        currency: _session_house.brand(
            denominationType="FLEXIBLE",
            denominations=None,
            currency=currency,
            minVoucherAmount=Decimal(smallest),
            maxVoucherAmount=Decimal(1_000_000),
            minOrderAmount=Decimal(smallest),
            maxOrderAmount=Decimal(10_000_000),
        )
        for currency, smallest in SMALLEST.items()
    }


# ---- balance ----


@pytest.mark.parametrize(
    ("currency", "amount"),
    [
        ("INR", "0"), ("INR", "1000.5"), ("INR", "0.01"), ("INR", "9999999999999.99"), ("INR", "1000000"),
        ("JPY", "1000"), ("KWD", "1.005"), ("KWD", "0.001"), ("USD", "0.3"),
    ],
)  # fmt: skip
def test_the_balance_is_an_exact_number_of_the_wallet_s_currency(house: House, currency: str, amount: str) -> None:
    partner = house.partner(currency=currency, money_major=amount)
    answer = partner.get("/wallet/balance")
    assert exact(answer) == {"balance": Decimal(amount), "held": 0, "currency": currency, "threshold": None}
    assert f'"balance":{amount}' in answer.text.replace(" ", "")


@pytest.mark.parametrize(("currency", "threshold"), [("INR", "100"), ("INR", "0.5"), ("KWD", "0.125"), ("INR", "0")])
def test_the_balance_tells_the_threshold(house: House, currency: str, threshold: str) -> None:
    partner = house.partner(currency=currency)
    set_threshold(house, partner, threshold)
    assert exact(partner.get("/wallet/balance"))["threshold"] == Decimal(threshold)
    set_threshold(house, partner, None)
    assert exact(partner.get("/wallet/balance"))["threshold"] is None


def test_a_wallet_is_its_partner_s_own(house: House) -> None:
    one, other = house.partner(money_major=500), house.partner(money_major=700)
    one.place(lines={100: 1})
    assert (one.balance(), other.balance()) == (400, 700)


# ---- statement ----


def test_each_movement_has_its_kind_sign_and_balance_newest_first(house: House) -> None:
    partner = house.partner(money_major=0)
    top_up(house, partner, 1000, "bank transfer 7")
    order = partner.place(lines={100: 2}).json()
    adjust(house, partner, "-50.25", "too much")
    adjust(house, partner, "0.25", "too little")
    rows = statement(partner)
    assert all(row.keys() == MEMBERS for row in rows)
    assert [(row["kind"], row["amount"], row["balance"], row["note"]) for row in rows] == [
        ("ADJUSTMENT", Decimal("0.25"), 750, "too little"),
        ("ADJUSTMENT", Decimal("-50.25"), Decimal("749.75"), "too much"),
        ("DEBIT", -200, 800, None),
        ("TOP_UP", 1000, 1000, "bank transfer 7"),
    ]
    assert [(row["orderId"], row["referenceId"]) for row in rows] == [
        (None, None),
        (None, None),
        (order["id"], order["referenceId"]),
        (None, None),
    ]
    assert len({row["id"] for row in rows}) == 4
    moments = [datetime.fromisoformat(row["createdAt"]) for row in rows]
    assert moments == sorted(moments, reverse=True)
    assert all(moment.utcoffset() == timedelta(0) for moment in moments)


def test_each_balance_is_the_one_before_and_the_amount(house: House, flexible: dict[str, str]) -> None:
    partner = house.partner(brands=[flexible["INR"]], money_major="100.1")
    for amount in ("0.1", "0.2", "33.33", "0.01"):
        assert buy(partner, flexible["INR"], amount)["status"] == "SUCCESS"
    rows = statement(partner)
    for row, before in zip(rows, [*rows[1:], {"balance": 0}], strict=True):
        assert row["balance"] == before["balance"] + row["amount"]
    assert rows[0]["balance"] == exact(partner.get("/wallet/balance"))["balance"] == Decimal("66.46")


def test_a_failed_order_moves_nothing(house: House) -> None:
    partner = house.partner(money_major=50)
    order = partner.place(lines={100: 1}).json()
    assert (order["status"], order["failureReason"], order["failureCode"]) == (
        "FAILED", "Insufficient balance", "E300",
    )  # fmt: skip
    assert [row["kind"] for row in statement(partner)] == ["TOP_UP"]
    assert partner.balance() == 50


@pytest.fixture(scope="module")
def busy(_session_house: House) -> PartnerProgram:
    """A partner with 230 movements, the n-th (from 1) of n."""
    partner = _session_house.partner(money_major=0)

    def fill(wallet: ledger.OpenWallet) -> None:
        for number in range(1, 231):
            wallet.top_up(number * 100, note=None, now=app.now())

    move(_session_house, partner, fill)
    return partner


@pytest.mark.parametrize("limit", [1, 50, 115, 200, None])
def test_following_the_cursor_gives_each_movement_once(busy: PartnerProgram, limit: int | None) -> None:
    query: dict[str, Any] = {} if limit is None else {"limit": limit}
    amounts: list[int] = []
    cursor: str | None = None
    while True:
        page = busy.get("/wallet/transactions", params=query | ({"cursor": cursor} if cursor else {})).json()
        assert page.keys() == {"data", "nextCursor"}
        amounts += [row["amount"] for row in page["data"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
        assert isinstance(cursor, str)
        assert len(page["data"]) == (limit or 50)
    assert amounts == list(range(230, 0, -1))


def test_no_page_has_more_than_200(busy: PartnerProgram) -> None:
    answer = busy.get("/wallet/transactions?limit=1000")
    assert answer.status_code == 400 or len(answer.json()["data"]) == 200


def test_a_page_is_the_same_whatever_happened_since(house: House) -> None:
    partner = house.partner(money_major=1)
    top_up(house, partner, 2)
    top_up(house, partner, 3)
    first = partner.get("/wallet/transactions?limit=1").json()
    top_up(house, partner, 4)
    rest = partner.get("/wallet/transactions", params={"cursor": first["nextCursor"]}).json()
    assert [row["amount"] for row in first["data"] + rest["data"]] == [3, 2, 1]
    assert rest["nextCursor"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=1.5", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=%C3%A9", "cursor"),
        ("cursor=1", "cursor"),
        ("from=yesterday", "from"),
        ("from=2026-01-01", "from"),
        ("from=2026-01-01T00:00:00", "from"),
        ("to=2026-02-30T00:00:00Z", "to"),
    ],
)
@pytest.mark.parametrize("path", ["/wallet/transactions", "/orders"])
def test_a_malformed_parameter_is_400(house: House, path: str, query: str, field: str) -> None:
    answer = house.partner().get(f"{path}?{query}")
    assert answer.status_code == 400, answer.text
    assert answer.json()["id"] == "E001"
    assert [sub_error["fieldName"] for sub_error in answer.json()["subErrors"]] == [field]


def test_from_and_to_bound_the_statement(house: House) -> None:
    partner = house.partner(money_major=1)
    time.sleep(0.01)
    first = app.now().isoformat()
    time.sleep(0.01)
    top_up(house, partner, 2)
    time.sleep(0.01)
    second = app.now().isoformat()
    time.sleep(0.01)
    top_up(house, partner, 3)
    for query, expected in (
        ({}, [3, 2, 1]),
        ({"from": first}, [3, 2]),
        ({"to": first}, [1]),
        ({"from": first, "to": second}, [2]),
        ({"from": second}, [3]),
        ({"to": second}, [2, 1]),
        ({"from": second, "to": first}, []),
        ({"from": "2999-01-01T00:00:00Z"}, []),
    ):
        assert [row["amount"] for row in statement(partner, **query)] == expected, query
    page = partner.get("/wallet/transactions", params={"from": first, "limit": 1}).json()
    rest = statement(partner, **{"from": first, "cursor": page["nextCursor"]})
    assert [row["amount"] for row in rest] == [2]
    assert [row["amount"] for row in statement(partner, **{"from": rest[0]["createdAt"]})][-1] == 2


# ---- discounts ----


@pytest.mark.parametrize(
    ("currency", "denomination", "quantity", "percentage", "debit"),
    [
        ("INR", "100", 1, "0", "100"),
        ("INR", "100", 1, "5", "95"),
        ("INR", "100", 1, "100", "0"),
        ("INR", "100", 1, "12.3456", "87.65"),
        ("INR", "100", 1, "33.3333", "66.67"),
        ("INR", "0.01", 1, "50", "0"),
        ("INR", "0.01", 1, "49.9999", "0.01"),
        ("INR", "0.03", 1, "50", "0.01"),
        ("INR", "0.05", 1, "50", "0.02"),
        ("INR", "0.1", 1, "25", "0.07"),
        ("INR", "0.3", 1, "5", "0.28"),
        ("INR", "0.5", 1, "1", "0.49"),
        ("INR", "1.15", 1, "10", "1.03"),
        ("INR", "100", 1, "0.0001", "100"),
        ("INR", "4999.99", 1, "0.0001", "4999.99"),
        ("INR", "5000", 1, "0.0001", "4999.99"),
        ("INR", "10000", 1, "0.0001", "9999.99"),
        ("INR", "0.01", 3, "50", "0.01"),
        ("INR", "33.33", 3, "7.5", "92.49"),
        ("INR", "1000000", 9, "99.9999", "9"),
        ("JPY", "1", 1, "50", "0"),
        ("JPY", "101", 1, "50", "50"),
        ("JPY", "3", 1, "16.6666", "3"),
        ("JPY", "3", 1, "16.6667", "2"),
        ("JPY", "999", 1, "0.05", "999"),
        ("JPY", "1000", 1, "0.05", "999"),
        ("KWD", "0.001", 1, "50", "0"),
        ("KWD", "1.005", 1, "10", "0.904"),
        ("KWD", "12.345", 1, "33.3333", "8.23"),
        ("KWD", "0.125", 2, "1", "0.247"),
    ],
)
def test_a_discount_is_rounded_half_up_in_the_minor_unit(  # noqa: PLR0917 — a row of the table
    house: House, flexible: dict[str, str], currency: str, denomination: str, quantity: int, percentage: str, debit: str
) -> None:
    brand_id = flexible[currency]
    partner = house.partner(currency=currency, brands=[brand_id], money_major=10_000_000)
    discount(house, partner, brand_id, percentage)
    order = buy(partner, brand_id, denomination, quantity)
    assert order["status"] == "SUCCESS"
    assert order["amount"] == Decimal(denomination) * quantity
    assert order["debit"] == Decimal(debit)
    assert exact(partner.get("/wallet/balance"))["balance"] == 10_000_000 - Decimal(debit)
    assert [voucher["amount"] for voucher in order["vouchers"]] == [Decimal(denomination)] * quantity
    debits = [row for row in statement(partner) if row["kind"] == "DEBIT"]
    assert sum(row["amount"] for row in debits) == -Decimal(debit)


def test_an_order_keeps_the_debit_it_was_placed_with(house: House) -> None:
    partner = house.partner()
    discount(house, partner, house.fixed_brand, "10")
    body = partner.order_body(lines={100: 1})
    order = partner.place(body).json()
    discount(house, partner, house.fixed_brand, "20")
    assert order["debit"] == 90
    assert partner.get(f"/orders/{order['id']}").json()["debit"] == 90
    assert partner.get("/orders").json()["data"][0]["debit"] == 90
    assert partner.place(body).json()["debit"] == 90
    assert partner.place(lines={100: 1}).json()["debit"] == 80
    assert partner.balance() == 100_000 - 90 - 80


def test_a_discount_is_the_partner_s_own_and_the_brand_s_own(house: House) -> None:
    partner, other = house.partner(), house.partner()
    discount(house, partner, house.fixed_brand, "50")
    assert partner.place(lines={100: 1}).json()["debit"] == 50
    assert other.place(lines={100: 1}).json()["debit"] == 100
    assert partner.place(product_id=house.flexible_brand, lines={100: 1}).json()["debit"] == 100


@pytest.mark.parametrize(("money_major", "status"), [("95", "SUCCESS"), ("94.99", "FAILED"), ("95.01", "SUCCESS")])
def test_the_debit_and_not_the_amount_must_be_in_the_wallet(house: House, money_major: str, status: str) -> None:
    partner = house.partner(money_major=money_major)
    discount(house, partner, house.fixed_brand, "5")
    assert partner.place(lines={100: 1}).json()["status"] == status


@pytest.mark.parametrize("percentage", ["-0.0001", "100.0001", "101", "0.00001", "12.34567", "NaN", "Infinity", "-1"])
def test_a_discount_is_0_to_100_with_at_most_4_decimals(house: House, percentage: str) -> None:
    partner = house.partner()
    with pytest.raises(edit.DiscountRefused):
        discount(house, partner, house.fixed_brand, percentage)
    assert partner.place(lines={100: 1}).json()["debit"] == 100


# ---- low balance ----


def test_low_balance_is_told_once_a_crossing_and_again_after_a_recovery(house: House) -> None:
    partner = house.partner(money_major=1000)
    set_threshold(house, partner, 500)

    def spend(major: int) -> None:
        assert partner.place(product_id=house.flexible_brand, lines={major: 1}).json()["status"] == "SUCCESS"

    steps: list[tuple[str, Callable[[], None], list[tuple[float, int]]]] = [
        ("600 is above", lambda: spend(400), []),
        ("500 is not below", lambda: spend(100), []),
        ("490 is below", lambda: spend(10), [(490, 500)]),
        ("390 is no crossing", lambda: spend(100), []),
        ("490 is no recovery", lambda: top_up(house, partner, 100), []),
        ("480 is no crossing", lambda: spend(10), []),
        ("500 is a recovery", lambda: top_up(house, partner, 20), []),
        ("490 is below again", lambda: spend(10), [(490, 500)]),
        ("far above", lambda: top_up(house, partner, 1000), []),
        ("an adjustment crosses", lambda: adjust(house, partner, "-1400.5"), [(89.5, 500)]),
        ("an adjustment recovers", lambda: adjust(house, partner, "1400.5"), []),
        ("all at once", lambda: spend(1490), [(0, 500)]),
    ]
    seen = 0
    for name, step, expected in steps:
        step()
        bodies = told(house, partner, events.Kind.WALLET_LOW_BALANCE)
        assert [(body["balance"], body["threshold"]) for body in bodies[seen:]] == expected, name
        seen = len(bodies)


def test_raising_the_threshold_above_the_balance_tells_nothing(house: House) -> None:
    partner = house.partner(money_major=1000)
    set_threshold(house, partner, 100)
    set_threshold(house, partner, 2000)
    assert told(house, partner, events.Kind.WALLET_LOW_BALANCE) == []
    partner.place(lines={100: 1})
    assert told(house, partner, events.Kind.WALLET_LOW_BALANCE) == [], "900 is no crossing of 2000"
    top_up(house, partner, 1100)
    partner.place(lines={100: 1})
    bodies = told(house, partner, events.Kind.WALLET_LOW_BALANCE)
    assert [(body["balance"], body["threshold"]) for body in bodies] == [(1900, 2000)]


def test_a_lowered_threshold_is_crossed_anew(house: House) -> None:
    partner = house.partner(money_major=1000)
    set_threshold(house, partner, 950)
    partner.place(lines={100: 1})
    set_threshold(house, partner, 850)
    partner.place(lines={100: 1})
    bodies = told(house, partner, events.Kind.WALLET_LOW_BALANCE)
    assert [(body["balance"], body["threshold"]) for body in bodies] == [(900, 950), (800, 850)]


def test_without_a_threshold_nothing_is_told(house: House) -> None:
    partner = house.partner(money_major=100)
    partner.place(lines={100: 1})
    set_threshold(house, partner, 50)
    set_threshold(house, partner, None)
    top_up(house, partner, 100)
    partner.place(lines={100: 1})
    assert told(house, partner, events.Kind.WALLET_LOW_BALANCE) == []


def test_orders_at_the_same_time_cross_once(house: House) -> None:
    partner = house.partner(money_major=1000)
    set_threshold(house, partner, 550)
    partner.log_in()
    with ThreadPoolExecutor(10) as threads:
        statuses = [
            answer.json()["status"] for answer in threads.map(lambda _: partner.place(lines={100: 1}), range(10))
        ]
    assert statuses == ["SUCCESS"] * 10
    bodies = told(house, partner, events.Kind.WALLET_LOW_BALANCE)
    assert [(body["balance"], body["threshold"]) for body in bodies] == [(500, 550)]


def test_a_failed_order_tells_nothing(house: House) -> None:
    partner = house.partner(money_major=99)
    set_threshold(house, partner, 50)
    partner.place(lines={100: 1})
    assert told(house, partner, events.Kind.WALLET_LOW_BALANCE) == []


# ---- brand events ----


@pytest.mark.parametrize(
    ("members", "changed"),
    [
        ({}, {}),
        ({"title": "Another"}, {}),
        ({"brandDescription": "Another", "tags": ["x"], "category": ["Travel"]}, {}),
        ({"status": "INACTIVE"}, {"status": "INACTIVE"}),
        ({"denominations": [Decimal(100), Decimal("250.5"), Decimal(500)]}, {"denominations": [100, 250.5, 500]}),
        ({"maxOrderAmount": Decimal("999999.5")}, {"maxOrderAmount": 999999.5}),
        ({"minOrderAmount": Decimal(150)}, {"minOrderAmount": 150}),
        ({"minVoucherAmount": Decimal(50)}, {"minVoucherAmount": 50, "minOrderAmount": 50}),
        (
            {"denominations": [Decimal(1000)]},
            {"denominations": [1000], "minVoucherAmount": 1000, "maxVoucherAmount": 1000, "minOrderAmount": 1000},
        ),
        (
            {"denominationType": "FLEXIBLE", "denominations": None, "minVoucherAmount": 1, "maxVoucherAmount": 2},
            {"denominationType": "FLEXIBLE", "denominations": [], "minVoucherAmount": 1, "maxVoucherAmount": 2,
             "minOrderAmount": 1},
        ),
    ],
)  # fmt: skip
def test_brand_updated_is_told_to_enabled_partners_when_what_it_tells_changed(
    house: House, members: dict[str, Any], changed: dict[str, Any]
) -> None:
    brand_id = house.brand()
    enabled, disabled, never = (house.partner(brands=brands) for brands in ([brand_id], [brand_id], []))
    house.enable(disabled, brand_id, enabled=False)
    house.brand(brand_id, **members)
    restrictions = {
        "minOrderAmount": 100,
        "maxOrderAmount": 1_000_000,
        "minVoucherAmount": 100,
        "maxVoucherAmount": 500,
    }
    body = {"id": brand_id, "denominationType": "FIXED", "status": "ACTIVE", "denominations": [100, 250, 500]}
    body |= {name: value for name, value in changed.items() if name in body}
    restrictions |= {name: value for name, value in changed.items() if name in restrictions}
    expected = [body | {"amountRestrictions": restrictions}] if changed else []
    found = told(house, enabled, events.Kind.BRAND_UPDATED)
    assert [{name: event[name] for name in (*body, "amountRestrictions")} for event in found] == expected
    assert told(house, disabled, events.Kind.BRAND_UPDATED) == []
    assert told(house, never, events.Kind.BRAND_UPDATED) == []


def test_each_change_of_a_brand_s_status_is_told_once(house: House) -> None:
    brand_id = house.brand()
    partner = house.partner(brands=[brand_id])
    for status in ("ACTIVE", "INACTIVE", "INACTIVE", "ACTIVE"):
        wanted = catalog.Status(status)

        async def deed(conn: pool.Connection, wanted: catalog.Status = wanted) -> None:
            await edit.set_status(conn, brand_id=brand_id, status=wanted, now=app.now())

        house.do(deed)
    found = [body["status"] for body in told(house, partner, events.Kind.BRAND_UPDATED)]
    assert found == ["INACTIVE", "ACTIVE"]


def test_a_discount_that_changed_is_told_to_its_partner(house: House) -> None:
    brand_id = house.brand()
    partner, other = house.partner(brands=[brand_id]), house.partner(brands=[brand_id])
    for percentage in ("0", "5", "5.0000", "12.5", "0"):
        discount(house, partner, brand_id, percentage)
    steps = [(5, 0), (12.5, 5), (0, 12.5)]
    assert told(house, partner, events.Kind.BRAND_DISCOUNT_UPDATED) == [
        {
            "id": brand_id,
            "brandId": brand_id,
            "discountPercentage": now,
            "previousDiscountPercentage": before,
            "subventionPercentage": now,
        }
        for now, before in steps
    ]
    assert told(house, other, events.Kind.BRAND_DISCOUNT_UPDATED) == []


def test_a_discount_for_a_brand_that_is_not_enabled_is_told_to_nobody(house: House) -> None:
    brand_id = house.brand()
    partner = house.partner(brands=[])
    discount(house, partner, brand_id, "5")
    assert told(house, partner, events.Kind.BRAND_DISCOUNT_UPDATED) == []


def test_an_order_that_was_never_processing_sends_no_terminal_event(house: House) -> None:
    partner = house.partner(money_major=150)
    assert partner.place(lines={100: 1}).json()["status"] == "SUCCESS"
    assert partner.place(lines={100: 1}).json()["status"] == "FAILED"
    assert told(house, partner, events.Kind.ORDER_TERMINAL_STATE) == []
