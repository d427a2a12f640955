"""The words of messages and of the voucher page, by language: another one is another catalogue in `words/`."""

import functools
from collections.abc import Mapping
from datetime import date
from importlib import resources

import babel
import babel.dates
import babel.numbers
from babel.messages import pofile

from giftrail.kit import money

SOURCE_LANGUAGE = "en"
_FOLDER = resources.files("giftrail.delivery") / "words"


def list_languages() -> list[str]:
    """The languages that there are catalogues for, the source language first."""
    others = sorted(one.name.removesuffix(".po") for one in _FOLDER.iterdir() if one.name.endswith(".po"))
    return [SOURCE_LANGUAGE, *others]


def translate(language: str, text: str) -> str:
    """The text in the language, or as it stands in the source."""
    return _catalogue(language).get(text) or text


def translate_count(language: str, one: str, many: str, count: int) -> str:
    """The text for one or for many."""
    return translate(language, one if count == 1 else many)


def amount(language: str, minor: int, *, currency: str) -> str:
    """An amount as the language writes it: ₹1,500 rather than 1500.00."""
    major = money.to_major(minor, currency=currency)
    decimals = 0 if isinstance(major, int) else money.decimals_of(currency)
    pattern = ("¤#,##,##0" if currency == "INR" else "¤#,##0") + ("." + "0" * decimals if decimals else "")
    text: str = babel.numbers.format_currency(
        major, currency, format=pattern, locale=_locale(language), currency_digits=False
    )
    return text


def day(language: str, on: date) -> str:
    """A date as the language writes it."""
    return babel.dates.format_date(on, format="long", locale=_locale(language))


@functools.cache
def _locale(language: str) -> babel.Locale:
    return babel.Locale.parse(f"{language}_IN" if language in {"en", "hi"} else language)


@functools.cache
def _catalogue(language: str) -> Mapping[str, str]:
    if language == SOURCE_LANGUAGE:
        return {}
    with (_FOLDER / f"{language}.po").open("rb") as file:
        return {
            message.id: message.string
            for message in pofile.read_po(file, locale=language, abort_invalid=True)
            if isinstance(message.id, str) and isinstance(message.string, str) and message.id
        }
