"""The process dies at a named point, starts again, and what was begun ends exactly once."""

import contextlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from crash import program
from crash.estate import GENERATED, MONEY, STOCKED, VENDED, Estate, recover, wait_until
from house import PartnerProgram

_died_at: set[str] = set()


def points(*deeds: str) -> pytest.MarkDecorator:
    """A test for the moments before and after each deed."""
    of = [point for point in program.POINTS if point.partition(" ")[2] in deeds]
    assert len(of) == 2 * len(deeds)
    _died_at.update(of)
    return pytest.mark.parametrize("point", of)


def die(house: Estate, point: str, ask: Callable[[], object], **settings: Any) -> None:
    """Start a process that dies at the point, ask it, see it die, and let its leases end."""
    pid = house.start(point=point, **settings)
    with contextlib.suppress(httpx.TransportError):
        ask()
    assert house.wait_for_death(pid) == program.KILLED
    house.end_leases()


def place_until_death(house: Estate, point: str, buyer: PartnerProgram, body: dict[str, Any], **settings: Any) -> None:
    die(house, point, lambda: (buyer.log_in(), buyer.place(body)), **settings)


@points("place", "claim-fulfilment", "commit-key", "issue", "keep", "settle")
def test_an_order_of_a_remote_provider_ends_once(crashing: Estate, point: str) -> None:
    buyer = crashing.buyer(serving=False)
    body = buyer.order_body(VENDED, {100: 2})
    place_until_death(crashing, point, buyer, body)
    crashing.start()
    order = recover(buyer, body, meanwhile=crashing.pass_time)
    crashing.check_bought_once(buyer, body, order)


@points("record", "postpone-fulfilment", "look-up")
def test_an_order_whose_provider_takes_time_ends_once(crashing: Estate, point: str) -> None:
    buyer = crashing.buyer(serving=False)
    body = buyer.order_body(VENDED, {100: 2})
    crashing.shop.pending_answers = 2
    place_until_death(crashing, point, buyer, body)
    crashing.start()
    order = recover(buyer, body, meanwhile=crashing.pass_time)
    crashing.check_bought_once(buyer, body, order)


@points("place")
@pytest.mark.parametrize("brand", [GENERATED, STOCKED])
def test_an_order_served_at_once_is_made_once(crashing: Estate, point: str, brand: str) -> None:
    buyer = crashing.buyer(serving=False)
    body = buyer.order_body(brand, {100: 2})
    place_until_death(crashing, point, buyer, body)
    crashing.start()
    crashing.check_bought_once(buyer, body, recover(buyer, body))


@points("record", "settle")
def test_an_order_that_is_refused_costs_nothing(crashing: Estate, point: str) -> None:
    buyer = crashing.buyer(serving=False)
    body = buyer.order_body(VENDED)
    crashing.shop.refuses = True
    place_until_death(crashing, point, buyer, body)
    crashing.start()
    order = recover(buyer, body, meanwhile=crashing.pass_time)
    assert (order["status"], order["failureCode"]) == ("FAILED", "E200")
    assert (buyer.balance(), crashing.moves(buyer)) == (MONEY, ["HOLD", "RELEASE"])
    assert crashing.shop.issued == {}


@points("settle")
def test_a_cancelled_order_costs_nothing(crashing: Estate, point: str) -> None:
    buyer = crashing.buyer(serving=False)
    crashing.shop.is_away = True
    first = crashing.start(synchronous_seconds=0)
    order = buyer.place(product_id=VENDED).json()
    path = f"/orders/{order['id']}"
    wait_until(lambda: rows(crashing, order, "provider_call", "state") == [("UNAVAILABLE",)])
    crashing.kill(first)
    # Nobody asks again meanwhile: what is asked for at that moment cannot be cancelled.
    crashing.sql(
        "UPDATE fulfilment SET lease_token = NULL, lease_until = NULL, attempts = 0,"
        " next_at = now() + interval '1 hour' RETURNING 1"
    )
    die(crashing, point, lambda: buyer.post(f"{path}/cancel", {}))
    crashing.start()
    if point.startswith("before"):
        assert buyer.get(path).json()["status"] == "PROCESSING"
        wait_until(lambda: buyer.post(f"{path}/cancel", {}).status_code == 200)  # it may be asking just now
    again = buyer.post(f"{path}/cancel", {})
    assert (again.status_code, again.json()["status"]) == (200, "CANCELLED")
    assert (buyer.balance(), crashing.moves(buyer)) == (MONEY, ["HOLD", "RELEASE"])
    assert crashing.shop.issued == {}


def buy(house: Estate, buyer: PartnerProgram) -> dict[str, Any]:
    """An order of the vendor's brand, bought of a process that is gone again."""
    pid = house.start()
    body = buyer.order_body(VENDED, {100: 2})
    order = recover(buyer, body)
    house.check_bought_once(buyer, body, order)
    house.kill(pid)
    return order


def ask_until_settled(house: Estate, buyer: PartnerProgram, order: dict[str, Any]) -> httpx.Response:
    """Ask for the reversal again and again, as a client does, until it is pending no longer."""
    answers: list[httpx.Response] = []

    def settled() -> bool:
        house.pass_time()
        answers.append(buyer.post(f"/orders/{order['id']}/reverse", {"reason": "not wanted"}))
        return not answers[-1].json().get("reversalPending")

    wait_until(settled)
    return answers[-1]


@points("request-reversal", "claim-reversal", "postpone-reversal", "void", "voided", "settle")
def test_a_reversal_refunds_once(crashing: Estate, point: str) -> None:
    buyer = crashing.buyer(serving=False)
    order = buy(crashing, buyer)
    crashing.shop.pending_answers = int("postpone" in point)
    die(crashing, point, lambda: buyer.post(f"/orders/{order['id']}/reverse", {"reason": "not wanted"}))
    crashing.start()
    answer = ask_until_settled(crashing, buyer, order)
    assert (answer.status_code, answer.json()["status"]) == (200, "REVERSED"), answer.text
    assert (buyer.balance(), crashing.moves(buyer)) == (MONEY, ["HOLD", "CAPTURE", "REFUND"])
    assert crashing.shop.voided == {voucher["id"] for key in crashing.shop.issued.values() for voucher in key}


@points("end-reversal")
def test_a_reversal_that_is_refused_leaves_the_order_as_it_was(crashing: Estate, point: str) -> None:
    buyer = crashing.buyer(serving=False)
    order = buy(crashing, buyer)
    crashing.shop.refuses_voids = True
    die(crashing, point, lambda: buyer.post(f"/orders/{order['id']}/reverse", {"reason": "not wanted"}))
    crashing.start()
    answer = ask_until_settled(crashing, buyer, order)
    assert (answer.status_code, answer.json()["id"]) == (409, "E009"), answer.text
    found = buyer.get(f"/orders/{order['id']}").json()
    assert (found["status"], found["vouchers"]) == ("SUCCESS", order["vouchers"])
    assert (buyer.balance(), crashing.moves(buyer)) == (MONEY - 200, ["HOLD", "CAPTURE"])


@points("keep", "finish-fulfilment")
def test_what_comes_after_the_order_has_failed_is_set_aside_once(crashing: Estate, point: str) -> None:
    buyer = crashing.buyer(serving=False)
    crashing.shop.pending_answers = 1_000_000
    first = crashing.start(deadline_seconds=1)
    body = buyer.order_body(VENDED, {100: 2})
    order = recover(buyer, body, meanwhile=crashing.pass_time)
    assert (order["status"], order["failureCode"]) == ("FAILED", "E200")
    crashing.kill(first)
    crashing.shop.pending_answers = 0

    def let_time_pass() -> None:
        while crashing.is_ready():
            crashing.pass_time()

    die(crashing, point, let_time_pass)
    crashing.start()
    wait_until(lambda: is_done(crashing, order))
    assert buyer.get(f"/orders/{order['id']}").json() == order
    assert (buyer.balance(), crashing.moves(buyer)) == (MONEY, ["HOLD", "RELEASE"])
    [key] = crashing.shop.issued
    aside = rows(crashing, order, "delivered_code", "provider_voucher_id, state")
    assert set(aside) == {(voucher["id"], "ASIDE") for voucher in crashing.shop.issued[key]}


def is_done(house: Estate, order: dict[str, Any]) -> bool:
    house.pass_time()
    return rows(house, order, "fulfilment", "state") == [("DONE",)]


def rows(house: Estate, order: dict[str, Any], table: str, columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in house.sql(f"SELECT {columns} FROM {table} WHERE order_id = '{order['id']}'")]


def test_each_point_is_died_at() -> None:
    assert _died_at == set(program.POINTS)
