"""Seconds from the command to the first voucher, on a warm installation; and how long the command line takes to start.

    python benchmarks/start.py --rounds 5

A is `giftrail demo --once` until its first voucher is told: PostgreSQL made and started, the schema, the catalogue, the
API and the workers, and an order through HTTP. B is `giftrail --help`, C the bare interpreter. A B C A B C …, medians;
a first round is not counted.
"""

import argparse
import asyncio
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import stage

GIFTRAIL = [sys.executable, "-m", "giftrail"]
# How the demo tells a voucher.
VOUCHER = re.compile(r"[A-Z]_SECURED: ")


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = stage.arguments_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="A B C A B C …, this often")
    arguments = parser.parse_args()
    with stage.database() as (url, _):
        report = {"machine": asyncio.run(stage.machine(url))}
    report |= measure(arguments)
    stage.show(report, as_json=arguments.json, table=table)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All of them in turn; medians and the longest, in seconds."""
    taken: dict[str, list[float]] = {}
    for number in range(arguments.rounds + 1):
        first_voucher, whole = play()
        found = {
            "giftrail demo, to the first voucher": first_voucher,
            "giftrail demo --once, the whole tale": whole,
            "giftrail --help": run([*GIFTRAIL, "--help"]),
            "python -c pass": run([sys.executable, "-c", "pass"]),
        }
        if number:
            for name, seconds in found.items():
                taken.setdefault(name, []).append(seconds)
            stage.tell(f"round {number}: {first_voucher:.2f} s to the first voucher")
    return {
        "results": [
            {"what": name, "medianSeconds": round(statistics.median(one), 2), "longestSeconds": round(max(one), 2)}
            for name, one in taken.items()
        ]
    }


def play() -> tuple[float, float]:
    """The demo: seconds to its first voucher, and to its end. Raises AssertionError when it fails."""
    started = time.perf_counter()
    first = None
    command = [*GIFTRAIL, "demo", "--once", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if first is None and VOUCHER.search(line):
                first = time.perf_counter() - started
    if demo.returncode != 0 or first is None:
        raise AssertionError(f"the demo ended with {demo.returncode}, first voucher: {first}")
    return first, time.perf_counter() - started


def run(command: list[str]) -> float:
    """Seconds until it has ended."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def table(report: dict[str, Any]) -> str:
    """For people."""
    return f"{report['machine']}\n" + stage.grid(
        ["what", "median s", "longest s"],
        [[one["what"], one["medianSeconds"], one["longestSeconds"]] for one in report["results"]],
    )


if __name__ == "__main__":
    main()
