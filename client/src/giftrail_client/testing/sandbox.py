"""The brands of the sandbox table, as every service outside production has them."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from giftrail_client.testing.catalogue import DEADLINE_SECONDS, MAX_PART_VOUCHERS, FakeBrand, Fate

LOST_ANSWER_SECONDS = 4.0
_AFTER = re.compile(r"sandbox-after-(\d{1,4})-seconds")
_AT_ONCE = Fate()
_LATE = Fate(DEADLINE_SECONDS, succeeds=False)
# What an order of it meets, which is the brand's description, and the members in which it differs from the others.
_TABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "sandbox-at-once": ("SUCCESS within the answer; cannot be reversed", {"fate": _AT_ONCE}),
    "sandbox-after-5-seconds": ("PROCESSING, SUCCESS after 5 s (any N in the id)", {"fate": Fate(5)}),
    "sandbox-never": ("PROCESSING until the deadline, then FAILED E200", {"fate": _LATE}),
    "sandbox-refused": ("FAILED E200: the provider refuses", {"fate": Fate(succeeds=False)}),
    "sandbox-second-provider": ("SUCCESS: the first provider refuses, the second serves", {"fate": _AT_ONCE}),
    "sandbox-too-late": ("FAILED E200 at the deadline; the codes come later and are set aside", {"fate": _LATE}),
    "sandbox-twice": (
        "SUCCESS: the provider hands each voucher over twice, the order has it once", {"fate": _AT_ONCE}
    ),
    "sandbox-lost-answer": (
        "PROCESSING, then SUCCESS: issued, the answer timed out, found by look-up",
        {"fate": Fate(LOST_ANSWER_SECONDS)},
    ),
    "sandbox-away": (
        "PROCESSING until the deadline, and can be cancelled: the provider cannot be reached",
        {"fate": replace(_LATE, can_be_cancelled=True)},
    ),
    "sandbox-first-part": (
        (
            f"FAILED E200 when it has more than one line or more than {MAX_PART_VOUCHERS} vouchers of a line: a part"
            " is delivered, the rest refused, what was delivered is set aside"
        ),
        {"fate": _AT_ONCE},
    ),
    "sandbox-lost-webhook": (
        "SUCCESS after 3 s; its webhook never comes, until the event is redelivered",
        {"fate": Fate(3), "webhook_fault": "LOST"},
    ),
    "sandbox-duplicate-webhook": (
        "SUCCESS after 3 s; its webhook comes twice, with the same event id",
        {"fate": Fate(3), "webhook_fault": "TWICE"},
    ),
    "sandbox-reversible": ("SUCCESS, and can be reversed for 24 hours", {"fate": _AT_ONCE, "reversible": True}),
    "sandbox-void-refused": (
        "SUCCESS; reversing is allowed, but the provider refuses to void",
        {"fate": _AT_ONCE, "reversible": True, "voids": False},
    ),
    "sandbox-e013": ("HTTP 429 E013: no order is allowed in a day", {"orders_limited": True}),
    "sandbox-e100": ("FAILED E100: its provider is paused", {"fate": _AT_ONCE, "paused": True}),
    "sandbox-e101": ("FAILED E101: not enabled", {"enabled": False}),
    "sandbox-e102": ("FAILED E102: INACTIVE", {"status": "INACTIVE"}),
    "sandbox-e150": ("FAILED E150: from stock, and the stock is empty", {"in_stock": False}),
    "sandbox-e152": (
        "FAILED E152: an order is at least 900,000,000",
        {"min_order": Decimal(900_000_000), "max_order": Decimal(1_000_000_000)},
    ),
    "sandbox-e153": ("FAILED E153 with two denominations", {"max_denominations_per_order": 1}),
    "sandbox-e154": ("FAILED E154 with two vouchers of one denomination", {"max_vouchers_per_denomination": 1}),
    "sandbox-e155": (
        "FAILED E155 below 10 and above 1000: FLEXIBLE", {"denomination_type": "FLEXIBLE", "denominations": ()}
    ),
    "sandbox-e156": ("FAILED E156 with two vouchers", {"max_vouchers_per_order": 1}),
    "sandbox-e300": (
        "FAILED E300: its only voucher, of 9,000,000,000, is more than any wallet of the sandbox holds",
        {"denominations": (Decimal(9_000_000_000),), "max_order": Decimal(9_000_000_000_000)},
    ),
}  # fmt: skip


def brands() -> list[FakeBrand]:
    """The brands of the table."""
    return [_brand(brand_id, description=does, **members) for brand_id, (does, members) in _TABLE.items()]


def after(brand_id: str) -> FakeBrand | None:
    """A brand `sandbox-after-N-seconds` of any N."""
    found = _AFTER.fullmatch(brand_id)
    return None if found is None else _brand(brand_id, fate=Fate(float(found[1])))


def _brand(brand_id: str, **members: Any) -> FakeBrand:
    return FakeBrand(brand_id, brand_id.replace("-", " ").capitalize(), **members)
