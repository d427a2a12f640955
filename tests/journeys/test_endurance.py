import json
import subprocess
import sys
from pathlib import Path

ENDURANCE = Path(__file__).parents[2] / "benchmarks" / "endurance.py"
WITHIN_SECONDS = 180


def test_nothing_is_lost_and_nothing_happens_twice_while_processes_die() -> None:
    done = subprocess.run(
        [sys.executable, str(ENDURANCE), "--kills", "6", "--seed", "7", "--restarts", "1", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_SECONDS,
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == {}
    assert set(report["mustBeZero"].values()) == {0}
    assert done.returncode == 0
    assert report["killsApi"] + report["killsWorkers"] == 6
    assert report["postgresRestarts"] == 1
    assert report["acknowledged"] == report["offered"] > 0
    assert {"SUCCESS", "FAILED"} <= report["statuses"].keys()
