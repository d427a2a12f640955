"""Why the fake refuses a request: the error answers of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_STATUS = {
    "E001": (400, "INVALID_REQUEST"), "E002": (401, "UNAUTHORIZED"), "E003": (403, "ADDRESS_NOT_ALLOWED"),
    "E004": (404, "NOT_FOUND"), "E005": (405, "METHOD_NOT_ALLOWED"), "E006": (413, "BODY_TOO_LARGE"),
    "E007": (415, "UNSUPPORTED_MEDIA_TYPE"), "E008": (409, "REFERENCE_ID_CONFLICT"),
    "E009": (409, "INVALID_ORDER_STATE"), "E010": (429, "RATE_LIMITED"), "E011": (503, "UNAVAILABLE"),
    "E013": (429, "SPENDING_LIMIT_EXCEEDED"), "E151": (400, "ORDER_AMOUNT_MISMATCH"),
}  # fmt: skip
# A value is shown in an error up to this many characters.
_MAX_SHOWN_CHARACTERS = 60


@dataclass
class Refused(Exception):
    """An error answer: its id, its message, the offending fields, and the headers that go with it."""

    id: str
    message: str
    sub_errors: list[tuple[str, str]] = field(default_factory=list)
    order_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return _STATUS[self.id][0]

    def members(self, request_id: str) -> dict[str, Any]:
        """The body of the answer."""
        subs = [{"fieldName": name, "message": message} for name, message in self.sub_errors]
        code = _STATUS[self.id][1]
        body = {"id": self.id, "code": code, "message": self.message, "requestId": request_id, "subErrors": subs}
        return body if self.order_id is None else body | {"orderId": self.order_id}


def invalid(first: tuple[str, str], *others: tuple[str, str]) -> Refused:
    """400 with every violation."""
    more = f" (and {len(others)} more)" if others else ""
    return Refused("E001", f"{first[0]}: {first[1]}{more}", [first, *others])


def unauthorized(message: str) -> Refused:
    """401 for a request without a sound token."""
    return Refused("E002", message, headers={"WWW-Authenticate": "Bearer"})


def not_found(message: str = "there is nothing here for this partner") -> Refused:
    """404."""
    return Refused("E004", message)


def show(value: object) -> str:
    """A value as an error tells it: short, and printable whatever it holds."""
    text = str(value)
    if len(text) > _MAX_SHOWN_CHARACTERS:
        text = text[:_MAX_SHOWN_CHARACTERS] + "…"
    return ascii(text) if isinstance(value, str) and not text.isprintable() else text
