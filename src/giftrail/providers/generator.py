"""Our own codes: random, with a check character, each recorded so that none is issued twice."""

import secrets
from datetime import date

from giftrail.kit import checkdigit
from giftrail.providers import protocol

# 18 random digits and the check digit: the odds to guess one of a million live numbers are one in 10^12.
CARD_NUMBER_DIGITS = 19
# A PIN beside a number.
SHORT_PIN_DIGITS = 6
# A PIN that stands alone: 15 random characters of 32 and the check character, 75 bits.
LONG_PIN_CHARACTERS = 16


def issue(*, shows_number: bool, shows_pin: bool, valid_till: date | None, keys: protocol.Keys) -> protocol.Code:
    """A new code. Its digest is unique only once it is recorded: a clash, however unlikely, fails the record."""
    number = _checked(CARD_NUMBER_DIGITS, checkdigit.DIGITS) if shows_number else None
    pin = None
    if shows_pin:
        pin = (
            _random(SHORT_PIN_DIGITS, checkdigit.DIGITS)
            if shows_number
            else _checked(LONG_PIN_CHARACTERS, checkdigit.BASE32)
        )
    digest = keys.digest(source=protocol.GENERATOR, card_number=number, card_pin=pin)
    return protocol.Code(card_number=number, card_pin=pin, valid_till=valid_till, digest=digest)


def _checked(length: int, alphabet: str) -> str:
    body = _random(length - 1, alphabet)
    return body + checkdigit.check_character(body, alphabet=alphabet)


def _random(length: int, alphabet: str) -> str:
    # One draw for the whole text: a draw for each character costs ten times as much.
    value = secrets.randbelow(len(alphabet) ** length)
    if alphabet == checkdigit.DIGITS:
        return f"{value:0{length}}"  # the same, a tenth of the time
    characters = []
    for _ in range(length):
        value, index = divmod(value, len(alphabet))
        characters.append(alphabet[index])
    return "".join(characters)
