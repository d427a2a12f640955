"""A load of orders over HTTP: keep-alive connections that each send one order after the other, in a process of its own.

Reads a plan as JSON on standard input, prints what it measured as JSON on standard output.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any, cast

import uvloop

RETRY_PAUSE_SECONDS = 0.005


@dataclass
class Tally:
    """What came back. Latencies in seconds, of the answers that were 200."""

    statuses: dict[str, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)


class Client(asyncio.Protocol):
    """One connection that sends orders until the deadline."""

    def __init__(self, plan: dict[str, Any], number: int, deadline: float, tally: Tally) -> None:
        partner = plan["partners"][number % len(plan["partners"])]
        self._head = (
            f"POST /v1/partners/orders HTTP/1.1\r\nHost: {plan['host']}\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {partner['token']}\r\nX-REQUEST-ID: 0193a5c2-f1e8-4b3c-8d5e-{number:012x}\r\n"
        ).encode()
        self._body = json.dumps(plan["order"]).encode()
        self._run = os.urandom(4).hex()
        self._number, self._sent = number, 0
        self._deadline, self._tally = deadline, tally
        self._buffer = b""
        self._begun = 0.0
        self._request = b""
        self.done = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.done.done():
            self._tally.statuses["broken"] = self._tally.statuses.get("broken", 0) + 1
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(rest) < length:
            return
        status = head[9:12].decode()
        if status == "200":
            self._tally.latencies.append(time.perf_counter() - self._begun)
            status = "SUCCESS" if b'"status":"SUCCESS"' in rest else "FAILED"
        self._tally.statuses[status] = self._tally.statuses.get(status, 0) + 1
        self._buffer = b""
        if status == "503":  # as a client should: wait, then the same reference again
            asyncio.get_running_loop().call_later(RETRY_PAUSE_SECONDS, self._send)
        else:
            self._next()

    def _next(self) -> None:
        if time.perf_counter() >= self._deadline:
            if not self.done.done():
                self.done.set_result(None)
            if self._transport is not None:
                self._transport.close()
            return
        self._sent += 1
        body = self._body.replace(b"REFERENCE", f"{self._run}-{self._number}-{self._sent}".encode())
        self._request = b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body)
        self._send()

    def _send(self) -> None:
        self._begun = time.perf_counter()
        if self._transport is not None:
            self._transport.write(self._request)


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Send orders for `seconds` over `connections` connections."""
    tally = Tally()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    deadline = started + plan["seconds"]
    clients = []
    for number in range(plan["connections"]):
        client = Client(plan, number, deadline, tally)
        await loop.create_connection(lambda made=client: made, "127.0.0.1", plan["port"])  # type: ignore[misc]
        clients.append(client)
    await asyncio.gather(*(client.done for client in clients))
    elapsed = time.perf_counter() - started
    ordered = sorted(tally.latencies)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 2) if ordered else 0.0

    return {
        "seconds": round(elapsed, 2),
        "perSecond": round(len(ordered) / elapsed, 1),
        "statuses": tally.statuses,
        "p50Ms": at(0.5),
        "p99Ms": at(0.99),
    }


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(json.dumps(runner.run(run(json.load(sys.stdin)))) + "\n")
