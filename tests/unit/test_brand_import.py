import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from giftrail.catalog import importing, model, rows
from giftrail.providers import protocol
from house import brand_row

Found = tuple[list[model.Brand], list[rows.Problem]]


def json_text(listed: list[dict[str, Any]]) -> str:
    """One row a line, the first on line 2; Decimals as JSON numbers."""
    return "[\n" + ",\n".join(json.dumps(row, default=float) for row in listed) + "\n]\n"


def csv_text(listed: list[dict[str, Any]]) -> str:
    written = io.StringIO()
    columns = list(dict.fromkeys(name for row in listed for name in row))
    writer = csv.DictWriter(written, columns, lineterminator="\n")
    writer.writeheader()
    for row in listed:
        writer.writerow({name: "|".join(map(str, v)) if isinstance(v, list) else v for name, v in row.items()})
    return written.getvalue()


def read(tmp_path: Path, text: str | bytes, name: str = "brands.json") -> Found:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return importing.read_brands(path, known_providers=protocol.AT_ONCE)


def problems_of(tmp_path: Path, **members: Any) -> list[tuple[int, str, str]]:
    """What is said of one row, on line 2, with these members changed."""
    _, problems = read(tmp_path, json_text([brand_row("chai-verandah") | members]))
    return [(problem.line, problem.member, problem.message) for problem in problems]


FULL = brand_row(
    "chai-verandah",
    status="INACTIVE",
    brandDescription="Tea, and a place to sit",
    category=["Food", "Tea"],
    tags=["hot"],
    denominations=[Decimal(500), Decimal("99.5"), Decimal(100), Decimal(100)],
    minOrderAmount=Decimal(200),
    maxOrderAmount=Decimal("10000.5"),
    maxVouchersPerOrder=Decimal(9),
    maxVouchersPerDenomination=Decimal(5),
    maxDenominationsPerOrder=Decimal(2),
    redemptionType="ONLINE_AND_OFFLINE",
    cardType="PIN_NO_SECURED",
    providers=["stock", "generator"],
    iconImageUrl="https://assets.giftrail.example/i.png",
    logoUrl="https://assets.giftrail.example/l.png",
    tncUrl="http://assets.giftrail.example/t?lang=en",
    termsAndConditions=["No cash", "No refund"],
    voucherExpiryInMonths=Decimal(12),
)
INSTRUCTIONS = [{"retailMode": "ONLINE", "retailModeName": "Web shop", "instructions": ["Log in", "Pay"]}]


@pytest.mark.parametrize("name", ["brands.json", "brands.csv", "BRANDS.CSV"])
def test_a_full_row_is_read_alike_from_json_and_csv(tmp_path: Path, name: str) -> None:
    as_csv = name.lower().endswith("csv")
    instructions = json.dumps(INSTRUCTIONS) if as_csv else INSTRUCTIONS
    row = FULL | {"howToUseInstructions": instructions}
    brands, problems = read(tmp_path, csv_text([row]) if as_csv else json_text([row]), name)
    assert problems == []
    [found] = brands
    assert (found.brand_id, found.status, found.currency) == ("chai-verandah", model.Status.INACTIVE, "INR")
    assert (found.category, found.tags, found.terms) == (("Food", "Tea"), ("hot",), ("No cash", "No refund"))
    assert found.denominations_minor == (9_950, 10_000, 50_000)
    assert (found.min_voucher_minor, found.max_voucher_minor) == (9_950, 50_000)
    assert (found.min_order_minor, found.max_order_minor) == (20_000, 1_000_050)
    assert found.max_vouchers_per_order == 9
    assert found.max_vouchers_per_denomination == 5
    assert found.max_denominations_per_order == 2
    assert found.providers == ("stock", "generator")
    assert found.how_to_use == tuple(INSTRUCTIONS)
    assert found.voucher_expiry_months == 12
    assert found.tnc_url == "http://assets.giftrail.example/t?lang=en"


def test_what_may_be_left_out_gets_its_default(tmp_path: Path) -> None:
    row = brand_row("b", brandDescription=None, tags=None, currency="INR")
    [found], problems = read(tmp_path, json_text([row]))
    assert problems == []
    assert found.status is model.Status.ACTIVE
    assert found.description is None
    assert (found.tags, found.terms, found.how_to_use) == ((), (), ())
    assert found.icon_image_url == found.thumbnail_url
    assert found.min_order_minor == 10_000
    assert found.max_vouchers_per_order is None
    assert found.voucher_expiry_months is None


def test_the_restrictions_are_read_inside_their_object_too(tmp_path: Path) -> None:
    row = brand_row("b", denominationType="FLEXIBLE", denominations=None, maxOrderAmount=None)
    nested = {"minVoucherAmount": 10, "maxVoucherAmount": 99.5, "minOrderAmount": 20, "maxOrderAmount": 500}
    nested |= {"maxVouchersPerOrder": 3, "maxVouchersPerDenomination": 2, "maxDenominationsPerOrder": 1}
    [found], problems = read(tmp_path, json_text([row | {"amountRestrictions": nested}]))
    assert problems == []
    bounds = (found.min_voucher_minor, found.max_voucher_minor, found.min_order_minor, found.max_order_minor)
    assert bounds == (1_000, 9_950, 2_000, 50_000)
    counts = (found.max_vouchers_per_order, found.max_vouchers_per_denomination, found.max_denominations_per_order)
    assert counts == (3, 2, 1)


def test_a_wrong_member_inside_the_restrictions_is_told(tmp_path: Path) -> None:
    [(line, member, message)] = problems_of(tmp_path, amountRestrictions={"minOrderAmount": "much"})
    assert (line, member) == (2, "minOrderAmount")
    assert "'much' is not a number" in message


@pytest.mark.parametrize("wrong", ["x", ["minOrderAmount"], True, 5])
def test_restrictions_that_are_no_object_are_told(tmp_path: Path, wrong: Any) -> None:
    assert [member for _, member, _ in problems_of(tmp_path, amountRestrictions=wrong)] == ["amountRestrictions"]


MISSING = "is missing"


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("id", None, "not 1 to 64"),
        ("id", "", "not 1 to 64"),
        ("id", 5, "not 1 to 64"),
        ("id", "-begins-with-a-dash", "not 1 to 64"),
        ("id", "x" * 65, "not 1 to 64"),
        ("id", "a b", "not 1 to 64"),
        ("id", "a/b", "not 1 to 64"),
        ("id", "tea\n", "not 1 to 64"),
        ("id", "thé", "not 1 to 64"),
        ("title", None, MISSING),
        ("title", "  ", "not a text"),
        ("title", 5, "5 is not a text"),
        ("title", "x" * 201, "201 characters"),
        ("title", "a\0b", "cannot be stored"),
        ("title", "\ud800", "cannot be stored"),
        ("brandDescription", ["x"], "not a text"),
        ("brandDescription", "x" * 10_001, "10001 characters"),
        ("status", "active", "ACTIVE or INACTIVE"),
        ("status", ["ACTIVE"], "ACTIVE or INACTIVE"),
        ("category", None, MISSING),
        ("category", "Food", "not a list"),
        ("category", ["Food", 5], "5 is not a text"),
        ("category", [["Food"]], "not a text"),
        ("category", [None], MISSING),
        ("tags", {"hot": True}, "not a list"),
        ("tags", ["x"] * 501, "at most 500"),
        ("tags", [True], "true is not a text"),
        ("denominationType", None, MISSING),
        ("denominationType", "fixed", "FIXED or FLEXIBLE"),
        ("redemptionType", None, MISSING),
        ("redemptionType", "ANYWHERE", "ONLINE_AND_OFFLINE"),
        ("cardType", None, MISSING),
        ("cardType", 1, "1 is not CARD_NUMBER_SECURED"),
        ("currency", None, MISSING),
        ("currency", "RUPEES", "not a currency"),
        ("currency", 5, "not a text"),
        ("denominations", [100, "x"], "'x' is not a number"),
        ("denominations", [100, True], "true is not a number"),
        ("denominations", [100, None], "None is not a number"),
        ("denominations", [100, [5]], "[5] is not a number"),
        ("denominations", [100, 0.001], "decimals"),
        ("denominations", [100, 0], "not more than 0"),
        ("denominations", [100, -5], "not more than 0"),
        ("denominations", [100, 1e30], "larger"),
        ("denominations", 100, "not a list"),
        ("denominations", [], "at least one"),
        ("denominations", None, "at least one"),
        ("minVoucherAmount", 501, "less than"),
        ("maxOrderAmount", None, MISSING),
        ("maxOrderAmount", 99, "less than"),
        ("maxOrderAmount", {"amount": 5}, "not a number"),
        ("minOrderAmount", "1e400", "larger"),
        ("maxVouchersPerOrder", 0, "whole number"),
        ("maxVouchersPerOrder", 1.5, "whole number"),
        ("maxVouchersPerDenomination", -1, "whole number"),
        ("maxDenominationsPerOrder", 1_000_001, "whole number"),
        ("maxDenominationsPerOrder", True, "whole number"),
        ("voucherExpiryInMonths", 601, "whole number"),
        ("thumbnailUrl", None, MISSING),
        ("thumbnailUrl", "ftp://x/y", "not an http"),
        ("iconImageUrl", "https://", "not an http"),
        ("logoUrl", "javascript:alert(1)", "not an http"),
        ("tncUrl", "https://a b", "not an http"),
        ("termsAndConditions", "No cash", "not a list"),
        ("termsAndConditions", ["x", {}], "not a text"),
        ("providers", None, MISSING),
        ("providers", [], "at least one"),
        ("providers", ["upstream"], "'upstream' is not one of generator, stock"),
        ("providers", [5], "not a text"),
        ("howToUseInstructions", "how", "not JSON"),
        ("howToUseInstructions", {}, "not a list"),
        ("howToUseInstructions", [{"retailMode": "ONLINE"}], "not a list"),
        ("howToUseInstructions", [INSTRUCTIONS[0] | {"instructions": "Pay"}], ""),
        ("howToUseInstructions", [INSTRUCTIONS[0] | {"instructions": [1]}], "not a text"),
        ("howToUseInstructions", [INSTRUCTIONS[0] | {"retailMode": 1}], "not a text"),
    ],
)
def test_a_wrong_member_is_told_with_its_line_as_the_file_has_it(
    tmp_path: Path, member: str, value: Any, message: str
) -> None:
    told = problems_of(tmp_path, **{member: value})
    shown = {"minVoucherAmount": "maxVoucherAmount"}.get(member, member)
    assert {line for line, _, _ in told} == {2}
    assert any(name == shown and message in text for _, name, text in told), told
    for _, _, text in told:
        assert "Decimal(" not in text, "the file holds a number, not a Decimal"
        assert "'-'" not in text, "the file holds no dash"


def test_a_flexible_brand_has_bounds_and_no_list(tmp_path: Path) -> None:
    told = problems_of(tmp_path, denominationType="FLEXIBLE", minVoucherAmount=1, maxVoucherAmount=5)
    assert [member for _, member, _ in told] == ["denominations"]
    told = problems_of(tmp_path, denominationType="FLEXIBLE", denominations=None, minOrderAmount=1)
    assert [(member, message) for _, member, message in told] == [
        ("minVoucherAmount", MISSING),
        ("maxVoucherAmount", MISSING),
    ]


@pytest.mark.parametrize("name", ["brands.json", "brands.csv"])
def test_every_bad_row_is_told_with_its_own_line(tmp_path: Path, name: str) -> None:
    listed = [brand_row(f"b{n}") | ({"cardType": "PAPER", "status": "GONE"} if n % 2 else {}) for n in range(300)]
    text = csv_text([{"status": "ACTIVE"} | row for row in listed]) if name.endswith("csv") else json_text(listed)
    _, problems = read(tmp_path, text, name)
    assert [(problem.line, problem.member) for problem in problems] == [
        (n + 2, member) for n in range(1, 300, 2) for member in ("status", "cardType")
    ]
    assert str(problems[0]).startswith("line 3: status: 'GONE'")


@pytest.mark.parametrize("name", ["brands.json", "brands.csv"])
def test_an_id_that_stands_twice_is_told_with_both_lines(tmp_path: Path, name: str) -> None:
    listed = [brand_row(brand_id) for brand_id in ("a", "b", "a", "a")]
    _, problems = read(tmp_path, csv_text(listed) if name.endswith("csv") else json_text(listed), name)
    assert [str(problem) for problem in problems] == [
        "line 4: id: 'a' stands on line 2 already",
        "line 5: id: 'a' stands on line 2 already",
    ]


def test_a_csv_row_longer_than_the_header_is_told(tmp_path: Path) -> None:
    lines = csv_text([brand_row("a"), brand_row("b")]).splitlines()
    _, problems = read(tmp_path, "\n".join([lines[0], lines[1], lines[2] + ",one too many,two"]), "brands.csv")
    assert [problem.line for problem in problems] == [3]


def test_a_csv_row_shorter_than_the_header_is_told(tmp_path: Path) -> None:
    lines = csv_text([brand_row("a")]).splitlines()
    _, problems = read(tmp_path, f"{lines[0]}\nb,Brand b\n", "brands.csv")
    assert {problem.line for problem in problems} == {2}
    assert "cardType" in {problem.member for problem in problems}


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x85", "\x1c"])
def test_a_csv_line_ends_where_csv_says_and_nowhere_else(tmp_path: Path, separator: str) -> None:
    listed = [brand_row("a", title=f"two{separator}words"), brand_row("b", status="GONE")]
    brands, problems = read(tmp_path, csv_text([{"status": "ACTIVE"} | row for row in listed]), "brands.csv")
    assert [(problem.line, problem.member) for problem in problems] == [(3, "status")]
    assert brands[0].title == f"two{separator}words"


def test_a_csv_cell_beyond_the_reader_s_limit_is_told_with_its_line(tmp_path: Path) -> None:
    text = csv_text([brand_row("a", brandDescription="x" * 200_000)])
    with pytest.raises(importing.FileUnreadable, match="line 2"):
        read(tmp_path, text, "brands.csv")


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    for name, text in (("a.json", json_text([brand_row("a")])), ("a.csv", csv_text([brand_row("a")]))):
        [found], problems = read(tmp_path, "\ufeff" + text, name)
        assert (found.brand_id, problems) == ("a", [])


@pytest.mark.parametrize("text", ["[]", " [ \n ] "])
def test_an_empty_list_holds_no_brand(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == ([], [])


ROW = json.dumps(brand_row("a"), default=float)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("b.json", "", "no JSON array"),
        ("b.json", ROW, "no JSON array"),
        ("b.json", "[", "line 1"),
        ("b.json", f"[\n{ROW},\n{ROW[:-5]}", "line 3"),
        ("b.json", f"[{ROW}\n{ROW}]", "line 1"),
        ("b.json", "[\n5]", "line 2: an object"),
        ("b.json", "[" * 100_000, "line 1"),
        ("b.json", f"[{ROW}] [{ROW}]", "behind"),
        ("b.json", f"[{ROW}] tail", "behind"),
        ("b.json", f"[{ROW},]", "line 1"),
        ("b.json", b"[\xff]", "cannot be read"),
        ("b.csv", b"id\n\xff", "cannot be read"),
        ("b.csv", "", "no column 'id'"),
        ("b.csv", "a,very,different,file\n", "no column 'id'"),
    ],
    ids=[
        "empty", "an object", "cut off", "cut off in a row", "no comma", "a number", "deep", "two arrays", "a tail",
        "comma at the end", "json of no utf-8", "csv of no utf-8", "empty csv", "another csv",
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_refused_whole(tmp_path: Path, name: str, text: str | bytes, why: str) -> None:
    with pytest.raises(importing.FileUnreadable, match=why):
        read(tmp_path, text, name)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(importing.FileUnreadable, match="cannot be read"):
            importing.read_brands(path, known_providers=protocol.AT_ONCE)
