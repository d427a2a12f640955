"""A gift voucher partner service inside your tests: no network, no waiting, the sandbox's brands.

from giftrail_client.testing import FakeService

service = FakeService(balance=5_000)
with service.client() as giftrail:
order = giftrail.orders.place("sandbox-after-5-seconds", {500: 1})
assert giftrail.orders.wait(order).succeeded

With pytest, ask for the fixture `giftrail_service`: it comes with this package.

It answers as the real service does, field by field; both pass the same tests of the contract. What it leaves out: many
partners, addresses, rate limits, delivery to recipients, and whatever an operator does.
"""

from giftrail_client.testing.catalogue import FakeBrand, Fate
from giftrail_client.testing.service import (
    BASE_URL,
    BREAK_AFTER,
    CLIENT_ID,
    CLIENT_SECRET,
    FAULTS,
    HALF_A_BODY,
    RATE_LIMITED,
    TIME_OUT_AFTER,
    TIME_OUT_BEFORE,
    UNAUTHORIZED,
    UNAVAILABLE,
    UNAVAILABLE_AFTER,
    FakeService,
    Transport,
)

__all__ = [
    "BASE_URL",
    "BREAK_AFTER",
    "CLIENT_ID",
    "CLIENT_SECRET",
    "FAULTS",
    "HALF_A_BODY",
    "RATE_LIMITED",
    "TIME_OUT_AFTER",
    "TIME_OUT_BEFORE",
    "UNAUTHORIZED",
    "UNAVAILABLE",
    "UNAVAILABLE_AFTER",
    "FakeBrand",
    "FakeService",
    "Fate",
    "Transport",
]
