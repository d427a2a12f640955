"""The receivers of the webhook benchmark: one process that answers any POST at once, and notes when each event came.

    python benchmarks/sink.py PORT_FILE RECORD_FILE

Paths: /ok answers 204, /fail 500, /hang never. Each line of the record is the event's id and the moment, in seconds.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import cast

import uvloop

ANSWERS = {
    b"/ok": b"HTTP/1.1 204 No Content\r\n\r\n",
    b"/fail": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
}


class Receiver(asyncio.Protocol):
    """One connection, kept alive; as much HTTP as the benchmark sends."""

    def __init__(self, record: list[str]) -> None:
        self._record = record
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by its deeds, not by its class

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._buffer += data
        while (head_end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:head_end].lower()
            length = int(_header(head, b"content-length") or 0)
            if len(self._buffer) < head_end + 4 + length:
                return
            self._buffer = self._buffer[head_end + 4 + length :]
            path = head.split(b" ", 2)[1]
            self._record.append(f"{_header(head, b'webhook-id').decode()} {time.time():.6f} {path.decode()}\n")
            for prefix, answer in ANSWERS.items():
                if path.startswith(prefix) and self._transport is not None:
                    self._transport.write(answer)


def _header(head: bytes, name: bytes) -> bytes:
    _, _, rest = head.partition(b"\r\n" + name + b": ")
    return rest.partition(b"\r\n")[0]


async def serve(port_file: Path, record_file: Path) -> None:
    """Serve until killed; the record is written four times a second."""
    record: list[str] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiver(record), "127.0.0.1", 0, backlog=2048)
    port_file.write_text(str(server.sockets[0].getsockname()[1]))
    with record_file.open("a") as file:
        while True:
            await asyncio.sleep(0.25)
            lines, record[:] = record[:], []
            file.writelines(lines)
            file.flush()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
