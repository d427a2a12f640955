"""One HTTP connection: uvicorn's protocol with the time limits that it leaves to a proxy.

A client that sends its request line and headers slower than the limit is cut off, and so is one that goes on sending a
body that was answered already.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Request line and headers together.
MAX_HEADER_BYTES = 64 * 1024
# How long a client may go on sending a body after its answer.
DRAIN_SECONDS = 30.0


def limited(header_timeout_seconds: float) -> type[HttpToolsProtocol]:  # noqa: C901 — a class of short methods
    """The protocol class with this limit."""

    class Limited(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None
        _header_bytes = 0
        _in_message = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
            super().connection_made(transport)
            self._cut_off_in(header_timeout_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            self._clear()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._deadline is None and not self._in_message:
                self._cut_off_in(header_timeout_seconds)  # a next request begins
            reading_headers = self._deadline is not None and not self._in_message
            super().data_received(data)
            if reading_headers and not self._in_message:
                self._header_bytes += len(data)
                if self._header_bytes > MAX_HEADER_BYTES and self.transport is not None:
                    self.transport.close()

        def on_headers_complete(self) -> None:
            self._clear()
            self._in_message = True
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._clear()
            self._in_message = False
            super().on_message_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._in_message and self._deadline is None:
                self._cut_off_in(DRAIN_SECONDS)

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

    return Limited
