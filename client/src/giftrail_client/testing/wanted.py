"""The order that a body asks the fake for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from giftrail_client.testing import money, problems, reading

MAX_REFERENCE_CHARACTERS = 40
MAX_LINES = 100
MAX_VOUCHERS = 1000
_REFERENCE = re.compile(r"(?!\.{1,2}\Z)[^\x00-\x1f\x7f-\x9f]+")
_RECIPIENT_TYPE = re.compile("SELF|OTHER")
_CUSTOMER = {"name": 100, "phoneNumber": 20, "email": 254}
_DELIVERY = {
    "recipientName": 100, "recipientPhoneNumber": 20, "recipientEmail": 254, "senderName": 100, "wishMessage": 500,
}  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """An order that is sound in itself; `missing` is what a B2C partner must say of its customer and does not."""

    product_id: str
    reference_id: str
    amount: Decimal
    lines: Mapping[Decimal, int]
    customer: Mapping[str, str] | None
    delivery: Mapping[str, str] | None
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def fingerprint(self) -> tuple[Any, ...]:
        """What makes two requests the same: numbers by value, an absent object as a null one."""
        both = (tuple(sorted((one or {}).items())) for one in (self.customer, self.delivery))
        return (self.product_id, self.amount, tuple(sorted(self.lines.items())), *both)

    def check_customer(self) -> None:
        """Raises Refused when the customer is missing."""
        if self.missing:
            raise problems.invalid(*self.missing)


def read_reference(sheet: reading.Sheet) -> str | None:
    """The partner's reference of an order."""
    return sheet.text(
        "referenceId", least=1, most=MAX_REFERENCE_CHARACTERS, shape=_REFERENCE,
        means="free of control characters, and neither . nor ..", required=True,
    )  # fmt: skip


def read_order(members: Mapping[str, Any], *, currency: str, is_b2c: bool) -> Wanted:
    """The order that a body asks for. Raises Refused."""
    sheet = reading.Sheet(members)
    product_id = sheet.text("productId", least=1, most=200, required=True)
    reference_id = read_reference(sheet)
    amount = _read_amount(sheet, "amount", currency)
    lines = _read_lines(sheet, currency)
    customer = _read_details(sheet.inner("customerDetails"), _CUSTOMER)
    delivery = _read_delivery(sheet.inner("deliveryDetails"))
    customer_is_read = not any(name.startswith("customerDetails") for name, _ in sheet.violations)
    missing = _missing_customer(customer) if is_b2c and customer_is_read else ()
    if product_id is None or reference_id is None or amount is None or sheet.violations:
        raise problems.invalid(*sheet.violations, *missing)
    total = sum((one * quantity for one, quantity in lines.items()), Decimal(0))
    if total != amount:
        message = f"amount is {problems.show(amount)} but the denominations add up to {money.plain(total)}"
        raise problems.Refused("E151", message, [("amount", message)])
    return Wanted(product_id, reference_id, amount, lines, customer, delivery, missing)


def _read_amount(sheet: reading.Sheet, name: str, currency: str) -> Decimal | None:
    amount = sheet.number(name)
    if amount is None:
        return None
    complaint = money.complain(amount, currency) or (None if amount > 0 else "is not more than 0")
    if complaint is not None:
        sheet.note(name, f"{problems.show(amount)} {complaint}")
    return amount if complaint is None else None


def _read_lines(sheet: reading.Sheet, currency: str) -> dict[Decimal, int]:
    lines: dict[Decimal, int] = {}
    vouchers = 0
    for detail in sheet.inners("denominationDetails", most=MAX_LINES):
        denomination = _read_amount(detail, "denomination", currency)
        quantity = detail.number("quantity")
        if quantity is None:
            continue
        if not 1 <= quantity <= MAX_VOUCHERS or quantity != int(quantity):
            message = f"{problems.show(quantity)} is not a whole number from 1 to {MAX_VOUCHERS}"
            detail.note("quantity", message)
            continue
        vouchers += int(quantity)
        if denomination is not None:
            lines[denomination] = lines.get(denomination, 0) + int(quantity)
    if vouchers > MAX_VOUCHERS:
        sheet.note("denominationDetails", f"{vouchers} vouchers in all, more than {MAX_VOUCHERS}")
    return lines


def _read_details(sheet: reading.Sheet | None, sizes: Mapping[str, int]) -> dict[str, str] | None:
    if sheet is None:
        return None
    read = {name: sheet.text(name, most=most) for name, most in sizes.items()}
    return {name: value for name, value in read.items() if value is not None} or None


def _read_delivery(sheet: reading.Sheet | None) -> dict[str, str] | None:
    read = _read_details(sheet, _DELIVERY)
    kind = None if sheet is None else sheet.text("recipientType", shape=_RECIPIENT_TYPE, means="SELF or OTHER")
    return read if kind is None else {**(read or {}), "recipientType": kind}


def _missing_customer(customer: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    if customer is None:
        return (("customerDetails", "is missing: a B2C partner names the customer of each order"),)
    name = () if customer.get("name") else (("customerDetails.name", "is missing"),)
    if customer.get("phoneNumber") or customer.get("email"):
        return name
    return (*name, ("customerDetails", "has neither phoneNumber nor email"))
