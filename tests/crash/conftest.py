"""A nursery for the run, and for each test a shop and a house with nobody in it yet."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from conftest import new_database
from crash.estate import Estate, Nursery, estate
from crash.shop import Shop, open_shop
from giftrail.db import pool


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Where processes come from."""
    made = Nursery(tmp_path_factory.mktemp("nursery"))
    yield made
    made.close()


@pytest.fixture
def shop() -> Iterator[Shop]:
    """The vendor's own side."""
    with open_shop() as opened:
        yield opened


@pytest.fixture(scope="session")
def quiet_database(server_url: str) -> Callable[[], AbstractContextManager[str]]:
    """A new database, or one that a test before used and in which nothing was found and nothing is left to do."""
    quiet: list[str] = []

    @contextlib.contextmanager
    def use() -> Iterator[str]:
        url = quiet.pop() if quiet else new_database(server_url)
        yield url
        if not asyncio.run(_has_work(url)):
            quiet.append(url)

    return use


async def _has_work(url: str) -> bool:
    async with pool.connect(url) as conn:
        return bool(await conn.fetchval("SELECT count(*) FROM fulfilment WHERE state = 'DUE'"))


@pytest.fixture
def crashing(
    quiet_database: Callable[[], AbstractContextManager[str]], nursery: Nursery, shop: Shop
) -> Iterator[Estate]:
    """A house with brands and no process yet."""
    with quiet_database() as url, estate(url, nursery, shop) as made:
        yield made
