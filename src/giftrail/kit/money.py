"""Money: integers of a currency's minor unit inside, exact decimals at the edge."""

from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

# The largest amount the service handles, in minor units: ten million million rupees.
# Every sum of an order's lines stays far inside PostgreSQL's bigint.
MAX_AMOUNT_MINOR = 10**15

DEFAULT_DECIMALS = 2
# ISO 4217: the active currencies whose minor unit is not a hundredth, by number of decimals.
_OTHER_DECIMALS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_HUNDREDTHS = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP "
    "CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS "
    "INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN "
    "MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE "
    "SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW ZWG"
)
_DECIMALS_OF = dict.fromkeys(_HUNDREDTHS.split(), DEFAULT_DECIMALS) | {
    code: decimals for decimals, codes in _OTHER_DECIMALS.items() for code in codes.split()
}
# Enough digits that amount × percentage is exact before it is rounded once.
_EXACT = Context(prec=60)
_MAX_EXPONENT = len(str(MAX_AMOUNT_MINOR)) - 1


class AmountRefused(ValueError):
    """An amount that is no amount of the currency; the message names it."""


class UnknownCurrency(ValueError):
    """A code that ISO 4217 does not list as a circulating currency."""


def decimals_of(currency: str) -> int:
    """How many decimals the currency's minor unit has. Raises UnknownCurrency."""
    try:
        return _DECIMALS_OF[currency]
    except KeyError:
        raise UnknownCurrency(f"{currency!r} is not a currency code of ISO 4217") from None


def to_minor(amount: Decimal, *, currency: str) -> int:
    """The amount in minor units, exactly.

    Raises AmountRefused when it is not finite, out of bounds, or has more decimals than the currency.
    """
    if not amount.is_finite():
        raise AmountRefused("is not a finite number")
    if not amount:
        return 0
    decimals = decimals_of(currency)
    # A number may have a quarter of a million digits: look at its size first, and never at digit by digit.
    if amount.adjusted() + decimals > _MAX_EXPONENT:
        raise AmountRefused(f"is larger than {to_major(MAX_AMOUNT_MINOR, currency=currency)}")
    cut = amount.quantize(Decimal(1).scaleb(-decimals), ROUND_DOWN, _EXACT)
    if cut != amount:
        raise AmountRefused(f"has more decimals than {currency} has ({decimals})")
    minor = int(cut.scaleb(decimals, _EXACT))
    if abs(minor) > MAX_AMOUNT_MINOR:
        raise AmountRefused(f"is larger than {to_major(MAX_AMOUNT_MINOR, currency=currency)}")
    return minor


def to_major(minor: int, *, currency: str) -> int | Decimal:
    """The amount as it stands on the wire: 100050 of INR is 1000.5, 20000 is 200."""
    decimals = decimals_of(currency)
    whole, rest = divmod(minor, int(10**decimals))
    if rest == 0:
        return whole
    major: Decimal = Decimal(minor).scaleb(-decimals).normalize()
    return major


def discounted(amount_minor: int, *, percentage: Decimal) -> int:
    """The debit: the gross amount less the discount, which is rounded half up (wire contract, wallet)."""
    if not percentage:
        return amount_minor
    discount = _EXACT.divide(_EXACT.multiply(Decimal(amount_minor), percentage), Decimal(100))
    return amount_minor - int(discount.quantize(Decimal(1), ROUND_HALF_UP, _EXACT))


def plain(number: Decimal) -> int | Decimal:
    """The number without exponent and trailing zeros: 5.0000 is 5, 12.5000 is 12.5.

    One that is out of all bounds stays as it is: its digits would fill the memory.
    """
    if number.adjusted() > _EXACT.prec:
        return number
    whole = number.to_integral_value()
    return int(whole) if whole == number else number.normalize()
