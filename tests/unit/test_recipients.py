"""To whom vouchers go: SELF and OTHER, absent members, wrong addresses, regions, and channels that are missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrail.delivery import model, recipients

EMAIL, SMS = model.Channel.EMAIL, model.Channel.SMS
BOTH = frozenset({EMAIL, SMS})
ASHA = {"name": "Asha Rao", "email": "asha@example.com", "phoneNumber": "98000 00000"}
MEERA = {
    "recipientType": "OTHER",
    "recipientName": "Meera",
    "recipientEmail": "meera@example.com",
    "recipientPhoneNumber": "+91 98200 00001",
}

Members = dict[str, str]


def find(
    customer: Members | None,
    delivery: Members | None,
    *,
    region: str = "IN",
    channels: frozenset[model.Channel] = BOTH,
) -> tuple[list[tuple[model.Channel, str]], list[str]]:
    found, complaints = recipients.find_recipients(customer, delivery, region=region, channels=channels)
    return [(one.channel, one.address) for one in found], [field for field, _ in complaints]


def without(members: Members, *names: str) -> Members:
    return {name: value for name, value in members.items() if name not in names}


@pytest.mark.parametrize(
    ("customer", "delivery", "expected"),
    [
        (ASHA, {"recipientType": "SELF"}, [(EMAIL, "asha@example.com"), (SMS, "+919800000000")]),
        (ASHA, {"wishMessage": "Hi"}, [(EMAIL, "asha@example.com"), (SMS, "+919800000000")]),
        (without(ASHA, "email"), {"recipientType": "SELF"}, [(SMS, "+919800000000")]),
        (without(ASHA, "phoneNumber"), {"recipientType": "SELF"}, [(EMAIL, "asha@example.com")]),
        (ASHA | {"email": ""}, {"recipientType": "SELF"}, [(SMS, "+919800000000")]),
        (ASHA, MEERA | {"recipientType": "SELF"}, [(EMAIL, "asha@example.com"), (SMS, "+919800000000")]),
        (ASHA, MEERA, [(EMAIL, "meera@example.com"), (SMS, "+919820000001")]),
        (None, MEERA, [(EMAIL, "meera@example.com"), (SMS, "+919820000001")]),
        (ASHA, without(MEERA, "recipientEmail"), [(SMS, "+919820000001")]),
        (ASHA, without(MEERA, "recipientPhoneNumber"), [(EMAIL, "meera@example.com")]),
        ({"email": "no address"}, MEERA, [(EMAIL, "meera@example.com"), (SMS, "+919820000001")]),
        (ASHA, None, []),
        (None, None, []),
    ],
)
def test_who_gets_it(customer: Members | None, delivery: Members | None, expected: list[object]) -> None:
    assert find(customer, delivery) == (expected, [])


@pytest.mark.parametrize(
    ("customer", "delivery", "fields"),
    [
        (None, {"recipientType": "SELF"}, ["customerDetails"]),
        ({}, {"recipientType": "SELF"}, ["customerDetails"]),
        ({"name": "Asha"}, {"recipientType": "SELF"}, ["customerDetails"]),
        ({"email": "", "phoneNumber": ""}, {}, ["customerDetails"]),
        (None, MEERA | {"recipientType": "SELF"}, ["customerDetails"]),
        (ASHA, without(MEERA, "recipientEmail", "recipientPhoneNumber"), ["deliveryDetails"]),
        (ASHA, without(MEERA, "recipientName"), ["deliveryDetails.recipientName"]),
        (ASHA | {"email": "asha"}, {}, ["customerDetails.email"]),
        (ASHA | {"phoneNumber": "12"}, {}, ["customerDetails.phoneNumber"]),
        (ASHA | {"email": "a@b@c", "phoneNumber": "x"}, {}, ["customerDetails.email", "customerDetails.phoneNumber"]),
        (
            ASHA,
            {"recipientType": "OTHER", "recipientEmail": "@", "recipientPhoneNumber": "+1"},
            ["deliveryDetails.recipientName", "deliveryDetails.recipientEmail", "deliveryDetails.recipientPhoneNumber"],
        ),
    ],
)
def test_everything_that_is_wrong_is_told(customer: Members | None, delivery: Members, fields: list[str]) -> None:
    assert find(customer, delivery)[1] == fields


def test_what_could_be_given_is_named() -> None:
    for channels, kind, names in (
        (BOTH, "OTHER", "recipientEmail or recipientPhoneNumber"),
        (frozenset({EMAIL}), "OTHER", "recipientEmail"),
        (frozenset({SMS}), "SELF", "phoneNumber"),
    ):
        _, [(_, complaint)] = recipients.find_recipients(
            None, {"recipientType": kind, "recipientName": "Meera"}, region="IN", channels=channels
        )
        assert complaint == f"has nothing to send the vouchers to: give {names}"


def test_an_installation_without_any_channel_says_so() -> None:
    _, [(_, complaint)] = recipients.find_recipients(ASHA, MEERA, region="IN", channels=frozenset())
    assert not complaint.strip().endswith("give"), "there is nothing that could be given"


@pytest.mark.parametrize(
    ("channels", "expected"),
    [({EMAIL}, [(EMAIL, "meera@example.com")]), ({SMS}, [(SMS, "+919820000001")])],
)
def test_only_by_channels_that_there_are(channels: set[model.Channel], expected: list[object]) -> None:
    assert find(ASHA, MEERA, channels=frozenset(channels)) == (expected, [])
    only_other = without(MEERA, "recipientEmail" if EMAIL in channels else "recipientPhoneNumber")
    assert find(ASHA, only_other, channels=frozenset(channels)) == ([], ["deliveryDetails"])


@pytest.mark.parametrize(
    ("text", "region", "expected"),
    [
        ("98200 00001", "IN", "+919820000001"),
        ("098200 00001", "IN", "+919820000001"),
        ("+91-98200-00001", "IN", "+919820000001"),
        ("0091 98200 00001", "GB", "+919820000001"),
        ("07400 123456", "GB", "+447400123456"),
        ("+44 7400 123456", "IN", "+447400123456"),
        ("(201) 555-0123", "US", "+12015550123"),
        ("050 123 4567", "AE", "+971501234567"),
    ],
)
def test_a_number_is_kept_in_e164(text: str, region: str, expected: str) -> None:
    assert recipients.read_phone(text, region=region) == expected


@pytest.mark.parametrize("text", ["", "12", "hello", "+", "+999 123456789", "98200 000011111111", "\x00"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="no phone number"):
        recipients.read_phone(text, region="IN")


@pytest.mark.parametrize("text", ["98200 00001 ext. 5", "98200 00001;ext=7"])
def test_an_extension_takes_no_text_messages(text: str) -> None:
    """If it is accepted, the number is the whole of it."""
    try:
        assert recipients.read_phone(text, region="IN") == "+919820000001"
    except ValueError as error:
        assert "no phone number" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("meera@example.com", "meera@example.com"),
        ("Meera@EXAMPLE.com", "Meera@example.com"),
        ("meera+gift@mail.example.com", "meera+gift@mail.example.com"),
        ("o'hara@example.com", "o'hara@example.com"),
    ],
)
def test_an_address_is_normalized(text: str, expected: str) -> None:
    assert recipients.read_email(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "meera", "@example.com", "meera@", "meera@example", "a@b@example.com", "meera @example.com",
        "meera@example..com", "meera@example.com\r\nBcc: x@example.com", "meera@example.com, x@example.com",
        "Meera <meera@example.com>", "meera@[127.0.0.1]", '"a b"@example.com', ".meera@example.com",
    ],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="no e-mail address"):
        recipients.read_email(text)


@given(st.text(max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    for read in (recipients.read_email, lambda one: recipients.read_phone(one, region="IN")):
        try:
            address = read(text)
        except ValueError:
            continue
        assert address.isprintable()
        assert address == read(address)
