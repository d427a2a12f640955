import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

PROGRAM = str(Path(sys.executable).parent / "giftrail")
UP_WITHIN_SECONDS = 60


def environment(folder: Path, **settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIFTRAIL_")}
    return kept | {"GIFTRAIL_DATA_DIR": str(folder), "COLUMNS": "300", "NO_COLOR": "1", **settings}


def run(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *words], env=environment(folder, **settings), capture_output=True, text=True, check=False, timeout=120
    )


def processes_below(folder: Path) -> list[str]:
    """The command lines of processes that work in the folder or name it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                named = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                where = str((entry / "cwd").readlink())
                if str(folder) in where or str(folder) in named:
                    found.append(named)
    return found


@contextlib.contextmanager
def started(folder: Path, *words: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """The program, running; killed at the end when it is still there."""
    process = subprocess.Popen(
        [PROGRAM, *words],
        env=environment(folder, **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.communicate())
    return json.loads(line)


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[str, str]:
    """Exit status 0 after the signal; what it printed since."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out, err


def log_in(base_url: str, partner: dict[str, str]) -> httpx.Response:
    body = {"clientId": partner["clientId"], "clientSecret": partner["clientSecret"]}
    return httpx.post(f"{base_url}/v1/partners/auth/login", json=body, trust_env=False)


def test_the_demo_tells_a_partner_s_day_and_ends(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--once", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    for told in (
        "SUCCESS",
        "Brand not available",
        "Denomination not available",
        "Insufficient balance",
        "served from stock",
        "generated",
        "one referenceId, one order",
        "PROCESSING, 250 held",
        "CANCELLED",
        "REVERSED",
        "Voucher generation failed",
        "the answer was lost",
        "looked up by its reference",
        "wallet.transactions",
        "DEBIT",
        "cardNumber",
    ):
        assert told in done.stdout, told
    folder = Path(re.findall(r"\S*giftrail-demo-\w+", done.stdout)[0])
    assert not folder.exists()
    assert processes_below(folder) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_demo_for_scripts_prints_one_line_stays_up_and_leaves_nothing(tmp_path: Path, number: int) -> None:
    # What the environment says of a database is not the demo's, which is a throwaway.
    with started(tmp_path, "demo", "--json", "--port", "0", GIFTRAIL_DATABASE_URL="postgresql://nobody@/none") as demo:
        told = first_line(demo)
        assert told.keys() == {"baseUrl", "dataDir", "partners"}
        assert [partner.keys() for partner in told["partners"]] == [{"name", "kind", "clientId", "clientSecret"}] * 2
        assert {partner["kind"] for partner in told["partners"]} == {"B2B", "B2C"}
        folder = Path(told["dataDir"])
        assert folder.is_dir()
        for partner in told["partners"]:
            token = log_in(told["baseUrl"], partner).json()["token"]
            headers = {"Authorization": f"Bearer {token}", "X-REQUEST-ID": "0193a5c2-f1e8-7000-8000-000000000000"}
            page = httpx.get(f"{told['baseUrl']}/v1/partners/products", headers=headers, trust_env=False).json()
            assert page["total"] >= 60
            assert len({category for brand in page["data"] for category in brand["category"]}) >= 10
        assert processes_below(folder)
        assert stop(demo, number) == ("", "")
        assert not folder.exists()
        assert processes_below(folder) == []


# What stands in the data directory when PostgreSQL is being made, starts, is ready, and when the API starts.
@pytest.mark.parametrize(
    "sign", ["users.lock", "postgres/base/5", "postgres/postmaster.pid", "postgres/.s.PGSQL.5432.lock", "keys.json"]
)
@pytest.mark.parametrize("seconds_later", [0, 0.1])
def test_the_demo_stopped_while_it_starts_leaves_nothing(sign: str, seconds_later: float) -> None:
    with tempfile.TemporaryDirectory() as made:  # a short path: pytest's are longer than a socket's may be
        folder = Path(made)
        with started(folder, "demo", "--port", "0", TMPDIR=made) as demo:
            deadline = time.monotonic() + UP_WITHIN_SECONDS
            while not list(folder.glob(f"giftrail-demo-*/{sign}")):
                assert demo.poll() is None, demo.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.001)
            time.sleep(seconds_later)
            demo.send_signal(signal.SIGTERM)
            _, err = demo.communicate(timeout=30)
            left = processes_below(folder)
            kill_servers_below(folder)
            assert left == []
            assert (demo.returncode, err) == (0, "")
            assert [path.name for path in folder.iterdir()] == []


def kill_servers_below(folder: Path) -> None:
    """End the servers that a failing test left behind."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(folder):
                os.kill(int(entry.name), signal.SIGKILL)


def test_up_keeps_its_data_and_shares_its_database_with_commands(tmp_path: Path) -> None:
    folder = tmp_path / "lasting"
    elsewhere = tmp_path / "elsewhere"
    words = ("up", "--port", "0", "--json", "--data-dir", str(folder))
    with started(elsewhere, *words) as first:
        told = first_line(first)
        assert told == {"baseUrl": told["baseUrl"], "dataDir": str(folder)}
        made = run(elsewhere, "partner", "create", "First Partner", "--data-dir", str(folder))
        assert made.returncode == 0, made.stderr
        done = run(elsewhere, "credential", "create", "First Partner", "--json", "--data-dir", str(folder))
        credential = json.loads(done.stdout)
        assert log_in(told["baseUrl"], credential).status_code == 200
        assert httpx.get(f"{told['baseUrl']}/readyz", trust_env=False).status_code == 200
        out, _ = stop(first)
        assert out == ""
    assert processes_below(folder) == []
    keys = (folder / "keys.json").read_bytes()
    assert (folder / "keys.json").stat().st_mode & 0o077 == 0
    with started(elsewhere, *words) as second:
        told = first_line(second)
        assert log_in(told["baseUrl"], credential).status_code == 200
        stop(second)
    assert (folder / "keys.json").read_bytes() == keys
    listed = run(elsewhere, "partner", "list", "--json", "--data-dir", str(folder))
    assert [row["name"] for row in json.loads(listed.stdout)] == ["First Partner"]
    assert processes_below(folder) == []
    assert not elsewhere.exists()


def test_up_tells_how_to_create_the_first_partner_and_what_it_tells_works(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    with started(tmp_path, "up", "--port", "0", "--data-dir", str(folder)) as up:
        assert up.stdout
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(up.stdout.readline())
            assert lines[-1], up.communicate()
        told = [line.strip() for line in lines if line.startswith("  giftrail ") and "import" not in line]
        assert len(told) >= 3
        for command in told:
            done = subprocess.run(
                ["/bin/sh", "-c", command.replace("giftrail", f"'{PROGRAM}'", 1)],
                env=environment(tmp_path),
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0, (command, done.stderr)
        stop(up)
    assert processes_below(folder) == []


def test_a_taken_port_is_told_in_one_sentence_and_nothing_is_left_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(tmp_path / "data", "up", "--port", str(port))
    assert done.returncode == 1
    assert done.stdout == ""
    [sentence] = done.stderr.splitlines()
    assert f"127.0.0.1:{port}" in sentence
    assert "--port 0" in sentence
    assert processes_below(tmp_path) == []


def ended_within_seconds(group: int, seconds: float) -> bool:
    """Whether every process of the group is gone by then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def wait_for_answer(process: subprocess.Popen[str], base_url: str) -> httpx.Response:
    deadline = time.monotonic() + UP_WITHIN_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{base_url}/readyz", trust_env=False)
        time.sleep(0.05)
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("processes", ["1", "2"])
def test_serve_answers_and_stops_cleanly(database_url: str, tmp_path: Path, processes: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ("serve", "--processes", processes, "--port", str(port))
    with started(tmp_path, *words, GIFTRAIL_DATABASE_URL=database_url, GIFTRAIL_POLL_SECONDS="0.05") as serve:
        base_url = f"http://127.0.0.1:{port}"
        assert wait_for_answer(serve, base_url).status_code == 200
        made = run(tmp_path, "partner", "create", "Acme", GIFTRAIL_DATABASE_URL=database_url)
        assert made.returncode == 0, made.stderr
        done = run(tmp_path, "credential", "create", "Acme", "--json", GIFTRAIL_DATABASE_URL=database_url)
        credential = json.loads(done.stdout)
        token = log_in(base_url, credential).json()["token"]
        headers = {"Authorization": f"Bearer {token}", "X-REQUEST-ID": "0193a5c2-f1e8-7000-8000-000000000000"}
        for _ in range(20):  # connections of their own, so that both processes answer
            answer = httpx.get(f"{base_url}/v1/partners/wallet/balance", headers=headers, trust_env=False)
            assert (answer.status_code, answer.json()["balance"]) == (200, 0)
        metrics = httpx.get(f"{base_url}/metrics", trust_env=False)
        assert metrics.status_code == 200
        _, err = stop(serve)
        assert "Traceback" not in err
        with pytest.raises(httpx.TransportError):
            httpx.get(base_url, trust_env=False)
        assert ended_within_seconds(serve.pid, 5)


def test_serve_refuses_an_empty_database_with_what_to_do(empty_database: str, tmp_path: Path) -> None:
    for processes in ("1", "2"):
        words = ("serve", "--port", "0", "--processes", processes)
        done = run(tmp_path, *words, GIFTRAIL_DATABASE_URL=empty_database)
        assert done.returncode == 1
        assert done.stderr.splitlines() == ["giftrail: the database is empty; run: giftrail migrate"]
    done = run(tmp_path, "work", GIFTRAIL_DATABASE_URL=empty_database)
    assert (done.returncode, "giftrail migrate" in done.stderr) == (1, True)


def test_migrate_twice(empty_database: str, tmp_path: Path) -> None:
    first = run(tmp_path, "migrate", GIFTRAIL_DATABASE_URL=empty_database)
    assert first.returncode == 0, first.stderr
    assert "Applied" in first.stdout
    second = run(tmp_path, "migrate", GIFTRAIL_DATABASE_URL=empty_database)
    assert (second.returncode, second.stdout.strip(), second.stderr) == (0, "The database is current.", "")
    third = run(tmp_path, "migrate", "--json", GIFTRAIL_DATABASE_URL=empty_database)
    assert json.loads(third.stdout) == {"applied": []}
    without = run(tmp_path, "migrate")
    assert (without.returncode, "GIFTRAIL_DATABASE_URL" in without.stderr) == (1, True)


def test_work_stops_cleanly(database_url: str, tmp_path: Path) -> None:
    with started(tmp_path, "work", GIFTRAIL_DATABASE_URL=database_url) as worker:
        assert worker.stderr
        audit = json.loads(worker.stderr.readline())
        assert (audit["event"], audit["findings"]) == ("audit", 0)
        stop(worker)
