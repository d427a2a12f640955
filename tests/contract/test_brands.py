import dataclasses
import json
import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from giftrail import app
from giftrail.catalog import edit, rows
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.partners import model as partners
from giftrail.providers import protocol
from giftrail.wallet import onboard
from house import House, PartnerProgram, brand_row, serving

ENVELOPE = {"data", "pageNo", "limit", "total", "nextCursor"}
MEMBERS = {
    "id", "status", "title", "brandDescription", "category", "tags", "denominationType", "thumbnailUrl",
    "iconImageUrl", "amountRestrictions", "redemptionType", "cardType", "logoUrl", "tncUrl", "termsAndConditions",
    "howToUseInstructions", "voucherExpiryInMonths", "discountPercentage", "currency", "updatedAt",
}  # fmt: skip
RESTRICTIONS = {
    "minOrderAmount", "maxOrderAmount", "minVoucherAmount", "maxVoucherAmount", "denominations",
    "maxVouchersPerOrder", "maxVouchersPerDenomination", "maxDenominationsPerOrder",
}  # fmt: skip
INSTRUCTIONS = [{"retailMode": "ONLINE", "retailModeName": "Online", "instructions": ["Open.", "Pay."]}]
FLEXIBLE: dict[str, Any] = {
    "denominationType": "FLEXIBLE",
    "denominations": None,
    "minVoucherAmount": Decimal(10),
    "maxVoucherAmount": Decimal(5000),
}


def exact(answer: httpx.Response) -> Any:
    """The answer's JSON, numbers without a binary floating point in between."""
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_float=Decimal)


def listed(partner: PartnerProgram, **query: Any) -> list[str]:
    """The ids of the brands that the query finds."""
    answer = partner.get("/products", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"] == len(answer.json()["data"])
    return [brand["id"] for brand in answer.json()["data"]]


def discount(house: House, partner: PartnerProgram, brand_id: str, percentage: str) -> None:
    async def deed(conn: pool.Connection) -> None:
        await edit.set_discount(
            conn, partner=partner.partner, brand_id=brand_id, percentage=Decimal(percentage), now=app.now()
        )

    house.do(deed)


def set_status(house: House, brand_id: str, status: catalog.Status) -> None:
    async def deed(conn: pool.Connection) -> None:
        await edit.set_status(conn, brand_id=brand_id, status=status, now=app.now())

    house.do(deed)


def as_model(brand_id: str, **members: Any) -> catalog.Brand:
    row = rows.Row(1, brand_row(brand_id, **members))
    brand = row.brand(protocol.AT_ONCE)
    assert row.problems == []
    return brand


def partner_with(house: House, **brands: dict[str, Any]) -> tuple[PartnerProgram, dict[str, str]]:
    """A partner that sees just the brands of the rows; and their ids."""
    salt = uuid.uuid4().hex[:8]
    ids = {name: f"{name}-{salt}" for name in brands}

    async def deed(conn: pool.Connection) -> None:
        await edit.upsert_brands(conn, [as_model(ids[name], **row) for name, row in brands.items()], now=app.now())

    house.do(deed)
    return house.partner(brands=list(ids.values())), ids


# ---- a brand ----


def test_every_member_of_a_brand_is_present_and_as_the_operator_gave_it(house: House) -> None:
    row = {
        "title": "Bücher & Café",
        "brandDescription": "Books.",
        "category": ["Food", "Fashion"],
        "tags": ["new", "gift"],
        "thumbnailUrl": "https://assets.example/t.png",
        "iconImageUrl": "https://assets.example/i.png",
        "logoUrl": "https://assets.example/l.png",
        "tncUrl": "https://assets.example/terms",
        "termsAndConditions": ["One.", "Two."],
        "howToUseInstructions": INSTRUCTIONS,
        "voucherExpiryInMonths": 12,
        "redemptionType": "ONLINE_AND_OFFLINE",
        "minOrderAmount": 100,
        "maxOrderAmount": 5000,
        "maxVouchersPerOrder": 20,
        "maxVouchersPerDenomination": 10,
        "maxDenominationsPerOrder": 2,
    }
    partner, ids = partner_with(house, full=row)
    brand = exact(partner.get(f"/products/{ids['full']}"))
    assert brand.keys() == MEMBERS
    assert brand.pop("amountRestrictions") == {
        "minOrderAmount": 100,
        "maxOrderAmount": 5000,
        "minVoucherAmount": 100,
        "maxVoucherAmount": 500,
        "denominations": [100, 250, 500],
        "maxVouchersPerOrder": 20,
        "maxVouchersPerDenomination": 10,
        "maxDenominationsPerOrder": 2,
    }
    updated = datetime.fromisoformat(brand.pop("updatedAt"))
    assert abs(updated - datetime.now(UTC)) < timedelta(minutes=1)
    given = {name: value for name, value in row.items() if not name.startswith(("min", "max"))}
    assert brand == given | {
        "id": ids["full"],
        "status": "ACTIVE",
        "denominationType": "FIXED",
        "cardType": "CARD_AND_PIN_NO_SECURED",
        "discountPercentage": 0,
        "currency": "INR",
    }


@pytest.mark.parametrize("row", [{"brandDescription": None, "tags": None}, FLEXIBLE | {"brandDescription": None}])
def test_a_brand_of_which_little_is_known_has_every_member(house: House, row: dict[str, Any]) -> None:
    partner, ids = partner_with(house, bare=row)
    brand = exact(partner.get(f"/products/{ids['bare']}"))
    assert brand.keys() == MEMBERS
    assert brand["amountRestrictions"].keys() == RESTRICTIONS
    for member, kind in {
        "title": str, "category": list, "tags": list, "thumbnailUrl": str, "iconImageUrl": str,
        "termsAndConditions": list, "howToUseInstructions": list, "updatedAt": str,
    }.items():  # fmt: skip
        assert isinstance(brand[member], kind), member
    assert isinstance(brand["amountRestrictions"]["denominations"], list)
    assert brand["brandDescription"] is None
    assert brand["logoUrl"] is None
    assert brand["voucherExpiryInMonths"] is None


def test_a_brand_is_the_same_alone_and_in_the_list(house: House) -> None:
    partner, ids = partner_with(house, a={"voucherExpiryInMonths": 6}, b=FLEXIBLE)
    discount(house, partner, ids["b"], "2.5")
    for brand in exact(partner.get("/products"))["data"]:
        assert exact(partner.get(f"/products/{brand['id']}")) == brand


@pytest.mark.parametrize(
    ("currency", "amounts"),
    [
        ("INR", ["0.1", "0.2", "0.3", "1000.05", "1000.5", "99999999999.99"]),
        ("INR", ["10", "100", "1000", "1000000"]),
        ("JPY", ["1", "500", "10000000"]),
        ("KWD", ["0.001", "1.005", "12.345", "1234567890.123"]),
        ("USD", ["1.1", "2.2", "19.99", "4503599627370.97"]),
    ],
)
def test_amounts_are_exact_json_numbers(house: House, currency: str, amounts: list[str]) -> None:
    brand_id = house.brand(
        currency=currency,
        denominations=[Decimal(amount) for amount in amounts],
        minOrderAmount=Decimal(amounts[0]),
        maxOrderAmount=Decimal(amounts[-1]),
    )
    partner = house.partner(currency=currency, brands=[brand_id])
    for answer in (partner.get(f"/products/{brand_id}"), partner.get("/products")):
        body = exact(answer)
        restrictions = body.get("amountRestrictions") or body["data"][0]["amountRestrictions"]
        assert restrictions["denominations"] == [Decimal(amount) for amount in amounts]
        assert restrictions["minOrderAmount"] == restrictions["minVoucherAmount"] == Decimal(amounts[0])
        assert restrictions["maxOrderAmount"] == restrictions["maxVoucherAmount"] == Decimal(amounts[-1])
        written = re.search(r'"denominations":\s*\[(.*?)\]', answer.text)
        assert written
        assert [number.strip() for number in written[1].split(",")] == amounts


@pytest.mark.parametrize("percentage", ["0", "0.0001", "5", "5.0000", "12.3456", "33.3333", "99.9999", "100"])
def test_a_discount_is_the_partner_s_own_and_exact(house: House, percentage: str) -> None:
    brand_id = house.brand()
    favoured, other = house.partner(brands=[brand_id]), house.partner(brands=[brand_id])
    discount(house, favoured, brand_id, percentage)
    answer = favoured.get(f"/products/{brand_id}")
    assert exact(answer)["discountPercentage"] == Decimal(percentage)
    written = re.search(r'"discountPercentage":\s*([^,}]+)', answer.text)
    assert written
    assert re.fullmatch(r"\d+(\.\d+)?", written[1])
    assert exact(favoured.get("/products"))["data"][0]["discountPercentage"] == Decimal(percentage)
    assert exact(other.get(f"/products/{brand_id}"))["discountPercentage"] == 0


# ---- who sees what ----


def test_a_new_partner_sees_no_brand(house: House) -> None:
    partner = house.partner(brands=[])
    page = partner.get("/products").json()
    assert (page["data"], page["total"], page["nextCursor"]) == ([], 0, None)
    assert partner.get(f"/products/{house.fixed_brand}").status_code == 404


def test_a_brand_is_seen_while_it_is_enabled(house: House) -> None:
    brand_id = house.brand()
    partner, other = house.partner(brands=[]), house.partner(brands=[])
    for enabled in (True, False, True):
        house.enable(partner, brand_id, enabled=enabled)
        assert listed(partner) == ([brand_id] if enabled else [])
        assert partner.get(f"/products/{brand_id}").status_code == (200 if enabled else 404)
        assert listed(other) == []


def test_a_discount_alone_enables_nothing(house: House) -> None:
    partner, brand_id = house.partner(brands=[]), house.brand()
    discount(house, partner, brand_id, "5")
    assert listed(partner) == []
    assert partner.get(f"/products/{brand_id}").status_code == 404


def test_inactive_brands_are_listed_and_answered(house: House) -> None:
    partner, ids = partner_with(house, a={}, b={"status": "INACTIVE"})
    assert listed(partner) == [ids["a"], ids["b"]]
    assert partner.get(f"/products/{ids['b']}").json()["status"] == "INACTIVE"
    for status in catalog.Status:
        set_status(house, ids["a"], status)
        assert partner.get(f"/products/{ids['a']}").json()["status"] == status
        assert partner.get("/products").json()["data"][0]["status"] == status


def test_a_brand_of_another_currency_cannot_be_enabled(house: House) -> None:
    partner = house.partner(currency="JPY")
    with pytest.raises(edit.CurrencyDiffers):
        house.enable(partner, house.fixed_brand)


# ---- pages ----


@pytest.fixture(scope="module")
def shop(_session_house: House) -> tuple[PartnerProgram, list[str]]:
    """A partner with 25 brands, of which some have the same title; and their ids in order."""
    shops = {f"s{number:02}": {"title": f"Shop {number % 9}"} for number in range(25)}
    partner, ids = partner_with(_session_house, **shops)
    return partner, [ids[name] for name in sorted(shops, key=lambda name: (shops[name]["title"], name))]


def test_brands_are_listed_by_title_and_then_by_id(shop: tuple[PartnerProgram, list[str]]) -> None:
    partner, ordered = shop
    assert listed(partner) == ordered
    assert listed(partner) == ordered


@pytest.mark.parametrize("limit", [1, 2, 7, 24, 25, 26, 500, 501, 1000])
def test_following_the_cursor_gives_each_brand_once(shop: tuple[PartnerProgram, list[str]], limit: int) -> None:
    partner, ordered = shop
    query: dict[str, Any] | None = {"pageNo": 1, "limit": limit}
    seen: list[str] = []
    pages = 0
    while query is not None:
        page = partner.get("/products", params=query).json()
        assert page.keys() == ENVELOPE
        assert (page["pageNo"], page["limit"], page["total"]) == (query["pageNo"], min(limit, 500), 25)
        seen += [brand["id"] for brand in page["data"]]
        pages += 1
        query = page["nextCursor"]
        assert query is None or query == {"pageNo": page["pageNo"] + 1, "limit": min(limit, 500)}
    assert seen == ordered
    assert pages == -(-25 // min(limit, 500))


@pytest.mark.parametrize(
    ("query", "page_no", "limit", "first", "count"),
    [
        ({"limit": 10}, 1, 10, 0, 10),
        ({"pageNo": 1}, 1, 20, 0, 20),
        ({"pageNo": 2}, 2, 20, 20, 5),
        ({"pageNo": 2, "limit": 10}, 2, 10, 10, 10),
        ({"pageNo": 3, "limit": 10}, 3, 10, 20, 5),
        ({"pageNo": 4, "limit": 10}, 4, 10, 25, 0),
        ({"pageNo": 10**12, "limit": 500}, 10**12, 500, 25, 0),
        ({"limit": 500}, 1, 500, 0, 25),
        ({"limit": 501}, 1, 500, 0, 25),
        ({"limit": 10**12}, 1, 500, 0, 25),
    ],
)
def test_a_page_holds_what_page_and_limit_say_and_echoes_them(  # noqa: PLR0917 — a row of the table
    shop: tuple[PartnerProgram, list[str]], query: dict[str, int], page_no: int, limit: int, first: int, count: int
) -> None:
    partner, ordered = shop
    page = partner.get("/products", params=query).json()
    assert (page["pageNo"], page["limit"], page["total"]) == (page_no, limit, 25)
    assert [brand["id"] for brand in page["data"]] == ordered[first : first + count]


def test_without_page_and_limit_everything_is_listed(shop: tuple[PartnerProgram, list[str]]) -> None:
    partner, ordered = shop
    page = partner.get("/products").json()
    assert page.keys() == ENVELOPE
    assert (page["pageNo"], page["total"], page["nextCursor"]) == (1, 25, None)
    assert [brand["id"] for brand in page["data"]] == ordered


@pytest.mark.parametrize("name", ["pageNo", "limit"])
@pytest.mark.parametrize(
    "value", ["0", "-1", "abc", "1.5", "1.0", "1e1", "0x1", "", " ", "1 2", "\u0665", "null", "1_0", "--1", "1,2"]
)
def test_a_page_or_limit_that_is_no_positive_integer_is_400(
    shop: tuple[PartnerProgram, list[str]], name: str, value: str
) -> None:
    answer = shop[0].get("/products", params={name: value})
    assert answer.status_code == 400, answer.text
    assert answer.json()["id"] == "E001"
    assert [sub_error["fieldName"] for sub_error in answer.json()["subErrors"]] == [name]


def test_all_violations_of_a_query_are_told_at_once(shop: tuple[PartnerProgram, list[str]]) -> None:
    answer = shop[0].get(
        "/products", params={"pageNo": "0", "limit": "x", "status": "GONE", "updatedSince": "yesterday"}
    )
    assert answer.status_code == 400
    assert {sub_error["fieldName"] for sub_error in answer.json()["subErrors"]} == {
        "pageNo", "limit", "status", "updatedSince",
    }  # fmt: skip


def test_unknown_parameters_are_ignored(shop: tuple[PartnerProgram, list[str]]) -> None:
    assert listed(shop[0], sort="title", foo="bar") == shop[1]


# ---- filters ----

ROWS: dict[str, dict[str, Any]] = {
    "a": {"title": "Alpha Books", "brandDescription": "Novels", "category": ["Books"], "tags": ["paper"]},
    "b": {"title": "Beta Foods", "brandDescription": "Alpha males", "category": ["Food", "Travel"], "tags": ["eat"]},
    "c": {"title": "Gamma", "category": ["Food"], "tags": ["alpha", "eat"], "status": "INACTIVE"},
    "d": FLEXIBLE | {"title": "Delta 100% off_", "category": ["Travel"], "redemptionType": "OFFLINE", "tags": None},
    "e": FLEXIBLE | {"title": "Épsilon", "category": ["FASHION"], "redemptionType": "ONLINE_AND_OFFLINE"},
    "f": {"title": "Zeta", "category": ["fashion"], "redemptionType": "OFFLINE", "status": "INACTIVE"},
}
FILTERS: list[tuple[list[tuple[str, str]], str]] = [
    ([], "abcdef"),
    ([("q", "Alpha")], "abc"),
    ([("q", "alpha")], "abc"),
    ([("q", "ALPHA")], "abc"),
    ([("q", "Novels")], "a"),
    ([("q", "paper")], "a"),
    ([("q", "Books")], "a"),
    ([("q", "amma")], "c"),
    ([("q", "épsilon")], "e"),
    ([("q", "100%")], "d"),
    ([("q", "%")], "d"),
    ([("q", "_")], "d"),
    ([("q", "nothing at all")], ""),
    ([("q", "Travel")], ""),
    ([("category", "Food")], "bc"),
    ([("category", "food")], "bc"),
    ([("category", "Fashion")], "ef"),
    ([("category", "foo")], ""),
    ([("category", "Food"), ("category", "Books")], "abc"),
    ([("category", "travel"), ("category", "TRAVEL")], "bd"),
    ([("tag", "eat")], "bc"),
    ([("tag", "ea")], ""),
    ([("tag", "test")], "ef"),
    ([("status", "ACTIVE")], "abde"),
    ([("status", "INACTIVE")], "cf"),
    ([("denominationType", "FIXED")], "abcf"),
    ([("denominationType", "FLEXIBLE")], "de"),
    ([("redemptionType", "ONLINE")], "abc"),
    ([("redemptionType", "OFFLINE")], "df"),
    ([("redemptionType", "ONLINE_AND_OFFLINE")], "e"),
    ([("updatedSince", "2001-01-01T00:00:00Z")], "abcdef"),
    ([("updatedSince", "2001-01-01T00:00:00+05:30")], "abcdef"),
    ([("updatedSince", "2001-01-01T00:00:00.123456Z")], "abcdef"),
    ([("updatedSince", "2999-01-01T00:00:00Z")], ""),
    ([("q", "alpha"), ("status", "ACTIVE")], "ab"),
    ([("q", "alpha"), ("category", "food")], "bc"),
    ([("q", "alpha"), ("category", "food"), ("status", "INACTIVE")], "c"),
    ([("category", "Travel"), ("denominationType", "FIXED")], "b"),
    ([("tag", "eat"), ("category", "Travel")], "b"),
    ([("redemptionType", "OFFLINE"), ("denominationType", "FLEXIBLE")], "d"),
    ([("redemptionType", "OFFLINE"), ("status", "INACTIVE"), ("denominationType", "FIXED")], "f"),
    ([("status", "ACTIVE"), ("updatedSince", "2999-01-01T00:00:00Z")], ""),
    (
        [("q", "beta"), ("category", "food"), ("tag", "eat"), ("status", "ACTIVE"), ("denominationType", "FIXED"),
         ("redemptionType", "ONLINE"), ("updatedSince", "2001-01-01T00:00:00Z")],
        "b",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def varied(_session_house: House) -> tuple[PartnerProgram, dict[str, str]]:
    """A partner with the six brands of ROWS."""
    return partner_with(_session_house, **ROWS)


@pytest.mark.parametrize(("filters", "expected"), FILTERS, ids=[urlencode(row[0]) or "none" for row in FILTERS])
def test_filters_are_combined_by_and(
    varied: tuple[PartnerProgram, dict[str, str]], filters: list[tuple[str, str]], expected: str
) -> None:
    partner, ids = varied
    answer = partner.get("/products", params=filters)
    assert answer.status_code == 200, answer.text
    names = {brand_id: name for name, brand_id in ids.items()}
    assert "".join(sorted(names[brand["id"]] for brand in answer.json()["data"])) == expected
    assert answer.json()["total"] == len(expected)


def test_pages_are_pages_of_what_the_filters_leave(varied: tuple[PartnerProgram, dict[str, str]]) -> None:
    partner, ids = varied
    pages = [
        partner.get("/products", params={"status": "ACTIVE", "limit": 3, "pageNo": number}).json() for number in (1, 2)
    ]
    assert [(page["total"], len(page["data"])) for page in pages] == [(4, 3), (4, 1)]
    assert [page["nextCursor"] for page in pages] == [{"pageNo": 2, "limit": 3}, None]
    assert {brand["id"] for page in pages for brand in page["data"]} == {ids[name] for name in "abde"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "active"),
        ("status", "GONE"),
        ("denominationType", "fixed"),
        ("denominationType", "ANY"),
        ("redemptionType", "SHOP"),
        ("updatedSince", "yesterday"),
        ("updatedSince", "2026-13-01T00:00:00Z"),
        ("updatedSince", "2026-02-30T00:00:00Z"),
        ("updatedSince", "2026-01-01T25:00:00Z"),
        ("updatedSince", "2026-01-01"),
        ("updatedSince", "2026-01-01T00:00:00"),
        ("updatedSince", "1700000000"),
        ("updatedSince", "0000-01-01T00:00:00Z"),
    ],
)
def test_a_filter_that_is_no_value_of_its_kind_is_400(
    varied: tuple[PartnerProgram, dict[str, str]], name: str, value: str
) -> None:
    answer = varied[0].get("/products", params={name: value})
    assert answer.status_code == 400, answer.text
    assert [sub_error["fieldName"] for sub_error in answer.json()["subErrors"]] == [name]


@pytest.mark.parametrize(
    "query",
    [
        "q=%00", "q=%FF", "category=%00", "category=%ED%A0%80", "tag=%FF", "status=%FF", "limit=%FF",
        "updatedSince=%00", "%FF=1", "=", "&&&", "q", "q=" + "x" * 5000, "&".join(["category=x"] * 150),
        "updatedSince=0001-01-01T00:00:00%2B14:00", "updatedSince=9999-12-31T23:59:59-14:00",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/products", "/orders", "/wallet/transactions"])
def test_strange_queries_are_never_a_failure_of_the_service(
    varied: tuple[PartnerProgram, dict[str, str]], path: str, query: str
) -> None:
    assert varied[0].get(f"{path}?{query}").status_code in {200, 400}


def test_updated_since_finds_what_changed_since(house: House) -> None:
    partner, ids = partner_with(house, a={}, b={}, c={})
    time.sleep(0.01)
    since = app.now().isoformat()
    assert listed(partner, updatedSince=since) == []
    set_status(house, ids["b"], catalog.Status.INACTIVE)
    assert listed(partner, updatedSince=since) == [ids["b"]]
    discount(house, partner, ids["c"], "5")
    assert listed(partner, updatedSince=since) == [ids["b"], ids["c"]]
    moment = partner.get(f"/products/{ids['b']}").json()["updatedAt"]
    assert ids["b"] in listed(partner, updatedSince=moment)


# ---- ETag ----

PATHS: list[Callable[[dict[str, str]], str]] = [
    lambda _: "/products",
    lambda _: "/products?pageNo=1&limit=1",
    lambda _: "/products?category=Food",
    lambda ids: f"/products/{ids['a']}",
]


@pytest.mark.parametrize("path", PATHS, ids=["list", "page", "filter", "single"])
@pytest.mark.parametrize("form", ["{}", "W/{}", '"x", {}', '{}, "x"', "*"])
def test_what_the_client_knows_is_304(house: House, path: Callable[[dict[str, str]], str], form: str) -> None:
    partner, ids = partner_with(house, a={}, b={})
    first = partner.get(path(ids))
    assert re.fullmatch(r'(W/)?"[^"]+"', first.headers["etag"])
    again = partner.get(path(ids), headers={"If-None-Match": form.format(first.headers["etag"])})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["x-request-id"]


@pytest.mark.parametrize("path", PATHS, ids=["list", "page", "filter", "single"])
def test_what_changed_is_sent_again(house: House, path: Callable[[dict[str, str]], str]) -> None:
    partner, ids = partner_with(house, a={}, b={})
    known = partner.get(path(ids)).headers["etag"]
    changes: list[Callable[[], object]] = [
        lambda: set_status(house, ids["a"], catalog.Status.INACTIVE),
        lambda: discount(house, partner, ids["a"], "7"),
        lambda: house.brand(ids["a"], title="Another"),
    ]
    for change in changes:
        change()
        answer = partner.get(path(ids), headers={"If-None-Match": known})
        assert answer.status_code == 200
        assert answer.headers["etag"] != known
        known = answer.headers["etag"]
        assert partner.get(path(ids), headers={"If-None-Match": known}).status_code == 304


def test_another_etag_is_answered_in_full(varied: tuple[PartnerProgram, dict[str, str]]) -> None:
    partner, ids = varied
    for path in ("/products", f"/products/{ids['a']}"):
        assert partner.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_304_needs_a_sound_token_and_a_brand_that_is_still_enabled(house: House) -> None:
    partner, ids = partner_with(house, a={})
    path = f"/products/{ids['a']}"
    etag = partner.get(path).headers["etag"]
    assert partner.get(path, headers={"If-None-Match": etag, "Authorization": None}).status_code == 401
    house.enable(partner, ids["a"], enabled=False)
    assert partner.get(path, headers={"If-None-Match": etag}).status_code == 404


# ---- many ----


def test_a_catalogue_of_10000_brands_and_1000_partners_pages_correctly(database_url: str) -> None:
    with serving(database_url) as house:
        template = as_model("template")
        brands = [
            dataclasses.replace(template, brand_id=f"many-{number:05}", title=f"Brand {number * 7919 % 5003:04}")
            for number in range(10_000)
        ]
        whole, thousand, more = house.partner(brands=[]), house.partner(brands=[]), house.partner(brands=[])
        shares = [(whole, brands), (thousand, brands[:1000]), (more, brands[:1001])]

        async def deed(conn: pool.Connection) -> None:
            now = app.now()
            await edit.upsert_brands(conn, brands, now=now)
            for program, share in shares:
                ids = [brand.brand_id for brand in share]
                await edit.set_enabled(conn, partner=program.partner, brand_ids=ids, enabled=True, now=now)
            for number in range(1000):
                made = await onboard.create_partner(
                    conn, name=f"crowd {number}", kind=partners.Kind.B2B, currency="INR", now=now
                )
                ids = [brand.brand_id for brand in brands[number : number + 5]]
                await edit.set_enabled(conn, partner=made, brand_ids=ids, enabled=True, now=now)

        house.do(deed)
        for program, share in shares:
            ordered = [brand.brand_id for brand in sorted(share, key=lambda brand: (brand.title, brand.brand_id))]
            first = program.get("/products").json()
            assert first["total"] == len(share)
            assert [brand["id"] for brand in first["data"]] == ordered[:1000]
            assert follow(program, first) == ordered
            assert follow(program, program.get("/products?pageNo=1&limit=500").json()) == ordered


def follow(partner: PartnerProgram, page: dict[str, Any]) -> list[str]:
    """The ids of a page and of all that follow it."""
    seen = [brand["id"] for brand in page["data"]]
    while page["nextCursor"] is not None:
        page = partner.get("/products", params=page["nextCursor"]).json()
        seen += [brand["id"] for brand in page["data"]]
    return seen
