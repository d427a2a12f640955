"""What the fake answers about its brands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from giftrail_client import planning
from giftrail_client.testing import money, parameters, problems, reading, wanted
from giftrail_client.testing.calls import Call
from giftrail_client.testing.catalogue import FakeBrand

MAX_PAGE_LIMIT, DEFAULT_PAGE_LIMIT, MAX_WHOLE_LIST = 500, 20, 1000
MAX_SEARCH_CHARACTERS = 200


def list_brands(call: Call) -> dict[str, Any]:
    """A page of the enabled brands, active or not, by title and id."""
    query = call.query
    page_no, limit = query.number("pageNo"), query.number("limit")
    keeps = _filters(query)
    query.check()
    enabled = [one for one in call.service.brands.values() if one.enabled and all(keep(one) for keep in keeps)]
    found = sorted(enabled, key=lambda one: (one.title, one.id))
    if page_no is None and limit is None:
        page_no, limit, following = 1, MAX_WHOLE_LIST, {"pageNo": 3, "limit": MAX_PAGE_LIMIT}
    else:
        page_no, limit = page_no or 1, min(limit or DEFAULT_PAGE_LIMIT, MAX_PAGE_LIMIT)
        following = {"pageNo": page_no + 1, "limit": limit}
    start = (page_no - 1) * limit
    return {
        "data": [one.members(currency=call.service.books.currency) for one in found[start : start + limit]],
        "pageNo": page_no, "limit": limit, "total": len(found),
        "nextCursor": following if start + limit < len(found) else None,
    }  # fmt: skip


def get_brand(call: Call) -> dict[str, Any]:
    """One brand, if it is enabled."""
    brand = call.service.brands.get(call.ids[0])
    if brand is None or not brand.enabled:
        raise problems.not_found()
    return brand.members(currency=call.service.books.currency)


def plan(call: Call) -> dict[str, Any]:
    """The fewest vouchers of a brand that make up an amount."""
    currency = call.service.books.currency
    sheet = reading.Sheet(call.body)
    amount = sheet.number("amount")
    if amount is None:
        raise problems.invalid(*sheet.violations)
    brand = call.service.find_brand(call.ids[0])
    if not brand.enabled:
        raise problems.not_found()
    if complaint := money.complain(amount, currency):
        raise problems.invalid(("amount", f"{problems.show(amount)} {complaint}"))
    bounds, found = brand.bounds(), None
    if bounds["minOrderAmount"] <= amount <= bounds["maxOrderAmount"]:
        try:
            found = planning.plan(money.to_minor(amount, currency), _rules(brand, currency))
        except planning.PlanTooLarge as error:
            raise problems.invalid(("amount", str(error))) from None
    lines = None
    if found is not None:
        lines = [{"denomination": money.to_major(one, currency), "quantity": count} for one, count in found.items()]
    return {"productId": brand.id, "amount": amount, "denominationDetails": lines}


def _filters(query: parameters.Query) -> list[Callable[[FakeBrand], bool]]:
    keeps: list[Callable[[FakeBrand], bool]] = []
    words = set((query.text("q") or "").casefold().split())
    if sum(map(len, words)) > MAX_SEARCH_CHARACTERS:
        query.note("q", f"has more than {MAX_SEARCH_CHARACTERS} characters")
    if words:
        keeps.append(lambda brand: all(word in _searched(brand) for word in words))
    if categories := {one.casefold() for one in query.texts("category")}:
        keeps.append(lambda brand: not categories.isdisjoint(one.casefold() for one in brand.category))
    if tags := {one.casefold() for one in query.texts("tag")}:
        keeps.append(lambda brand: not tags.isdisjoint(one.casefold() for one in brand.tags))
    if statuses := query.choices("status", ("ACTIVE", "INACTIVE")):
        keeps.append(lambda brand: brand.status in statuses)
    if types := query.choices("denominationType", ("FIXED", "FLEXIBLE")):
        keeps.append(lambda brand: brand.denomination_type in types)
    if redemptions := query.choices("redemptionType", ("OFFLINE", "ONLINE", "ONLINE_AND_OFFLINE")):
        keeps.append(lambda brand: brand.redemption_type in redemptions)
    since = query.moment("updatedSince")
    if since is not None:
        keeps.append(lambda brand: brand.updated_at is not None and brand.updated_at >= since)
    return keeps


def _searched(brand: FakeBrand) -> str:
    return "\n".join((brand.title, brand.description or "", *brand.tags)).casefold()


def _rules(brand: FakeBrand, currency: str) -> planning.Rules:
    bounds, most = brand.bounds(), brand.max_vouchers_per_order
    return planning.Rules(
        denominations=[money.to_minor(one, currency) for one in brand.shown_denominations()],
        least=money.to_minor(bounds["minVoucherAmount"], currency),
        most=money.to_minor(bounds["maxVoucherAmount"], currency),
        max_vouchers=wanted.MAX_VOUCHERS if most is None else min(most, wanted.MAX_VOUCHERS),
        max_of_one=brand.max_vouchers_per_denomination,
        max_denominations=min(brand.max_denominations_per_order or wanted.MAX_LINES, wanted.MAX_LINES),
    )
