"""Webhooks end to end: durable deliveries per second, and how long an event waits for its first attempt.

    python benchmarks/webhooks.py --events 20000 --rate 1000 --seconds 15

One worker process (giftrail work), its PostgreSQL and a sink that answers at once share this machine's cores. Events
are written as a room writes them and rung for as a worker does; an event counts as delivered when its success is
committed. The latencies are measured three times side by side: all endpoints well; one hangs and one fails; all well.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import market, stage

from giftrail import app
from giftrail.db import migrate, pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids
from giftrail.webhooks import manage

BATCH_EVENTS = 50
PATIENCE_SECONDS = 300.0


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = stage.arguments_of(__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="of the throughput run")
    parser.add_argument("--rate", type=int, default=1000, help="events offered per second in the latency runs")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each latency run")
    parser.add_argument("--endpoints", type=int, default=50, help="one for each of so many partners")
    parser.add_argument("--rounds", type=int, default=3, help="throughput runs")
    arguments = parser.parse_args()
    with stage.database() as (url, folder):
        report = measure(url, folder, arguments)
    stage.show(report, as_json=arguments.json, table=table)


def measure(url: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Throughput runs, then latency runs."""
    asyncio.run(migrate.migrate(url))
    with sink(folder) as (port, record):
        asyncio.run(furnish(url, folder, port, arguments.endpoints))
        with worker(url, folder):
            rates = []
            for number in range(arguments.rounds):
                rates.append(asyncio.run(deliver_all(url, arguments.events)))
                stage.tell(f"round {number + 1}: {rates[-1]:.0f} deliveries/s")
            latencies = {}
            for name in ("well", "sick", "well again"):
                asyncio.run(make_sick(url, folder, port, sick=name == "sick"))
                latencies[name] = asyncio.run(offer(url, record, arguments, name))
                stage.tell(f"{name}: p50 {latencies[name]['p50Ms']} ms, p99 {latencies[name]['p99Ms']} ms")
    return {
        "machine": asyncio.run(stage.machine(url)),
        "endpoints": arguments.endpoints,
        "deliveriesPerSecond": round(statistics.median(rates)),
        "offeredPerSecond": arguments.rate,
        "latencies": latencies,
    }


@contextmanager
def sink(folder: Path) -> Iterator[tuple[int, Path]]:
    """The receivers, in a process of their own: their port and their record."""
    port_file, record = folder / "sink.port", folder / "sink.record"
    process = subprocess.Popen([sys.executable, stage.HERE / "sink.py", port_file, record])
    try:
        stage.wait_for(
            lambda: port_file.exists() and port_file.read_text() != "", within_seconds=stage.UP_WITHIN_SECONDS
        )
        yield int(port_file.read_text()), record
    finally:
        process.kill()
        process.wait()


@contextmanager
def worker(url: str, folder: Path) -> Iterator[None]:
    """One worker process."""
    environment = (
        os.environ
        | stage.QUIET
        | {
            "GIFTRAIL_DATABASE_URL": url,
            "GIFTRAIL_DATA_DIR": str(folder),
            "GIFTRAIL_WEBHOOK_NETWORKS": market.NETWORKS,
            "GIFTRAIL_AUDIT_EVERY_SECONDS": "0",
        }
    )
    process = subprocess.Popen([sys.executable, "-m", "giftrail", "work"], env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def furnish(url: str, folder: Path, port: int, endpoints: int) -> None:
    """So many partners with an endpoint each, and two more that can be made sick."""
    ring = market.keys_of(folder).ring
    async with pool.connect(url) as conn, conn.transaction():
        for number in range(endpoints):
            trader = await market.make_partner(conn, f"Bench {number}", brand_ids=[])
            await market.make_endpoint(conn, trader.partner, f"http://127.0.0.1:{port}/ok/{number}", ring=ring)


async def make_sick(url: str, folder: Path, port: int, *, sick: bool) -> None:
    """Let the first endpoint hang and the second fail, or make both well."""
    ring = market.keys_of(folder).ring
    async with pool.connect(url) as conn, conn.transaction():
        rows = await conn.fetch("SELECT partner_id, endpoint_id FROM webhook_endpoint ORDER BY endpoint_id LIMIT 2")
        for row, path in zip(rows, ("hang", "fail"), strict=True):
            endpoint = await manage.read_endpoint(
                conn, partner_id=row["partner_id"], endpoint_id=row["endpoint_id"], ring=ring
            )
            await manage.change_endpoint(
                conn,
                endpoint,
                url=f"http://127.0.0.1:{port}/{path if sick else 'ok'}/sick",
                allowlist=market.networks(),
                ring=ring,
                now=app.now(),
            )
    await asyncio.sleep(2)


async def append(conn: pool.Connection, partner_ids: list[str], first: int, count: int) -> list[str]:
    """Write so many events in one transaction, to the partners in turn; returns their ids."""
    now = datetime.now(UTC)
    made = [
        events.Event(
            partner_id=partner_ids[number % len(partner_ids)],
            event_id=ids.new("evt", now=now),
            kind=events.Kind.ORDER_TERMINAL_STATE,
            body=events.order_changed(order_id=f"ord_{number:032x}", reference_id=f"ref-{number}", status="SUCCESS"),
            occurred_at=now,
        )
        for number in range(first, first + count)
    ]
    async with conn.transaction():
        await outbox.append_events(conn, made)
    await conn.execute("NOTIFY giftrail_events")
    return [event.event_id for event in made]


async def deliver_all(url: str, count: int) -> float:
    """Write events as fast as they can be, and count how fast they are delivered: deliveries per second."""
    async with pool.connect(url) as conn:
        partner_ids = [row["partner_id"] for row in await conn.fetch("SELECT partner_id FROM partner")]
        before = await delivered(conn)
        started = time.monotonic()
        for first in range(0, count, 1000):
            await append(conn, partner_ids, first, min(1000, count - first))
        deadline = started + PATIENCE_SECONDS
        while await delivered(conn) - before < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"only {await delivered(conn) - before} of {count} events were delivered")
            await asyncio.sleep(0.05)
        return count / (time.monotonic() - started)


async def delivered(conn: pool.Connection) -> int:
    """How many deliveries have succeeded, committed."""
    count: int = await conn.fetchval("SELECT count(*) FROM webhook_delivery WHERE state = 'DELIVERED'")
    return count


async def offer(url: str, record: Path, arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """Offer events at a rate; from each commit to its first arrival, of the endpoints that are well."""
    committed: dict[str, float] = {}
    skip = record.stat().st_size
    async with pool.connect(url) as conn:
        rows = await conn.fetch("SELECT partner_id FROM webhook_endpoint ORDER BY endpoint_id")
        partner_ids = [row["partner_id"] for row in rows]
        started = time.monotonic()
        for number in range(0, int(arguments.rate * arguments.seconds), BATCH_EVENTS):
            await asyncio.sleep(max(0.0, started + number / arguments.rate - time.monotonic()))
            made = await append(conn, partner_ids, number, BATCH_EVENTS)
            at = time.time()
            well = zip(made, range(number, number + BATCH_EVENTS), strict=True)
            committed |= {one: at for one, place in well if place % len(partner_ids) >= 2}
    await asyncio.sleep(3)
    first: dict[str, float] = {}
    with record.open() as file:
        file.seek(skip)
        for line in file:
            event_id, at_text, _ = line.split(" ")
            first.setdefault(event_id, float(at_text))
    missing = committed.keys() - first.keys()
    if missing:
        raise AssertionError(f"{name}: {len(missing)} of {len(committed)} events have not come")
    waits = sorted((first[one] - at) * 1000 for one, at in committed.items())
    return {
        "events": len(waits),
        "p50Ms": round(statistics.median(waits), 1),
        "p99Ms": round(waits[int(len(waits) * 0.99)], 1),
    }


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [
        f"{report['machine']}, {report['endpoints']} endpoints",
        f"durable deliveries end to end: {report['deliveriesPerSecond']}/s",
        f"commit to first attempt at {report['offeredPerSecond']}/s offered, endpoints that are well:",
    ]
    for name, one in report["latencies"].items():
        lines.append(f"  {name:<12} p50 {one['p50Ms']:>8} ms   p99 {one['p99Ms']:>8} ms   ({one['events']} events)")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
