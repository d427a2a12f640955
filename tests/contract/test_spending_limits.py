"""Spending limits: HTTP 429 E013, nothing stored, UTC calendar windows (wire contract, errors)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from giftrail import app
from giftrail.db import pool
from giftrail.orders import limit
from giftrail.spending import model
from house import House, PartnerProgram


def limited(house: House, program: PartnerProgram, **members: Any) -> None:
    """Set a limit per month for the partner, with changes."""
    values: dict[str, Any] = {
        "partner_id": program.partner.partner_id,
        "brand_id": model.ALL_BRANDS,
        "period": model.Period.MONTH,
        "max_amount_minor": None,
        "max_orders": None,
        "set_at": app.now(),
    } | members

    async def deed(conn: pool.Connection) -> None:
        await limit.set_limit(conn, model.SpendingLimit(**values), now=app.now())

    house.do(deed, settle=False)


def lifted(house: House, program: PartnerProgram) -> None:
    async def deed(conn: pool.Connection) -> None:
        partner_id = program.partner.partner_id
        assert await limit.lift_limit(
            conn, partner_id=partner_id, brand_id=model.ALL_BRANDS, period=model.Period.MONTH, now=app.now()
        )

    house.do(deed, settle=False)


def test_beyond_the_amount_nothing_is_stored(house: House) -> None:
    program = house.partner()
    limited(house, program, max_amount_minor=300_00)
    assert program.place(lines={100: 2}).json()["status"] == "SUCCESS"
    body = program.order_body(lines={100: 2})
    refused = program.place(body)
    assert (refused.status_code, refused.json()["id"], refused.json()["code"]) == (
        429, "E013", "SPENDING_LIMIT_EXCEEDED",
    )  # fmt: skip
    assert "per month" in refused.json()["message"]
    assert "300" in refused.json()["message"]
    assert program.get(f"/orders/by-reference/{body['referenceId']}").status_code == 404
    assert program.place(lines={100: 1}).json()["status"] == "SUCCESS", "what still fits is served"
    lifted(house, program)
    assert program.place(body).json()["status"] == "SUCCESS", "the same reference can be used again"


def test_orders_are_counted_too_and_those_before_the_limit(house: House) -> None:
    program = house.partner()
    program.place()
    limited(house, program, max_orders=2)
    assert program.place().json()["status"] == "SUCCESS"
    assert program.place().json()["id"] == "E013"


def test_a_replay_is_answered_beyond_the_limit(house: House) -> None:
    program = house.partner()
    body = program.order_body()
    first = program.place(body).json()
    limited(house, program, max_orders=0)
    again = program.place(body)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])


def test_a_limit_of_one_brand_leaves_the_others_alone(house: House) -> None:
    program = house.partner()
    limited(house, program, brand_id=house.fixed_brand, max_orders=0)
    assert program.place().json()["id"] == "E013"
    flexible = program.place(product_id=house.flexible_brand, lines={100: 1})
    assert flexible.json()["status"] == "SUCCESS"


def test_failed_cancelled_and_reversed_orders_do_not_count(house: House) -> None:
    program = house.partner()
    brands = {
        "refused": house.brand("sandbox-refused", providers=["sandbox"]),
        "away": house.brand("sandbox-away", providers=["sandbox"]),
        "reversible": house.brand("sandbox-reversible", providers=["sandbox"], reversible=True),
    }
    house.enable(program, *brands.values())
    limited(house, program, max_orders=1)
    patient = {"Prefer": "wait=30"}
    refused = program.post("/orders", program.order_body(brands["refused"]), headers=patient).json()
    assert refused["status"] == "FAILED"
    away = program.post("/orders", program.order_body(brands["away"]), headers={"Prefer": "wait=0"})
    assert away.headers["Preference-Applied"] == "wait=0"
    assert program.place().json()["id"] == "E013", "one is being worked on"
    assert program.post(f"/orders/{away.json()['id']}/cancel").json()["status"] == "CANCELLED"
    order = program.post("/orders", program.order_body(brands["reversible"]), headers=patient).json()
    assert order["status"] == "SUCCESS"
    assert program.post(f"/orders/{order['id']}/reverse", headers=patient).json()["status"] == "REVERSED"
    assert program.place().json()["status"] == "SUCCESS"


def test_many_orders_at_once_never_exceed_it(house: House) -> None:
    """Each order of a batch sees what those before it spent."""
    program = house.partner()
    limited(house, program, max_orders=5)
    program.log_in()
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: program.place().status_code, range(40)))
    assert answers.count(200) == 5
    assert answers.count(429) == 35


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("HOUR", datetime(2026, 12, 31, 23, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("DAY", datetime(2026, 12, 31, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ("MONTH", datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_windows_are_those_of_the_utc_calendar(period: str, start: datetime, end: datetime) -> None:
    at = datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert model.Period(period).window_start(at) == start
    assert model.Period(period).window_end(at) == end


@pytest.mark.parametrize("members", [{}, {"max_orders": -1}, {"max_amount_minor": -1}])
def test_a_limit_that_is_none_is_refused(house: House, members: dict[str, Any]) -> None:
    program = house.partner()
    with pytest.raises(limit.LimitInvalid):
        limited(house, program, **members)
