import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from giftrail import cli
from giftrail.db import pool
from house import brand_row, execute, serving, write_csv

PROGRAM = str(Path(sys.executable).parent / "giftrail")
ACME = "Acme Rewards"


@dataclass
class Desk:
    """The real program on a database, as an operator types it."""

    url: str
    folder: Path

    def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIFTRAIL_")}
        env = kept | {
            "GIFTRAIL_DATABASE_URL": self.url,
            "GIFTRAIL_DATA_DIR": str(self.folder / "data"),
            "COLUMNS": "300",
            "NO_COLOR": "1",
            **settings,
        }
        return subprocess.run(
            [PROGRAM, *words], env=env, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60
        )

    def say(self, *words: str) -> str:
        """What a command that succeeds prints for people."""
        done = self.run(*words)
        assert (done.returncode, done.stderr.strip()) == (0, ""), done
        return done.stdout

    def json(self, *words: str) -> Any:
        """What a command that succeeds prints for scripts: one line of JSON and nothing else."""
        done = self.run(*words, "--json")
        assert (done.returncode, done.stderr) == (0, ""), done
        assert done.stdout.count("\n") == 1
        return json.loads(done.stdout)

    def refused(self, *words: str, **settings: str) -> str:
        """The sentence with which a command is refused."""
        done = self.run(*words, **settings)
        assert done.returncode == 1, done
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("giftrail: ")
        return lines[0].removeprefix("giftrail: ")

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        async def fetch() -> list[tuple[Any, ...]]:
            async with pool.connect(self.url) as conn:
                return [tuple(row) for row in await conn.fetch(query, *values)]

        return asyncio.run(fetch())

    def acts(self) -> list[tuple[str, str]]:
        """Act and subject of each row of the audit trail."""
        return self.rows("SELECT act, subject FROM operator_act ORDER BY act_id")

    def brands(self, *rows: dict[str, Any], name: str = "brands.json") -> str:
        path = self.folder / name
        path.write_text("[\n" + ",\n".join(json.dumps(row, default=float) for row in rows) + "\n]\n")
        return str(path)

    def codes(self, *lines: str) -> str:
        return str(write_csv(self.folder / "codes.csv", ["denomination,cardNumber,cardPin,validTill", *lines]))


@pytest.fixture
def desk(database_url: str, tmp_path: Path) -> Iterator[Desk]:
    yield Desk(database_url, tmp_path)
    assert not (tmp_path / "data" / "postgres").exists(), "the database that is named is the one that is used"


def test_partners_are_created_set_suspended_and_shown(desk: Desk) -> None:
    assert ACME in desk.say("partner", "create", ACME)
    made = desk.json(
        "partner", "create", "Bazaar", "--kind", "B2C", "--currency", "KWD", "--region", "KW", "--rate", "5"
    )
    assert (made["name"], made["kind"], made["currency"]) == ("Bazaar", "B2C", "KWD")
    assert "rate" in desk.say("partner", "set", ACME, "--rate", "7", "--burst", "9")
    changed = desk.json(
        "partner", "set", made["partnerId"], "--kind", "B2B", "--region", "IN", "--request-id", "GENERATE"
    )
    assert changed["partnerId"] == made["partnerId"]
    assert "Suspended" in desk.say("partner", "suspend", ACME)
    assert desk.json("partner", "suspend", "Bazaar")["suspended"] is True
    assert [row["suspended"] for row in desk.json("partner", "list")] == [True, True]
    assert "Resumed" in desk.say("partner", "resume", ACME)
    assert desk.json("partner", "resume", "Bazaar")["suspended"] is False
    listed = desk.say("partner", "list")
    assert ACME in listed
    assert "Bazaar" in listed
    assert "KWD" in desk.say("partner", "show", "Bazaar")
    shown = desk.json("partner", "show", "Bazaar")
    assert shown | {"createdAt": None} == {
        "partnerId": made["partnerId"], "name": "Bazaar", "kind": "B2B", "currency": "KWD", "region": "IN",
        "requestId": "GENERATE", "ratePerSecond": 5, "rateBurst": None, "failedLoginsPerMinute": None,
        "suspendedAt": None, "credentials": [], "revokedCredentials": [], "networks": [],
        "delivery": None, "balance": 0, "egressAddresses": [], "createdAt": None,
    }  # fmt: skip
    acme = desk.json("partner", "show", ACME)
    assert (acme["ratePerSecond"], acme["rateBurst"]) == (7, 9)
    done = ["partner.create", "partner.set", "partner.suspend", "partner.resume"]
    assert sorted(desk.acts()) == sorted((act, name) for act in done for name in (ACME, "Bazaar"))


def test_credentials_and_networks(desk: Desk) -> None:
    desk.say("partner", "create", ACME)
    said = desk.say("credential", "create", ACME)
    made = desk.json("credential", "create", ACME)
    assert made.keys() == {"clientId", "clientSecret"}
    first = said.split()[1]
    assert desk.json("partner", "show", ACME)["credentials"] == [first, made["clientId"]]
    assert first in desk.say("credential", "revoke", first)
    desk.json("credential", "revoke", made["clientId"])
    assert desk.json("partner", "show", ACME)["revokedCredentials"] == [first, made["clientId"]]
    assert "198.51.100.0/24" in desk.say("network", "allow", ACME, "198.51.100.0/24")
    assert desk.json("network", "allow", ACME, "192.0.2.7") == {"network": "192.0.2.7/32"}
    assert desk.json("network", "list", ACME) == [{"network": "192.0.2.7/32"}, {"network": "198.51.100.0/24"}]
    assert "192.0.2.7/32" in desk.say("network", "list", ACME)
    assert "Removed" in desk.say("network", "remove", ACME, "192.0.2.7")
    desk.json("network", "remove", ACME, "198.51.100.0/24")
    assert desk.json("network", "list", ACME) == []
    assert "nobody" in desk.say("network", "list", ACME)
    assert [act for act, _ in desk.acts()] == [
        "partner.create", *["credential.create"] * 2, *["credential.revoke"] * 2, *["network.allow"] * 2,
        *["network.remove"] * 2,
    ]  # fmt: skip
    kept = str(desk.rows("SELECT * FROM operator_act"))
    assert made["clientSecret"] not in kept


def test_brands_are_imported_shown_switched_and_discounted(desk: Desk) -> None:
    desk.say("partner", "create", ACME)
    assert "2 new" in desk.say("brand", "import", desk.brands(brand_row("tea"), brand_row("silk")))
    again = desk.brands(brand_row("tea", title="Better tea"), brand_row("dollar", currency="USD"))
    assert desk.json("brand", "import", again) == {"imported": 2, "new": 1, "replaced": 1}
    assert "Better tea" in desk.say("brand", "list")
    assert [row["id"] for row in desk.json("brand", "list")] == ["tea", "dollar", "silk"]
    assert "tea is INACTIVE now" in desk.say("brand", "deactivate", "tea")
    assert desk.json("brand", "deactivate", "silk") == {"id": "silk", "status": "INACTIVE", "changed": True}
    assert desk.json("brand", "deactivate", "silk")["changed"] is False
    assert "ACTIVE" in desk.say("brand", "activate", "tea")
    assert desk.json("brand", "activate", "silk")["status"] == "ACTIVE"
    assert "Enabled 1 brands" in desk.say("brand", "enable", ACME, "tea")
    assert desk.json("brand", "enable", ACME, "--all") == {"brands": ["tea", "silk"], "enabled": True}
    assert "Disabled 1 brands" in desk.say("brand", "disable", ACME, "tea")
    assert desk.json("brand", "disable", ACME, "silk") == {"brands": ["silk"], "enabled": False}
    desk.say("brand", "enable", ACME, "tea")
    assert "2.5" in desk.say("brand", "discount", ACME, "tea", "2.5")
    assert desk.json("brand", "discount", ACME, "tea", "0.1234") == {"id": "tea", "discountPercentage": 0.1234}
    shown = desk.json("brand", "show", "tea")
    assert (shown["title"], shown["status"], shown["providers"]) == ("Better tea", "ACTIVE", ["generator"])
    assert shown["amountRestrictions"]["maxOrderAmount"] == 1_000_000
    assert [desk.json("partner", "show", ACME)["partnerId"]] == shown["enabledFor"]
    assert "Better tea" in desk.say("brand", "show", "tea")
    assert desk.rows("SELECT brand_id, enabled, discount_percentage::text FROM entitlement ORDER BY 1") == [
        ("silk", False, "0.0000"),
        ("tea", True, "0.1234"),
    ]
    acts = [act for act, _ in desk.acts()]
    assert {act: acts.count(act) for act in acts} == {
        "partner.create": 1, "brand.import": 2, "brand.status": 5, "brand.enable": 3, "brand.disable": 2,
        "brand.discount": 2,
    }  # fmt: skip


def test_stock_is_imported_and_counted(desk: Desk) -> None:
    desk.say("brand", "import", desk.brands(brand_row("tea", providers=["stock"]), brand_row("silk")))
    assert "Imported 2 codes" in desk.say("stock", "import", "tea", desk.codes("100,N1,P1,", "250,N2,P2,2099-12-31"))
    assert desk.json("stock", "import", "tea", desk.codes("100,N3,P3,")) == {"id": "tea", "imported": 1}
    expected = [
        {"id": "tea", "denomination": 100, "unsold": 2, "expired": 0, "sold": 0},
        {"id": "tea", "denomination": 250, "unsold": 1, "expired": 0, "sold": 0},
    ]
    assert desk.json("stock", "levels", "tea") == desk.json("stock", "levels") == expected
    assert "250" in desk.say("stock", "levels", "tea")
    assert desk.json("stock", "levels", "silk") == []
    assert [act for act, _ in desk.acts()] == ["brand.import", "stock.import", "stock.import"]
    kept = str(desk.rows("SELECT * FROM operator_act"))
    assert "N1" not in kept


def test_wallets_are_topped_up_adjusted_and_told(desk: Desk) -> None:
    desk.say("partner", "create", ACME)
    assert "INR 1000.5" in desk.say("wallet", "top-up", ACME, "1000.50", "--note", "UTR 4711")
    assert desk.json("wallet", "top-up", ACME, "100")["balance"] == 1100.5
    assert "INR 980" in desk.say("wallet", "adjust", ACME, "-120.50", "--note", "paid twice")
    assert desk.json("wallet", "adjust", ACME, "20", "--note", "found")["balance"] == 1000
    assert "10000" in desk.say("wallet", "threshold", ACME, "10000")
    assert desk.rows("SELECT low_threshold_minor FROM wallet") == [(1_000_000,)]
    assert desk.json("wallet", "threshold", ACME, "--off")["threshold"] is None
    assert desk.rows("SELECT low_threshold_minor FROM wallet") == [(None,)]
    lines = desk.json("wallet", "statement", ACME)
    assert [(line["kind"], line["amount"], line["balance"], line["note"]) for line in lines] == [
        ("ADJUSTMENT", 20, 1000, "found"),
        ("ADJUSTMENT", -120.5, 980, "paid twice"),
        ("TOP_UP", 100, 1100.5, None),
        ("TOP_UP", 1000.5, 1000.5, "UTR 4711"),
    ]
    assert len(desk.json("wallet", "statement", ACME, "--lines", "2")) == 2
    assert "UTR 4711" in desk.say("wallet", "statement", ACME)
    assert [act for act, _ in desk.acts()] == [
        "partner.create", "wallet.top-up", "wallet.top-up", "wallet.adjust", "wallet.adjust", "wallet.threshold",
        "wallet.threshold",
    ]  # fmt: skip
    assert desk.json("audit") == {"findings": []}
    assert "Everything adds up" in desk.say("audit")


def test_an_audit_that_finds_something_names_it_and_ends_with_1(desk: Desk) -> None:
    desk.say("partner", "create", ACME)
    desk.rows("UPDATE wallet SET posted_minor = 5")
    [partner_id] = [row["partnerId"] for row in desk.json("partner", "list")]
    for_people, for_scripts = desk.run("audit"), desk.run("audit", "--json")
    assert (for_people.returncode, for_scripts.returncode) == (1, 1)
    assert f"wallet {partner_id}: available 5" in for_people.stdout
    [finding] = json.loads(for_scripts.stdout)["findings"]
    assert finding in for_people.stdout
    assert for_people.stderr == for_scripts.stderr == ""


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("partner create Acme", "Acme"),
        ("partner create New --currency RUP", "RUP"),
        ("partner create New --region IND", "IND"),
        ("partner show Nobody", "Nobody"),
        ("partner set Acme", "nothing to set"),
        ("partner set Nobody --rate 1", "Nobody"),
        ("partner set Acme --region india", "india"),
        ("partner set Acme --rate 99999999999999999999", "99999999999999999999"),
        ("partner suspend Nobody", "Nobody"),
        ("partner resume Nobody", "Nobody"),
        ("credential create Nobody", "Nobody"),
        ("credential revoke crd_nobody", "crd_nobody"),
        ("network allow Acme 10.0.0.1/8", "10.0.0.1/8"),
        ("network allow Acme example.com", "example.com"),
        ("network list Nobody", "Nobody"),
        ("network remove Acme 10.0.0.0/8", "10.0.0.0/8"),
        ("brand import none.json", "none.json"),
        ("brand import .", "cannot be read"),
        ("brand show none", "none"),
        ("brand activate none", "none"),
        ("brand deactivate none", "none"),
        ("brand enable Acme", "--all"),
        ("brand enable Acme tea --all", "--all"),
        ("brand enable Acme tea none", "none"),
        ("brand enable Acme dollar", "USD"),
        ("brand disable Nobody tea", "Nobody"),
        ("brand discount Acme none 5", "none"),
        ("brand discount Acme tea 101", "101"),
        ("brand discount Acme tea five", "five"),
        ("brand discount Acme tea 0.12345", "0.12345"),
        ("brand discount Acme tea NaN", "NaN"),
        ("stock import tea none.csv", "none.csv"),
        ("stock import tea .", "cannot be read"),
        ("stock import none codes.csv", "none"),
        ("stock levels none", "none"),
        ("wallet top-up Nobody 5", "Nobody"),
        ("wallet top-up Acme 0", "top-up"),
        ("wallet top-up Acme five", "five"),
        ("wallet top-up Acme 0.001", "0.001"),
        ("wallet top-up Acme NaN", "NaN"),
        ("wallet top-up Acme 1e400", "400 is larger than"),
        ("wallet adjust Acme -0.01 --note n", "less"),
        ("wallet adjust Acme 0 --note n", "adjustment of 0"),
        ("wallet threshold Acme", "--off"),
        ("wallet threshold Acme 5 --off", "--off"),
        ("wallet statement Nobody", "Nobody"),
        ("order show ord_none", "ord_none"),
        ("order show ref --partner Nobody", "ref"),
    ],
)
def test_a_refusal_is_one_sentence_and_changes_nothing(refusing: Desk, words: str, named: str) -> None:
    before = refusing.rows("SELECT (SELECT count(*) FROM operator_act), (SELECT sum(version) FROM change)")
    sentence = refusing.refused(*words.split())
    assert named in sentence
    assert refusing.rows("SELECT (SELECT count(*) FROM operator_act), (SELECT sum(version) FROM change)") == before


@pytest.fixture(scope="module")
def refusing(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk for commands that change nothing, so that they can share it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    execute(server_url, f"CREATE DATABASE {name} TEMPLATE giftrail_template")
    made = Desk(server_url.replace("/giftrail?", f"/{name}?"), tmp_path_factory.mktemp("desk"))
    made.say("partner", "create", "Acme")
    made.say("brand", "import", made.brands(brand_row("tea", providers=["stock"]), brand_row("dollar", currency="USD")))
    made.codes("100,N1,P1,")
    return made


def test_a_database_that_cannot_be_used_is_told_in_one_sentence(desk: Desk, empty_database: str) -> None:
    for url, told in (
        (empty_database, "giftrail migrate"),
        (desk.url.replace("/test_", "/none_"), "does not exist"),
        ("postgresql://giftrail:hunter2@127.0.0.1:1/giftrail", "cannot be reached"),
        ("mysql://giftrail:hunter2@db/giftrail", "database"),
    ):
        sentence = desk.refused("partner", "list", GIFTRAIL_DATABASE_URL=url)
        assert told in sentence
        assert "hunter2" not in sentence


def test_a_bad_setting_is_told_in_one_sentence(desk: Desk) -> None:
    assert "GIFTRAIL_PORT" in desk.refused("partner", "list", GIFTRAIL_PORT="http")
    sentence = desk.refused("partner", "list", GIFTRAIL_ENVIRONMENT="production")
    assert "GIFTRAIL_TOKEN_KEYS must be set in production" in sentence


def test_every_bad_row_of_a_brand_file_is_told_and_nothing_is_imported(desk: Desk) -> None:
    desk.say("brand", "import", desk.brands(brand_row("tea")))
    wrong = [brand_row(f"b{n}", cardType="PAPER", title=None) if n % 2 else brand_row(f"b{n}") for n in range(400)]
    done = desk.run("brand", "import", desk.brands(brand_row("tea", title="Changed"), *wrong))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("giftrail: 400 problems")
    told = {line.split(":")[0] for line in lines[:-1]}
    assert told == {f"line {n + 3}" for n in range(1, 400, 2)}
    assert [row["title"] for row in desk.json("brand", "list")] == ["Brand tea"]
    assert [act for act, _ in desk.acts()] == ["brand.import"]


def test_every_bad_line_of_a_stock_file_is_told_and_nothing_is_imported(desk: Desk) -> None:
    desk.say("brand", "import", desk.brands(brand_row("tea", providers=["stock"])))
    desk.say("stock", "import", "tea", desk.codes("100,KNOWN,P1,"))
    for lines, told in (
        (["100,SECRET1,P1,", "x,SECRET2,P2,", "100,,P3,"], ["line 3", "line 4"]),
        (["100,SECRET1,P1,", "100,SECRET1,P1,", "250,KNOWN,P1,"], ["line 3", "line 4"]),
    ):
        done = desk.run("stock", "import", "tea", desk.codes(*lines))
        assert done.returncode == 1
        assert "SECRET" not in done.stderr + done.stdout
        *problems, sentence = done.stderr.strip().splitlines()
        assert [problem.split(":")[0] for problem in problems] == told
        assert "2 lines were refused and nothing was imported" in sentence
    assert desk.json("stock", "levels")[0]["unsold"] == 1
    assert [act for act, _ in desk.acts()] == ["brand.import", "stock.import"]


@pytest.mark.parametrize("content", [b"denomination,cardNumber,cardPin\n100,caf\xe9,P1\n", b"\xff\xfe1\x000\x00", b""])
def test_a_stock_file_that_is_no_csv_is_told_without_a_traceback(desk: Desk, content: bytes) -> None:
    desk.say("brand", "import", desk.brands(brand_row("tea", providers=["stock"])))
    (desk.folder / "codes.csv").write_bytes(content)
    done = desk.run("stock", "import", "tea", "codes.csv")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("giftrail: ")


def test_a_brand_deactivated_here_is_refused_by_the_service_within_a_second(desk: Desk) -> None:
    with serving(desk.url, poll_seconds=0.25) as house:
        brand, partner = house.brand(), house.partner()
        house.enable(partner, brand)
        assert partner.place(product_id=brand).json()["status"] == "SUCCESS"
        desk.say("brand", "deactivate", brand)
        done_at = time.monotonic()
        order = partner.place(product_id=brand).json()
        while order["status"] == "SUCCESS" and time.monotonic() < done_at + 1:
            time.sleep(0.05)
            order = partner.place(product_id=brand).json()
        assert (order["status"], order["failureCode"]) == ("FAILED", "E102")
        desk.say("brand", "activate", brand)
        house.settle()
        last = partner.place(product_id=brand).json()
        assert last["status"] == "SUCCESS"

        shown = desk.json("order", "show", last["id"])
        assert shown["referenceId"] == last["referenceId"]
        by_reference = desk.json("order", "show", order["referenceId"], "--partner", partner.partner.name)
        assert (by_reference["failureCode"], by_reference["failureReason"]) == ("E102", "Brand not available")
        said = desk.say("order", "show", last["id"])
        assert last["id"] in said
        for voucher in last["vouchers"]:
            assert voucher["cardNumber"] not in said + json.dumps(shown)
        desk.say("partner", "suspend", partner.partner.name)
        house.settle()
        assert partner.get("/wallet/balance").status_code == 401
        assert house.audit() == []


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The words of each command and sub-command, and whether it has some below it."""
    below = getattr(command, "commands", {})
    yield words, bool(below)
    for name in below:
        yield from commands(below[name], (*words, name))


ALL = dict(commands(typer.main.get_command(cli.main_app)))


def test_every_command_of_the_operator_is_there() -> None:
    there = {" ".join(words) for words, is_group in ALL.items() if not is_group}
    wanted = {
        "up", "demo", "serve", "work", "migrate", "audit", "order show", "stock import", "stock levels",
        *(f"partner {verb}" for verb in ("create", "set", "list", "show", "suspend", "resume")),
        *(f"credential {verb}" for verb in ("create", "revoke")),
        *(f"network {verb}" for verb in ("allow", "list", "remove")),
        *(f"brand {verb}" for verb in ("import", "list", "show", "activate", "deactivate", "enable", "disable")),
        "brand discount",
        *(f"wallet {verb}" for verb in ("top-up", "adjust", "threshold", "statement")),
    }  # fmt: skip
    assert wanted <= there


@pytest.mark.parametrize("words", ALL, ids=lambda words: " ".join(("giftrail", *words)))
def test_every_command_has_help_with_an_example(desk: Desk, words: tuple[str, ...]) -> None:
    said = desk.say(*words, "--help")
    assert " ".join(("Usage: giftrail", *words)) in said
    if not ALL[words]:
        [example] = [line.strip() for line in said.splitlines() if "Example: " in line]
        assert " ".join(("giftrail", *words)) in example
