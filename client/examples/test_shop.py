"""How a partner tests its program without a network: the fixture comes with the SDK."""

import sqlite3
from collections.abc import Iterator

import pytest
from shop import GIFTS, give, recover

from giftrail_client.testing import TIME_OUT_AFTER, TIME_OUT_BEFORE, FakeService


@pytest.fixture
def books() -> Iterator[sqlite3.Connection]:
    """Books of the shop, in memory."""
    connection = sqlite3.connect(":memory:")
    connection.execute(GIFTS)
    yield connection
    connection.close()


@pytest.mark.parametrize("fault", [TIME_OUT_BEFORE, TIME_OUT_AFTER])
def test_a_time_out_makes_one_order(giftrail_service: FakeService, books: sqlite3.Connection, fault: str) -> None:
    """Whether it was created or not."""
    giftrail_service.fail_next(fault)
    order = give(giftrail_service.client(), books, "sandbox-at-once", 500)
    assert order is not None
    assert order.succeeded
    assert giftrail_service.client().wallet.balance().balance == 99_500


def test_a_slow_order_is_waited_for(giftrail_service: FakeService, books: sqlite3.Connection) -> None:
    """Ten minutes that take no time."""
    order = give(giftrail_service.client(), books, "sandbox-after-600-seconds", 500)
    assert order is not None
    assert order.succeeded


def test_what_was_begun_is_finished_after_a_crash(giftrail_service: FakeService, books: sqlite3.Connection) -> None:
    """The program died between its own books and the order."""
    books.execute("INSERT INTO gift VALUES ('kept', 'sandbox-at-once', 500, 'PLACING')")
    recover(giftrail_service.client(), books)
    assert books.execute("SELECT reference_id, status FROM gift").fetchall() == [("kept", "SUCCESS")]
    recover(giftrail_service.client(), books)
    assert giftrail_service.client().wallet.balance().balance == 99_500
