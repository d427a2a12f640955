"""Orders per second through HTTP, beside pgbench doing one order per transaction in the same run.

    python benchmarks/orders.py --seconds 10 --rounds 3

A is the service (one API process), its PostgreSQL and the load, B is pgbench on the same PostgreSQL without HTTP; all
share this machine's cores. The figure is the ratio of medians; absolute figures mean nothing beside another machine.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from giftrail import app, running
from giftrail import keys as installation_keys
from giftrail.audit import findings as audit
from giftrail.catalog import edit, importing
from giftrail.db import embedded, migrate, pool
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.providers import importing as stock_importing
from giftrail.providers import protocol
from giftrail.settings import Settings
from giftrail.wallet import ledger, onboard

HERE = Path(__file__).parent
MONEY_MINOR = 10**15
BRANDS = {
    "generator": {"cardType": "CARD_AND_PIN_NO_SECURED", "providers": ["generator"]},
    "stock": {"cardType": "CARD_AND_PIN_NO_SECURED", "providers": ["stock"]},
}


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="A B A B …, this often")
    parser.add_argument("--connections", type=int, default=256, help="of the load")
    parser.add_argument("--pgbench-clients", type=int, default=16, help="connections of pgbench")
    parser.add_argument("--provider", choices=[*BRANDS], default="generator", help="where codes come from")
    parser.add_argument("--vouchers", type=int, default=1, help="vouchers per order")
    parser.add_argument("--wallets", type=int, nargs="*", default=[1, 100], help="how many wallets share the load")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="giftrail-bench-") as folder, embedded.running(Path(folder)) as url:
        results = [measure(url, folder, wallets, arguments) for wallets in arguments.wallets]
    report = {"machine": machine(), "provider": arguments.provider, "vouchers": arguments.vouchers, "results": results}
    sys.stdout.write(json.dumps(report) + "\n" if arguments.json else table(report))


def measure(url: str, folder: str, wallets: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """A B A B …: the service, pgbench; medians and their ratio. Raises AssertionError when the books do not add up."""
    database = asyncio.run(new_database(url, f"bench_{wallets}"))
    credentials = asyncio.run(furnish(database, folder, wallets, arguments))
    rates: dict[str, list[float]] = {"service": [], "pgbench": []}
    loads: list[dict[str, Any]] = []
    with serving(database, folder) as port:
        plan = {
            "port": port,
            "host": f"127.0.0.1:{port}",
            "partners": [{"token": log_in(port, one)} for one in credentials],
            "connections": max(arguments.connections, wallets),
            "order": order(arguments),
        }
        load(plan | {"seconds": 2.0})  # warm: plans, caches, connections
        for _ in range(arguments.rounds):
            loads.append(load(plan | {"seconds": arguments.seconds}))
            rates["service"].append(loads[-1]["perSecond"])
            rates["pgbench"].append(pgbench(database, wallets, arguments))
            tell(f"{wallets} wallets: service {rates['service'][-1]:.0f}/s, pgbench {rates['pgbench'][-1]:.0f}/s")
    findings = asyncio.run(list_findings(database))
    if findings:
        raise AssertionError(findings[:5])
    service, baseline = statistics.median(rates["service"]), statistics.median(rates["pgbench"])
    return {
        "wallets": wallets,
        "servicePerSecond": service,
        "pgbenchPerSecond": baseline,
        "ratio": round(service / baseline, 2),
        "p50Ms": statistics.median(one["p50Ms"] for one in loads),
        "p99Ms": statistics.median(one["p99Ms"] for one in loads),
        "statuses": loads[-1]["statuses"],
    }


async def new_database(url: str, name: str) -> str:
    """A database with the current schema."""
    async with pool.connect(url) as conn:
        await conn.execute(f"CREATE DATABASE {name}")
    database = url.replace("/giftrail?", f"/{name}?")
    await migrate.migrate(database)
    return database


async def furnish(
    database: str, folder: str, wallets: int, arguments: argparse.Namespace
) -> list[manage.NewCredential]:
    """One brand, partners with money, and as many rows beside them for pgbench."""
    keys = installation_keys.code_keys(installation_keys.with_keys(settings(folder)))
    row = {
        "id": "bench", "title": "Bench", "category": ["Food"], "denominationType": "FIXED", "denominations": [100],
        "maxOrderAmount": 1_000_000, "redemptionType": "ONLINE", "currency": "INR",
        "thumbnailUrl": "https://assets.giftrail.example/t.png", **BRANDS[arguments.provider],
    }  # fmt: skip
    catalogue = Path(folder) / "brands.json"
    catalogue.write_text(json.dumps([row]))
    brands, problems = importing.read_brands(catalogue, known_providers=protocol.AT_ONCE)
    assert not problems, problems
    made = []
    now = app.now()
    async with pool.connect(database) as conn:
        async with conn.transaction():
            await edit.upsert_brands(conn, brands, now=now)
            if arguments.provider == "stock":
                tell("filling the stock…")
                await fill_stock(conn, arguments, keys)
            for number in range(wallets):
                partner = await onboard.create_partner(
                    conn, name=f"Bench {number}", kind=partners.Kind.B2B, currency="INR", now=now
                )
                made.append(
                    await manage.create_credential(conn, partner_id=partner.partner_id, environment="staging", now=now)
                )
                await edit.set_enabled(conn, partner=partner, brand_ids=["bench"], enabled=True, now=now)
                wallet = await ledger.open_wallet(conn, partner_id=partner.partner_id)
                wallet.top_up(MONEY_MINOR, note=None, now=now)
                await ledger.close_wallet(conn, wallet, now=now)
        for number in range(1, wallets + 1):
            await conn.execute(
                "INSERT INTO wallet (partner_id, currency, posted_minor, version) VALUES ($1, 'INR', $2, 1)",
                f"bench_{number}", MONEY_MINOR,
            )  # fmt: skip
            await conn.execute(
                "INSERT INTO transfer (partner_id, wallet_version, kind, amount_minor, available_after_minor,"
                " held_after_minor, created_at) VALUES ($1, 1, 'TOP_UP', $2, $2, 0, now())",
                f"bench_{number}", MONEY_MINOR,
            )  # fmt: skip
            await conn.execute(
                "INSERT INTO entry (partner_id, wallet_version, account, amount_minor, balance_after_minor)"
                " VALUES ($1, 1, 'AVAILABLE', $2, $2), ($1, 1, 'FUNDING', -$2::bigint, NULL)",
                f"bench_{number}", MONEY_MINOR,
            )  # fmt: skip
        await conn.execute("VACUUM ANALYZE")
    return made


async def fill_stock(conn: pool.Connection, arguments: argparse.Namespace, keys: protocol.Keys) -> None:
    """More codes than the run can sell."""
    codes = int(arguments.seconds * arguments.rounds * 15_000 * arguments.vouchers) + 100_000
    path = Path(tempfile.mkstemp(suffix=".csv")[1])
    with path.open("w") as file:
        file.write("denomination,cardNumber,cardPin\n")
        file.writelines(f"100,{number:016},{number % 10**6:06}\n" for number in range(codes))
    shape = stock_importing.Shape("bench", "INR", shows_number=True, shows_pin=True, denominations_minor=(10000,))
    with path.open() as file:
        await stock_importing.import_stock(conn, file, shape=shape, keys=keys, now=app.now())
    path.unlink()


def settings(folder: str) -> Settings:
    """The settings of the benchmark's service."""
    return Settings(data_dir=Path(folder), rate_per_second=0, access_log="off", log_level="WARNING", port=0)


@contextmanager
def serving(database: str, folder: str) -> Iterator[int]:
    """`giftrail serve` in a process of its own; yields its port."""
    with running.listen(settings(folder)) as found:
        port = found.getsockname()[1]
    environment = os.environ | {
        "GIFTRAIL_DATABASE_URL": database,
        "GIFTRAIL_DATA_DIR": folder,
        "GIFTRAIL_RATE_PER_SECOND": "0",
        "GIFTRAIL_ACCESS_LOG": "off",
        "GIFTRAIL_LOG_LEVEL": "WARNING",
    }
    server = subprocess.Popen([sys.executable, "-m", "giftrail", "serve", "--port", str(port)], env=environment)
    try:
        wait_until_up(port)
        yield port
    finally:
        server.terminate()
        server.wait(60)


def wait_until_up(port: int) -> None:
    """Return when the service answers. Raises AssertionError after 30 s."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the service did not start")


def log_in(port: int, credential: manage.NewCredential) -> str:
    """A token."""
    body = {"clientId": credential.client_id, "clientSecret": credential.client_secret}
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/partners/auth/login", json=body, trust_env=False)
    token: str = answer.raise_for_status().json()["token"]
    return token


def order(arguments: argparse.Namespace) -> dict[str, Any]:
    """The order that is sent again and again under new references."""
    return {
        "productId": "bench",
        "referenceId": "REFERENCE",
        "amount": 100 * arguments.vouchers,
        "denominationDetails": [{"denomination": 100, "quantity": arguments.vouchers}],
        "customerDetails": {"name": "Asha Rao", "phoneNumber": "+919800000000", "email": "asha@example.com"},
    }


def load(plan: dict[str, Any]) -> dict[str, Any]:
    """Run the load in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / "load.py")], input=json.dumps(plan), capture_output=True, text=True, check=True,
        timeout=plan["seconds"] + 60,
    )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def pgbench(database: str, wallets: int, arguments: argparse.Namespace) -> float:
    """Transactions per second of one order per transaction."""
    host = re.search(r"host=([^&]+)", database)
    assert host is not None
    done = subprocess.run(
        [
            str(embedded.programs() / "pgbench"), "-n", "-M", "prepared", "-f", str(HERE / "one_order.sql"),
            "-D", f"wallets={wallets}", "-c", str(arguments.pgbench_clients), "-j", "2",
            "-T", str(max(1, round(arguments.seconds))), "-h", httpx.URL(f"http://x?{host[0]}").params["host"],
            "-U", embedded.SUPERUSER, httpx.URL(database).path[1:],
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"tps = ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return float(found[1])


async def list_findings(database: str) -> list[str]:
    """The auditor's findings after all that."""
    async with pool.connect(database) as conn:
        return await audit.list_findings(conn, now=app.now())


def machine() -> str:
    """Where the figures were measured."""
    models = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text()) or [platform.processor()]
    return f"{models[0]}, {os.cpu_count()} cores, Python {platform.python_version()}, {app.now():%Y-%m-%d}"


def table(report: dict[str, Any]) -> str:
    """For people."""
    lines = [
        f"{report['machine']}; {report['provider']}, {report['vouchers']} voucher(s) per order",
        "wallets  service/s  pgbench/s  ratio  p50 ms  p99 ms  answers",
    ]
    lines += [
        f"{one['wallets']:>7}  {one['servicePerSecond']:>9.0f}  {one['pgbenchPerSecond']:>9.0f}"
        f"  {one['ratio']:>5}  {one['p50Ms']:>6}  {one['p99Ms']:>6}  {one['statuses']}"
        for one in report["results"]
    ]
    return "\n".join(lines) + "\n"


def tell(message: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(message + "\n")


if __name__ == "__main__":
    main()
