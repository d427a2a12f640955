"""To whom an order's vouchers go: pure, from what the partner said of its customer and of the recipient."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import email_validator
import phonenumbers

from giftrail.delivery import model

SELF, OTHER = "SELF", "OTHER"
# Of each channel, the member of customerDetails and of deliveryDetails that holds the address.
_SOURCES = {
    model.Channel.EMAIL: ("email", "recipientEmail"),
    model.Channel.SMS: ("phoneNumber", "recipientPhoneNumber"),
}


def find_recipients(
    customer: Mapping[str, str] | None,
    delivery: Mapping[str, str] | None,
    *,
    region: str,
    channels: AbstractSet[model.Channel],
) -> tuple[Sequence[model.Recipient], Sequence[tuple[str, str]]]:
    """The recipients, and (field, complaint) of everything that is wrong; without deliveryDetails there are neither.

    `region` is where phone numbers without a country belong; `channels` are those that this installation has.
    """
    if delivery is None:
        return [], []
    kind = delivery.get("recipientType", SELF)
    whose, members = ("customerDetails", customer or {}) if kind == SELF else ("deliveryDetails", delivery)
    found: list[model.Recipient] = []
    complaints: list[tuple[str, str]] = []
    if kind == OTHER and not delivery.get("recipientName"):
        complaints.append(("deliveryDetails.recipientName", "is missing: recipientType is OTHER"))
    for channel, (own, others) in _SOURCES.items():
        name = own if kind == SELF else others
        given = members.get(name)
        if not given:
            continue
        try:
            address = read_email(given) if channel is model.Channel.EMAIL else read_phone(given, region=region)
        except ValueError as error:
            complaints.append((f"{whose}.{name}", str(error)))
            continue
        if channel in channels:
            found.append(model.Recipient(channel, address))
    if not found and not complaints:
        names = " or ".join(pair[kind == OTHER] for channel, pair in _SOURCES.items() if channel in channels)
        advice = f"give {names}" if names else "this installation has no channel"
        complaints.append((whose, f"has nothing to send the vouchers to: {advice}"))
    return found, complaints


def read_email(text: str) -> str:
    """The address as every mail server takes it. Raises ValueError, whose message names it."""
    try:
        address = email_validator.validate_email(text, check_deliverability=False).ascii_email
    except email_validator.EmailNotValidError as error:
        raise ValueError(f"{text!r} is no e-mail address: {error}") from None
    if address is None:
        raise ValueError(f"{text!r} has letters before the @ that few mail servers take")
    return address


def read_phone(text: str, *, region: str) -> str:
    """The number in E.164. Raises ValueError, whose message names it."""
    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        raise ValueError(f"{text!r} is no phone number") from None
    if not phonenumbers.is_valid_number(number):
        raise ValueError(f"{text!r} is no phone number that exists in its country")
    if phonenumbers.number_type(number) == phonenumbers.PhoneNumberType.FIXED_LINE:
        raise ValueError(f"{text!r} is a landline, which takes no text messages")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
