"""Each row of the sandbox table, as a partner's developer meets it through the HTTP API."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import new_database
from giftrail.providers import sandbox
from house import House, PartnerProgram, serving

PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def slow_house(server_url: str) -> Iterator[House]:
    with serving(new_database(server_url), deadline_seconds=12) as house:
        for row in sandbox.TABLE:
            house.brand(row.brand_id, providers=list(row.providers), reversible=row.brand_id in REVERSIBLE)
        yield house
    assert house.audit() == []


REVERSIBLE = {"sandbox-reversible", "sandbox-void-refused"}


@pytest.fixture
def program(slow_house: House) -> PartnerProgram:
    return slow_house.partner(brands=[row.brand_id for row in sandbox.TABLE], money_major=1_000_000)


PATIENT = {"Prefer": "wait=10"}


def placed_at_once(program: PartnerProgram, brand_id: str) -> dict[str, Any]:
    """An order of one voucher, waited for."""
    order: dict[str, Any] = program.post("/orders", program.order_body(brand_id), headers=PATIENT).json()
    assert order["status"] == "SUCCESS"
    return order


def ended(program: PartnerProgram, order: dict[str, Any]) -> dict[str, Any]:
    """The order when it is no longer PROCESSING."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while order["status"] == "PROCESSING" and time.monotonic() < deadline:
        assert order["vouchers"] == []
        time.sleep(0.05)
        order = program.get(f"/orders/{order['id']}").json()
    return order


@pytest.mark.parametrize(
    ("brand_id", "first", "last", "failure"),
    [
        ("sandbox-at-once", "SUCCESS", "SUCCESS", None),
        ("sandbox-after-5-seconds", "PROCESSING", "SUCCESS", None),
        ("sandbox-never", "PROCESSING", "FAILED", "E200"),
        ("sandbox-refused", "FAILED", "FAILED", "E200"),
        ("sandbox-second-provider", "SUCCESS", "SUCCESS", None),
        ("sandbox-twice", "SUCCESS", "SUCCESS", None),
        ("sandbox-lost-answer", "PROCESSING", "SUCCESS", None),
        ("sandbox-away", "PROCESSING", "FAILED", "E200"),
        ("sandbox-first-part", "FAILED", "FAILED", "E200"),
        ("sandbox-reversible", "SUCCESS", "SUCCESS", None),
        ("sandbox-void-refused", "SUCCESS", "SUCCESS", None),
    ],
)
def test_a_brand_does_what_its_name_says(
    program: PartnerProgram, brand_id: str, first: str, last: str, failure: str | None
) -> None:
    lines = {100: 2, 250: 1}
    wait = "wait=0" if first == "PROCESSING" else "wait=10"
    placed = program.post("/orders", program.order_body(brand_id, lines), headers={"Prefer": wait}).json()
    assert placed["status"] == first
    order = ended(program, placed)
    assert (order["status"], order["failureCode"]) == (last, failure)
    balance = program.get("/wallet/balance").json()
    if last == "SUCCESS":
        assert sorted(voucher["amount"] for voucher in order["vouchers"]) == [100, 100, 250]
        assert len({voucher["cardNumber"] for voucher in order["vouchers"]}) == 3
        assert (balance["balance"], balance["held"], order["debit"]) == (1_000_000 - 450, 0, 450)
    else:
        assert order["vouchers"] == []
        assert order["failureReason"] == "Voucher generation failed"
        assert (balance["balance"], balance["held"], order["debit"]) == (1_000_000, 0, 0)


def test_an_order_nobody_was_asked_for_can_be_cancelled(program: PartnerProgram) -> None:
    order = program.place(product_id="sandbox-away").json()
    assert program.get("/wallet/balance").json()["held"] == 100
    deadline = time.monotonic() + PATIENCE_SECONDS
    cancelled = program.post(f"/orders/{order['id']}/cancel")
    while cancelled.status_code == 409 and time.monotonic() < deadline:  # its provider is asked at this moment
        cancelled = program.post(f"/orders/{order['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED")
    assert program.post(f"/orders/{order['id']}/cancel").json() == cancelled.json()
    assert program.get("/wallet/balance").json() | {"threshold": None} == {
        "balance": 1_000_000, "held": 0, "currency": "INR", "threshold": None
    }  # fmt: skip


def test_an_order_that_a_provider_was_asked_for_cannot_be_cancelled(program: PartnerProgram) -> None:
    order = program.place(product_id="sandbox-after-5-seconds").json()
    refused = program.post(f"/orders/{order['id']}/cancel")
    assert (refused.status_code, refused.json()["id"]) == (409, "E009")
    assert ended(program, order)["status"] == "SUCCESS"


def test_a_reversible_order_is_reversed_and_refunded(program: PartnerProgram) -> None:
    order = placed_at_once(program, "sandbox-reversible")
    reversed_ = program.post(f"/orders/{order['id']}/reverse", {"reason": "changed my mind"}, headers=PATIENT)
    assert (reversed_.status_code, reversed_.json()["status"]) == (200, "REVERSED")
    assert reversed_.json()["vouchers"] == []
    assert program.get(f"/orders/vouchers/{order['vouchers'][0]['id']}").status_code == 404
    assert program.balance() == 1_000_000
    assert program.post(f"/orders/{order['id']}/reverse").json() == reversed_.json()


def test_a_provider_that_refuses_to_void_leaves_the_order_as_it_is(program: PartnerProgram) -> None:
    order = placed_at_once(program, "sandbox-void-refused")
    refused = program.post(f"/orders/{order['id']}/reverse", headers=PATIENT)
    assert (refused.status_code, refused.json()["id"]) == (409, "E009")
    assert "its issuer does not take the vouchers back" in refused.json()["message"]
    assert "sandbox" not in refused.json()["message"], "who provides is not the partner's to know"
    assert program.post(f"/orders/{order['id']}/reverse").json()["message"] == refused.json()["message"]
    again = program.get(f"/orders/{order['id']}").json()
    assert (again["status"], again["reversalPending"], again["vouchers"]) == ("SUCCESS", False, order["vouchers"])
