"""One row of a brand file: every member checked, every problem noted with the row's line."""

import json
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, TypeVar

from giftrail.catalog import model
from giftrail.kit import money

MAX_TITLE_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 10_000
MAX_LIST_ITEMS = 500
# A value is told up to this many characters.
MAX_SHOWN_CHARACTERS = 80
# Where a CSV reader puts the values that have no column.
BEHIND_THE_LAST = "(behind the last column)"
MAX_COUNT = 1_000_000
MAX_EXPIRY_MONTHS = 600
DEFAULT_REVERSAL_HOURS = 24
MAX_REVERSAL_HOURS = 10_000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_Choice = TypeVar("_Choice", bound=StrEnum)
# Stands where a text was wrong, until the row is refused.
_WRONG_TEXT = "-"
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one member of one row."""

    line: int
    member: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.member}: {self.message}"


class Row:
    """One row being read; a wrong member is noted and replaced by something harmless."""

    def __init__(self, line: int, values: dict[str, Any]) -> None:
        self.line = line
        self.values = values
        self.problems: list[Problem] = []

    def complain(self, member: str, message: str) -> None:
        """Note that a member is wrong."""
        self.problems.append(Problem(self.line, member, message))

    def brand(self, known_providers: AbstractSet[str]) -> model.Brand:
        """The brand of the row; complete only when there is no problem."""
        if not isinstance(self.values.get("amountRestrictions", {}), dict):
            self.complain("amountRestrictions", f"{_shown(self.values['amountRestrictions'])} is not an object")
        if BEHIND_THE_LAST in self.values:
            self.complain(BEHIND_THE_LAST, f"{_shown(self.values[BEHIND_THE_LAST])} has no column")
        currency = self._currency()
        denomination_type = self._choice("denominationType", model.DenominationType)
        fixed = denomination_type is model.DenominationType.FIXED
        denominations = tuple(
            sorted({self._minor("denominations", item, currency) for item in self._list("denominations")})
        )
        if fixed and not denominations:
            self.complain("denominations", "a FIXED brand needs at least one")
        if not fixed and denominations:
            self.complain("denominations", "a FLEXIBLE brand has none; give minVoucherAmount and maxVoucherAmount")
        least = self._amount("minVoucherAmount", currency, denominations[0] if denominations else None)
        most = self._amount("maxVoucherAmount", currency, denominations[-1] if denominations else None)
        least_order = self._amount("minOrderAmount", currency, least)
        most_order = self._amount("maxOrderAmount", currency, None)
        for low, high, name in ((least, most, "VoucherAmount"), (least_order, most_order, "OrderAmount")):
            if low > high:
                self.complain(f"max{name}", f"is less than min{name}")
        thumbnail = self._url("thumbnailUrl", required=True) or ""
        return model.Brand(
            brand_id=self._id(),
            status=self._choice("status", model.Status, model.Status.ACTIVE),
            title=self._text("title", required=True, limit=MAX_TITLE_CHARACTERS) or "",
            description=self._text("brandDescription"),
            category=self._texts("category", required=True),
            tags=self._texts("tags"),
            denomination_type=denomination_type,
            redemption_type=self._choice("redemptionType", model.RedemptionType),
            card_type=self._choice("cardType", model.CardType),
            currency=currency,
            denominations_minor=denominations,
            min_order_minor=least_order,
            max_order_minor=most_order,
            min_voucher_minor=least,
            max_voucher_minor=most,
            max_vouchers_per_order=self._count("maxVouchersPerOrder", MAX_COUNT),
            max_vouchers_per_denomination=self._count("maxVouchersPerDenomination", MAX_COUNT),
            max_denominations_per_order=self._count("maxDenominationsPerOrder", MAX_COUNT),
            thumbnail_url=thumbnail,
            icon_image_url=self._url("iconImageUrl") or thumbnail,
            logo_url=self._url("logoUrl"),
            tnc_url=self._url("tncUrl"),
            terms=self._texts("termsAndConditions"),
            how_to_use=self._instructions(),
            voucher_expiry_months=self._count("voucherExpiryInMonths", MAX_EXPIRY_MONTHS),
            providers=self._providers(known_providers),
            reversible=self._flag("reversible"),
            reversal_window_hours=self._count("reversalWindowHours", MAX_REVERSAL_HOURS) or DEFAULT_REVERSAL_HOURS,
            version=0,
            updated_at=_NEVER,
        )

    def _currency(self) -> str:
        before = len(self.problems)
        currency = self._text("currency", required=True) or ""
        if len(self.problems) == before:
            try:
                money.decimals_of(currency)
            except money.UnknownCurrency as error:
                self.complain("currency", str(error))
            else:
                return currency
        return "INR"

    def _id(self) -> str:
        value = self.values.get("id")
        if not isinstance(value, str) or not _ID.fullmatch(value):
            self.complain("id", f"{_shown(value)} is not 1 to 64 letters, digits, dots, dashes or underscores")
            return f"(line {self.line})"
        return value

    def _text(self, member: str, *, required: bool = False, limit: int = MAX_TEXT_CHARACTERS) -> str | None:
        value = self.values.get(member)
        if value is None and not required:
            return None
        return self._sound_text(member, value, limit)

    def _sound_text(self, member: str, value: Any, limit: int = MAX_TEXT_CHARACTERS) -> str:
        if not isinstance(value, str) or not value.strip():
            self.complain(member, "is missing" if value is None else f"{_shown(value)} is not a text")
        elif len(value) > limit:
            self.complain(member, f"has {len(value)} characters, more than {limit}")
        elif "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            self.complain(member, "holds a character that cannot be stored")
        else:
            return value
        return _WRONG_TEXT

    def _list(self, member: str, *, required: bool = False) -> list[Any]:
        value = self.values.get(member)
        if value is None:
            if required:
                self.complain(member, "is missing")
            return []
        if not isinstance(value, list) or len(value) > MAX_LIST_ITEMS:
            self.complain(member, f"is not a list of at most {MAX_LIST_ITEMS} items")
            return []
        return value

    def _texts(self, member: str, *, required: bool = False) -> tuple[str, ...]:
        return tuple(self._sound_text(member, item) for item in self._list(member, required=required))

    def _choice(self, member: str, choices: type[_Choice], default: _Choice | None = None) -> _Choice:
        value: Any = self.values.get(member, default)
        try:
            return choices(value)
        except ValueError:
            wanted = " or ".join(choices)
            self.complain(member, f"{_shown(value)} is not {wanted}" if value is not None else f"is missing: {wanted}")
            return next(iter(choices))

    def _amount(self, member: str, currency: str, default: int | None) -> int:
        value = self.values.get(member)
        if value is None:
            if default is None:
                self.complain(member, "is missing")
            return default or 0
        return self._minor(member, value, currency)

    def _minor(self, member: str, value: Any, currency: str) -> int:
        number = _number(value)
        if number is None:
            self.complain(member, f"{_shown(value)} is not a number")
            return 0
        try:
            minor = money.to_minor(number, currency=currency)
        except money.AmountRefused as error:
            self.complain(member, f"{value} {error}")
            return 0
        if minor <= 0:
            self.complain(member, f"{value} is not more than 0")
        return minor

    def _count(self, member: str, limit: int) -> int | None:
        value = self.values.get(member)
        if value is None:
            return None
        number = _number(value)
        if number is None or not 1 <= number <= limit or number != int(number):
            self.complain(member, f"{value} is not a whole number from 1 to {limit}")
            return None
        return int(number)

    def _flag(self, member: str) -> bool:
        value = self.values.get(member, False)
        if value in {"true", "false"}:  # a CSV cell
            return bool(value == "true")
        if not isinstance(value, bool):
            self.complain(member, f"{_shown(value)} is not true or false")
            return False
        return value

    def _url(self, member: str, *, required: bool = False) -> str | None:
        before = len(self.problems)
        value = self._text(member, required=required)
        if value is not None and len(self.problems) == before and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", value):
            self.complain(member, f"{_shown(value)} is not an http(s) address")
        return value

    def _providers(self, known: AbstractSet[str]) -> tuple[str, ...]:
        providers = self._texts("providers", required=True)
        for provider in providers:
            if provider != _WRONG_TEXT and provider not in known:
                self.complain("providers", f"{_shown(provider)} is not one of {', '.join(sorted(known))}")
        if self.values.get("providers") == []:
            self.complain("providers", "at least one must be named")
        return providers

    def _instructions(self) -> tuple[dict[str, Any], ...]:
        member = "howToUseInstructions"
        value = self.values.get(member)
        if isinstance(value, str):  # a CSV cell holds it as JSON
            try:
                value = json.loads(value)
            except ValueError:
                self.complain(member, "is not JSON")
                return ()
        for item in value if isinstance(value, list) else [] if value is None else [None]:
            if not isinstance(item, dict) or item.keys() != {"retailMode", "retailModeName", "instructions"}:
                self.complain(member, "is not a list of {retailMode, retailModeName, instructions[]}")
                return ()
            self._sound_text(member, item["retailMode"])
            self._sound_text(member, item["retailModeName"])
            for text in item["instructions"] if isinstance(item["instructions"], list) else [None]:
                self._sound_text(member, text)
        return tuple(value or ())


def _shown(value: Any) -> str:
    """The value as the file has it, and short."""
    match value:
        case Decimal():
            text = str(value)
        case list():
            text = f"[{', '.join(map(_shown, value))}]"
        case dict():
            text = f"{{{', '.join(f'{name!r}: {_shown(item)}' for name, item in value.items())}}}"
        case bool():
            text = str(value).lower()
        case _:
            text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"


def _number(value: Any) -> Decimal | None:
    if isinstance(value, Decimal):
        return value if value.is_finite() else None
    try:
        number = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None
