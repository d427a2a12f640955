import random

import pytest

from giftrail.kit import checkdigit

BODIES = [f"{random.Random(n).randrange(10**18):018}" for n in range(30)]


@pytest.mark.parametrize(
    "number",
    ["79927398713", "4111111111111111", "4012888888881881", "5555555555554444", "378282246310005", "00", "18"],
)
def test_known_numbers_of_luhn_are_valid(number: str) -> None:
    assert checkdigit.is_valid(number, alphabet=checkdigit.DIGITS)
    assert checkdigit.check_character(number[:-1], alphabet=checkdigit.DIGITS) == number[-1]


@pytest.mark.parametrize("code", ["79927398710", "4111111111111112", "", "0", "411111111111111a", "\uff141", "18 "])
def test_other_texts_are_not(code: str) -> None:
    assert not checkdigit.is_valid(code, alphabet=checkdigit.DIGITS)


@pytest.mark.parametrize("alphabet", [checkdigit.DIGITS, checkdigit.BASE32], ids=["digits", "base32"])
def test_every_error_in_one_character_is_noticed(alphabet: str) -> None:
    for body in BODIES:
        code = body + checkdigit.check_character(body, alphabet=alphabet)
        assert checkdigit.is_valid(code, alphabet=alphabet)
        for place, right in enumerate(code):
            for wrong in set(alphabet) - {right}:
                mistyped = code[:place] + wrong + code[place + 1 :]
                assert not checkdigit.is_valid(mistyped, alphabet=alphabet), (code, mistyped)


@pytest.mark.parametrize(
    ("alphabet", "blind_pair"), [(checkdigit.DIGITS, "09"), (checkdigit.BASE32, "0Z")], ids=["digits", "base32"]
)
def test_every_two_neighbours_changed_are_noticed_except_first_and_last(alphabet: str, blind_pair: str) -> None:
    for first in alphabet:
        for second in alphabet:
            if first == second:
                continue
            for body in (f"1{first}{second}", f"1{first}{second}2"):
                code = body + checkdigit.check_character(body, alphabet=alphabet)
                turned = code[0] + second + first + code[3:]
                noticed = not checkdigit.is_valid(turned, alphabet=alphabet)
                assert noticed == ({first, second} != set(blind_pair)), (code, turned)


def test_a_character_outside_the_alphabet_has_no_check_character() -> None:
    with pytest.raises(ValueError, match="substring"):
        checkdigit.check_character("12I", alphabet=checkdigit.BASE32)


def test_base32_leaves_out_what_people_misread() -> None:
    assert len(set(checkdigit.BASE32)) == 32
    assert not set("ILOU") & set(checkdigit.BASE32)
