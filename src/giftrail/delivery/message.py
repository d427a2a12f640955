"""What a message says: rendered in Jinja's sandbox from templates of our own; what people wrote is text in it."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import jinja2
from jinja2 import sandbox

from giftrail.delivery import words
from giftrail.partners import model as partners

# They join letters and emoji, and are no control characters, whatever Python says.
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True, slots=True)
class Voucher:
    """What a message may tell of a voucher. The codes are None unless the partner wants them in messages."""

    amount_minor: int
    currency: str
    valid_till: date | None
    card_number: str | None = None
    card_pin: str | None = None

    def __repr__(self) -> str:
        """Nothing that could be spent."""
        return f"Voucher({self.amount_minor} {self.currency}, …)"


@dataclass(frozen=True, slots=True)
class Content:
    """An order as a recipient is told of it; names and the wish as they were given."""

    partner_name: str
    delivery: partners.Delivery
    brand_title: str
    is_gift: bool
    recipient_name: str | None
    sender_name: str | None
    wish: str | None
    vouchers: Sequence[Voucher]
    how_to_use: Sequence[str]


@dataclass(frozen=True, slots=True)
class Message:
    """What goes out. An SMS has a text alone."""

    subject: str
    text: str
    html: str


def render(content: Content, *, link: str) -> Message:
    """The message that leads to the voucher page at `link`."""
    return Message(
        subject=one_line(_render("subject.txt", content, link)),
        text=_render("email.txt", content, link),
        html=_render("email.html", content, link),
    )


def render_sms(content: Content, *, link: str) -> Message:
    """A text message."""
    return Message(subject="", text=one_line(_render("sms.txt", content, link)), html="")


def one_line(text: str) -> str:
    """The text without line breaks and other control characters: what stands in a header stays in it."""
    return " ".join("".join(one if one.isprintable() or one in _JOINERS else " " for one in text).split())


def environment(package: str, language: str) -> jinja2.Environment:
    """Templates of a package with the words of a language; HTML is escaped, nothing unknown is passed over."""
    made = sandbox.SandboxedEnvironment(
        loader=jinja2.PackageLoader(package),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        extensions=["jinja2.ext.i18n"],
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.install_gettext_callables(  # type: ignore[attr-defined]  # the extension adds it
        functools.partial(words.translate, language), functools.partial(words.translate_count, language), newstyle=True
    )
    made.filters["amount"] = lambda voucher: words.amount(language, voucher.amount_minor, currency=voucher.currency)
    made.filters["total"] = lambda vouchers: words.amount(
        language, sum(one.amount_minor for one in vouchers), currency=vouchers[0].currency
    )
    made.filters["day"] = functools.partial(words.day, language)
    made.filters["one_line"] = one_line
    return made


@functools.cache
def _environment(language: str) -> jinja2.Environment:
    return environment("giftrail.delivery", language)


def _render(template: str, content: Content, link: str) -> str:
    language = content.delivery.language
    return _environment(language).get_template(template).render(content=content, link=link, language=language)
