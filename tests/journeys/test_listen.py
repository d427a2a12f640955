"""A partner's developer follows his events on his own machine, where no webhook arrives."""

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from giftrail_client import Event, verify
from house import House

PROGRAM = str(Path(sys.executable).parent / "giftrail")
SECRET = "whsec_dGhlIHNlY3JldCBvZiBhIGRldmVsb3BlcidzIG1hY2hpbmU="
PATIENCE_SECONDS = 30.0


def test_events_are_forwarded_signed(house: House) -> None:
    got: list[Event] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(verify(body, dict(self.headers), SECRET))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program = house.partner(brands=[house.brand("sandbox-twice", providers=["sandbox"])])
    patient = {"Prefer": "wait=20"}
    before = program.post("/orders", program.order_body("sandbox-twice"), headers=patient).json()
    while not program.get("/events").json()["data"]:
        time.sleep(0.05)
    environment = os.environ | {
        "GIFTRAIL_CLIENT_ID": program.client_id,
        "GIFTRAIL_CLIENT_SECRET": program.client_secret,
    }
    listening = subprocess.Popen(
        [PROGRAM, "listen", "--base-url", house.base_url, "--secret", SECRET,
         "--forward", f"http://127.0.0.1:{server.server_address[1]}/hook"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert listening.stdout is not None
        assert "Forwarding" in listening.stdout.readline()
        deadline = time.monotonic() + PATIENCE_SECONDS
        placed = set()
        while not got:  # it passes over what is old first; what happens before it is done with that is old too
            assert time.monotonic() < deadline, "nothing was forwarded"
            placed.add(program.post("/orders", program.order_body("sandbox-twice"), headers=patient).json()["id"])
            time.sleep(0.5)
        told = listening.stdout.readline()
    finally:
        listening.send_signal(signal.SIGINT)
        _, errors = listening.communicate(timeout=PATIENCE_SECONDS)
        server.shutdown()
        server.server_close()
    assert errors == ""
    assert before["id"] not in {event.order_id for event in got}, "only what is new, unless asked for"
    assert got[0].kind == "ORDER_TERMINAL_STATE"
    assert got[0].order_id in placed
    assert str(got[0].order_id) in told
    assert "204" in told


def test_without_credentials_it_says_what_to_set() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIFTRAIL_CLIENT")}
    done = subprocess.run(
        [PROGRAM, "listen", "--forward", "http://127.0.0.1:9/"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "GIFTRAIL_CLIENT_ID" in done.stderr
