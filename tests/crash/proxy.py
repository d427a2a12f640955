"""A TCP proxy that spoils what passes: late, in single bytes, cut off, swallowed, or lost on the way there or back."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

CHUNK_BYTES = 65536
LONGEST_SECONDS = 10.0
DELAY_SECONDS = 3.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Deed(Enum):
    LOSE_REQUEST = auto()
    LOSE_ANSWER = auto()
    DELAY_REQUEST = auto()


@dataclass(eq=False)
class _Line:
    """One connection through the proxy, by its two ends."""

    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    is_swallowed: bool = False
    loses_answer: bool = False

    def reset(self) -> None:
        """Cut both ends off without a goodbye."""
        for end in self.ends:
            with contextlib.suppress(OSError):  # of a Unix socket
                sock = end.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.transport.abort()


class Proxy:
    """The faults may be changed at any time, from any thread."""

    def __init__(self, connect: Callable[[], Awaitable[Streams]], loop: asyncio.AbstractEventLoop) -> None:
        self.port = 0
        self.latency_seconds = 0.0  # of each piece, each way
        self.slice_bytes = CHUNK_BYTES
        self.swallows_all = False  # new connections too, which are taken all the same
        self.spoilt = 0  # how often a request or an answer was lost or late
        self._connect = connect
        self._loop = loop
        self._lines: set[_Line] = set()
        self._deed = _Deed.LOSE_REQUEST
        self._counted = b""
        self._until_spoilt = 0
        self._server: asyncio.Server | None = None

    def lose_request(self, counted: bytes, *, number: int = 1) -> None:
        """Cut the connection off when this is sent for the n-th time from now on, and do not pass it on."""
        self._spoil(_Deed.LOSE_REQUEST, counted, number)

    def lose_answer(self, counted: bytes, *, number: int = 1) -> None:
        """Pass on what is sent for the n-th time from now on, and cut the connection off when the answer comes."""
        self._spoil(_Deed.LOSE_ANSWER, counted, number)

    def delay_request(self, counted: bytes, *, number: int = 1) -> None:
        """Pass on what is sent for the n-th time only DELAY_SECONDS later, though its sender may have hung up."""
        self._spoil(_Deed.DELAY_REQUEST, counted, number)

    def reset(self) -> None:
        """Cut off all connections that there are."""
        self.run(self._reset())

    def swallow(self) -> None:
        """From now on nothing passes on the connections that there are, and nobody is told."""
        for line in list(self._lines):
            line.is_swallowed = True

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and cut off who is there."""
        if self._server:
            self._server.close()
        await self._reset()
        while self._lines:  # noqa: ASYNC110 — they end by themselves, in tasks that nobody names
            await asyncio.sleep(0.01)

    def run(self, deed: Coroutine[Any, Any, None]) -> None:
        """Do it on the proxy's thread."""
        asyncio.run_coroutine_threadsafe(deed, self._loop).result(LONGEST_SECONDS)

    async def _reset(self) -> None:
        for line in list(self._lines):
            line.reset()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        line = _Line((writer, there_writer))
        self._lines.add(line)
        try:
            await asyncio.gather(
                self._pump(line, reader, there_writer, is_spoilt=self._spoil_on_the_way_there),
                self._pump(line, there_reader, writer, is_spoilt=self._spoil_on_the_way_back),
            )
        finally:
            self._lines.discard(line)

    async def _pump(
        self,
        line: _Line,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_spoilt: Callable[[_Line, bytes], Awaitable[bool]],
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if await is_spoilt(line, data):
                    self.spoilt += 1
                    line.reset()
                    return
                await self._send(line, writer, data)
            if not line.is_swallowed and not self.swallows_all:
                writer.close()

    def _spoil(self, deed: _Deed, counted: bytes, number: int) -> None:
        self._deed, self._counted, self._until_spoilt = deed, counted, number

    async def _spoil_on_the_way_there(self, line: _Line, data: bytes) -> bool:
        """Returns whether the connection is to be cut off."""
        if not self._until_spoilt or self._counted not in data:
            return False
        self._until_spoilt -= 1
        if self._until_spoilt:
            return False
        line.loses_answer = self._deed is _Deed.LOSE_ANSWER
        if self._deed is _Deed.DELAY_REQUEST:
            self.spoilt += 1
            await asyncio.sleep(DELAY_SECONDS)
        return self._deed is _Deed.LOSE_REQUEST

    async def _spoil_on_the_way_back(self, line: _Line, _: bytes) -> bool:
        return line.loses_answer

    async def _send(self, line: _Line, writer: asyncio.StreamWriter, data: bytes) -> None:
        if self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        for start in range(0, len(data), self.slice_bytes):
            if line.is_swallowed or self.swallows_all:
                return
            writer.write(data[start : start + self.slice_bytes])
            await writer.drain()
            if self.slice_bytes < CHUNK_BYTES:
                await asyncio.sleep(0)


@contextlib.contextmanager
def proxying(connect: Callable[[], Awaitable[Streams]]) -> Iterator[Proxy]:
    """A proxy on a free port, on a thread of its own, to where `connect` leads."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = Proxy(connect, loop)
    try:
        proxy.run(proxy.open())
        yield proxy
        proxy.run(proxy.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
