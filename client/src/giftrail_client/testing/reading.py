"""What partners send to the fake: read as the service reads it, every violation told at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

MAX_REFERENCE_CHARACTERS = 40
MAX_LINES = 100
MAX_VOUCHERS = 1000
MAX_BODY_BYTES = 256 * 1024
_REFERENCE = re.compile(r"(?!\.{1,2}\Z)[^\x00-\x1f\x7f-\x9f]+")
_CUSTOMER = {"name": 100, "phoneNumber": 20, "email": 254}
_DELIVERY = {
    "recipientName": 100, "recipientType": 5, "recipientPhoneNumber": 20, "recipientEmail": 254, "senderName": 100,
    "wishMessage": 500,
}  # fmt: skip
_STATUS = {
    "E001": (400, "INVALID_REQUEST"), "E002": (401, "UNAUTHORIZED"), "E003": (403, "ADDRESS_NOT_ALLOWED"),
    "E004": (404, "NOT_FOUND"), "E005": (405, "METHOD_NOT_ALLOWED"), "E006": (413, "BODY_TOO_LARGE"),
    "E007": (415, "UNSUPPORTED_MEDIA_TYPE"), "E008": (409, "REFERENCE_ID_CONFLICT"),
    "E009": (409, "INVALID_ORDER_STATE"), "E010": (429, "RATE_LIMITED"), "E011": (503, "UNAVAILABLE"),
    "E013": (429, "SPENDING_LIMIT_EXCEEDED"), "E151": (400, "ORDER_AMOUNT_MISMATCH"),
}  # fmt: skip


@dataclass
class Refused(Exception):
    """An error answer: its id, its message, and the offending fields."""

    id: str
    message: str
    sub_errors: list[tuple[str, str]] = field(default_factory=list)
    order_id: str | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return _STATUS[self.id][0]

    def members(self, request_id: str) -> dict[str, Any]:
        """The body of the answer."""
        subs = [{"fieldName": name, "message": message} for name, message in self.sub_errors]
        code = _STATUS[self.id][1]
        body = {"id": self.id, "code": code, "message": self.message, "requestId": request_id, "subErrors": subs}
        return body if self.order_id is None else body | {"orderId": self.order_id}


def invalid(first: tuple[str, str], *others: tuple[str, str]) -> Refused:
    """400 with every violation."""
    more = f" (and {len(others)} more)" if others else ""
    return Refused("E001", f"{first[0]}: {first[1]}{more}", [first, *others])


def not_found(message: str = "there is nothing here for this partner") -> Refused:
    """404."""
    return Refused("E004", message)


def read_json(content: bytes) -> dict[str, Any]:
    """The object of a body, numbers as Decimals. Raises Refused."""

    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise invalid(("body", "a member stands more than once in the same object"))
        return members

    def refuse(constant: str) -> None:
        raise invalid(("body", f"{constant} is not JSON"))

    try:
        members = json.loads(
            content.decode(), object_pairs_hook=without_repeats, parse_float=Decimal, parse_int=Decimal,
            parse_constant=refuse,
        )  # fmt: skip
    except (ValueError, RecursionError, ArithmeticError):
        raise invalid(("body", "is not JSON")) from None
    if not isinstance(members, dict):
        raise invalid(("body", "is not a JSON object"))
    return members


class Sheet:
    """The members of an object, read one by one; what is wrong is noted and told by `check`."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self.members = members
        self.violations: list[tuple[str, str]] = []

    def note(self, name: str, message: str) -> None:
        """Note that a member is wrong."""
        self.violations.append((name, message))

    def check(self) -> None:
        """Raises Refused with everything that is wrong."""
        if self.violations:
            raise invalid(*self.violations)

    def text(self, name: str, *, most: int, required: bool = False, path: str = "", of: Any = None) -> str | None:
        """A text of at most so many characters, or None."""
        members = self.members if of is None else of
        if name not in members or (members[name] is None and not required):
            if required:
                self.note(path + name, "is missing")
            return None
        value = members[name]
        if not isinstance(value, str):
            self.note(path + name, f"{value!r} is not a string")
        elif not 1 - (not required) <= len(value) <= most:
            self.note(path + name, f"has {len(value)} characters, not from 1 to {most}" if value else "is empty")
        else:
            return value
        return None

    def number(self, name: str, *, path: str = "", of: Any = None) -> Decimal | None:
        """A JSON number."""
        members = self.members if of is None else of
        value = members.get(name)
        if isinstance(value, Decimal):
            return value
        self.note(path + name, "is missing" if name not in members else f"{value!r} is not a number")
        return None

    def amount(self, name: str, *, path: str = "", of: Any = None) -> Decimal | None:
        """An amount above 0 with at most two decimals."""
        value = self.number(name, path=path, of=of)
        if value is None:
            return None
        if not 0 < value < Decimal(10) ** 15 or value != value.quantize(Decimal("0.01")):
            self.note(path + name, f"{value} is not an amount above 0 with at most 2 decimals")
            return None
        return value

    def texts(self, name: str, *, known: tuple[str, ...]) -> list[str] | None:
        """A list of known words, or None."""
        value = self.members.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(one in known for one in value):
            self.note(name, f"is not a list of {', '.join(known)}")
            return None
        return value

    def moment(self, name: str, *, required: bool = False) -> datetime | None:
        """A date and time with its offset."""
        text = self.text(name, most=60, required=required)
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            self.note(name, f"{text!r} is not a time such as 2026-01-31T09:30:00Z")
            return None
        return moment


@dataclass(frozen=True)
class Wanted:
    """An order that is sound in itself."""

    product_id: str
    reference_id: str
    amount: Decimal
    lines: Mapping[Decimal, int]
    customer: Mapping[str, str] | None
    delivery: Mapping[str, str] | None

    @property
    def fingerprint(self) -> tuple[Any, ...]:
        """What makes two requests the same: numbers by value, an absent object as a null one."""
        both = (tuple(sorted((one or {}).items())) for one in (self.customer, self.delivery))
        return (self.product_id, self.amount, tuple(sorted(self.lines.items())), *both)


def read_order(members: Mapping[str, Any], *, is_b2c: bool, has_reference: bool = True) -> Wanted:
    """The order that a body asks for. Raises Refused."""
    sheet = Sheet(members)
    product_id = sheet.text("productId", most=200, required=True)
    reference_id = sheet.text("referenceId", most=MAX_REFERENCE_CHARACTERS, required=True) if has_reference else ""
    if reference_id and not _REFERENCE.fullmatch(reference_id):
        sheet.note("referenceId", f"{reference_id!r} is not free of control characters, and neither . nor ..")
    amount = sheet.amount("amount")
    lines = _read_lines(sheet)
    customer = _read_details(sheet, "customerDetails", _CUSTOMER)
    delivery = _read_details(sheet, "deliveryDetails", _DELIVERY)
    if delivery and delivery.get("recipientType", "SELF") not in {"SELF", "OTHER"}:
        sheet.note("deliveryDetails.recipientType", f"{delivery['recipientType']!r} is not SELF or OTHER")
    if is_b2c:
        _check_customer(sheet, customer)
    sheet.check()
    if product_id is None or reference_id is None or amount is None:
        raise AssertionError("what is missing was noted")
    total = sum((one * quantity for one, quantity in lines.items()), Decimal(0))
    if total != amount:
        message = f"amount is {amount} but the denominations add up to {total}"
        raise Refused("E151", message, [("amount", message)])
    return Wanted(product_id, reference_id, amount, lines, customer, delivery)


def _read_lines(sheet: Sheet) -> dict[Decimal, int]:
    details = sheet.members.get("denominationDetails")
    if not isinstance(details, list) or not 1 <= len(details) <= MAX_LINES:
        sheet.note("denominationDetails", f"is not a list of 1 to {MAX_LINES} lines")
        return {}
    lines: dict[Decimal, int] = {}
    for place, detail in enumerate(details):
        path = f"denominationDetails[{place}]"
        if not isinstance(detail, dict):
            sheet.note(path, "is not an object")
            continue
        denomination = sheet.amount("denomination", path=f"{path}.", of=detail)
        quantity = sheet.number("quantity", path=f"{path}.", of=detail)
        if quantity is not None and (not 1 <= quantity <= MAX_VOUCHERS or quantity != int(quantity)):
            sheet.note(f"{path}.quantity", f"{quantity} is not a whole number from 1 to {MAX_VOUCHERS}")
        elif quantity is not None and denomination is not None:
            lines[denomination] = lines.get(denomination, 0) + int(quantity)
    if sum(lines.values()) > MAX_VOUCHERS:
        sheet.note("denominationDetails", f"{sum(lines.values())} vouchers in all, more than {MAX_VOUCHERS}")
    return lines


def _read_details(sheet: Sheet, name: str, sizes: Mapping[str, int]) -> dict[str, str] | None:
    details = sheet.members.get(name)
    if details is None:
        return None
    if not isinstance(details, dict):
        sheet.note(name, "is not an object")
        return None
    read = {member: sheet.text(member, most=most, path=f"{name}.", of=details) for member, most in sizes.items()}
    return {member: value for member, value in read.items() if value is not None} or None


def _check_customer(sheet: Sheet, customer: Mapping[str, str] | None) -> None:
    if any(name.startswith("customerDetails") for name, _ in sheet.violations):
        return
    if customer is None:
        sheet.note("customerDetails", "is missing: a B2C partner names the customer of each order")
        return
    if not customer.get("name"):
        sheet.note("customerDetails.name", "is missing")
    if not customer.get("phoneNumber") and not customer.get("email"):
        sheet.note("customerDetails", "has neither phoneNumber nor email")
