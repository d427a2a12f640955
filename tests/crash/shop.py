"""The vendor's own side: a small HTTP server that knows what it really issued and what it really voided."""

import contextlib
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


def _do_nothing() -> None:
    pass


@dataclass
class Shop:
    """What was issued by key, how often each deed was asked of each key, and how the shop behaves just now."""

    url: str = ""
    issued: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    voided: set[str] = field(default_factory=set)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    loses_answers: int = 0  # so many are issued and never heard of
    pending_answers: int = 0  # so many times it says that it is still at it
    answers_after_seconds: float = 0.0
    is_away: bool = False
    refuses: bool = False
    refuses_voids: bool = False
    when_issued: Callable[[], None] = _do_nothing
    lock: threading.Lock = field(default_factory=threading.Lock)

    def numbers(self, order: dict[str, Any]) -> list[str]:
        """The card numbers it issued for the order."""
        keys = [key for key in self.issued if key.startswith(f"{order['id'].partition('_')[2]}-")]
        return sorted(voucher["number"] for key in keys for voucher in self.issued[key])

    def answer(self, deed: str, key: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """What is answered, or None when the answer is lost."""
        with self.lock:
            self.asked[deed, key] += 1
            answer = self._void(body["ids"]) if deed == "void" else self._tell(deed, key, body)
            lost = deed == "issue" and self.loses_answers > 0
            self.loses_answers -= lost
        if deed == "issue":
            self.when_issued()
        time.sleep(self.answers_after_seconds if deed == "issue" else 0)
        return None if lost else answer

    def _tell(self, deed: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.is_away:
            return {"outcome": "away"}
        if self.refuses:
            return {"outcome": "refused"}
        if deed == "issue" and key not in self.issued:
            self.issued[key] = [
                {"id": uuid.uuid4().hex, "number": uuid.uuid4().hex, "pin": uuid.uuid4().hex[:8]}
                for _ in range(body["quantity"])
            ]
        if key not in self.issued:
            return {"outcome": "unknown"}
        if self.pending_answers > 0:
            self.pending_answers -= 1
            return {"outcome": "pending"}
        return {"outcome": "delivered", "vouchers": self.issued[key]}

    def _void(self, ids: list[str]) -> dict[str, Any]:
        if self.refuses_voids:
            return {"outcome": "refused"}
        if self.pending_answers > 0:
            self.pending_answers -= 1
            return {"outcome": "pending"}
        self.voided.update(ids)
        return {"outcome": "voided"}


class _Counter(BaseHTTPRequestHandler):
    """Takes one request at a time of the shop that its subclass names."""

    shop: ClassVar[Shop]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, deed, key = self.path.split("/")
        answer = self.shop.answer(deed, key, body)
        self.close_connection = True
        if answer is None:
            return
        content = json.dumps(answer).encode()
        with contextlib.suppress(OSError):  # whoever asked may be dead
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def open_shop() -> Iterator[Shop]:
    """A shop on a free port."""
    shop = Shop()
    counter = type("_ThisCounter", (_Counter,), {"shop": shop})
    server = ThreadingHTTPServer(("127.0.0.1", 0), counter)
    shop.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield shop
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
