"""A real mail server and a real gateway of text messages, which take, refuse, hang or hang up as a test tells them."""

import asyncio
import contextlib
import email
import email.policy
import http.server
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from typing import Any

from aiosmtpd import smtp

PATIENCE_SECONDS = 20.0
SENDER = "vouchers@giftrail.example"
# What a server can be told to do instead of answering.
DROP, HANG = "drop", "hang"


def until(true: Callable[[], Any]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


class MailServer:
    """Keeps the mails it took; `answers` holds, by verb (MAIL, RCPT, DATA), what it says next instead of 250."""

    def __init__(self, **options: Any) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.seen: list[tuple[str, bytes]] = []  # those it did not take, too
        self.answers: dict[str, list[str]] = {"MAIL": [], "RCPT": [], "DATA": []}
        self.refused: dict[str, str] = {}  # by recipient, always
        self.tls_from_start: ssl.SSLContext | None = options.pop("tls_from_start", None)
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Transport] = set()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE_SECONDS)

    @property
    def mails(self) -> list[EmailMessage]:
        """What was taken, read."""
        return [read_mail(content) for _, content in list(self.taken)]

    def to(self, address: str) -> list[EmailMessage]:
        """The mails taken for an address."""
        return [read_mail(content) for recipient, content in list(self.taken) if recipient == address]

    def close(self) -> None:
        """Hang up on everybody."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        keeper = self

        class Protocol(smtp.SMTP):
            def connection_made(self, transport: Any) -> None:
                keeper._open.add(transport)
                super().connection_made(transport)

        made = self._loop.run_until_complete(
            self._loop.create_server(
                lambda: Protocol(self, loop=self._loop, hostname="mail.example", **self._options),
                "127.0.0.1",
                0,
                ssl=self.tls_from_start,
            )
        )
        self.port = int(made.sockets[0].getsockname()[1])
        ready.set()
        self._loop.run_forever()
        made.close()
        for transport in self._open:
            transport.abort()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        await asyncio.sleep(0.01)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def handle_MAIL(  # noqa: N802
        self, server: smtp.SMTP, session: Any, envelope: smtp.Envelope, address: str, options: list[str]
    ) -> str:
        del session
        answer = await self._answer("MAIL", server)
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return answer

    async def handle_RCPT(  # noqa: N802
        self, server: smtp.SMTP, session: Any, envelope: smtp.Envelope, address: str, options: list[str]
    ) -> str:
        del session, options
        answer = self.refused.get(address) or await self._answer("RCPT", server)
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: smtp.SMTP, session: Any, envelope: smtp.Envelope) -> str:  # noqa: N802
        del session
        content = envelope.original_content or b""
        self.seen += [(address, content) for address in envelope.rcpt_tos]
        answer = await self._answer("DATA", server)
        if answer.startswith("250"):
            self.taken += [(address, content) for address in envelope.rcpt_tos]
        return answer

    async def _answer(self, verb: str, server: smtp.SMTP) -> str:
        waiting = self.answers[verb]
        answer = waiting.pop(0) if waiting else "250 OK"
        if answer == DROP:
            assert server.transport
            server.transport.abort()  # type: ignore[attr-defined]
            await asyncio.sleep(60)
        if answer == HANG:
            await asyncio.sleep(60)
        return answer


def read_mail(content: bytes) -> EmailMessage:
    """A mail as a reader's program reads it."""
    return email.message_from_bytes(content, _class=EmailMessage, policy=email.policy.default)


def part_of(mail: EmailMessage, kind: str) -> str:
    """The text of its part `plain` or `html`."""
    found = mail.get_body((kind,))
    assert found is not None
    return str(found.get_content())


class Gateway:
    """A gateway of text messages: keeps its requests, and answers 200 unless it is told otherwise."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, bytes] | str] = []
        self.cut_after = b""  # what it still says when it drops the connection
        self._done = threading.Event()
        keeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                keeper.requests.append((self.path, headers, body))
                answer = keeper.answers.pop(0) if keeper.answers else (200, b'{"ok": true}')
                if isinstance(answer, str):
                    keeper._instead(answer, self)
                    return
                status, said = answer
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                if status // 100 == 3:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(said)

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True  # whoever called has gone

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def _instead(self, deed: str, handler: http.server.BaseHTTPRequestHandler) -> None:
        if deed == HANG:
            self._done.wait(60)
        else:
            handler.wfile.write(self.cut_after)
            handler.wfile.flush()
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True

    def close(self) -> None:
        """Stop."""
        self._done.set()
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def mail_server(**options: Any) -> Iterator[MailServer]:
    """A mail server for a while."""
    made = MailServer(**options)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def gateway() -> Iterator[Gateway]:
    """A gateway for a while."""
    made = Gateway()
    try:
        yield made
    finally:
        made.close()
