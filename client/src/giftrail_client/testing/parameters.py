"""The parameters of a request to the fake, and the cursors of its lists."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from giftrail_client.testing import problems, reading

MAX_PARAMETERS = 100
MAX_LIST_LIMIT, DEFAULT_LIST_LIMIT = 200, 50
Row = TypeVar("Row")


class Query:
    """Parameters, read one by one; what is wrong is noted and told by `check`. Of one that is repeated, the last."""

    def __init__(self, query: bytes) -> None:
        try:
            pairs = parse_qsl(
                query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
            )
        except ValueError:
            message = "is not percent-encoded UTF-8, or has too many parameters"
            raise problems.invalid(("query", message)) from None
        self.violations: list[tuple[str, str]] = []
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if complaint := reading.complain_of_text(value):
                self.note(problems.show(name), complaint)
            else:
                self._values.setdefault(name, []).append(value)

    def note(self, name: str, message: str) -> None:
        """Note that a parameter is wrong."""
        self.violations.append((name, message))

    def check(self) -> None:
        """Raises Refused with everything that is wrong."""
        if self.violations:
            raise problems.invalid(*self.violations)

    def texts(self, name: str) -> list[str]:
        """All values given."""
        return self._values.get(name, [])

    def text(self, name: str) -> str | None:
        """The last value given."""
        return self.texts(name)[-1] if self.texts(name) else None

    def number(self, name: str) -> int | None:
        """A whole number from 1."""
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"\+?0*[1-9][0-9]{0,17}", value, re.ASCII):
            self.note(name, f"{problems.show(value)} is not a whole number from 1")
            return None
        return int(value)

    def limit(self) -> int:
        """How many rows a page of a list has at most."""
        return min(self.number("limit") or DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT)

    def choices(self, name: str, known: Sequence[str]) -> list[str]:
        """All values given, each one of those known."""
        for value in self.texts(name):
            if value not in known:
                self.note(name, f"{problems.show(value)} is not one of {', '.join(known)}")
        return self.texts(name)

    def moment(self, name: str) -> datetime | None:
        """A date and time with its offset."""
        value = self.text(name)
        if value is None:
            return None
        moment = reading.read_moment(value.replace(" ", "+"))  # a plus that was not percent-encoded is a space
        if moment is None:
            self.note(name, f"{problems.show(value)} is not a time such as 2026-01-31T09:30:00Z")
        return moment

    def period(self) -> Callable[[datetime], bool]:
        """Whether a time is in the period that `from` and `to` tell."""
        since, until = self.moment("from"), self.moment("to")
        return lambda at: (since is None or since <= at) and (until is None or at < until)

    def cursor(self, shape: str) -> str | None:
        """The position in `cursor`, a full match of the pattern `shape`."""
        value = self.text("cursor")
        if value is None:
            return None
        try:
            padded = value + "=" * (-len(value) % 4)
            position = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        except ValueError:
            position = ""
        if re.fullmatch(shape, position):
            return position
        self.note("cursor", f"{problems.show(value)} is not a cursor that this list has given")
        return None


def cut(
    rows: Sequence[Row], *, limit: int, position: Callable[[Row], Any], before: Any
) -> tuple[list[Row], str | None]:
    """A page of rows whose positions fall, from behind `before` on, and the cursor of the next page."""
    left = [row for row in rows if before is None or position(row) < before]
    page = left[:limit]
    if len(left) <= limit:
        return page, None
    return page, base64.urlsafe_b64encode(str(position(page[-1])).encode()).decode().rstrip("=")
