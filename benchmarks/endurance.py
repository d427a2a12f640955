"""Nothing lost, nothing twice: impatient clients order while processes are killed and PostgreSQL is stopped hard.

    python benchmarks/endurance.py --kills 60 --seed 7

API processes and workers over one PostgreSQL (fsync on), several partners' clients, and a seeded choice of
SIGKILLs and of immediate restarts of PostgreSQL. At the end what the clients were told is compared with what is stored,
and the auditor reads everything. The exit status is 1 when a figure that must be zero is not.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import fleet, furnishing, reckoning, stage
from benchmarks.clients import Client
from benchmarks.told import Book

from giftrail.cli import stopping
from giftrail.db import embedded
from giftrail.orders.states import Status

PARTNERS, CLIENTS_PER_PARTNER = 4, 12
# Between two kills, in seconds, drawn evenly.
GAP_SECONDS = (0.1, 0.9)
# After the last kill the clients place orders until one was placed that was begun after it, at most this long.
RECOVER_WITHIN_SECONDS = 60.0
# What was in the hands of a worker that died is taken over when its lease ends, and may then need a moment.
DRAIN_WITHIN_SECONDS = max(fleet.LEASE_SECONDS, fleet.DEADLINE_SECONDS) + 40.0
# Nothing waits for ever: the whole run is cut off after this.
LIMIT_SECONDS, LIMIT_SECONDS_PER_KILL = 400.0, 3.0
TELL_SECONDS = 2.0
SHOWN = 5
MUST_BE_ZERO = {
    "lost": "acknowledged orders lost",
    "debitedTwice": "orders debited twice",
    "codesSoldTwice": "codes sold twice",
    "eventsLost": "events lost or told twice",
    "auditFindings": "audit findings",
    "stillProcessing": "orders PROCESSING after the drain",
    "moneyAdrift": "wallets unlike their orders",
    "neverOffered": "orders nobody offered",
    "contradictions": "answers that contradict others",
    "unexpectedAnswers": "answers nobody expects (500 …)",
    "badLogLines": "errors and tracebacks in the logs",
    "uncleanStops": "processes that did not stop cleanly",
    "stuck": "disturbances nobody got over",
}
FIGURES = {
    "offered": "orders offered",
    "acknowledged": "orders acknowledged",
    "givenUp": "orders given up by their client",
    "vouchersSeen": "vouchers seen",
    "killsApi": "kills of API processes",
    "killsWorkers": "kills of workers",
    "postgresRestarts": "restarts of PostgreSQL",
    "exits": "exits of their own (no database)",
    "longestRecoveryAfterKillSeconds": "longest recovery after a kill, s",
    "longestRecoveryAfterRestartSeconds": "longest recovery after a restart, s",
    "secondsPerKill": "seconds per kill",
    "medianStartSeconds": "start of an API process (median), s",
    "drainSeconds": "drain, s",
    "seconds": "all of it, s",
}


def main() -> None:
    """Run, and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, help="SIGKILLs of API processes and workers")
    parser.add_argument("--restarts", type=int, help="immediate restarts of PostgreSQL (default: kills / 10)")
    parser.add_argument("--processes", type=int, default=2, help="API processes, and as many workers (default: 2)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of every choice (default: drawn)")
    parser.add_argument("--folder", type=Path, help="keep data and logs here, a new folder (default: thrown away)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.restarts is None:
        arguments.restarts = arguments.kills // 10
    if arguments.kills < 1 or arguments.processes < 1 or not 0 <= arguments.restarts <= arguments.kills:
        parser.error("at least one kill and one process of each kind, and no more restarts than kills")
    report = None
    with stopping.stopped_by_signals(), _folder(arguments.folder) as folder, embedded.running(folder) as url:
        report = stopping.run(endure(url, folder, arguments))
    if report is None:
        sys.exit(130)
    sys.stdout.write(json.dumps(report) + "\n" if arguments.json else table(report))
    sys.exit(1 if any(report["mustBeZero"].values()) else 0)


@contextlib.contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    if wanted is not None:
        wanted.mkdir(parents=True)
        yield wanted.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="giftrail-endurance-") as made:
        yield Path(made)


async def endure(url: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything, from an empty database to the verdict. Raises TimeoutError when it takes far too long."""
    started = time.monotonic()
    async with asyncio.timeout(LIMIT_SECONDS + LIMIT_SECONDS_PER_KILL * arguments.kills):
        accounts = await furnishing.furnish(url, folder, how_many=PARTNERS, kills=arguments.kills)
        men, book = fleet.Fleet(url, folder, of_each=arguments.processes), Book()
        clients = [
            Client(
                account, [api.port for api in men.apis], list(furnishing.OFFERS), book,
                seed=f"s{arguments.seed}-p{partner}-c{number}",
            )
            for partner, account in enumerate(accounts, 1)
            for number in range(1, CLIENTS_PER_PARTNER + 1)
        ]  # fmt: skip
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(men.at_work())
            for client in clients:
                await stack.enter_async_context(client.connected())
            figures = await trouble(men, book, clients, arguments)
            figures |= await drain(url, book, clients)
        tell("stopped; reading everything…\n")
        verdict = await reckoning.reckon(
            url, book, money_minor=furnishing.MONEY_MINOR, never_ending=furnishing.NEVER_ENDING
        )
    verdict.wrong |= {
        "badLogLines": men.bad_lines(),
        "uncleanStops": men.unclean_stops,
        "stuck": book.stuck,
    }
    figures |= verdict.figures | {
        "killsApi": sum(one.kills for one in men.apis),
        "killsWorkers": sum(one.kills for one in men.workers),
        "postgresRestarts": men.postgres_restarts,
        "exits": sum(one.exits for one in men.members),
        "longestRecoveryAfterKillSeconds": round(book.recoveries["kill"], 2),
        "longestRecoveryAfterRestartSeconds": round(book.recoveries["restart"], 2),
        "medianStartSeconds": round(statistics.median(men.pace.took), 2),
        "seconds": round(time.monotonic() - started, 1),
    }
    return {
        "machine": await stage.machine(url),
        "seed": arguments.seed,
        "kills": arguments.kills,
        "restarts": arguments.restarts,
        "processesOfEach": arguments.processes,
        "mustBeZero": {name: len(verdict.wrong[name]) for name in MUST_BE_ZERO},
        "wrong": {name: sentences for name, sentences in verdict.wrong.items() if sentences},
        **figures,
    }


async def trouble(men: fleet.Fleet, book: Book, clients: list[Client], arguments: argparse.Namespace) -> dict[str, Any]:
    """The load, and while it runs the kills and restarts; then the load comes to its end."""
    begun = time.monotonic()
    telling = asyncio.create_task(_tell_on(men, book, arguments))
    ordering = [asyncio.create_task(client.run()) for client in clients]
    try:
        await _disturb(men, book, arguments)
        seconds = time.monotonic() - begun
        last = time.monotonic()
        while book.disturbed and time.monotonic() - last < RECOVER_WITHIN_SECONDS:
            await asyncio.sleep(0.1)
        for client in clients:
            client.close()
        done, stuck = await asyncio.wait(ordering, timeout=RECOVER_WITHIN_SECONDS)
        for task in done:
            task.result()
        book.stuck += [f"nobody placed an order after a {kind}" for _, kind in book.disturbed]
        book.stuck += ["a client came to no end"] * len(stuck)
    finally:
        for task in [telling, *ordering]:
            task.cancel()
        await asyncio.gather(telling, *ordering, return_exceptions=True)
    return {"secondsPerKill": round(seconds / arguments.kills, 2)}


async def _disturb(men: fleet.Fleet, book: Book, arguments: argparse.Namespace) -> None:
    """Kill at random moments; every now and then stop PostgreSQL too, while the killing goes on."""
    draw = random.Random(f"disturb {arguments.seed}")
    restart_at = set(draw.sample(range(arguments.kills), arguments.restarts))
    async with asyncio.TaskGroup() as group:
        restarting: asyncio.Task[None] | None = None
        for number in range(arguments.kills):
            await asyncio.sleep(draw.uniform(*GAP_SECONDS))
            await men.kill_one(draw)
            book.disturb("kill")
            if number in restart_at:
                if restarting is not None:
                    await restarting
                book.disturb("restart")
                restarting = group.create_task(men.restart_postgres())


async def drain(url: str, book: Book, clients: list[Client]) -> dict[str, Any]:
    """Wait until no order is PROCESSING, then let the clients ask once more for those they do not know the end of."""
    begun = time.monotonic()
    left = -1
    while left and time.monotonic() - begun < DRAIN_WITHIN_SECONDS:
        await asyncio.sleep(1)
        left = await reckoning.count_unended(url, never_ending=furnishing.NEVER_ENDING)
        tell(f"draining: {left} orders left")
    by_partner = {client.partner_id: client for client in clients}
    for kept in book.orders:
        if kept.order_id and (kept.status is Status.PROCESSING or kept.reversal_pending):
            await by_partner[kept.partner_id].read_again(kept)
    return {"drainSeconds": round(time.monotonic() - begun, 1)}


def table(report: dict[str, Any]) -> str:
    """For people."""
    processes = f"{report['processesOfEach']} API processes, {report['processesOfEach']} workers"
    lines = [f"{report['machine']}; {processes}; seed {report['seed']}", ""]
    lines += [f"{words:<40} {report[name]:>10}" for name, words in FIGURES.items()]
    lines += ["", "These must be zero:"]
    lines += [f"{words:<40} {report['mustBeZero'][name]:>10}" for name, words in MUST_BE_ZERO.items()]
    for name, sentences in report["wrong"].items():
        lines += ["", f"{MUST_BE_ZERO[name]}:", *sentences[:SHOWN]]
    return "\n".join(lines) + "\n"


async def _tell_on(men: fleet.Fleet, book: Book, arguments: argparse.Namespace) -> None:
    begun = time.monotonic()
    while True:
        kills = sum(one.kills for one in men.members)
        up = sum(one.is_up for one in men.members)
        tell(
            f"seed {arguments.seed}: {time.monotonic() - begun:.0f} s, {kills}/{arguments.kills} kills,"
            f" {men.postgres_restarts}/{arguments.restarts} restarts, {len(book.orders)} orders, {up} processes up,"
            f" {len(book.contradictions) + len(book.unexpected) + len(book.sold_twice)} wrong"
        )
        await asyncio.sleep(TELL_SECONDS)


def tell(message: str) -> None:
    """Progress on standard error: one line that changes, or one after the other when nobody watches."""
    sys.stderr.write(f"\r\x1b[2K{message}" if sys.stderr.isatty() else message.rstrip("\n") + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
