"""All benchmarks, one after the other, each with its defaults: the figures of the README.

    python benchmarks/all.py            about an hour on two cores
    python benchmarks/all.py --small    a few minutes: whether the programs work, not what they measure

A program that fails does not stop the others; the exit status is 1 when one did.
"""

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import stage

PROGRAMS: dict[str, str] = {
    "orders": "--processes 2 --half --overload 3 --wallets 1 100 --vouchers 1 10 100",
    "catalog": "",
    "reads": "",
    "webhooks": "",
    "growth": "--explain 1.5",
    "memory": "",
    "start": "",
}
SMALL: dict[str, str] = {
    "orders": "--seconds 1 --rounds 1 --half --overload 3 --wallets 1 3",
    "catalog": "--seconds 1 --rounds 1",
    "reads": "--seconds 1 --rounds 1 --orders 500",
    "webhooks": "--events 2000 --rounds 1 --seconds 3 --rate 200 --endpoints 10",
    "growth": "--small 1000 --large 10000 --partners 10 --rounds 1 --times 3",
    "memory": "--orders 3000",
    "start": "--rounds 1",
}


def main() -> None:
    """Run them; their tables go to standard output."""
    parser = stage.arguments_of(__doc__)
    parser.add_argument("--small", action="store_true", help="a trial of the programs themselves")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=[*PROGRAMS], help="some of them")
    arguments = parser.parse_args()
    failed = []
    for name in arguments.only:
        words = (SMALL if arguments.small else PROGRAMS)[name].split()
        stage.tell(f"# {name} {' '.join(words)}")
        if not arguments.json:
            sys.stdout.write(f"\n# {name}\n\n")
            sys.stdout.flush()
        started = time.monotonic()
        command = [sys.executable, str(stage.HERE / f"{name}.py"), *words, *["--json"] * arguments.json]
        if subprocess.run(command, check=False).returncode != 0:
            failed.append(name)
        stage.tell(f"# {name}: {time.monotonic() - started:.0f} s")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
