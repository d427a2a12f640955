"""Reading a request's parameters and cursors: every violation told at once."""

import base64
import binascii
import functools
import re
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import parse_qsl

from giftrail.partner_api import problems, requests

MAX_QUERY_PARAMETERS = 100


class Query:
    """The parameters of a request, read when the first is asked for.

    What is wrong is noted with its value, and told all at once by `check`.
    """

    def __init__(self, query_string: bytes) -> None:
        self.raw = query_string
        self._violations: list[problems.SubError] = []

    def read(self) -> None:
        """Raises Problem (400) for what is no query at all, whether a parameter is asked for or not."""
        self._values  # noqa: B018 — reads it

    @functools.cached_property
    def _values(self) -> dict[str, list[str]]:
        try:
            pairs = parse_qsl(
                self.raw.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=MAX_QUERY_PARAMETERS,
            )
        except ValueError:
            raise problems.invalid_member("query", "is not percent-encoded UTF-8, or has too many parameters") from None
        values: dict[str, list[str]] = {}
        for name, value in pairs:
            if complaint := requests.complain_of_text(value, ()):
                self.complain(requests.show(name), complaint)
            else:
                values.setdefault(name, []).append(value)
        return values

    def complain(self, name: str, message: str) -> None:
        """Note that a parameter is wrong."""
        self._violations.append(problems.SubError(name, message))

    def check(self) -> None:
        """Raises Problem (400) with everything that is wrong; called once all parameters are read."""
        if self._violations:
            raise problems.invalid(self._violations)

    def text(self, name: str) -> str | None:
        """The last value given."""
        values = self._values.get(name)
        return values[-1] if values else None

    def texts(self, name: str) -> list[str]:
        """All values given."""
        return self._values.get(name, [])

    def number(self, name: str) -> int | None:
        """A whole number from 1."""
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"\+?0*[1-9][0-9]{0,17}", value, re.ASCII):
            self.complain(name, f"{requests.show(value)} is not a whole number from 1")
            return None
        return int(value)

    def choices(self, name: str, allowed: Sequence[str]) -> list[str]:
        """The values given, each one of those allowed."""
        for value in self.texts(name):
            if value not in allowed:
                self.complain(name, f"{requests.show(value)} is not one of {', '.join(allowed)}")
        return self.texts(name)

    def moment(self, name: str) -> datetime | None:
        """A date and time of RFC 3339, with its offset."""
        value = self.text(name)
        if value is None:
            return None
        moment = requests.read_moment(value.replace(" ", "+"))  # a plus that was not percent-encoded is a space
        if moment is None:
            self.complain(name, f"{requests.show(value)} is not a time such as 2026-01-31T09:30:00Z")
        return moment

    def cursor(self, shape: str) -> str | None:
        """The position in `cursor` that `write_cursor` was given, a full match of the pattern `shape`."""
        value = self.text("cursor")
        if value is None:
            return None
        try:
            padded = value + "=" * (-len(value) % 4)
            position = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            position = ""
        if not re.fullmatch(shape, position):
            self.complain("cursor", f"{requests.show(value)} is not a cursor that this list has given")
            return None
        return position


def write_cursor(position: str) -> str:
    """An opaque cursor that leads back to the position."""
    return base64.urlsafe_b64encode(position.encode("ascii")).decode("ascii").rstrip("=")
