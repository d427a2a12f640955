"""What a brand allows in an order: pure, over what is in memory (wire contract, Place Order)."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum

from giftrail.catalog import model


class Refusal(StrEnum):
    """Why a brand does not serve an order: the code of the specification or the wire contract.

    The order of the members is the order in which causes are told when there are several.
    """

    NOT_ACTIVE = "E102"
    NOT_ENABLED = "E101"
    NO_PROVIDER = "E100"
    TOO_MANY_VOUCHERS = "E156"
    TOO_MANY_OF_ONE_DENOMINATION = "E154"
    TOO_MANY_DENOMINATIONS = "E153"
    DENOMINATION_NOT_AVAILABLE = "E150"
    OUTSIDE_VOUCHER_BOUNDS = "E155"
    OUTSIDE_ORDER_BOUNDS = "E152"


def judge(
    brand: model.Brand, *, enabled: bool, lines: Mapping[int, int], known_providers: AbstractSet[str]
) -> Refusal | None:
    """The first refusal, or None when the brand allows the order.

    `lines` maps each denomination in minor units to its quantity.
    """
    return next(list_refusals(brand, enabled=enabled, lines=lines, known_providers=known_providers), None)


def list_refusals(
    brand: model.Brand, *, enabled: bool, lines: Mapping[int, int], known_providers: AbstractSet[str]
) -> Iterator[Refusal]:
    """All refusals, in the order in which causes are told."""
    vouchers = sum(lines.values())
    amount = sum(denomination * quantity for denomination, quantity in lines.items())
    if brand.status is not model.Status.ACTIVE:
        yield Refusal.NOT_ACTIVE
    if not enabled:
        yield Refusal.NOT_ENABLED
    if known_providers.isdisjoint(brand.providers):
        yield Refusal.NO_PROVIDER
    if _over(vouchers, brand.max_vouchers_per_order):
        yield Refusal.TOO_MANY_VOUCHERS
    if _over(max(lines.values()), brand.max_vouchers_per_denomination):
        yield Refusal.TOO_MANY_OF_ONE_DENOMINATION
    if _over(len(lines), brand.max_denominations_per_order):
        yield Refusal.TOO_MANY_DENOMINATIONS
    if brand.denomination_type is model.DenominationType.FIXED:
        if any(denomination not in brand.denominations_minor for denomination in lines):
            yield Refusal.DENOMINATION_NOT_AVAILABLE
    elif min(lines) < brand.min_voucher_minor or max(lines) > brand.max_voucher_minor:
        yield Refusal.OUTSIDE_VOUCHER_BOUNDS
    if not brand.min_order_minor <= amount <= brand.max_order_minor:
        yield Refusal.OUTSIDE_ORDER_BOUNDS


def _over(count: int, limit: int | None) -> bool:
    return limit is not None and count > limit
