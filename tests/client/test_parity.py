"""The sync and the async client have the same methods with the same parameters; what is public is listed."""

import inspect

import pytest

import giftrail_client
from giftrail_client import aio, sync

GROUPS = ("Brands", "Orders", "Vouchers", "Wallet", "Webhooks", "Events")


def methods(group: type) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(one).parameters)
        for name, one in vars(group).items()
        if not name.startswith("_") and callable(one)
    }


@pytest.mark.parametrize("group", GROUPS)
def test_both_clients_can_do_the_same(group: str) -> None:
    assert methods(getattr(sync, group)) == methods(getattr(aio, group))
    assert methods(getattr(sync, group))


def test_both_are_made_the_same_way() -> None:
    one, other = (inspect.signature(made.__init__).parameters for made in (sync.Giftrail, aio.AsyncGiftrail))
    assert list(one) == list(other)


def test_what_is_public_is_there_and_sorted() -> None:
    assert [name for name in giftrail_client.__all__ if not hasattr(giftrail_client, name)] == []
    assert list(giftrail_client.__all__) == sorted(giftrail_client.__all__)
