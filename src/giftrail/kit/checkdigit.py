"""Check characters: Luhn's algorithm over any even alphabet, so that a mistyped code is noticed."""

DIGITS = "0123456789"
# Crockford's Base32: no I, L, O, U, which people misread.
BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def check_character(body: str, *, alphabet: str) -> str:
    """The character to put behind `body`. Raises ValueError on a character outside the alphabet."""
    size = len(alphabet)
    total = 0
    for position, character in enumerate(reversed(body)):
        value = alphabet.index(character) * (2 if position % 2 == 0 else 1)
        total += value // size + value % size
    return alphabet[-total % size]


def is_valid(code: str, *, alphabet: str) -> bool:
    """Whether the last character is the check character of the rest."""
    return len(code) > 1 and set(code) <= set(alphabet) and check_character(code[:-1], alphabet=alphabet) == code[-1]
