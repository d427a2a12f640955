import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from giftrail.db import embedded, pool


def processes_of(folder: Path) -> list[int]:
    """The processes whose working directory is the cluster of the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                where = (entry / "cwd").readlink()
            except OSError:
                continue
            if where == folder.resolve() / "postgres":
                found.append(int(entry.name))
    return found


def query(url: str, *statements: str) -> list[object]:
    async def run() -> list[object]:
        async with pool.connect(url) as conn:
            return [await conn.fetchval(statement) for statement in statements]

    return asyncio.run(run())


def socket_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("giftrail-????????"))


def test_it_starts_stops_leaving_nothing_running_and_finds_its_data_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data dir é'\""
    with embedded.running(folder) as url:
        assert processes_of(folder)
        query(url, "CREATE TABLE kept (x int)", "INSERT INTO kept VALUES (42)")
    assert processes_of(folder) == []
    with embedded.running(folder) as url:
        assert query(url, "SELECT x FROM kept", "SHOW listen_addresses") == [42, ""]
    assert processes_of(folder) == []


def test_nobody_else_may_enter_the_data(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with embedded.running(folder):
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "postgres").stat().st_mode & 0o077 == 0


USER = """
import sys
from pathlib import Path
from giftrail.db import embedded
with embedded.running(Path(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.readline()
"""


def test_the_first_of_two_users_to_leave_does_not_stop_it_and_the_last_does(tmp_path: Path) -> None:
    command = [sys.executable, "-c", USER, str(tmp_path)]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    second = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout
        assert second.stdout
        urls = {first.stdout.readline().strip(), second.stdout.readline().strip()}
        assert len(urls) == 1, "both began at once and share one server"
        [url] = urls
        assert query(url, "SELECT 1") == [1]
        first.communicate("\n", timeout=30)
        assert first.returncode == 0
        assert query(url, "SELECT 2") == [2]
        second.communicate("\n", timeout=30)
        assert second.returncode == 0
        assert processes_of(tmp_path) == []
    finally:
        for user in (first, second):
            user.kill()
            user.wait()


def test_a_user_who_was_killed_does_not_keep_the_next_from_starting_or_stopping_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", USER, str(tmp_path)]
    killed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert killed.stdout
    killed.stdout.readline()
    killed.kill()
    killed.communicate()
    assert processes_of(tmp_path), "the server outlives a killed user"
    with embedded.running(tmp_path) as url:
        assert query(url, "SELECT 1") == [1]
    assert processes_of(tmp_path) == []


def test_a_very_long_path_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["x" * 100] * 5)
    before = socket_folders()
    with embedded.running(folder) as url:
        query(url, "CREATE TABLE kept AS SELECT 42 AS x")
    with embedded.running(folder) as url, embedded.running(folder) as same:
        assert query(same, "SELECT x FROM kept") == [42]
        assert url == same
    assert processes_of(folder) == []
    assert socket_folders() == before


def test_data_made_by_an_aborted_start_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "postgres.half-made").mkdir()
    (tmp_path / "postgres.half-made" / "half").write_text("made")
    with embedded.running(tmp_path) as url:
        assert query(url, "SELECT 1") == [1]
    assert not (tmp_path / "postgres.half-made").exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "precious").write_text("theirs")
    with pytest.raises(embedded.EmbeddedFailed, match="is no database"), embedded.running(tmp_path):
        pass
    assert (tmp_path / "postgres" / "precious").read_text() == "theirs"


@pytest.mark.parametrize("folder", ["a-file", "a-file/below", "/proc/giftrail", "/dev/null"])
def test_a_folder_that_cannot_be_is_told_in_one_sentence(tmp_path: Path, folder: str) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(embedded.EmbeddedFailed) as caught, embedded.running(tmp_path / folder):
        pass
    assert str(tmp_path / folder) in str(caught.value)
    assert "\n" not in str(caught.value)


REFUSED = """
import os, sys
from pathlib import Path
from giftrail.db import embedded
if os.geteuid() == 0:  # root may write everywhere
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    with embedded.running(Path(sys.argv[1])):
        print("started")
except embedded.EmbeddedFailed as failed:
    print(f"refused: {failed}")
"""


@pytest.mark.parametrize("below", ["", "below"])
def test_a_folder_that_may_not_be_written_is_told_in_one_sentence(below: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o555)
        command = [sys.executable, "-c", REFUSED, str(folder / below)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        folder.chmod(0o755)
        assert done.stdout.startswith(f"refused: the data directory {folder / below} cannot be"), done.stderr
        assert len(done.stdout.splitlines()) == 1


def test_data_of_another_postgresql_is_refused_in_one_sentence_and_kept(tmp_path: Path) -> None:
    with embedded.running(tmp_path):
        pass
    version = tmp_path / "postgres" / "PG_VERSION"
    version.write_text("9.6\n")
    with pytest.raises(embedded.EmbeddedFailed, match="did not start") as caught, embedded.running(tmp_path):
        pass
    assert "\n" not in str(caught.value)
    version.write_text("18\n")
    with embedded.running(tmp_path) as url:
        assert query(url, "SELECT 1") == [1]
