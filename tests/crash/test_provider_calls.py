"""What a provider did while nobody heard of it: workers killed during a call, answers lost or late."""

import json
import os
import signal
import time
from typing import Any

import pytest

from crash.estate import MONEY, TIMEOUT_SECONDS, VENDED, Estate, recover, wait_until
from crash.shop import Shop
from giftrail.app import LEASE_MARGIN_SECONDS

# Just over the smallest that is allowed; in production, because the sandbox's providers would want more.
LEASE_SECONDS = 2 * TIMEOUT_SECONDS + LEASE_MARGIN_SECONDS + 0.1
SHORT_LEASE: dict[str, Any] = {"environment": "production", "work_lease_seconds": LEASE_SECONDS}


def test_a_worker_killed_during_its_call_is_followed_by_another_when_its_lease_ends(crashing: Estate) -> None:
    crashing.start("api", synchronous_seconds=0)
    buyer = crashing.buyer()
    body = buyer.order_body(VENDED, {100: 2})
    worker = crashing.start("work", **SHORT_LEASE)
    crashing.shop.when_issued = lambda: os.kill(worker, signal.SIGKILL)
    placed = buyer.place(body).json()
    assert (placed["status"], placed["vouchers"]) == ("PROCESSING", [])
    assert crashing.wait_for_death(worker) == -signal.SIGKILL
    died_at = time.monotonic()
    crashing.start("work", **SHORT_LEASE)
    # No time is passed here but real time.
    wait_until(lambda: buyer.get(f"/orders/{placed['id']}").json()["status"] != "PROCESSING")
    print(f"taken over after {time.monotonic() - died_at:.1f} s with a lease of {LEASE_SECONDS:g} s")
    [key] = crashing.shop.issued
    assert crashing.shop.asked == {("issue", key): 1, ("look-up", key): 1}
    crashing.check_bought_once(buyer, body, recover(buyer, body))


@pytest.mark.parametrize("after_seconds", [0.0, 1.5 * TIMEOUT_SECONDS], ids=["lost", "late"])
def test_an_answer_that_is_lost_or_late_is_found_by_its_key(crashing: Estate, after_seconds: float) -> None:
    crashing.shop.loses_answers = int(not after_seconds)
    crashing.shop.answers_after_seconds = after_seconds
    crashing.start(synchronous_seconds=0)
    buyer = crashing.buyer()
    body = buyer.order_body(VENDED, {100: 2})
    assert buyer.place(body).json()["status"] == "PROCESSING"
    order = recover(buyer, body, meanwhile=crashing.pass_time)
    [key] = crashing.shop.issued
    assert crashing.shop.asked["issue", key] == 1
    crashing.check_bought_once(buyer, body, order)


def test_a_provider_that_cannot_look_up_is_asked_again_with_the_same_key(crashing: Estate) -> None:
    crashing.shop.loses_answers = 1
    crashing.start(synchronous_seconds=0, providers=vendor_that(crashing.shop, finds=False, replays=True))
    buyer = crashing.buyer()
    body = buyer.order_body(VENDED, {100: 2})
    order = recover(buyer, body, meanwhile=crashing.pass_time)
    assert crashing.shop.asked == {("issue", key): 2 for key in crashing.shop.issued}
    crashing.check_bought_once(buyer, body, order)


@pytest.mark.parametrize("fault", ["worker killed", "answer lost"])
def test_a_provider_that_can_neither_is_never_asked_twice(crashing: Estate, fault: str) -> None:
    killed = fault == "worker killed"
    providers = vendor_that(crashing.shop, finds=False, replays=False)
    crashing.start("api", synchronous_seconds=0, providers=providers)
    buyer = crashing.buyer()
    body = buyer.order_body(VENDED, {100: 2})
    worker = crashing.start("work", deadline_seconds=2, providers=providers)
    if killed:
        crashing.shop.when_issued = lambda: os.kill(worker, signal.SIGKILL)
    else:
        crashing.shop.loses_answers = 1
    buyer.place(body)
    if killed:
        assert crashing.wait_for_death(worker) == -signal.SIGKILL
        crashing.end_leases()
        crashing.start("work", deadline_seconds=2, providers=providers)
    order = recover(buyer, body, meanwhile=crashing.pass_time)
    assert (order["status"], order["failureCode"]) == ("FAILED", "E200")
    assert (buyer.balance(), crashing.moves(buyer)) == (MONEY, ["HOLD", "RELEASE"])
    [key] = crashing.shop.issued
    assert crashing.shop.asked == {("issue", key): 1}
    [row] = crashing.sql(f"SELECT key, state FROM provider_call WHERE order_id = '{order['id']}'")
    assert tuple(row) == (key, "UNKNOWN")  # the operator's


def vendor_that(shop: Shop, *, finds: bool, replays: bool) -> str:
    """The setting of a provider that does, or does not, what makes an unknown outcome known."""
    options = {"kind": "vendor", "url": shop.url, "timeout_seconds": TIMEOUT_SECONDS}
    return json.dumps({"vendor": options | {"finds": finds, "replays": replays}})
