"""Catalogue pages per second from the service, beside the same server answering static bytes of the same size.

    python benchmarks/catalog.py --seconds 5 --rounds 3

A is the service (one API process): one brand, a page of 20, the whole list. B is uvicorn with the service's own
settings, one process, and a bare ASGI callable that sends the bytes and headers of A's answer. Then 304s for
If-None-Match beside the 200s of the same page. Server and load share this machine's cores; the figures are ratios of
medians. `load` is how much of a core the load itself takes: near 1 it, not the server, would be what is measured.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import market, stage

from giftrail.db import pool
from giftrail.providers import protocol

LIST = "/v1/partners/products"
# uvicorn gives this one to every answer itself.
NOT_REPEATED = {"date"}
WARM_SECONDS = 1.0


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = stage.arguments_of(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="A B A B …, this often")
    parser.add_argument("--connections", type=int, default=32, help="of the load")
    parser.add_argument("--brands", type=int, default=500, help="in the catalogue")
    arguments = parser.parse_args()
    with stage.database() as (url, folder):
        report = {"machine": asyncio.run(stage.machine(url)), "brands": arguments.brands}
        report |= measure(url, folder, arguments)
    stage.show(report, as_json=arguments.json, table=table)


def measure(url: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Each page from both servers, A B A B …; then 304s and 200s, A B A B …."""
    database = asyncio.run(stage.new_database(url, "bench_catalog"))
    trader = asyncio.run(furnish(database, arguments.brands))
    pages = {
        "one brand": f"{LIST}/{trader.brand_ids[0]}",
        "20 brands": f"{LIST}?pageNo=1&limit=20",
        f"all {arguments.brands} brands": LIST,
    }
    with stage.serving(database, folder) as service:
        token = service.log_in(trader.credential)
        answers = {path: fetch(service.port, path, token) for path in pages.values()}
        with standing_still(folder, answers) as static:
            results = []
            for name, path in pages.items():
                get = service.request("GET", path, token=token)
                tag = answers[path].headers["ETag"]
                unchanged = service.request("GET", path, token=token, headers={"If-None-Match": tag})
                kinds = {"service": (service.port, get), "static": (static, get)}
                found = alternate(kinds, arguments)
                kinds = {"304": (service.port, unchanged), "200": (service.port, get)}
                found["unchanged"] = alternate(kinds, arguments)
                results.append({"page": name, "kilobytes": round(len(answers[path].content) / 1024, 1)} | found)
                stage.tell(f"{name}: {found['perSecond']}, {found['unchanged']['perSecond']}")
    return {"results": results}


def alternate(kinds: dict[str, tuple[int, dict[str, str]]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Both in turn; medians, and the ratio of the first to the second."""
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    latencies: dict[str, list[float]] = {name: [] for name in kinds}
    cores = []
    for number in range(arguments.rounds + 1):
        for name, (port, request) in kinds.items():
            plan = {"port": port, "requests": [request], "connections": arguments.connections}
            found = stage.load(plan | {"seconds": arguments.seconds if number else WARM_SECONDS})
            if found["statuses"].keys() - {"200", "304"}:
                raise AssertionError(f"{name}: {found['statuses']}")
            if number:
                rates[name].append(found["perSecond"])
                latencies[name].append(found["p99Ms"])
                cores.append(found["loadCores"])
    first, second = (statistics.median(one) for one in rates.values())
    return {
        "perSecond": {name: round(statistics.median(one)) for name, one in rates.items()},
        "p99Ms": {name: statistics.median(one) for name, one in latencies.items()},
        "ratio": round(first / second, 2),
        "loadCores": max(cores),
    }


async def furnish(database: str, count: int) -> market.Trader:
    """The brands of the demo under many names, all of them enabled for one partner."""
    text = (resources.files("giftrail.demo") / "brands.json").read_text("utf-8")
    models = json.loads(text, parse_int=Decimal, parse_float=Decimal)
    rows = [
        model | {"id": f"{model['id']}-{number}", "title": f"{model['title']} {number}", "providers": ["generator"]}
        for number in range(count)
        for model in [models[number % len(models)]]
    ]
    async with pool.connect(database) as conn, conn.transaction():
        await market.make_brands(conn, rows, known_providers=protocol.AT_ONCE)
        return await market.make_partner(conn, "Bench", brand_ids=[row["id"] for row in rows])


def fetch(port: int, path: str, token: str) -> httpx.Response:
    """What the service answers, uncompressed."""
    headers = {
        "Authorization": f"Bearer {token}",
        "X-REQUEST-ID": "0193a5c2-f1e8-4b3c-8d5e-000000000000",
        "Accept-Encoding": "identity",
    }
    return httpx.get(f"http://{stage.HOST}:{port}{path}", headers=headers, trust_env=False).raise_for_status()


@contextmanager
def standing_still(folder: Path, answers: dict[str, httpx.Response]) -> Iterator[int]:
    """The other server, in a process of its own; yields its port."""
    port = stage.free_port(folder)
    plan: dict[str, Any] = {"port": port, "data_dir": str(folder), "answers": {}}
    for number, (path, answer) in enumerate(answers.items()):
        file = folder / f"answer-{number}"
        file.write_bytes(answer.content)
        headers = [(name, value) for name, value in answer.headers.multi_items() if name not in NOT_REPEATED]
        plan["answers"][path] = {"headers": headers, "file": str(file)}
    plan_file = folder / "static.json"
    plan_file.write_text(json.dumps(plan))
    command = [sys.executable, str(stage.HERE / "static.py"), str(plan_file)]
    with stage.serving_at(port, command, path=next(iter(answers))):
        yield port


def table(report: dict[str, Any]) -> str:
    """For people."""
    text = f"{report['machine']}; a catalogue of {report['brands']} brands\n"
    text += stage.grid(
        ["page", "KB", "service/s", "static/s", "ratio", "p99 ms", "static p99 ms", "load"],
        [
            [
                *(one["page"], one["kilobytes"], *one["perSecond"].values(), one["ratio"]),
                *(*one["p99Ms"].values(), one["loadCores"]),
            ]
            for one in report["results"]
        ],
    )
    text += "\nNothing changed (If-None-Match):\n" + stage.grid(
        ["page", "304/s", "200/s", "ratio", "p99 ms", "200 p99 ms", "load"],
        [
            [one["page"], *other["perSecond"].values(), other["ratio"], *other["p99Ms"].values(), other["loadCores"]]
            for one in report["results"]
            for other in [one["unchanged"]]
        ],
    )
    return text


if __name__ == "__main__":
    main()
