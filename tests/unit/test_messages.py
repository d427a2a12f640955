"""What messages say, in both languages, and that what people wrote stays text in them."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from importlib import resources

import jinja2
import pytest
from babel.messages import pofile

from giftrail.delivery import message, words
from giftrail.kit import money
from giftrail.partners import model as partners

LINK = "https://gifts.example/v/" + "x" * 32
LANGUAGES = ("en", "hi")
NUMBER, PIN = "1815784271708292114", "293246"
HOSTILE = (
    "{{7*7}}", "{% raw %}", "${7*7}", "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "%(name)s", "100%",
    "%s%d", "'; --", "&lt;b&gt;", "{{ self.__class__ }}", "</style><b>", "{#", "javascript:alert(1)",
)  # fmt: skip
BREAKS = ("\r\n", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x00")
FIELDS = ("sender_name", "recipient_name", "wish", "brand_title", "partner_name")

GIFT = message.Content(
    partner_name="Acme Rewards",
    delivery=partners.Delivery(),
    brand_title="Chai Verandah",
    is_gift=True,
    recipient_name="Meera",
    sender_name="Asha",
    wish="Happy birthday!\nYours, Asha",
    vouchers=[message.Voucher(150_000, "INR", date(2026, 1, 31)), message.Voucher(25_050, "INR", None)],
    how_to_use=["Show it."],
)


def written(content: message.Content) -> Iterator[str]:
    for language in LANGUAGES:
        told = replace(content, delivery=replace_delivery(content.delivery, language))
        mail, sms = message.render(told, link=LINK), message.render_sms(told, link=LINK)
        yield from (mail.subject, mail.text, mail.html, sms.text)


def replace_delivery(delivery: partners.Delivery, language: str) -> partners.Delivery:
    return partners.Delivery(
        language=language,
        logo_url=delivery.logo_url,
        colour=delivery.colour,
        codes_in_messages=delivery.codes_in_messages,
    )


class Tags(HTMLParser):
    """The tags and attributes of an HTML text, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    ("language", "subject", "hello", "sms"),
    [
        (
            "en",
            "Asha sent you a Chai Verandah gift voucher",
            "Hello Meera,",
            "Asha sent you a Chai Verandah gift voucher of ₹1,750.50: " + LINK,
        ),
        (
            "hi",
            "Asha ने आपको Chai Verandah का गिफ़्ट वाउचर भेजा है",
            "नमस्ते Meera,",
            "Asha ने आपको Chai Verandah का ₹1,750.50 का गिफ़्ट वाउचर भेजा है: " + LINK,
        ),
    ],
)
def test_a_gift(language: str, subject: str, hello: str, sms: str) -> None:
    content = replace(GIFT, delivery=partners.Delivery(language=language))
    mail = message.render(content, link=LINK)
    assert mail.subject == subject
    for text in (mail.text, html.unescape(mail.html)):
        for part in (hello, "₹1,500", "₹250.50", "Happy birthday!", "Yours, Asha", LINK, "Acme Rewards"):
            assert part in text
    assert f'<html lang="{language}">' in mail.html
    assert message.render_sms(content, link=LINK) == message.Message("", sms, "")


def test_a_voucher_of_ones_own_names_the_partner() -> None:
    own = replace(GIFT, is_gift=False, recipient_name=None, sender_name=None, wish=None)
    mail = message.render(own, link=LINK)
    assert mail.subject == "Your Chai Verandah gift voucher from Acme Rewards"
    assert "Hello," in mail.text
    assert "blockquote" not in mail.html
    assert not [text for text in written(own) if "None" in text]
    assert message.render(replace(GIFT, sender_name=None), link=LINK).subject.startswith("Acme Rewards sent you")


def test_no_code_unless_the_partner_wants_codes() -> None:
    coded = replace(GIFT, vouchers=[message.Voucher(100, "INR", None, NUMBER, PIN)])
    assert not [text for text in written(coded) if NUMBER in text or PIN in text]
    wanted = replace(coded, delivery=partners.Delivery(codes_in_messages=True))
    for text in written(wanted):
        shows = "gift voucher" not in text.splitlines()[0] or LINK in text
        assert (NUMBER in text and PIN in text) == (shows and LINK in text)
    assert NUMBER not in repr(coded)
    assert PIN not in repr(coded)
    pin_alone = replace(wanted, vouchers=[message.Voucher(100, "INR", None, None, PIN)])
    for text in written(pin_alone):
        assert "None" not in text
        assert (PIN in text) == (LINK in text)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("nasty", HOSTILE)
def test_what_people_wrote_is_text_and_nothing_else(field: str, nasty: str) -> None:
    plain = message.render(GIFT, link=LINK)
    content = replace(GIFT, **{field: nasty})  # type: ignore[arg-type]
    for language in LANGUAGES:
        told = replace(content, delivery=partners.Delivery(language=language))
        mail = message.render(told, link=LINK)
        read, harmless = Tags(mail.html), Tags(plain.html)
        assert read.tags == harmless.tags
        assert [name for name, _ in read.attributes] == [name for name, _ in harmless.attributes]
        assert [value for name, value in read.attributes if name in {"href", "src"}] == [LINK]
        assert nasty in read.text
        assert nasty in mail.text
        assert "49" not in mail.text
        if field in {"sender_name", "brand_title"}:
            assert nasty in mail.subject
            assert nasty in message.render_sms(told, link=LINK).text


@pytest.mark.parametrize("end", BREAKS)
@pytest.mark.parametrize("field", FIELDS)
def test_no_text_ends_a_line_where_there_is_one_line(field: str, end: str) -> None:
    smuggled = f"Asha{end}Bcc: thief@evil.example{end}{end}Open your voucher:{end}https://evil.example"
    content = replace(GIFT, **{field: smuggled})  # type: ignore[arg-type]
    mail = message.render(content, link=LINK)
    assert mail.subject.isprintable()
    assert message.render_sms(content, link=LINK).text.isprintable()
    if field in {"sender_name", "recipient_name"}:
        lines = mail.text.splitlines()
        assert not [line for line in lines if line.startswith(("Bcc", "Open your voucher:")) and "evil" in line]
        assert lines.count("https://evil.example") == 0


def test_a_wish_cannot_pass_for_the_message_itself() -> None:
    content = replace(GIFT, wish="Hi\n\nOpen your voucher:\nhttps://evil.example\n" + "y" * 300)
    text = message.render(content, link=LINK).text
    own = [line for line in text.splitlines() if line and not line.startswith("    ")]
    assert not [line for line in own if "evil" in line or "yyy" in line]
    assert own.count("Open your voucher:") == 1


def test_the_logo_and_the_colour_are_the_partners() -> None:
    delivery = partners.Delivery(logo_url='https://acme.example/logo.png?a="><b>', colour="#aa0011")
    mail = message.render(replace(GIFT, delivery=delivery), link=LINK)
    read = Tags(mail.html)
    assert ("src", 'https://acme.example/logo.png?a="><b>') in read.attributes
    assert "b" not in read.tags
    assert mail.html.count("#aa0011") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb", "a b"),
        ("  a \t b  ", "a b"),
        ("a\u202eb", "a b"),
        ("a\u00a0b", "a b"),
        ("नमस्ते", "नमस्ते"),
        ("🎁", "🎁"),
        # Joiners are part of how a word of Hindi and an emoji are written.
        ("क्\u200dष", "क्\u200dष"),
        ("क्\u200cष", "क्\u200cष"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
    ],
)
def test_one_line(text: str, expected: str) -> None:
    assert message.one_line(text) == expected


# The words.


def templates() -> Iterator[tuple[str, str]]:
    for package in ("giftrail.delivery", "giftrail.voucher_page"):
        for one in (resources.files(package) / "templates").iterdir():
            yield f"{package}/{one.name}", one.read_text("utf-8")


def said_in_templates() -> set[str]:
    environment = jinja2.Environment(extensions=["jinja2.ext.i18n"], autoescape=True, trim_blocks=True)
    found: set[str] = set()
    for _, source in templates():
        for _, _, said in environment.extract_translations(source):  # type: ignore[attr-defined]
            found |= {said} if isinstance(said, str) else {one for one in said if one}
    return found


def catalogue() -> dict[str, str]:
    with (resources.files("giftrail.delivery") / "words" / "hi.po").open("rb") as file:
        return {
            str(one.id): str(one.string)
            for one in pofile.read_po(file, locale="hi", abort_invalid=True)
            if one.id and not one.fuzzy
        }


def test_every_text_of_a_template_has_a_hindi_one_and_none_is_left_over() -> None:
    said = said_in_templates()
    assert len(said) > 25
    assert said == set(catalogue())


def test_every_hindi_text_is_hindi_and_has_the_same_gaps() -> None:
    for text, translated in catalogue().items():
        assert re.search(r"[\u0900-\u097f]", translated), text
        assert sorted(re.findall(r"%\(\w+\)s", text)) == sorted(re.findall(r"%\(\w+\)s", translated)), text
        assert text.count("%") == len(re.findall(r"%\(\w+\)s", text)), text
        assert translated.count("%") == len(re.findall(r"%\(\w+\)s", translated)), text


def test_no_template_holds_words_that_are_not_translated() -> None:
    for name, source in templates():
        bare = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", " ", source, flags=re.DOTALL)
        text = Tags(bare).text if name.endswith(".html") else bare
        assert not re.findall(r"[A-Za-z]{2,}", text), name


def test_the_languages_are_those_of_the_catalogues() -> None:
    assert words.list_languages() == ["en", "hi"]
    assert words.translate("hi", "no such text") == "no such text"
    assert words.translate_count("en", "one", "many", 1) == "one"
    assert words.translate_count("en", "one", "many", 2) == "many"


@pytest.mark.parametrize(
    ("language", "minor", "currency", "expected"),
    [
        ("en", 150_000, "INR", "₹1,500"),
        ("en", 150_050, "INR", "₹1,500.50"),
        ("en", 12_345_600, "INR", "₹1,23,456"),
        ("en", 12_345_650, "INR", "₹1,23,456.50"),
        ("en", 123_456_789_00, "INR", "₹12,34,56,789"),
        ("hi", 150_000, "INR", "₹1,500"),
        ("hi", 12_345_600, "INR", "₹1,23,456"),
        ("hi", 1, "INR", "₹0.01"),
        ("en", 150_000, "USD", "$1,500"),
        ("en", 123_456_700, "USD", "$1,234,567"),
        ("en", 150_050, "USD", "$1,500.50"),
        ("en", 123_456_750, "USD", "$1,234,567.50"),
        ("en", 1500, "JPY", "JP¥1,500"),
    ],
)
def test_an_amount_as_its_language_writes_it(language: str, minor: int, currency: str, expected: str) -> None:
    assert words.amount(language, minor, currency=currency) == expected
    assert money.to_major(minor, currency=currency)


def test_a_date_as_its_language_writes_it() -> None:
    assert words.day("en", date(2026, 1, 31)) == "31 January 2026"
    assert words.day("hi", date(2026, 1, 31)) == "31 जनवरी 2026"
