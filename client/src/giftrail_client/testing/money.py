"""Amounts of a currency: what is none, and how a discount is rounded."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

DEFAULT_DECIMALS = 2
# The largest amount of the service, in minor units.
MAX_AMOUNT_MINOR = 10**15
# ISO 4217: the currencies whose minor unit is not a hundredth, by number of decimals.
_OTHER_DECIMALS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_DECIMALS_OF = {code: decimals for decimals, codes in _OTHER_DECIMALS.items() for code in codes.split()}
_EXACT = Context(prec=60)


def decimals_of(currency: str) -> int:
    """How many decimals the currency's minor unit has."""
    return _DECIMALS_OF.get(currency, DEFAULT_DECIMALS)


def complain(amount: Decimal, currency: str) -> str | None:
    """Why this is no amount of the currency, or None."""
    decimals = decimals_of(currency)
    largest = Decimal(MAX_AMOUNT_MINOR).scaleb(-decimals)
    # A number may have a quarter of a million digits: its size is looked at first.
    if amount and (amount.adjusted() > largest.adjusted() or abs(amount) > largest):
        return f"is larger than {plain(largest)}"
    if amount != amount.quantize(Decimal(1).scaleb(-decimals), ROUND_DOWN, _EXACT):
        return f"has more decimals than {currency} has ({decimals})"
    return None


def to_minor(amount: Decimal, currency: str) -> int:
    """An amount in minor units."""
    return int(amount.scaleb(decimals_of(currency), _EXACT))


def to_major(minor: int, currency: str) -> Decimal:
    """An amount of minor units in the currency's unit."""
    return Decimal(minor).scaleb(-decimals_of(currency))


def discounted(amount: Decimal, percentage: Decimal, currency: str) -> Decimal:
    """The amount less the discount, which is rounded half up."""
    unit = Decimal(1).scaleb(-decimals_of(currency))
    return amount - (amount * percentage / 100).quantize(unit, ROUND_HALF_UP)


def plain(number: Decimal) -> int | Decimal:
    """The number as the service writes it, without trailing zeros: 100.00 is 100, 10.50 is 10.5."""
    if number.adjusted() > _EXACT.prec:
        return number  # its digits would fill the memory
    whole = number.to_integral_value()
    return int(whole) if whole == number else number.normalize()
