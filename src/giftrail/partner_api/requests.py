"""Reading what partners send: JSON without surprises, every violation told at once."""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from giftrail.partner_api import problems

# A value is shown in an error up to this many characters.
MAX_SHOWN_CHARACTERS = 60
# Members whose values are never shown.
_SECRET_MEMBERS = frozenset({"clientSecret", "secret"})

Struct = TypeVar("Struct", bound=msgspec.Struct)


def is_plain(body: bytes) -> bool:
    """Whether the texts of a JSON body are free of control characters and halves of surrogate pairs.

    JSON can write them with a backslash only.
    """
    return b"\\" not in body


def read_json(body: bytes) -> dict[str, Any]:
    """The object in the body, its numbers as Decimals.

    Raises Problem (400) for what is no JSON in UTF-8, no object, repeats a key, or holds NaN or an infinity.
    """
    try:
        value = _decode(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise problems.invalid_member("body", "is not UTF-8") from None
    except RecursionError:
        raise problems.invalid_member("body", "is nested too deeply") from None
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise problems.invalid_member("body", message) from None
    if not isinstance(value, dict):
        raise problems.invalid_member("body", "is not a JSON object")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        repeated = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise problems.invalid_member(show(repeated), "stands more than once in the same object")
    return members


def _read_number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent that not even a Decimal has room for
        raise problems.invalid_member("body", f"{show(text)} is a number out of all bounds") from None


def _refuse_constant(constant: str) -> None:
    raise problems.invalid_member("body", f"{constant} is not JSON")


_decode = json.JSONDecoder(
    object_pairs_hook=_without_repeats,
    parse_float=_read_number,
    parse_int=_read_number,
    parse_constant=_refuse_constant,
).decode


def read_struct(members: Mapping[str, Any], type_: type[Struct]) -> tuple[Struct | None, list[problems.SubError]]:
    """The struct, or None and all violations. Members that the struct does not know are ignored."""
    struct, violations = read_partly(members, type_)
    return (None if violations else struct), violations


def read_partly(
    members: Mapping[str, Any], type_: type[Struct], *, plain: bool = False
) -> tuple[Struct, list[problems.SubError]]:
    """The struct with `msgspec.UNSET` in each field that is wrong, and all violations.

    So the values that are sound can be looked at further, and everything wrong be told at once. `plain` texts hold no
    control character and no half of a surrogate pair; then what is sound is read at once, in a fifteenth of the time.
    """
    if plain:
        try:
            return msgspec.convert(members, type_, builtin_types=(Decimal,)), []
        except msgspec.ValidationError:
            pass  # read again, to tell everything that is wrong
    violations: list[problems.SubError] = []
    return _read_members(members, type_, "", violations), violations


def is_sound(value: object) -> bool:
    """Whether a field that `read_partly` has read is right so far."""
    return value is not msgspec.UNSET


@functools.cache
def fields(type_: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The struct's fields; asked once, because msgspec evaluates the annotations at each call."""
    return msgspec.structs.fields(type_)


def _read_members(
    members: Mapping[str, Any], type_: type[Struct], path: str, violations: list[problems.SubError]
) -> Struct:
    values: dict[str, Any] = {}
    for field in fields(type_):
        name = f"{path}{field.encode_name}"
        if field.encode_name in members:
            values[field.name] = _read_value(members[field.encode_name], field.type, name, violations)
        elif field.required:
            values[field.name] = msgspec.UNSET
            violations.append(problems.SubError(name, "is missing"))
    return type_(**values)


def _read_value(value: Any, type_: Any, name: str, violations: list[problems.SubError]) -> Any:
    plain, constraints, nullable = _unwrap(type_)
    if value is None and nullable:
        return None
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        if isinstance(value, dict):
            return _read_members(value, plain, f"{name}.", violations)
        complaint = f"{_named(value, name)}, not an object"
    elif get_origin(plain) is list:
        complaint = _complain_of_list(value, constraints, name)
        if not complaint:
            item_type = get_args(plain)[0]
            return [_read_value(item, item_type, f"{name}[{place}]", violations) for place, item in enumerate(value)]
    elif not isinstance(value, Decimal if plain is Decimal else str):
        complaint = f"{_named(value, name)}, not a {_KINDS[plain]}"
    elif isinstance(value, str) and (text_complaint := complain_of_text(value, constraints)):
        complaint = text_complaint if name in _SECRET_MEMBERS else f"{show(value)} {text_complaint}"
    elif plain is datetime:
        moment = read_moment(str(value))
        if moment is not None:
            return moment
        complaint = f"{show(value)} is not a time such as 2026-01-31T09:30:00Z"
    else:
        return value
    violations.append(problems.SubError(name, complaint))
    return msgspec.UNSET


def _complain_of_list(value: Any, constraints: Sequence[msgspec.Meta], name: str) -> str:
    if not isinstance(value, list):
        return f"{_named(value, name)}, not an array"
    for meta in constraints:
        if meta.min_length is not None and len(value) < meta.min_length:
            return "is empty"
        if meta.max_length is not None and len(value) > meta.max_length:
            return f"has {len(value)} items, more than {meta.max_length}"
    return ""


def complain_of_text(text: str, constraints: Sequence[msgspec.Meta]) -> str | None:
    """What is wrong with a text, or None."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        return "holds a character that is no text (NUL or half of a surrogate pair)"
    for meta in constraints:
        if meta.min_length is not None and len(text) < meta.min_length:
            return f"has {len(text)} characters, fewer than {meta.min_length}" if text else "is empty"
        if meta.max_length is not None and len(text) > meta.max_length:
            return f"has {len(text)} characters, more than {meta.max_length}"
        if meta.pattern is not None and not re.fullmatch(meta.pattern, text):
            return f"is not {meta.description}"
    return None


def read_moment(text: str) -> datetime | None:
    """A date and time of RFC 3339 with its offset, in UTC; None when it is something else."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None and "T" in text.upper() else None
    except (ValueError, OverflowError):
        return None


@functools.cache
def _unwrap(type_: Any) -> tuple[Any, list[msgspec.Meta], bool]:
    """The bare type, its constraints, and whether null is allowed."""
    constraints: list[msgspec.Meta] = []
    nullable = False
    while True:
        if get_origin(type_) is Annotated:
            type_, *metas = get_args(type_)
            constraints += metas
        elif get_origin(type_) in {Union, UnionType}:
            nullable = NoneType in get_args(type_)
            (type_,) = (option for option in get_args(type_) if option is not NoneType)
        else:
            return type_, constraints, nullable


_KINDS = {str: "string", Decimal: "number", datetime: "string"}


def _named(value: Any, name: str) -> str:
    """What was sent instead: its kind, and the value itself where it is one and no secret."""
    if value is None or isinstance(value, dict | list) or name in _SECRET_MEMBERS:
        return f"is {_kind(value)}"
    return f"{show(str(value).lower() if isinstance(value, bool) else value)} is {_kind(value)}"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case Decimal():
            return "a number"
        case list():
            return "an array"
        case _:
            return "an object"


def show(value: object) -> str:
    """A value as an error tells it: short, and printable whatever it holds."""
    text = str(value)
    if len(text) > MAX_SHOWN_CHARACTERS:
        text = text[:MAX_SHOWN_CHARACTERS] + "…"
    return ascii(text) if isinstance(value, str) and not text.isprintable() else text
