"""Receivers of webhooks down to their sockets: well-behaved ones, rude ones, and such as never answer at all."""

import contextlib
import gzip
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

GIGABYTE = 1 << 30
DRIP_SECONDS = 1.0
LONG_SECONDS = 120.0

Behaviour = Callable[["Receiver", socket.socket], None]


class Receiver:
    """A listening socket whose connections are each given to a behaviour, in a thread of their own."""

    def __init__(self, behave: Behaviour, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.bytes_sent = 0
        self.over = threading.Event()
        self._behave = behave
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, 0), family=family)
        self._listening.settimeout(0.1)
        self.port: int = self._listening.getsockname()[1]
        literal = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{literal}:{self.port}/hook"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def hear(self, connection: socket.socket) -> bytes:
        """One request, kept; nothing when the other side has gone."""
        heard = b""
        while not _is_whole(heard):
            more = connection.recv(65536)
            if not more:
                return b""
            heard += more
        self.requests.append(heard)
        return heard

    def send(self, connection: socket.socket, content: bytes) -> None:
        """Send, and count what the other side took."""
        connection.sendall(content)
        self.bytes_sent += len(content)

    def attempts(self) -> list[int]:
        """The attempts that were announced, in the order of their requests."""
        found = [re.search(rb"(?i)x-delivery-attempt: (\d+)", request) for request in self.requests]
        return [int(one[1]) for one in found if one]

    def is_busy(self) -> bool:
        """Whether a connection is still open on this side."""
        return any(thread.is_alive() for thread in self._threads[1:])

    def close(self) -> None:
        """Let everybody go."""
        self.over.set()
        for thread in self._threads:
            thread.join(10)
        self._listening.close()

    def _accept(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._listening.accept()
            except TimeoutError:
                continue
            self.connections += 1
            self._threads.append(threading.Thread(target=self._serve, args=[connection], daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(LONG_SECONDS)
        with connection, contextlib.suppress(OSError):
            if self._tls is None:
                self._behave(self, connection)
            else:
                with self._tls.wrap_socket(connection, server_side=True) as wrapped:
                    self._behave(self, wrapped)


def _is_whole(heard: bytes) -> bool:
    head, ends, body = heard.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(ends) and len(body) >= (int(length[1]) if length else 0)


def answers(*heads: str, body: bytes = b"thanks") -> Behaviour:
    """Status line and headers of each answer in turn, the last for all that follow."""

    def behave(receiver: Receiver, connection: socket.socket) -> None:
        if not receiver.hear(connection):
            return
        head = heads[min(len(receiver.requests), len(heads)) - 1]
        length = "" if head.startswith("204") else f"Content-Length: {len(body)}\r\n"
        text = f"HTTP/1.1 {head}\r\n{length}Connection: close\r\n\r\n"
        receiver.send(connection, text.encode("latin-1") + (body if length else b""))

    return behave


def never_answers(receiver: Receiver, connection: socket.socket) -> None:
    """Hears, and says nothing."""
    receiver.hear(connection)
    receiver.over.wait(LONG_SECONDS)


def drips_its_body(receiver: Receiver, connection: socket.socket) -> None:
    """A status at once, then a byte a second."""
    receiver.hear(connection)
    receiver.send(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while not receiver.over.wait(DRIP_SECONDS):
        receiver.send(connection, b"x")


def drips_its_head(receiver: Receiver, connection: socket.socket) -> None:
    """Not even the status comes faster than a byte a second."""
    receiver.hear(connection)
    for byte in b"HTTP/1.1 200 OK\r\nX-Filler: " + b"x" * 1000:
        if receiver.over.wait(DRIP_SECONDS):
            return
        receiver.send(connection, bytes([byte]))


def pours(receiver: Receiver, connection: socket.socket) -> None:
    """A gigabyte, if anybody wants it."""
    receiver.hear(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % GIGABYTE)
    for _ in range(GIGABYTE // 65536):
        receiver.send(connection, b"y" * 65536)


def pours_headers(receiver: Receiver, connection: socket.socket) -> None:
    """Headers without end."""
    receiver.hear(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(GIGABYTE // 65536):
        receiver.send(connection, b"X-Filler: some words\r\n" * 3000)


def swells(receiver: Receiver, connection: socket.socket) -> None:
    """Little that unpacks to much."""
    answers("200 OK\r\nContent-Encoding: gzip", body=gzip.compress(bytes(64 << 20)))(receiver, connection)


def breaks_off(receiver: Receiver, connection: socket.socket) -> None:
    """Ten bytes of a hundred."""
    receiver.hear(connection)
    receiver.send(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"z" * 10)


def resets(receiver: Receiver, connection: socket.socket) -> None:
    """Hears, and throws the connection away."""
    receiver.hear(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hangs_up(receiver: Receiver, connection: socket.socket) -> None:
    """Closes before it has heard anything."""
    del receiver
    connection.shutdown(socket.SHUT_WR)


def talks_rubbish(receiver: Receiver, connection: socket.socket) -> None:
    """Something, but not HTTP."""
    receiver.hear(connection)
    receiver.send(connection, b"220 mail.example ESMTP\r\n")


def speaks_plainly(receiver: Receiver, connection: socket.socket) -> None:
    """Whatever it hears, even the beginning of TLS, it answers in plain HTTP."""
    connection.recv(65536)
    receiver.send(connection, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@contextlib.contextmanager
def that_never_accepts() -> Iterator[str]:
    """The url of a machine that lets nobody in: a queue of one, and it is full."""
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(2):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hook"


def self_signed(folder: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 that only its owner believes."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain = folder / "chain.pem"
    chain.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return context
