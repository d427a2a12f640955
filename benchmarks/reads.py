"""Reads per second through HTTP, beside the driver's bare selects of the same rows.

    python benchmarks/reads.py --seconds 5 --rounds 3

A is the service (one API process): an order by id and by reference, a voucher by id, codes opened. B is asyncpg in a
process of its own, with as many connections as the service reads over and as many callers as the load has connections:
the same two selects, nothing made of the rows. All share this machine's cores; the figures are ratios of medians.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import market, stage

from giftrail.db import pool
from giftrail.settings import Settings

ORDERS = "/v1/partners/orders"
PATHS: dict[str, Callable[[str], str]] = {
    "order": lambda key: f"{ORDERS}/{key}",
    "reference": lambda key: f"{ORDERS}/by-reference/{key}",
    "voucher": lambda key: f"{ORDERS}/vouchers/{key}",
}
NAMES = {"order": "order by id", "reference": "order by reference", "voucher": "voucher by id"}
WARM_SECONDS = 1.0


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = stage.arguments_of(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="A B A B …, this often")
    parser.add_argument("--connections", type=int, default=32, help="of the load, and callers of the driver")
    parser.add_argument("--orders", type=int, default=5_000, help="that are there to be read")
    parser.add_argument("--vouchers", type=int, default=1, help="per order")
    arguments = parser.parse_args()
    with stage.database() as (url, folder):
        report = {
            "machine": asyncio.run(stage.machine(url)),
            "vouchers": arguments.vouchers,
            "results": measure(url, folder, arguments),
        }
    stage.show(report, as_json=arguments.json, table=table)


def measure(url: str, folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Each kind of read, A B A B …; medians and their ratio."""
    database = asyncio.run(stage.new_database(url, "bench_reads"))
    [trader] = market.furnish(database)
    results = []
    with stage.serving(database, folder) as service:
        token = service.log_in(trader.credential)
        place = service.request("POST", ORDERS, token=token, body=market.order(arguments.vouchers))
        plan = {"port": service.port, "connections": arguments.connections}
        placed = stage.load(plan | {"requests": [place], "count": arguments.orders, "outcomes": True})
        if placed["statuses"] != {"SUCCESS": arguments.orders}:
            raise AssertionError(placed["statuses"])
        for by, keys in asyncio.run(list_keys(database)).items():
            requests = [service.request("GET", PATHS[by](key), token=token) for key in keys]
            bare = {
                "url": database,
                "by": by,
                "keys": [(trader.partner.partner_id, key) for key in keys],
                "callers": arguments.connections,
                "connections": Settings().read_connections,
            }
            results.append({"read": NAMES[by], **alternate(plan | {"requests": requests}, bare, arguments)})
            stage.tell(f"{NAMES[by]}: {results[-1]['perSecond']}")
    return results


def alternate(plan: dict[str, Any], bare: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Both in turn; medians, and the ratio of the service to the driver."""
    found: dict[str, list[dict[str, Any]]] = {"service": [], "driver": []}
    for number in range(arguments.rounds + 1):
        seconds = arguments.seconds if number else WARM_SECONDS
        through_http = stage.load(plan | {"seconds": seconds})
        if through_http["statuses"].keys() != {"200"}:
            raise AssertionError(through_http["statuses"])
        driver = stage.aside("bare.py", bare | {"seconds": seconds}, seconds=seconds)
        if number:
            found["service"].append(through_http)
            found["driver"].append(driver)
    medians = {
        figure: {name: statistics.median(one[figure] for one in runs) for name, runs in found.items()}
        for figure in ("perSecond", "p50Ms", "p99Ms")
    }
    rates = medians["perSecond"]
    return {**medians, "ratio": round(rates["service"] / rates["driver"], 2)}


async def list_keys(database: str) -> dict[str, list[str]]:
    """By kind of read, the keys of everything that was placed."""
    async with pool.connect(database) as conn:
        await conn.execute("VACUUM ANALYZE")
        rows = await conn.fetch("SELECT order_id, reference_id, voucher_id FROM orders JOIN voucher USING (order_id)")
    orders = {row["order_id"]: row["reference_id"] for row in rows}
    return {
        "order": list(orders),
        "reference": list(orders.values()),
        "voucher": [row["voucher_id"] for row in rows],
    }


def table(report: dict[str, Any]) -> str:
    """For people."""
    return f"{report['machine']}; {report['vouchers']} voucher(s) per order\n" + stage.grid(
        ["read", "service/s", "driver/s", "ratio", "p50 ms", "driver p50", "p99 ms", "driver p99"],
        [
            [
                *(one["read"], *map(round, one["perSecond"].values()), one["ratio"]),
                *(*one["p50Ms"].values(), *one["p99Ms"].values()),
            ]
            for one in report["results"]
        ],
    )


if __name__ == "__main__":
    main()
