"""Errors of the door: every row of the wire contract's table, and the answer it makes (wire contract, errors)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from giftrail.attempts import again
from giftrail.db import pool
from giftrail.delivery import model as delivery
from giftrail.kit import seal
from giftrail.orders import model as orders
from giftrail.spending import model as spending
from giftrail.webhooks import model as webhooks

# When the service is away, clients are asked to come back after this long.
RETRY_AFTER_SECONDS = 1


class Code(Enum):
    """HTTP status, id and code of each error."""

    INVALID_REQUEST = (400, "E001")
    UNAUTHORIZED = (401, "E002")
    ADDRESS_NOT_ALLOWED = (403, "E003")
    NOT_FOUND = (404, "E004")
    METHOD_NOT_ALLOWED = (405, "E005")
    BODY_TOO_LARGE = (413, "E006")
    UNSUPPORTED_MEDIA_TYPE = (415, "E007")
    REFERENCE_ID_CONFLICT = (409, "E008")
    INVALID_ORDER_STATE = (409, "E009")
    RATE_LIMITED = (429, "E010")
    UNAVAILABLE = (503, "E011")
    INTERNAL_ERROR = (500, "E012")
    SPENDING_LIMIT_EXCEEDED = (429, "E013")
    ORDER_AMOUNT_MISMATCH = (400, "E151")

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value[0]

    @property
    def id(self) -> str:
        """The E-code."""
        return self.value[1]


class SubError(msgspec.Struct, rename="camel"):
    """One offending field, such as `denominationDetails[1].quantity`."""

    field_name: str
    message: str


class Error(msgspec.Struct, rename="camel", omit_defaults=True):
    """The body of every error; `orderId` only with REFERENCE_ID_CONFLICT."""

    id: str
    code: str
    message: str
    request_id: str
    sub_errors: list[SubError] = msgspec.field(default_factory=list)
    order_id: str | None = None


@dataclass
class Problem(Exception):
    """A request that is answered with an error. `message` never tells a secret or an internal."""

    code: Code
    message: str
    sub_errors: Sequence[SubError] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    order_id: str | None = None

    def body(self, request_id: str) -> bytes:
        """The error as JSON."""
        body: dict[str, Any] = {
            "id": self.code.id,
            "code": self.code.name,
            "message": self.message,
            "requestId": request_id,
            "subErrors": list(self.sub_errors),
        }
        if self.order_id is not None:
            body["orderId"] = self.order_id
        return msgspec.json.encode(body)


def invalid(sub_errors: Sequence[SubError]) -> Problem:
    """400 with every violation; the message tells the first."""
    first = sub_errors[0]
    message = f"{first.field_name}: {first.message}"
    if len(sub_errors) > 1:
        message += f" (and {len(sub_errors) - 1} more)"
    return Problem(Code.INVALID_REQUEST, message, sub_errors)


def invalid_member(name: str, message: str) -> Problem:
    """400 for one field, header or parameter."""
    return invalid([SubError(name, message)])


def not_found() -> Problem:
    """404; the same for what never existed and for what is another partner's."""
    return Problem(Code.NOT_FOUND, "there is nothing here for this partner")


def unavailable(message: str) -> Problem:
    """503 with Retry-After."""
    return Problem(Code.UNAVAILABLE, message, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


def from_exception(error: Exception) -> Problem | None:
    """The answer to a refusal of a room, or None when nobody expected it."""
    match error:
        case Problem():
            return error
        case orders.OrderUnknown() | webhooks.EndpointUnknown() | again.EventUnknown():
            return not_found()
        case orders.ReferenceConflict():
            return Problem(Code.REFERENCE_ID_CONFLICT, str(error), order_id=error.order_id)
        case webhooks.EndpointInvalid():
            return invalid_member(error.member, error.message)
        case orders.WrongState():
            return Problem(Code.INVALID_ORDER_STATE, str(error))
        case spending.SpendingLimitExceeded():
            return Problem(Code.SPENDING_LIMIT_EXCEEDED, str(error))
        case delivery.TooSoon():
            return Problem(Code.RATE_LIMITED, str(error), headers={"Retry-After": str(error.retry_after_seconds)})
        case orders.Unavailable():
            return unavailable(str(error))
        case seal.CannotOpen():
            return None
    if isinstance(error, pool.UNAVAILABLE):
        return unavailable("the database cannot be reached just now")
    return None
