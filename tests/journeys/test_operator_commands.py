"""Orders, providers, limits, webhooks and events as an operator types them, on a service that runs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import new_database
from house import KEYS, House, PartnerProgram, serving

PROGRAM = str(Path(sys.executable).parent / "giftrail")
PATIENCE_SECONDS = 30.0


class Desk:
    """The real program on the database of a running service."""

    def __init__(self, house: House, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIFTRAIL_")}
        keys = {f"GIFTRAIL_{name.upper()}": secret.get_secret_value() for name, secret in KEYS.items()}
        self._env = kept | keys | {
            "GIFTRAIL_DATABASE_URL": house.url, "GIFTRAIL_DATA_DIR": str(folder / "data"), "NO_COLOR": "1",
            "GIFTRAIL_WEBHOOK_NETWORKS": "127.0.0.0/8", "COLUMNS": "300",
        }  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, *words], env=self._env, capture_output=True, text=True, check=False, timeout=60)

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert (done.returncode, done.stderr) == (0, ""), done
        return msgspec.json.decode(done.stdout)

    def refused(self, *words: str) -> str:
        done = self.run(*words)
        assert (done.returncode, done.stdout) == (1, ""), done
        return done.stderr


@pytest.fixture(scope="module")
def running(server_url: str) -> Iterator[House]:
    with serving(new_database(server_url), webhook_networks="127.0.0.0/8", deadline_seconds=3) as house:
        yield house
    assert house.audit() == []


@pytest.fixture
def desk(running: House, tmp_path: Path) -> Desk:
    return Desk(running, tmp_path)


@pytest.fixture
def program(running: House, desk: Desk) -> PartnerProgram:
    """A partner that the sandbox was loaded for, by the command."""
    made = running.partner(money_major=1_000_000)
    assert "sandbox-at-once" in desk.json("sandbox", made.partner.name)["brands"]
    running.settle()
    return made


def placed(program: PartnerProgram, brand_id: str, *, wait: int = 20, quantity: int = 1) -> dict[str, Any]:
    order: dict[str, Any] = program.post(
        "/orders", program.order_body(brand_id, {100: quantity}), headers={"Prefer": f"wait={wait}"}
    ).json()
    return order


def test_an_order_is_cancelled_and_another_reversed(desk: Desk, program: PartnerProgram) -> None:
    away = placed(program, "sandbox-away", wait=0)
    assert desk.json("order", "cancel", away["id"])["status"] == "CANCELLED"
    done = placed(program, "sandbox-at-once")
    assert "cannot be reversed" in desk.refused("order", "reverse", done["id"])
    reversed_ = desk.json("order", "reverse", done["id"], "--issuer-voided", "--reason", "the issuer said so")
    assert reversed_ == {"id": done["id"], "status": "REVERSED", "reversalPending": False}
    assert "only a PROCESSING order" in desk.refused("order", "cancel", done["id"])
    assert "there is no order" in desk.refused("order", "cancel", "ord_none")
    assert program.balance() == 1_000_000


def test_what_came_too_late_is_put_into_stock_and_sold(running: House, desk: Desk, program: PartnerProgram) -> None:
    running.brand("sandbox-first-part", providers=["sandbox", "stock"])
    order = placed(program, "sandbox-first-part", quantity=60)
    assert order["status"] == "FAILED"
    aside = [row for row in desk.json("stock", "aside", "sandbox-first-part") if row["orderId"] == order["id"]]
    assert len(aside) == 50
    assert "cardNumber" not in aside[0]
    for row in aside[:2]:
        assert desk.json("stock", "shelve", row["provider"], row["voucher"])["id"] == "sandbox-first-part"
    assert "is set aside" in desk.refused("stock", "shelve", aside[0]["provider"], aside[0]["voucher"])
    assert [row["unsold"] for row in desk.json("stock", "levels", "sandbox-first-part")] == [2]
    running.brand("sandbox-first-part", providers=["stock"])
    assert placed(program, "sandbox-first-part", quantity=2)["status"] == "SUCCESS"


def test_a_provider_is_paused_and_resumed(running: House, desk: Desk, program: PartnerProgram) -> None:
    desk.json("provider", "pause", "sandbox", "sandbox-twice")
    running.settle()
    assert placed(program, "sandbox-twice")["failureCode"] == "E100"
    listed = {row["name"]: row for row in desk.json("provider", "list")}
    assert {"stock", "generator", "sandbox", "sandbox-second"} <= listed.keys()
    assert "sandbox-twice" in listed["sandbox"]["paused"]
    assert desk.json("provider", "resume", "sandbox", "sandbox-twice")["changed"] is True
    running.settle()
    assert placed(program, "sandbox-twice")["status"] == "SUCCESS"
    assert desk.json("provider", "unknown") == []
    assert desk.json("order", "unknown") == []
    assert "unknown outcome" in desk.refused("provider", "resolve", "sandbox", "no-such-key", "--created")
    assert "'nobody' is not one of" in desk.refused("provider", "pause", "nobody", "sandbox-twice")


def test_limits_are_set_listed_and_lifted(desk: Desk, program: PartnerProgram) -> None:
    name = program.partner.name
    desk.json("limit", "set", name, "--per", "hour", "--amount", "150.50", "--orders", "9")
    placed(program, "sandbox-at-once")
    row = next(row for row in desk.json("limit", "list", name) if row["brand"] is None)
    assert (row["per"], row["amount"], row["spent"], row["orders"], row["placed"]) == ("HOUR", 150.5, 100, 9, 1)
    assert placed(program, "sandbox-at-once")["id"] == "E013"
    desk.json("limit", "lift", name, "--per", "hour")
    assert "no such limit" in desk.refused("limit", "lift", name, "--per", "hour")
    assert placed(program, "sandbox-at-once")["status"] == "SUCCESS"


def test_a_webhook_from_its_registration_to_its_replay(running: House, desk: Desk, program: PartnerProgram) -> None:
    name = program.partner.name
    made = desk.json("webhook", "add", name, "http://127.0.0.1:9/hook", "--event", "ORDER_TERMINAL_STATE")
    assert made["secret"].startswith("whsec_")
    running.settle()
    sent = desk.json("webhook", "test", name, made["id"])["eventId"]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (shown := desk.json("webhook", "show", name, made["id"]))["deliveries"][0]["attempts"]:
        assert time.monotonic() < deadline
    assert (shown["deliveries"][0]["eventId"], shown["deliveries"][0]["last"]) == (sent, "CONNECT")
    staged = desk.json("webhook", "rotate", name, made["id"])["secret"]
    assert staged not in {made["secret"], None}
    desk.json("webhook", "promote", name, made["id"])
    assert "none is staged" in desk.refused("webhook", "promote", name, made["id"])
    desk.json("webhook", "disable", name, made["id"])
    assert [row["status"] for row in desk.json("webhook", "list", name)] == ["DISABLED"]
    assert "enable it first" in desk.refused("webhook", "replay", name, made["id"], "--from", "2026-01-01")
    desk.json("webhook", "enable", name, made["id"])
    placed(program, "sandbox-at-once")
    found: list[dict[str, Any]] = []
    while not found:
        assert time.monotonic() < deadline
        events = desk.json("event", "list", name)
        found = [event for event in events if event["eventType"] == "ORDER_TERMINAL_STATE"]
    assert desk.json("webhook", "replay", name, made["id"], "--from", "2026-01-01")["events"] == 1
    assert desk.json("event", "redeliver", name, found[0]["eventId"])["endpoints"] == 1
    assert "there is no event" in desk.refused("event", "redeliver", name, "evt_none")
    assert "there is no endpoint" in desk.refused("webhook", "test", name, "whk_none")
    assert "not an address that may be called" in desk.refused("webhook", "add", name, "https://10.0.0.1/")
