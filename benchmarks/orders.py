"""Orders per second through HTTP, beside pgbench doing one order per transaction in the same run.

    python benchmarks/orders.py --seconds 10 --rounds 3 --processes 2 --half --overload 3

A is the service (--processes of it), its PostgreSQL and the load, B is pgbench on the same PostgreSQL without HTTP; all
share this machine's cores. The figure is the ratio of medians; absolute figures mean nothing beside another machine.

With --half, the latency at half of the median rate, offered by the clock. With --overload N, first the connections that
give the most orders per second are looked for, then N times as many connections order: how many of the answers are 503,
how long an accepted order takes, and what the API process keeps in memory.
"""

import argparse
import asyncio
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import market, stage

from giftrail.db import embedded, pool
from giftrail.providers import protocol

PROVIDERS = (protocol.GENERATOR, protocol.STOCK)
WARM_SECONDS = 2.0
# Shares of --connections among which the best is looked for, each for this long.
TRIED, TRY_SECONDS = (0.25, 0.5, 1, 2), 3.0
# Stock is filled for so many orders a second.
MOST_PER_SECOND = 15_000


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = stage.arguments_of(__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="A B A B …, this often")
    parser.add_argument("--connections", type=int, default=256, help="of the load")
    parser.add_argument("--pgbench-clients", type=int, default=16, help="connections of pgbench")
    parser.add_argument("--processes", type=int, default=1, help="API processes")
    parser.add_argument("--provider", choices=PROVIDERS, default=protocol.GENERATOR, help="where codes come from")
    parser.add_argument("--vouchers", type=int, nargs="+", default=[1], help="vouchers per order, one run for each")
    parser.add_argument("--wallets", type=int, nargs="*", default=[1, 100], help="how many wallets share the load")
    parser.add_argument("--half", action="store_true", help="measure the latency at half of the rate, too")
    parser.add_argument("--overload", type=float, default=0.0, help="times the best number of connections; 0: do not")
    arguments = parser.parse_args()
    runs = [(wallets, vouchers) for wallets in arguments.wallets for vouchers in arguments.vouchers]
    with stage.database() as (url, folder):
        report = {
            "machine": asyncio.run(stage.machine(url)),
            "provider": arguments.provider,
            "processes": arguments.processes,
            "results": [measure(url, folder, wallets, vouchers, arguments) for wallets, vouchers in runs],
        }
    stage.show(report, as_json=arguments.json, table=table)


def measure(url: str, folder: Path, wallets: int, vouchers: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """A B A B …: the service, pgbench; medians and their ratio. Raises AssertionError when the books do not add up."""
    database = asyncio.run(stage.new_database(url, f"bench_{wallets}_{vouchers}"))
    traders = asyncio.run(furnish(database, folder, wallets, vouchers, arguments))
    rates: dict[str, list[float]] = {"service": [], "pgbench": []}
    loads: list[dict[str, Any]] = []
    with stage.serving(database, folder, processes=arguments.processes) as service:
        plan = {
            "port": service.port,
            "requests": [
                service.request(
                    "POST", "/v1/partners/orders", token=service.log_in(one.credential), body=market.order(vouchers)
                )
                for one in traders
            ],
            "connections": max(arguments.connections, wallets),
            "outcomes": True,
        }
        stage.load(plan | {"seconds": WARM_SECONDS})  # plans, caches, connections
        for _ in range(arguments.rounds):
            loads.append(stage.load(plan | {"seconds": arguments.seconds}))
            rates["service"].append(loads[-1]["perSecond"])
            rates["pgbench"].append(pgbench(database, wallets, vouchers, arguments))
            stage.tell(
                f"{wallets} wallets, {vouchers} vouchers: service {rates['service'][-1]:.0f}/s,"
                f" pgbench {rates['pgbench'][-1]:.0f}/s"
            )
        rate, baseline = statistics.median(rates["service"]), statistics.median(rates["pgbench"])
        half = at_half(plan, rate, arguments.seconds) if arguments.half or arguments.overload else None
        over = overload(service, plan, arguments) if arguments.overload else None
    stage.check_books(database)
    return {
        "wallets": wallets,
        "vouchers": vouchers,
        "servicePerSecond": rate,
        "pgbenchPerSecond": baseline,
        "ratio": round(rate / baseline, 2),
        "p50Ms": statistics.median(one["p50Ms"] for one in loads),
        "p99Ms": statistics.median(one["p99Ms"] for one in loads),
        "statuses": loads[-1]["statuses"],
        "half": half,
        "overload": over,
    }


def at_half(plan: dict[str, Any], rate: float, seconds: float) -> dict[str, Any]:
    """The latency when half of the rate is offered by the clock."""
    found = stage.load(plan | {"seconds": seconds, "rate": rate / 2})
    stage.tell(f"half load, {rate / 2:.0f}/s: p50 {found['p50Ms']} ms, p99 {found['p99Ms']} ms")
    return {"offeredPerSecond": round(rate / 2)} | {name: found[name] for name in ("perSecond", "p50Ms", "p99Ms")}


def overload(service: stage.Service, plan: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Look for the best number of connections, then order over many times as many."""
    tried = {}
    for share in TRIED:
        connections = max(1, round(plan["connections"] * share))
        tried[connections] = stage.load(plan | {"seconds": TRY_SECONDS, "connections": connections})["perSecond"]
        stage.tell(f"{connections} connections: {tried[connections]:.0f}/s")
    best = max(tried, key=lambda connections: tried[connections])
    before = service.resident_mb()
    many = plan | {"seconds": arguments.seconds, "connections": round(best * arguments.overload)}
    stage.load(many | {"seconds": WARM_SECONDS})
    found = stage.load(many)
    answers = sum(found["statuses"].values())
    return {
        "bestConnections": best,
        "bestPerSecond": tried[best],
        "connections": many["connections"],
        "perSecond": found["perSecond"],
        "refusedShare": round(found["statuses"].get("503", 0) / answers, 4),
        "p99Ms": found["p99Ms"],
        "statuses": found["statuses"],
        "residentBeforeMb": before,
        "residentAfterMb": service.resident_mb(),
    }


async def furnish(
    database: str, folder: Path, wallets: int, vouchers: int, arguments: argparse.Namespace
) -> list[market.Trader]:
    """One brand, partners with money, and as many wallets beside them for pgbench."""
    keys = market.keys_of(folder)
    async with pool.connect(database) as conn:
        async with conn.transaction():
            await market.make_brands(conn, [market.brand_row(market.BRAND, providers=[arguments.provider])])
            if arguments.provider == protocol.STOCK:
                stage.tell("filling the stock…")
                seconds = arguments.seconds * (arguments.rounds + 2) + WARM_SECONDS + TRY_SECONDS * len(TRIED)
                codes = int(seconds * MOST_PER_SECOND * vouchers)  # more than the run can sell
                await market.fill_stock(conn, market.BRAND, denominations=[market.DENOMINATION], codes=codes, keys=keys)
            made = [
                await market.make_partner(conn, f"Bench {number}", brand_ids=[market.BRAND])
                for number in range(wallets)
            ]
            await conn.execute(_WALLETS_OF_PGBENCH.format(wallets=wallets, money=market.MONEY_MINOR))
        await conn.execute("VACUUM ANALYZE")
    return made


_WALLETS_OF_PGBENCH = """
INSERT INTO wallet (partner_id, currency, posted_minor, version)
  SELECT 'bench_' || n, 'INR', {money}, 1 FROM generate_series(1, {wallets}) n;
INSERT INTO transfer
  (partner_id, wallet_version, kind, amount_minor, available_after_minor, held_after_minor, created_at)
  SELECT 'bench_' || n, 1, 'TOP_UP', {money}, {money}, 0, now() FROM generate_series(1, {wallets}) n;
INSERT INTO entry (partner_id, wallet_version, account, amount_minor, balance_after_minor)
  SELECT 'bench_' || n, 1, account, amount, balance FROM generate_series(1, {wallets}) n,
    (VALUES ('AVAILABLE', {money}, {money}), ('FUNDING', -{money}, NULL)) AS e (account, amount, balance);
"""


def pgbench(database: str, wallets: int, vouchers: int, arguments: argparse.Namespace) -> float:
    """Transactions per second of one order per transaction."""
    host = re.search(r"host=([^&]+)", database)
    assert host is not None
    done = subprocess.run(
        [
            str(embedded.programs() / "pgbench"), "-n", "-M", "prepared", "-f", str(stage.HERE / "one_order.sql"),
            "-D", f"wallets={wallets}", "-D", f"vouchers={vouchers}", "-c", str(arguments.pgbench_clients), "-j", "2",
            "-T", str(max(1, round(arguments.seconds))), "-h", httpx.URL(f"http://x?{host[0]}").params["host"],
            "-U", embedded.SUPERUSER, httpx.URL(database).path[1:],
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"tps = ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return float(found[1])


def table(report: dict[str, Any]) -> str:
    """For people."""
    results = report["results"]
    text = f"{report['machine']}; {report['provider']}, {report['processes']} API process(es)\n"
    text += stage.grid(
        ["wallets", "vouchers", "service/s", "pgbench/s", "ratio", "p50 ms", "p99 ms", "answers"],
        [
            [
                *(one["wallets"], one["vouchers"], round(one["servicePerSecond"]), round(one["pgbenchPerSecond"])),
                *(one["ratio"], one["p50Ms"], one["p99Ms"], one["statuses"]),
            ]
            for one in results
        ],
    )
    if results and results[0]["half"]:
        text += "\nAt half of the rate, offered by the clock:\n" + stage.grid(
            ["wallets", "vouchers", "offered/s", "done/s", "p50 ms", "p99 ms"],
            [[one["wallets"], one["vouchers"], *one["half"].values()] for one in results],
        )
    if results and results[0]["overload"]:
        text += "\nOverloaded (p99 of what is accepted, beside p99 at half load; resident memory of the API):\n"
        text += stage.grid(
            [
                *("wallets", "vouchers", "best", "at best/s", "connections", "accepted/s", "503s", "p99 ms"),
                *("half: p99 ms", "MB before", "MB after"),
            ],
            [
                [
                    *(one["wallets"], one["vouchers"], over["bestConnections"], round(over["bestPerSecond"])),
                    *(over["connections"], round(over["perSecond"]), f"{over['refusedShare']:.1%}", over["p99Ms"]),
                    *(one["half"]["p99Ms"], over["residentBeforeMb"], over["residentAfterMb"]),
                ]
                for one in results
                if (over := one["overload"])
            ],
        )
    return text


if __name__ == "__main__":
    main()
