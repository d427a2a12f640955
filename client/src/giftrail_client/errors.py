"""Everything this package raises.

GiftrailError
├── CannotReach                 no answer: refused, reset, timed out
├── OutcomeUnknown              an order may or may not exist; its reference_id says which to look up
├── OrderFailed                 the order is FAILED (only with raise_failed=True)
├── OrderStillProcessing        the polling schedule is over
│   └── OrderTimedOut           15 minutes are over: treat it as failed, contact the service's support
├── UnexpectedAnswer            an answer that is not of this contract
└── ServiceError                an error answer: status, id, code, message, request_id, sub_errors
├── InvalidRequest          400
├── AuthenticationFailed    401: at login, or again after a new login
├── NotAllowed              403: the address is not approved
├── NotFound                404
│   └── BrandNotFound       404 for a productId
├── ReferenceConflict       409 E008: the referenceId belongs to an order of other content
├── WrongOrderState         409 E009: cannot be cancelled or reversed now
├── RateLimited             429, still after waiting
├── SpendingLimitExceeded   429 E013: never retried
└── Unavailable             503 and other 5xx, still after waiting
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from giftrail_client.models import Order


class GiftrailError(Exception):
    """What everything here is."""


class CannotReach(GiftrailError):
    """There was no answer. `request_id` is that of the last try."""

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        self.request_id = request_id
        super().__init__(message)


class UnexpectedAnswer(CannotReach):
    """There was an answer, and it is none of this contract: cut off, no JSON, no object."""


class OutcomeUnknown(GiftrailError):
    """Nobody answered whether the order was placed. Look `reference_id` up later; do not take a new one before."""

    def __init__(self, reference_id: str, why: BaseException) -> None:
        self.reference_id = reference_id
        super().__init__(f"whether order {reference_id!r} was placed is not known yet: {why}")


class OrderFailed(GiftrailError):
    """The order is FAILED; `order` holds why. Retry with `orders.retry`, which takes a new reference."""

    def __init__(self, order: Order) -> None:
        self.order = order
        super().__init__(
            f"order {order.id} (reference {order.reference_id}) failed: {order.failure_reason} ({order.failure_code})"
        )


class OrderStillProcessing(GiftrailError):
    """The order is PROCESSING and the polling schedule is over."""

    def __init__(self, order: Order, message: str | None = None) -> None:
        self.order = order
        super().__init__(message or f"order {order.id} (reference {order.reference_id}) is still PROCESSING")


class OrderTimedOut(OrderStillProcessing):
    """The order is PROCESSING after 15 minutes: mark it failed on your side and contact the service's support."""

    def __init__(self, order: Order) -> None:
        super().__init__(
            order,
            f"order {order.id} (reference {order.reference_id}) is PROCESSING after 15 minutes:"
            " mark it failed and contact the service's support",
        )


@dataclass(frozen=True)
class SubError:
    """One offending field."""

    field_name: str
    message: str


class ServiceError(GiftrailError):
    """An error answer of the service."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        id: str | None = None,  # noqa: A002 — as the service calls it
        code: str | None = None,
        request_id: str | None = None,
        sub_errors: Sequence[SubError] = (),
        order_id: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        self.status = status
        self.id = id
        self.code = code
        self.message = message
        self.request_id = request_id
        self.sub_errors: tuple[SubError, ...] = tuple(sub_errors)
        self.order_id = order_id
        self.retry_after_seconds = retry_after_seconds
        super().__init__(f"{status} {id or ''} {message} (requestId {request_id})".replace("  ", " "))


class InvalidRequest(ServiceError):
    """400: a field is missing or malformed; `sub_errors` name all of them."""


class AuthenticationFailed(ServiceError):
    """401: wrong credentials, or those of another environment; or a fresh token that is refused."""


class NotAllowed(ServiceError):
    """403: this machine's address is not approved."""


class NotFound(ServiceError):
    """404: there is no such thing for this partner."""


class BrandNotFound(NotFound):
    """404: the productId is no brand of the catalogue."""


class ReferenceConflict(ServiceError):
    """409 E008: the referenceId belongs to the order `order_id`, whose content is another."""


class WrongOrderState(ServiceError):
    """409 E009: the order cannot be cancelled or reversed now."""


class RateLimited(ServiceError):
    """429: too many requests."""


class SpendingLimitExceeded(ServiceError):
    """429 E013: the partner's spending limit; waiting a little does not help."""


class Unavailable(ServiceError):
    """503, or another failure on the service's side."""


_BY_STATUS: dict[int, type[ServiceError]] = {
    400: InvalidRequest, 401: AuthenticationFailed, 403: NotAllowed, 404: NotFound, 405: InvalidRequest,
    409: WrongOrderState, 413: InvalidRequest, 415: InvalidRequest, 429: RateLimited,
}  # fmt: skip
_BY_ID: dict[str, type[ServiceError]] = {"E008": ReferenceConflict, "E013": SpendingLimitExceeded}


def from_answer(
    status: int, body: Any, *, request_id: str | None, retry_after_seconds: float | None = None
) -> ServiceError:
    """The error of an answer, whatever its body is."""
    members = body if isinstance(body, dict) else {}
    id_, code = _text(members.get("id")), _text(members.get("code"))
    kind = _BY_ID.get(id_ or "") or _BY_STATUS.get(status) or (Unavailable if status >= 500 else ServiceError)
    subs = members.get("subErrors")
    return kind(
        _text(members.get("message")) or f"the service answered {status}",
        status=status,
        id=id_,
        code=code,
        request_id=_text(members.get("requestId")) or request_id,
        sub_errors=[
            SubError(str(sub.get("fieldName", "")), str(sub.get("message", "")))
            for sub in (subs if isinstance(subs, list) else [])
            if isinstance(sub, dict)
        ],
        order_id=_text(members.get("orderId")),
        retry_after_seconds=retry_after_seconds,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
