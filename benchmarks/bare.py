"""Bare reads: the driver's selects of the same rows, over one connection pool in a process of its own.

Reads a plan as JSON on standard input, prints what it measured as JSON on standard output. A plan holds url, seconds,
callers (who read side by side), connections (of the pool), by (a key of SELECTS) and keys (partner and key of each).
"""

import asyncio
import json
import sys
import time
from typing import Any

import asyncpg
import uvloop

_VOUCHERS = "SELECT * FROM voucher WHERE partner_id = $1 AND order_id = $2 ORDER BY position"
_ORDER = "SELECT * FROM orders WHERE partner_id = $1 AND order_id = $2"
SELECTS = {
    "order": _ORDER,
    "reference": "SELECT * FROM orders WHERE partner_id = $1 AND reference_id = $2",
    "voucher": "SELECT * FROM voucher WHERE partner_id = $1 AND voucher_id = $2",
}


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Read until the time is over."""
    latencies: list[float] = []
    first, keys, by = SELECTS[plan["by"]], plan["keys"], plan["by"]
    size = plan["connections"]
    async with asyncpg.create_pool(plan["url"], min_size=size, max_size=size) as database:
        started = time.perf_counter()
        deadline = started + plan["seconds"]

        async def read_on(number: int) -> None:
            place = number
            while (begun := time.perf_counter()) < deadline:
                partner_id, key = keys[place % len(keys)]
                place += plan["callers"]
                async with database.acquire() as conn:
                    row = await conn.fetchrow(first, partner_id, key)
                    assert row is not None, key
                    # An order is answered with its vouchers, a voucher only while its order stands.
                    if by == "voucher":
                        await conn.fetchrow(_ORDER, partner_id, row["order_id"])
                    else:
                        await conn.fetch(_VOUCHERS, partner_id, row["order_id"])
                latencies.append(time.perf_counter() - begun)

        await asyncio.gather(*(read_on(number) for number in range(plan["callers"])))
        elapsed = time.perf_counter() - started
    latencies.sort()
    return {
        "perSecond": round(len(latencies) / elapsed, 1),
        "p50Ms": round(latencies[len(latencies) // 2] * 1000, 2),
        "p99Ms": round(latencies[int(len(latencies) * 0.99)] * 1000, 2),
    }


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(json.dumps(runner.run(run(json.load(sys.stdin)))) + "\n")
