"""Each E-code of the sandbox table, as the demo and `giftrail sandbox` load it, through the HTTP API."""

from collections.abc import Iterator
from typing import Any

import pytest

from conftest import new_database
from giftrail import app
from giftrail.db import pool
from giftrail.demo import sandbox
from house import PartnerProgram, serving


@pytest.fixture(scope="module")
def program(server_url: str) -> Iterator[PartnerProgram]:
    with serving(new_database(server_url)) as house:
        made = house.partner(money_major=1_000_000, brands=[])

        async def load(conn: pool.Connection) -> None:
            await sandbox.furnish_sandbox(conn, [made.partner], now=app.now())

        house.do(load)
        yield made
        assert house.audit() == []


CODES: list[tuple[str, dict[Any, Any], str]] = [
    ("sandbox-e100", {100: 1}, "E100"),
    ("sandbox-e101", {100: 1}, "E101"),
    ("sandbox-e102", {100: 1}, "E102"),
    ("sandbox-e150", {100: 1}, "E150"),
    ("sandbox-e152", {100: 1}, "E152"),
    ("sandbox-e153", {100: 1, 250: 1}, "E153"),
    ("sandbox-e154", {100: 2}, "E154"),
    ("sandbox-e155", {9: 1}, "E155"),
    ("sandbox-e155", {1001: 1}, "E155"),
    ("sandbox-e156", {100: 2}, "E156"),
    ("sandbox-e300", {9_000_000_000: 1}, "E300"),
]


@pytest.mark.parametrize(("brand_id", "lines", "code"), CODES)
def test_a_brand_fails_with_its_code(program: PartnerProgram, brand_id: str, lines: dict[Any, Any], code: str) -> None:
    order = program.place(product_id=brand_id, lines=lines).json()
    assert (order["status"], order["failureCode"]) == ("FAILED", code)
    assert program.balance() == 1_000_000


def test_e013_is_an_error_and_nothing_is_stored(program: PartnerProgram) -> None:
    body = program.order_body("sandbox-e013")
    answer = program.place(body)
    assert (answer.status_code, answer.json()["id"]) == (429, "E013")
    assert program.get(f"/orders/by-reference/{body['referenceId']}").status_code == 404


def test_the_table_tells_of_every_code_and_every_brand_is_listed(program: PartnerProgram) -> None:
    told = {row.brand_id for row in sandbox.TABLE}
    assert {brand_id for brand_id, _, _ in CODES} <= told
    listed = {brand["id"] for brand in program.get("/products?category=Sandbox").json()["data"]}
    assert listed == told - {sandbox.E101}, "what is not enabled is not listed"
