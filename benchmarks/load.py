"""A load over HTTP: keep-alive connections that each send one request after the other, in a process of its own.

Reads a plan as JSON on standard input, prints what it measured as JSON on standard output. A plan holds:

    port, connections
    requests   each a head without its last empty line and Content-Length, and a body; those of a connection are every
               n-th, again and again. CONNECTION becomes the connection's number, REFERENCE a new reference each time.
    seconds    how long, or `count`: how many requests in all
    rate       offered per second whatever comes back (an open loop: what finds no connection free waits, and its
               latency counts from when it was due); without it each connection sends as soon as it has its answer
    outcomes   whether answers are counted by the status of the order in them
"""

import asyncio
import json
import os
import random
import re
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))

from giftrail import running

TICK_SECONDS = 0.001
HOST = "127.0.0.1"


@dataclass
class Tally:
    """What came back. Latencies in seconds, of the answers that were 200 or 304."""

    statuses: dict[str, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)

    def count(self, status: str) -> None:
        """One more of it."""
        self.statuses[status] = self.statuses.get(status, 0) + 1


class Pace:
    """Gives each connection leave to send: at once while the run lasts, or by the clock when there is a rate."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._rate: float | None = plan.get("rate")
        self._seconds: float | None = plan.get("seconds")
        self._count: int | None = plan.get("count")
        self._given = 0
        self._started = 0.0
        self._due: deque[float] = deque()
        self._idle: list[Client] = []

    def start(self) -> None:
        """The run begins."""
        self._started = time.perf_counter()

    def ask(self, client: "Client") -> None:
        """The connection is free: let it send, now or later, or end it."""
        if self._due:
            client.send_next(self._due.popleft())
        elif self.is_over():
            client.end()
        elif self._rate is None:
            self._given += 1
            client.send_next(time.perf_counter())
        else:
            self._idle.append(client)

    async def keep(self) -> None:
        """With a rate: give leave when it is due, until the run is over."""
        while self._rate is not None and not self.is_over():
            now = time.perf_counter()
            while not self.is_over() and (due := self._started + self._given / self._rate) <= now:
                self._given += 1
                if self._idle:
                    self._idle.pop().send_next(due)
                else:
                    self._due.append(due)
            await asyncio.sleep(TICK_SECONDS)
        for client in self._idle:
            client.end()

    def is_over(self, *, in_seconds: float = 0.0) -> bool:
        """Whether nothing more is to be sent then."""
        if self._count is not None:
            return self._given >= self._count
        if self._rate is not None:
            return self._given >= self._rate * (self._seconds or 0.0)
        return time.perf_counter() + in_seconds >= self._started + (self._seconds or 0.0)


class Client(asyncio.Protocol):
    """One connection, which sends its requests in turn."""

    def __init__(self, plan: dict[str, Any], number: int, pace: Pace, tally: Tally) -> None:
        requests = plan["requests"]
        own = requests[number :: plan["connections"]] or [requests[number % len(requests)]]
        self._requests = [
            (one["head"].replace("CONNECTION", f"{number:012x}").encode(), one["body"].encode()) for one in own
        ]
        self._outcomes: bool = plan.get("outcomes", False)
        self._run, self._number, self._sent = os.urandom(4).hex(), number, 0
        self._pace, self._tally = pace, tally
        self._buffer = bytearray()
        self._end = 0  # of the answer in the buffer; 0 until its head is whole
        self._begun = 0.0
        self._request = b""
        self.done = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        if not self.done.done():
            self._tally.count("broken")
            self.done.set_result(None)

    def send_next(self, begun: float) -> None:
        """Send the next request, whose latency counts from that moment."""
        head, body = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        if body:
            body = body.replace(b"REFERENCE", f"{self._run}-{self._number}-{self._sent}".encode())
            head += b"\r\nContent-Length: %d" % len(body)
        self._request = head + b"\r\n\r\n" + body
        self._begun = begun
        self._send()

    def end(self) -> None:
        """Nothing more is to be sent."""
        if not self.done.done():
            self.done.set_result(None)
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._end:
            head_end = self._buffer.find(b"\r\n\r\n")
            if head_end < 0:
                return
            _, _, length = bytes(self._buffer[:head_end]).lower().partition(b"\r\ncontent-length:")
            self._end = head_end + 4 + int(length.partition(b"\r\n")[0] or 0)
        if len(self._buffer) >= self._end:
            self._take_answer()

    def _take_answer(self) -> None:
        status = self._buffer[9:12].decode()
        later = re.search(rb"\r\nretry-after: (\d+)\r\n", self._buffer[: self._end]) if status == "503" else None
        if status in {"200", "304"}:
            self._tally.latencies.append(time.perf_counter() - self._begun)
            if self._outcomes:
                status = "SUCCESS" if b'"status":"SUCCESS"' in self._buffer else "FAILED"
        self._tally.count(status)
        self._buffer.clear()
        self._end = 0
        # As a client should: wait as long as it is told, then send the same reference again.
        pause = int(later[1]) * random.uniform(1, 1.5) if later else 0.0
        if later is None:
            self._pace.ask(self)
        elif self._pace.is_over(in_seconds=pause):
            self.end()
        else:
            asyncio.get_running_loop().call_later(pause, self._send_again)

    def _send_again(self) -> None:
        self._begun = time.perf_counter()
        self._send()

    def _send(self) -> None:
        if self._transport is not None:
            self._transport.write(self._request)


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Carry out the plan."""
    running.allow_many_connections()
    tally, pace = Tally(), Pace(plan)
    loop = asyncio.get_running_loop()
    clients = [Client(plan, number, pace, tally) for number in range(plan["connections"])]
    for client in clients:
        await loop.create_connection(lambda made=client: made, HOST, plan["port"])  # type: ignore[misc]
    started, used = time.perf_counter(), time.process_time()
    pace.start()
    for client in clients:
        pace.ask(client)
    await pace.keep()
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
        "loadCores": round((time.process_time() - used) / elapsed, 2),
    }


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(json.dumps(runner.run(run(json.load(sys.stdin)))) + "\n")
