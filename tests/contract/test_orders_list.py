import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import chain
from typing import Any

import pytest

from giftrail import app
from house import House, PartnerProgram

STATUSES = ["SUCCESS", "FAILED", "PROCESSING", "CANCELLED", "REVERSED"]
MEMBERS = {
    "id", "referenceId", "status", "failureReason", "productId", "amount", "failureCode", "debit", "createdAt",
    "updatedAt", "delivery",
}  # fmt: skip


def listed(partner: PartnerProgram, **query: Any) -> list[dict[str, Any]]:
    answer = partner.get("/orders", params=query)
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


def pages(partner: PartnerProgram, **query: Any) -> Iterator[list[str]]:
    """The ids of each page, following the cursor."""
    cursor: str | None = None
    while True:
        page = partner.get("/orders", params=query | ({"cursor": cursor} if cursor else {})).json()
        assert page.keys() == {"data", "nextCursor"}
        yield [order["id"] for order in page["data"]]
        cursor = page["nextCursor"]
        if cursor is None:
            return
        assert isinstance(cursor, str)


@pytest.fixture(scope="module")
def seller(_session_house: House) -> tuple[PartnerProgram, list[dict[str, Any]]]:
    """A partner with 12 orders, of which each third failed; and they, newest first."""
    partner = _session_house.partner(money_major=1_000_000)
    orders = [
        partner.place(product_id=_session_house.inactive_brand if number % 3 == 0 else "").json()
        for number in range(12)
    ]
    return partner, orders[::-1]


def test_a_partner_without_orders_has_an_empty_list(house: House) -> None:
    assert house.partner().get("/orders").json() == {"data": [], "nextCursor": None}


def test_orders_are_listed_newest_first(seller: tuple[PartnerProgram, list[dict[str, Any]]]) -> None:
    partner, orders = seller
    found = listed(partner)
    assert [order["id"] for order in found] == [order["id"] for order in orders]
    moments = [datetime.fromisoformat(order["createdAt"]) for order in found]
    assert moments == sorted(moments, reverse=True)


def test_a_listed_order_is_the_order_without_its_vouchers(
    seller: tuple[PartnerProgram, list[dict[str, Any]]],
) -> None:
    partner, orders = seller
    for found, placed in zip(listed(partner), orders, strict=True):
        assert found.keys() >= MEMBERS
        assert not any("voucher" in member.casefold() for member in found)
        assert found == {name: value for name, value in placed.items() if name != "vouchers"}
        assert found == {
            name: value for name, value in partner.get(f"/orders/{found['id']}").json().items() if name != "vouchers"
        }


def test_no_code_is_in_a_list(seller: tuple[PartnerProgram, list[dict[str, Any]]]) -> None:
    partner, orders = seller
    text = partner.get("/orders").text
    for order in orders:
        for voucher in order["vouchers"]:
            for secret in (voucher["id"], voucher["cardNumber"], voucher["cardPin"]):
                assert str(secret) not in text


@pytest.mark.parametrize("status", STATUSES)
def test_the_status_filters(seller: tuple[PartnerProgram, list[dict[str, Any]]], status: str) -> None:
    partner, orders = seller
    assert [order["id"] for order in listed(partner, status=status)] == [
        order["id"] for order in orders if order["status"] == status
    ]


@pytest.mark.parametrize("status", ["success", "GONE", " ", "SUCCESS ", "*"])
def test_what_is_no_status_is_400(seller: tuple[PartnerProgram, list[dict[str, Any]]], status: str) -> None:
    answer = seller[0].get("/orders", params={"status": status})
    assert answer.status_code == 400, answer.text
    assert answer.json()["id"] == "E001"
    assert [sub_error["fieldName"] for sub_error in answer.json()["subErrors"]] == ["status"]


@pytest.mark.parametrize("limit", [1, 5, 11, 12, 13, 200])
@pytest.mark.parametrize("status", [None, "SUCCESS", "FAILED"])
def test_following_the_cursor_gives_each_order_once(
    seller: tuple[PartnerProgram, list[dict[str, Any]]], limit: int, status: str | None
) -> None:
    partner, orders = seller
    query: dict[str, Any] = {"limit": limit} | ({"status": status} if status else {})
    wanted = [order["id"] for order in orders if status in {None, order["status"]}]
    found = list(pages(partner, **query))
    assert [*chain(*found)] == wanted
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert len(found) == -(-len(wanted) // limit)


def test_a_page_has_50_orders_unless_told_and_never_more_than_200(house: House) -> None:
    partner = house.partner(money_major=1_000_000)
    partner.log_in()
    with ThreadPoolExecutor(8) as threads:
        statuses = {answer.status_code for answer in threads.map(lambda _: partner.place(), range(205))}
    assert statuses == {200}
    assert [len(page) for page in pages(partner)] == [50, 50, 50, 50, 5]
    assert [len(page) for page in pages(partner, limit=200)] == [200, 5]
    beyond = partner.get("/orders?limit=201")
    assert beyond.status_code == 400 or len(beyond.json()["data"]) == 200
    found = [*chain(*pages(partner, limit=7))]
    assert len(found) == len(set(found)) == 205


def test_orders_placed_meanwhile_change_no_later_page(house: House) -> None:
    partner = house.partner()
    orders = [partner.place().json()["id"] for _ in range(4)]
    following = pages(partner, limit=2)
    first = next(following)
    partner.place()
    assert [first, *following] == [orders[:1:-1], orders[1::-1]]


def test_from_and_to_bound_the_list(house: House) -> None:
    partner = house.partner()
    ids, moments = [], []
    for _ in range(3):
        ids.append(partner.place().json()["id"])
        time.sleep(0.005)
        moments.append(app.now().isoformat())
        time.sleep(0.005)
    one, two, three = ids
    for query, expected in (
        ({}, [three, two, one]),
        ({"from": moments[0]}, [three, two]),
        ({"to": moments[0]}, [one]),
        ({"from": moments[0], "to": moments[1]}, [two]),
        ({"from": moments[2]}, []),
        ({"from": moments[1], "to": moments[0]}, []),
        ({"from": moments[0], "status": "FAILED"}, []),
        ({"from": moments[0], "status": "SUCCESS"}, [three, two]),
        ({"from": "2001-01-01T00:00:00Z", "to": "2999-01-01T00:00:00+05:30"}, [three, two, one]),
    ):
        assert [order["id"] for order in listed(partner, **query)] == expected, query
        assert [*chain(*pages(partner, limit=1, **query))] == expected, query
    created = listed(partner)[1]["createdAt"]
    assert [order["id"] for order in listed(partner, **{"from": created})] == [three, two]


def test_another_partner_s_cursor_leads_to_none_of_its_orders(
    house: House, seller: tuple[PartnerProgram, list[dict[str, Any]]]
) -> None:
    cursor = seller[0].get("/orders?limit=1").json()["nextCursor"]
    stranger = house.partner()
    stranger.place()
    answer = stranger.get("/orders", params={"cursor": cursor})
    assert answer.status_code in {200, 400}
    if answer.status_code == 200:
        assert {order["id"] for order in answer.json()["data"]} <= {order["id"] for order in listed(stranger)}


def test_all_violations_are_told_at_once(seller: tuple[PartnerProgram, list[dict[str, Any]]]) -> None:
    query = {"status": "GONE", "from": "x", "to": "y", "limit": "0", "cursor": "!"}
    answer = seller[0].get("/orders", params=query)
    assert answer.status_code == 400
    assert {sub_error["fieldName"] for sub_error in answer.json()["subErrors"]} == query.keys()
