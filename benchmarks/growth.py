"""What grows with the number of orders and what does not: the same deeds over a small and a large past.

    python benchmarks/growth.py --small 10000 --large 1000000

A is a database with few orders, B one with many, in one PostgreSQL; both are filled with set-based SQL and the auditor
finds nothing in either, before and after. Each deed is done by the rooms themselves over the service's own pools, in
turn on A and B, without HTTP; the figure is the ratio of medians. All is measured twice: with the plans that PostgreSQL
chooses, and with kept ones, which it makes for any values once a statement has been asked often; which of them a busy
connection has is not ours to say. With --explain, the plans of what grew more than the given ratio are printed. One
million orders take about 3 GB of disk. The table names how many orders there were when the timing began: those of
--settle are among them, in the small past too.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import stage
from benchmarks.doings import DEEDS, Doer
from benchmarks.past import BATCH, Past, make_pasts
from benchmarks.plans import explain

from giftrail.audit import findings as auditor
from giftrail.db import pool

STATEMENT_SECONDS = 600.0
# Before they are timed: plans are made and kept, pages are read.
WARM_TIMES = 8
# Batches that count as placed right after the checkpoint.
FRESH_TIMES = 30
# By how plans are made, what stands at the end of the database's address.
MODES = {"chosen": "", "kept": "&plan_cache_mode=force_generic_plan"}


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = stage.arguments_of(__doc__)
    parser.add_argument("--small", type=int, default=10_000, help="orders of the small past")
    parser.add_argument("--large", type=int, default=1_000_000, help="orders of the large past")
    parser.add_argument("--partners", type=int, default=100, help="that share half of the orders; one has the others")
    parser.add_argument("--rounds", type=int, default=5, help="A B A B …, this often")
    parser.add_argument("--settle", type=int, default=20_000, help="orders placed in each before anything is timed")
    parser.add_argument("--times", type=int, default=20, help="each deed, in each round")
    parser.add_argument("--explain", type=float, default=0.0, help="tell the plans of what grew more; 0: do not")
    arguments = parser.parse_args()
    if arguments.small < 200 or arguments.large < arguments.small:
        parser.error("a small past has 200 orders at least, a large one no fewer than the small one")
    with stage.database() as (url, folder):
        sizes = {"small": arguments.small, "large": arguments.large}
        pasts = make_pasts(url, folder, sizes, others=arguments.partners)
        report = {"machine": asyncio.run(stage.machine(url)), "partners": arguments.partners}
        report |= asyncio.run(measure(pasts, arguments))
    stage.show(report, as_json=arguments.json, table=table)


async def measure(pasts: list[Past], arguments: argparse.Namespace) -> dict[str, Any]:
    """Audit, do everything in turn, audit."""
    audits: dict[str, list[tuple[int, float]]] = {past.name: [] for past in pasts}
    taken = {name: {mode: {past.name: list[float]() for past in pasts} for mode in MODES} for name in DEEDS}
    async with contextlib.AsyncExitStack() as stack:
        doers = []
        for mode, ending in MODES.items():
            for past in pasts:
                database = await pool.open_database(
                    past.url + ending,
                    read_connections=1,
                    write_connections=1,
                    statement_timeout_seconds=STATEMENT_SECONDS,
                )
                stack.push_async_callback(database.close)
                doers.append((mode, Doer(past, database, seed=7)))
        await audit(pasts, audits)
        fresh = {doer.past.name: await settle(doer, arguments.settle) for mode, doer in doers if mode == "chosen"}
        timed = [await count_orders(past) for past in pasts]
        for number in range(arguments.rounds):
            for name, deed in DEEDS.items():
                for mode, doer in doers:
                    for _ in range(WARM_TIMES):
                        await deed(doer)
                    taken[name][mode][doer.past.name] += [await deed(doer) for _ in range(arguments.times)]
            stage.tell(f"round {number + 1} of {arguments.rounds}")
        await audit(pasts, audits)
    compared = {name: {mode: compare(medians) for mode, medians in found.items()} for name, found in taken.items()}
    grown = [
        name for name, one in compared.items() if 0 < arguments.explain < max(one[mode]["ratio"] for mode in MODES)
    ]
    return {
        "ordersAsTimed": timed,
        "afterCheckpoint": compare(fresh),
        "results": [{"deed": name} | one for name, one in compared.items()],
        "pasts": [describe(past, audits[past.name]) for past in pasts],
        "plans": [await explain(pasts[-1], name, statement_timeout_seconds=STATEMENT_SECONDS) for name in grown],
    }


async def settle(doer: Doer, orders: int) -> list[float]:
    """Place so many orders, in batches; returns what one took at first, right after the checkpoint of the fill.

    Then each page that is changed is logged whole, once, and a large past has many: that is a matter of checkpoints and
    not of the number of orders, so it is told on its own.
    """
    taken = [await doer.place_batch() for _ in range(max(1, orders // BATCH))]
    return taken[WARM_TIMES : WARM_TIMES + FRESH_TIMES] or taken


async def audit(pasts: list[Past], audits: dict[str, list[tuple[int, float]]]) -> None:
    """Both, one after the other: how many orders, and seconds. Raises AssertionError when the auditor finds anything.

    As of when the due work was written: what has become old meanwhile is not overdue.
    """
    for past in pasts:
        async with pool.connect(past.url) as conn:
            orders = await count_orders(past)
            started = time.perf_counter()
            findings = await auditor.list_findings(conn, now=past.made_at)
            seconds = time.perf_counter() - started
        if findings:
            raise AssertionError(findings[:5])
        audits[past.name].append((orders, seconds))
        stage.tell(f"{past.name}: {orders} orders, audit {seconds:.1f} s, clean")


async def count_orders(past: Past) -> int:
    """How many there are by now."""
    async with pool.connect(past.url) as conn:
        count: int = await conn.fetchval("SELECT count(*) FROM orders")
    return count


def compare(found: dict[str, list[float]]) -> dict[str, Any]:
    """Medians in milliseconds and their ratio."""
    small, large = (statistics.median(one) * 1000 for one in found.values())
    return {"smallMs": round(small, 3), "largeMs": round(large, 3), "ratio": round(large / small, 2)}


def describe(past: Past, audits: list[tuple[int, float]]) -> dict[str, Any]:
    """What it took to make; and to audit, at first and with what was placed since."""
    (orders, seconds), (last_orders, last_seconds) = audits[0], audits[-1]
    return {
        "past": past.name,
        "ordersFilled": past.orders,
        "fillSeconds": round(past.fill_seconds, 1),
        "vacuumSeconds": round(past.vacuum_seconds, 1),
        "gigabytes": round(past.gigabytes, 2),
        "auditSeconds": round(seconds, 2),
        "auditMicrosecondsPerOrder": round(seconds / orders * 1e6, 1),
        "ordersAtTheEnd": last_orders,
        "lastAuditSeconds": round(last_seconds, 2),
        "lastAuditMicrosecondsPerOrder": round(last_seconds / last_orders * 1e6, 1),
    }


def table(report: dict[str, Any]) -> str:
    """For people."""
    small, large = report["ordersAsTimed"]
    text = f"{report['machine']}; one partner with half of the orders, {report['partners']} with the others\n"
    sizes = [str(small), str(large), "ratio"]
    text += stage.grid(
        ["ms, medians, by orders", *sizes, *(f"kept: {name}" for name in sizes)],
        [[one["deed"], *(figure for mode in MODES for figure in one[mode].values())] for one in report["results"]],
    )
    fresh = report["afterCheckpoint"]
    text += (
        "\nplace, in batches of 100, per order, while pages are logged whole after a checkpoint:"
        f" {fresh['smallMs']} and {fresh['largeMs']} ms, ratio {fresh['ratio']}\n"
    )
    text += "\n" + stage.grid(
        [
            *("past", "filled", "fill s", "vacuum s", "GB", "audit s", "us/order"),
            *("orders at the end", "audit s", "us/order"),
        ],
        [list(one.values()) for one in report["pasts"]],
    )
    return text + "".join(f"\n{plan}\n" for plan in report["plans"])


if __name__ == "__main__":
    main()
