"""The page's states, from templates of our own: every text of a partner, a brand or a giver is escaped."""

import functools
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import jinja2

from giftrail.delivery import message, words
from giftrail.partners import model as partners
from giftrail.voucher_page import barcodes
from giftrail.vouchers import model as vouchers

# Of larger orders the codes alone are shown: a picture takes some milliseconds.
MAX_DRAWN = 50


def closed(sheet: Mapping[str, Any]) -> str:
    """What was given, and the button."""
    return _render("voucher.html", **sheet, vouchers=None)


def opened(sheet: Mapping[str, Any], issued: Sequence[vouchers.Voucher]) -> str:
    """The codes: of each voucher the fields of its cardType, and what a till can read of them."""
    language = sheet["language"]
    cards = []
    draws = len(issued) <= MAX_DRAWN
    for voucher in issued:
        number, pin = voucher.code.card_number, voucher.code.card_pin
        read_by_till = number or pin or ""
        cards.append({
            "amount": words.amount(language, voucher.amount_minor, currency=voucher.currency),
            "valid_till": voucher.code.valid_till,
            "fields": [(name, value) for name, value in (("number", number), ("pin", pin)) if value],
            "qr": barcodes.qr(read_by_till) if draws else None,
            "bars": barcodes.code128(read_by_till) if draws else None,
        })  # fmt: skip
    return _render("voucher.html", **sheet, vouchers=cards)


def nothing_here() -> str:
    """For tokens that lead nowhere; the same for all of them."""
    return _render("gone.html", language=words.SOURCE_LANGUAGE, why="nothing", partner=None, day=None)


def not_now() -> str:
    """The database is away."""
    return _render("gone.html", language=words.SOURCE_LANGUAGE, why="later", partner=None, day=None)


def too_often(partner: partners.Partner | None = None) -> str:
    """Too many looks, or too many guesses."""
    return _render("gone.html", language=_language(partner), why="often", partner=None, day=None)


def taken_back(partner: partners.Partner) -> str:
    """The order was reversed."""
    return _render("gone.html", language=_language(partner), why="reversed", partner=partner.name, day=None)


def expired(partner: partners.Partner, day: date) -> str:
    """The vouchers are no longer valid."""
    return _render("gone.html", language=_language(partner), why="expired", partner=partner.name, day=day)


def _language(partner: partners.Partner | None) -> str:
    return partner.delivery.language if partner is not None and partner.delivery else words.SOURCE_LANGUAGE


def _render(template: str, *, language: str, **members: Any) -> str:
    return _environment(language).get_template(template).render(language=language, **members)


@functools.cache
def _environment(language: str) -> jinja2.Environment:
    made = message.environment("giftrail.voucher_page", language)
    made.filters["fours"] = _fours
    return made


def _fours(code: str) -> list[str]:
    """A code in groups of four, as people read it out; what is copied has no spaces."""
    return [code[start : start + 4] for start in range(0, len(code), 4)]
