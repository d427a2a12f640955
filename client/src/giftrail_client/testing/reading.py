"""The bodies that partners send to the fake: read as the service reads them, every violation told at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

from giftrail_client.testing import problems

MAX_BODY_BYTES = 256 * 1024
_SECRET_MEMBERS = frozenset({"clientSecret", "secret"})
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d)(:\d\d)?(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)


def read_json(content: bytes) -> dict[str, Any]:
    """The object of a body, numbers as Decimals. Raises Refused."""
    try:
        members = json.loads(
            content.decode(), object_pairs_hook=_without_repeats, parse_float=Decimal, parse_int=Decimal,
            parse_constant=_refuse_constant,
        )  # fmt: skip
    except UnicodeDecodeError:
        raise problems.invalid(("body", "is not UTF-8")) from None
    except RecursionError:
        raise problems.invalid(("body", "is nested too deeply")) from None
    except InvalidOperation:
        raise problems.invalid(("body", "holds a number out of all bounds")) from None
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise problems.invalid(("body", message)) from None
    if not isinstance(members, dict):
        raise problems.invalid(("body", "is not a JSON object"))
    return members


def complain_of_text(
    text: str, *, least: int = 0, most: int | None = None, shape: re.Pattern[str] | None = None, means: str = ""
) -> str | None:
    """What is wrong with a text, or None; `means` says in words what `shape` asks for."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        return "holds a character that is no text (NUL or half of a surrogate pair)"
    if len(text) < least:
        return f"has {len(text)} characters, fewer than {least}" if text else "is empty"
    if most is not None and len(text) > most:
        return f"has {len(text)} characters, more than {most}"
    return f"is not {means}" if shape is not None and not shape.fullmatch(text) else None


def read_moment(text: str) -> datetime | None:
    """A date and time of RFC 3339 with its offset, in UTC; None when it is something else."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    day, minute, second, fraction, offset = found.groups()
    micros = f"{(fraction or '')[:6]:0<6}"
    spelt = f"{day}T{minute}{second or ':00'}.{micros}{'+00:00' if offset == 'Z' else offset}"
    try:
        return datetime.fromisoformat(spelt).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


class Sheet:
    """The members of an object, read one by one; what is wrong is noted and told by `check`."""

    def __init__(
        self, members: Mapping[str, Any], *, path: str = "", violations: list[tuple[str, str]] | None = None
    ) -> None:
        self.members = members
        self.path = path
        self.violations: list[tuple[str, str]] = [] if violations is None else violations

    def note(self, name: str, message: str) -> None:
        """Note that a member is wrong."""
        self.violations.append((self.path + name, message))

    def check(self) -> None:
        """Raises Refused with everything that is wrong."""
        if self.violations:
            raise problems.invalid(*self.violations)

    def text(
        self,
        name: str,
        *,
        least: int = 0,
        most: int | None = None,
        shape: re.Pattern[str] | None = None,
        means: str = "",
        required: bool = False,
    ) -> str | None:
        """A text, or None: where there is none, and where it is wrong."""
        if not self._has(name, required=required):
            return None
        value = self.members[name]
        if not isinstance(value, str):
            self._note_kind(name, value, "string")
            return None
        complaint = complain_of_text(value, least=least, most=most, shape=shape, means=means)
        if complaint is None:
            return value
        self.note(name, complaint if name in _SECRET_MEMBERS else f"{problems.show(value)} {complaint}")
        return None

    def number(self, name: str) -> Decimal | None:
        """A JSON number, which must be there."""
        if not self._has(name, required=True):
            return None
        value = self.members[name]
        if isinstance(value, Decimal):
            return value
        self._note_kind(name, value, "number")
        return None

    def moment(self, name: str, *, required: bool = False) -> datetime | None:
        """A date and time with its offset."""
        text = self.text(name, required=required)
        moment = None if text is None else read_moment(text)
        if text is not None and moment is None:
            self.note(name, f"{problems.show(text)} is not a time such as 2026-01-31T09:30:00Z")
        return moment

    def texts(self, name: str) -> list[str] | None:
        """A list of texts, or None."""
        if not self._has(name):
            return None
        value = self.members[name]
        if not isinstance(value, list):
            self._note_kind(name, value, "array")
            return None
        for place, item in enumerate(value):
            if not isinstance(item, str):
                self._note_kind(f"{name}[{place}]", item, "string")
            elif complaint := complain_of_text(item):
                self.note(f"{name}[{place}]", f"{problems.show(item)} {complaint}")
        return value

    def inner(self, name: str) -> Sheet | None:
        """An object inside, read on a sheet of its own whose violations are told with these; or None."""
        return self._inner(name, self.members[name]) if self._has(name) else None

    def inners(self, name: str, *, most: int) -> list[Sheet]:
        """The objects of a list, which must be there and have from one to so many items."""
        if not self._has(name, required=True):
            return []
        value = self.members[name]
        if not isinstance(value, list):
            self._note_kind(name, value, "array")
        elif not value:
            self.note(name, "is empty")
        elif len(value) > most:
            self.note(name, f"has {len(value)} items, more than {most}")
        else:
            sheets = [self._inner(f"{name}[{place}]", item) for place, item in enumerate(value)]
            return [sheet for sheet in sheets if sheet is not None]
        return []

    def _inner(self, name: str, value: Any) -> Sheet | None:
        if isinstance(value, dict):
            return Sheet(value, path=f"{self.path}{name}.", violations=self.violations)
        self._note_kind(name, value, "object")
        return None

    def _has(self, name: str, *, required: bool = False) -> bool:
        """Whether there is something to read; null stands for nothing where nothing is allowed."""
        if name in self.members:
            return required or self.members[name] is not None
        if required:
            self.note(name, "is missing")
        return False

    def _note_kind(self, name: str, value: Any, wanted: str) -> None:
        kind = next((word for type_, word in _KINDS if isinstance(value, type_)), "null")
        self.note(name, f"is {kind}, not {'an' if wanted[0] in 'ao' else 'a'} {wanted}")


# A bool is an int to Python, not to JSON; numbers are Decimals here.
_KINDS = ((bool, "a boolean"), (str, "a string"), (Decimal, "a number"), (list, "an array"), (dict, "an object"))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise problems.invalid((problems.show(name), "stands more than once in the same object"))
        members[name] = value
    return members


def _refuse_constant(constant: str) -> None:
    raise problems.invalid(("body", f"{constant} is not JSON"))
