"""A Giftrail resells the catalogue of another: orders, refusals, webhooks and reversals across two services."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conftest import new_database
from giftrail_client import webhooks
from house import House, PartnerProgram, serving

SECRET = webhooks.PREFIX + "c2VjcmV0IG9mIHRoZSB1cHN0cmVhbSBpbiB0ZXN0cyEh"
PATIENCE_SECONDS = 15.0
THEIRS: dict[str, dict[str, Any]] = {
    "their-cards": {"reversible": True},
    "their-refused": {"status": "INACTIVE"},
    "sandbox-after-3-seconds": {"providers": ["sandbox"]},
    "their-stock": {"providers": ["stock"]},
}


@pytest.fixture(scope="module")
def houses(server_url: str) -> Iterator[tuple[House, House, PartnerProgram]]:
    """The reseller's house, the upstream's, and the reseller as the upstream's partner."""
    with serving(new_database(server_url)) as theirs:
        for brand_id, members in THEIRS.items():
            theirs.brand(brand_id, **members)
        account = theirs.partner(brands=list(THEIRS), money_major=1_000)
        options = {
            "kind": "upstream", "base_url": theirs.base_url, "client_id": account.client_id,
            "client_secret": account.client_secret, "brands": {"our-cards": "their-cards"}, "signing_secret": SECRET,
        }  # fmt: skip
        with serving(new_database(server_url), providers={"theirs": options}) as ours:
            ours.brand("our-cards", providers=["theirs"], reversible=True)
            for brand_id in list(THEIRS)[1:]:
                ours.brand(brand_id, providers=["theirs"])
            ours.brand("with-a-second", providers=["theirs", "generator"])
            yield ours, theirs, account
        assert ours.audit() == []
    assert theirs.audit() == []


@pytest.fixture
def program(houses: tuple[House, House, PartnerProgram]) -> PartnerProgram:
    return houses[0].partner(brands=["our-cards", "with-a-second", *list(THEIRS)[1:]])


def ended(program: PartnerProgram, order: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while order["status"] == "PROCESSING" and time.monotonic() < deadline:
        time.sleep(0.05)
        order = program.get(f"/orders/{order['id']}").json()
    return order


def test_an_order_here_is_an_order_there(houses: tuple[House, House, PartnerProgram], program: PartnerProgram) -> None:
    _, _, account = houses
    before = account.balance()
    order = ended(program, program.place(product_id="our-cards", lines={100: 2}).json())
    assert order["status"] == "SUCCESS"
    assert account.balance() == before - 200
    theirs = account.get(f"/orders/by-reference/{order['id'].removeprefix('ord_')}-1-1").json()
    assert [(v["cardNumber"], v["cardPin"]) for v in theirs["vouchers"]] == [
        (v["cardNumber"], v["cardPin"]) for v in order["vouchers"]
    ]


@pytest.mark.parametrize(
    ("brand_id", "lines"), [("their-refused", {100: 1}), ("their-stock", {100: 1}), ("our-cards", {500: 9})]
)
def test_what_fails_there_fails_here(program: PartnerProgram, brand_id: str, lines: dict[int, int]) -> None:
    """A brand that is INACTIVE, a stock that is empty, our money there that is not enough."""
    order = ended(program, program.place(product_id=brand_id, lines=lines).json())
    assert (order["status"], order["failureCode"]) == ("FAILED", "E200")
    assert program.get("/wallet/balance").json()["held"] == 0


def test_the_next_provider_serves_what_upstream_does_not(program: PartnerProgram) -> None:
    order = ended(program, program.place(product_id="with-a-second").json())
    assert order["status"] == "SUCCESS"


def test_a_slow_order_there_ends_here_when_its_webhook_comes(
    houses: tuple[House, House, PartnerProgram], program: PartnerProgram
) -> None:
    ours, _, account = houses
    order = program.place(product_id="sandbox-after-3-seconds").json()
    assert order["status"] == "PROCESSING"
    reference = f"{order['id'].removeprefix('ord_')}-1-1"
    theirs = ended(account, account.get(f"/orders/by-reference/{reference}").json())
    body = json.dumps({"orderId": theirs["id"], "referenceId": reference, "status": theirs["status"]}).encode()
    told = httpx.post(
        f"{ours.base_url}/v1/providers/theirs/webhook",
        content=body,
        headers={"X-Verify": webhooks.sign(body, SECRET)},
        trust_env=False,
    )
    assert told.status_code == 200
    assert ended(program, order)["status"] == "SUCCESS"


def test_a_webhook_that_is_not_signed_is_refused(houses: tuple[House, House, PartnerProgram]) -> None:
    ours, _, _ = houses
    for path, status in (("theirs", 400), ("nobody", 404), ("sandbox", 404)):
        answer = httpx.post(f"{ours.base_url}/v1/providers/{path}/webhook", content=b"{}", trust_env=False)
        assert answer.status_code == status


def test_a_reversal_here_is_a_reversal_there(
    houses: tuple[House, House, PartnerProgram], program: PartnerProgram
) -> None:
    _, _, account = houses
    order = ended(program, program.place(product_id="our-cards").json())
    answer = program.post(f"/orders/{order['id']}/reverse")
    assert (answer.status_code, answer.json()["status"]) == (200, "REVERSED")
    theirs = account.get(f"/orders/by-reference/{order['id'].removeprefix('ord_')}-1-1").json()
    assert theirs["status"] == "REVERSED"
