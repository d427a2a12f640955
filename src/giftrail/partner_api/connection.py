"""One HTTP connection: uvicorn's protocol with the limits that it leaves to a proxy.

A client that sends its request line and headers too slowly or too long is cut off, and so is one that goes on sending a
body that was answered already. Head and body of an answer leave in one write.
"""

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

# The name by which the application tells its header time-out, in seconds, in the state of its lifespan.
HEADER_TIMEOUT_SECONDS = "header_timeout_seconds"
DEFAULT_HEADER_TIMEOUT_SECONDS = 10.0
# Request line and headers together.
MAX_HEADER_BYTES = 64 * 1024
# In the state of a request whose body is here already: reading it takes no time.
BODY_IS_WHOLE = "body_is_whole"
# How long a client may go on sending a body after its answer.
DRAIN_SECONDS = 30.0


class Limited(HttpToolsProtocol):
    """The protocol with its limits; uvicorn makes one for each connection."""

    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _in_message = False
    _heads = 0  # how many came whole

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Wait for the first request."""
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the end of the headers, and wait for the rest of them."""
        before_headers, heads = not self._in_message, self._heads
        super().data_received(data)
        if before_headers and self._heads == heads:
            if self._deadline is None:
                self._await_headers()
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self._cut_off()

    def on_headers_complete(self) -> None:
        """The headers came in time."""
        self._clear()
        self._in_message = True
        self._heads += 1
        super().on_headers_complete()
        self.cycle.transport = cast(asyncio.Transport, OneWrite(self.transport, self.cycle))

    def on_message_complete(self) -> None:
        """The body came whole."""
        self._clear()
        self._in_message = False
        self.scope["state"][BODY_IS_WHOLE] = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Let a client that has its answer finish its body, but not for ever."""
        super().on_response_complete()
        if self._in_message and self._deadline is None:
            self._cut_off_in(DRAIN_SECONDS)

    def _await_headers(self) -> None:
        self._cut_off_in(self.app_state.get(HEADER_TIMEOUT_SECONDS, DEFAULT_HEADER_TIMEOUT_SECONDS))

    def _cut_off_in(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._cut_off)

    def _cut_off(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def _clear(self) -> None:
        self._header_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class OneWrite:
    """The transport as one answer sees it: the head waits for the body, which uvicorn writes next.

    Two writes cost the service a system call more, and wake the client twice.
    """

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        self._transport = transport
        self._cycle = cycle
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Write, or keep what is the head of an answer with a body."""
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.writelines((head, data))
            self._cycle.transport = self._transport  # what follows has no head
        elif self._cycle.response_started and self._cycle.scope["method"] != "HEAD":
            self._head = data
        else:
            self._transport.write(data)  # 100 Continue, or a head that has no body

    def close(self) -> None:
        """Close, when what is kept has been written."""
        if self._head is not None:
            self.write(b"")
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether it closes or is closed."""
        return self._transport.is_closing()
