"""The SDK's examples do what they say, against a real service; the quick start in the README is the example."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from giftrail_client import webhooks
from house import House, PartnerProgram

CLIENT = Path(__file__).parents[2] / "client"
EXAMPLES = CLIENT / "examples"
PATIENCE_SECONDS = 30.0
SECRET = "whsec_dGhlIHNlY3JldCBvZiB0aGUgcmVjZWl2ZXIncyBleGFtcGxlIQ=="


@pytest.fixture
def program(house: House) -> PartnerProgram:
    return house.partner(money_major=1_000)


def environment(program: PartnerProgram, folder: Path) -> dict[str, str]:
    return os.environ | {
        "GIFTRAIL_BASE_URL": program.house.base_url,
        "GIFTRAIL_CLIENT_ID": program.client_id,
        "GIFTRAIL_CLIENT_SECRET": program.client_secret,
        "GIFTRAIL_WEBHOOK_SECRETS": SECRET,
        "SHOP_BOOKS": str(folder / "shop.db"),
        "INBOX": str(folder / "inbox.db"),
    }


def run(program: PartnerProgram, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=EXAMPLES, env=environment(program, folder), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_the_quick_start_buys_a_voucher(program: PartnerProgram, tmp_path: Path) -> None:
    told = run(program, tmp_path, "quickstart.py")
    assert told.startswith("can be spent: 1000\n")
    assert "'cardPin'" in told
    assert program.balance() == 500


def test_the_readme_shows_the_quick_start_and_it_is_short() -> None:
    text = (EXAMPLES / "quickstart.py").read_text()
    assert f"```python\n{text}```" in (CLIENT / "README.md").read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 20


def test_the_shop_gives_and_its_books_agree(program: PartnerProgram, tmp_path: Path) -> None:
    assert run(program, tmp_path, "shop.py", "fixed", "100") == "SUCCESS\ndifferences: ()\n"
    assert run(program, tmp_path, "shop.py", "fixed", "123") == "FAILED\ndifferences: ()\n"
    assert program.balance() == 900


def test_a_partners_tests_run_without_a_network(program: PartnerProgram, tmp_path: Path) -> None:
    told = run(
        program, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py", "--rootdir", str(tmp_path)
    )
    assert "4 passed" in told


def test_the_receiver_handles_what_comes(program: PartnerProgram, tmp_path: Path) -> None:
    order = program.place().json()
    body = b'{"orderId": "%s", "status": "SUCCESS", "eventId": "evt_1"}' % order["id"].encode()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = (tmp_path / "log").open("w+")
    receiver = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "receive:app", "--port", str(port), "--log-level", "warning"],
        cwd=EXAMPLES, env=environment(program, tmp_path), stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                assert httpx.get(f"http://127.0.0.1:{port}/brands", trust_env=False).status_code == 200
                break
            except httpx.TransportError:
                time.sleep(0.1)
        for _ in range(2):
            answer = httpx.post(
                f"http://127.0.0.1:{port}/hooks/giftrail",
                content=body, headers={"X-Verify": webhooks.sign(body, SECRET)}, trust_env=False,
            )  # fmt: skip
            assert answer.status_code == 202
        while time.monotonic() < deadline and "SUCCESS" not in (tmp_path / "log").read_text():
            time.sleep(0.05)
    finally:
        receiver.terminate()
        receiver.wait(PATIENCE_SECONDS)
        log.close()
    told = (tmp_path / "log").read_text()
    assert told.count(f"order {order['referenceId']} SUCCESS 1") == 1, told
