"""A PostgreSQL for the whole run, a database for each worker, a running service for who asks for one."""

import asyncio
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import structlog

from giftrail import running
from giftrail.db import embedded, migrate
from house import House, execute, serving

TEMPLATE = "giftrail_template"
_URL = "GIFTRAIL_TEST_DATABASE_URL"
_running = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Start PostgreSQL once, before the workers; they inherit its address."""
    running.allow_many_connections()  # both ends of every connection are ours
    # Plain tracebacks: those with every local take seconds, and a waiting order gives up after two.
    structlog.configure([
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ])  # fmt: skip
    if hasattr(config, "workerinput") or config.option.collectonly or _URL in os.environ:
        return
    folder = _running.enter_context(tempfile.TemporaryDirectory(prefix="giftrail-tests-"))
    url = _running.enter_context(embedded.running(Path(folder)))
    # The tests throw their data away, so nothing waits for the disk.
    for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()", f"CREATE DATABASE {TEMPLATE}"):
        execute(url, statement)
    asyncio.run(migrate.migrate(named(url, TEMPLATE)))
    os.environ[_URL] = url


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop it when the last test is done."""
    if not hasattr(config, "workerinput"):
        _running.close()


def named(url: str, database: str) -> str:
    """The address of another database of the same server."""
    return url.replace("/giftrail?", f"/{database}?")


@pytest.fixture(scope="session")
def server_url() -> str:
    """The address of the server's first database, from which others are made."""
    return os.environ[_URL]


def new_database(server_url: str, *, template: str = TEMPLATE) -> str:
    """A database of its own, with the current schema unless another template is named."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    execute(server_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    return named(server_url, name)


@pytest.fixture
def empty_database(server_url: str) -> str:
    """A database without a schema."""
    return new_database(server_url, template="template0")


@pytest.fixture
def database_url(server_url: str) -> str:
    """A database of its own for one test."""
    return new_database(server_url)


@pytest.fixture(scope="session")
def _session_house(server_url: str) -> Iterator[House]:
    url = new_database(server_url)
    with serving(url) as house:
        yield house
    assert house.audit() == []


@pytest.fixture
def house(_session_house: House) -> Iterator[House]:
    """A running service in staging, shared by the tests of a worker; make a partner of your own in it."""
    before = len(_session_house.clients)
    yield _session_house
    while len(_session_house.clients) > before:
        _session_house.clients.pop().close()
