"""What the API process keeps in memory while orders are placed and read: it must be flat.

    python benchmarks/memory.py --orders 1000000

VmRSS of one API process after 10 %, 50 % and 100 % of the orders, each part placed through HTTP and followed by reads
of the statement. The figure is the memory at the end over that after the first part.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import market, stage

PARTS = (0.1, 0.5, 1.0)
# After each part; the highest connections and buffers of a burst are given back by then.
READS, REST_SECONDS = 200, 2.0
# A token is good for an hour: more orders than this are placed in several loads.
ORDERS_PER_LOGIN = 1_000_000


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = stage.arguments_of(__doc__)
    parser.add_argument("--orders", type=int, default=200_000, help="in all")
    parser.add_argument("--wallets", type=int, default=10, help="how many wallets share them")
    parser.add_argument("--connections", type=int, default=128, help="of the load")
    arguments = parser.parse_args()
    with stage.database() as (url, folder):
        report = {"machine": asyncio.run(stage.machine(url)), "wallets": arguments.wallets}
        report |= measure(url, folder, arguments)
    stage.show(report, as_json=arguments.json, table=table)


def measure(url: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Place the parts, one after the other."""
    database = asyncio.run(stage.new_database(url, "bench_memory"))
    traders = market.furnish(database, partners_count=arguments.wallets)
    rows: list[dict[str, Any]] = []
    placed = 0
    with stage.serving(database, folder) as service:
        start_mb = service.resident_mb()
        for part in PARTS:
            while placed < (wanted := round(arguments.orders * part)):
                count = min(ORDERS_PER_LOGIN, wanted - placed)
                rate = trade(service, traders, count, arguments.connections)
                placed += count
            rows.append({"orders": placed, "residentMb": service.resident_mb(), "perSecond": rate})
            stage.tell(f"{placed} orders: {rows[-1]['residentMb']} MB, {rate:.0f}/s")
    ratio = rows[-1]["residentMb"] / rows[0]["residentMb"]
    return {"startMb": start_mb, "results": rows, "ratio": round(ratio, 2)}


def trade(service: stage.Service, traders: list[market.Trader], count: int, connections: int) -> float:
    """Place so many orders, then read; orders per second."""
    tokens = [service.log_in(one.credential) for one in traders]
    orders = [service.request("POST", "/v1/partners/orders", token=token, body=market.order()) for token in tokens]
    statements = [service.request("GET", "/v1/partners/wallet/transactions", token=token) for token in tokens]
    plan = {"port": service.port, "connections": connections}
    done = stage.load(plan | {"requests": orders, "count": count, "outcomes": True})
    if done["statuses"].get("SUCCESS") != count:
        raise AssertionError(done["statuses"])
    stage.load(plan | {"requests": statements, "seconds": REST_SECONDS, "rate": READS / REST_SECONDS})
    rate: float = done["perSecond"]
    return rate


def table(report: dict[str, Any]) -> str:
    """For people."""
    rows = [[0, report["startMb"], ""]]
    rows += [[one["orders"], one["residentMb"], round(one["perSecond"])] for one in report["results"]]
    return (
        f"{report['machine']}; {report['wallets']} wallets, one API process\n"
        + stage.grid(["orders", "resident MB", "orders/s"], rows)
        + f"at the end over the first part: {report['ratio']}\n"
    )


if __name__ == "__main__":
    main()
