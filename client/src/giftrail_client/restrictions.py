"""A brand's denomination rules, before the round trip (specification, denomination rules)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from giftrail_client import planning, wire

if TYPE_CHECKING:
    from giftrail_client.models import Brand

# More vouchers than a service of the contract takes in one order.
MAX_VOUCHERS = 1000
MAX_LINES = 100


def check(brand: Brand, denominations: Mapping[Any, int], *, amount: Any = None) -> list[str]:
    """Why the service would refuse an order of `{amount: quantity}`; empty when nothing is known against it."""
    lines = {wire.amount(denomination): quantity for denomination, quantity in denominations.items()}
    limits, found = brand.amount_restrictions, []
    total = sum((denomination * quantity for denomination, quantity in lines.items()), Decimal(0))
    if not brand.is_active:
        found.append(f"brand {brand.id} is {brand.status}")
    if amount is not None and wire.amount(amount) != total:
        found.append(f"amount is {amount} but the denominations add up to {total}")
    for denomination, quantity in lines.items():
        found += _check_line(brand, denomination, quantity)
    if not _within(total, limits.min_order_amount, limits.max_order_amount):
        found.append(f"{total} in all is not from {limits.min_order_amount} to {limits.max_order_amount}")
    count, most = sum(lines.values()), min(limits.max_vouchers_per_order or MAX_VOUCHERS, MAX_VOUCHERS)
    if count > most:
        found.append(f"{count} vouchers are more than {most}")
    most = min(limits.max_denominations_per_order or MAX_LINES, MAX_LINES)
    if len(lines) > most:
        found.append(f"{len(lines)} denominations are more than {most}")
    return found


def _check_line(brand: Brand, denomination: Decimal, quantity: int) -> Iterator[str]:
    limits = brand.amount_restrictions
    if denomination <= 0 or quantity < 1:
        yield f"{quantity} vouchers of {denomination} are no order"
    if brand.denomination_type == "FIXED" and denomination not in limits.denominations:
        yield f"{denomination} is not one of {', '.join(map(str, limits.denominations))}"
    elif brand.denomination_type != "FIXED" and not _within(
        denomination, limits.min_voucher_amount, limits.max_voucher_amount
    ):
        yield f"{denomination} is not from {limits.min_voucher_amount} to {limits.max_voucher_amount}"
    if limits.max_vouchers_per_denomination is not None and quantity > limits.max_vouchers_per_denomination:
        yield f"{quantity} vouchers of {denomination} are more than {limits.max_vouchers_per_denomination}"


def plan(brand: Brand, amount: Any) -> dict[Decimal, int] | None:
    """The fewest vouchers that make up the amount, as `orders.place` takes them; None when nothing does.

    Raises ValueError, planning.PlanTooLarge.
    """
    limits, wanted = brand.amount_restrictions, wire.amount(amount)
    if not _within(wanted, limits.min_order_amount, limits.max_order_amount):
        return None
    bounds = [limits.min_voucher_amount or Decimal(1), limits.max_voucher_amount or wanted]
    scale = max(2, *(-int(one.as_tuple().exponent) for one in [wanted, *limits.denominations, *bounds]))

    def whole(number: Decimal) -> int:
        return int(number.scaleb(scale))

    count = limits.max_vouchers_per_order
    rules = planning.Rules(
        denominations=[whole(one) for one in limits.denominations] if brand.denomination_type == "FIXED" else [],
        least=whole(bounds[0]),
        most=whole(bounds[1]),
        max_vouchers=MAX_VOUCHERS if count is None else min(count, MAX_VOUCHERS),
        max_of_one=limits.max_vouchers_per_denomination,
        max_denominations=limits.max_denominations_per_order,
    )
    found = planning.plan(whole(wanted), rules)
    if found is None:
        return None
    return {Decimal(one).scaleb(-scale): quantity for one, quantity in found.items()}


def _within(amount: Decimal, least: Decimal | None, most: Decimal | None) -> bool:
    return (least is None or amount >= least) and (most is None or amount <= most)
