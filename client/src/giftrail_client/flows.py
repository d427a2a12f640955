"""What to ask and in which order, without any I/O: generators that yield effects and are sent what came of them.

The sync and the async client run the same generators; they differ only in how they wait.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote

from giftrail_client import errors, models, wire
from giftrail_client.tokens import Token

T = TypeVar("T")

# No wait that the service asks for is longer than this, in seconds.
MAX_PAUSE_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 0.5
# Tries of a safe call, and of a placement whose outcome is looked up in between.
TRIES = 4
PLACEMENT_TRIES = 6
# The specification: poll first after about a minute, about five attempts, and give up after 15 minutes.
POLL_AFTER_SECONDS: tuple[float, ...] = (60.0, 120.0, 180.0, 240.0, 300.0)
GIVE_UP_SECONDS = 900.0
_API = "/v1/partners"

log: logging.Logger = logging.getLogger("giftrail_client")


@dataclass(frozen=True)
class Send:
    """Send a request; what comes back is a Reply, or CannotReach is thrown in."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Reply:
    """An answer, whole; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True)
class GetToken:
    """A fresh token, logged in for by one of all who ask at the same time; never `stale`, which was refused."""

    stale: str | None = None


Flow = Generator[Any, Any, T]


@dataclass(frozen=True)
class Config:
    """What the flows know: credentials, and the clock (seconds since the epoch)."""

    client_id: str
    client_secret: str = field(repr=False)
    clock: Callable[[], float]


def log_in(config: Config) -> Flow[Token]:
    """A new token. Raises AuthenticationFailed, NotAllowed, CannotReach."""
    body = wire.encode({"clientId": config.client_id, "clientSecret": config.client_secret})
    send = Send("POST", f"{_API}/auth/login", headers=_headers(None), body=body)
    reply = yield from _retrying(lambda: _once(send))
    members = read(reply, models.members)
    try:
        return Token(
            str(members["token"]), obtained_at=config.clock(), lifetime_seconds=float(members["expiresInSecs"])
        )
    except (KeyError, TypeError, ValueError):
        raise errors.UnexpectedAnswer("the login was answered without a token") from None


def call(
    method: str,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    is_safe: bool | None = None,
) -> Flow[Reply]:
    """A call with a token; logged in again once on 401. Only safe calls are tried again after other failures."""
    pairs = _pairs(query or {})
    encoded = None if body is None else wire.encode(body)

    def once() -> Flow[Reply]:
        token = yield GetToken()
        reply = yield from _once(Send(method, _API + path, pairs, _headers(token, headers), encoded))
        if reply.status == 401:
            token = yield GetToken(stale=token)
            reply = yield from _once(Send(method, _API + path, pairs, _headers(token, headers), encoded))
        return reply

    if is_safe if is_safe is not None else method == "GET":
        return (yield from _retrying(once))
    return _checked((yield from once()))


def get(path: str, read_body: Callable[[Any], T], *, query: Mapping[str, Any] | None = None) -> Flow[T]:
    """GET, read by a function of `models`."""
    reply = yield from call("GET", path, query=query)
    return read(reply, read_body)


def post(path: str, read_body: Callable[[Any], T], *, body: Any = None, is_safe: bool = False) -> Flow[T]:
    """POST, read by a function of `models`."""
    reply = yield from call("POST", path, body={} if body is None else body, is_safe=is_safe)
    return read(reply, read_body)


def place(
    body: Mapping[str, Any], *, clock: Callable[[], float], wait_seconds: int | None = None
) -> Flow[models.Order]:
    """Place an order and never two: after a lost answer it is looked up, and sent again only when it is not there.

    Raises OutcomeUnknown when nobody answers; ServiceError when the service refuses it; the FAILED order is returned.
    """
    reference_id, sent_at = body["referenceId"], clock()
    headers = {} if wait_seconds is None else {"Prefer": f"wait={wait_seconds}"}
    why: errors.GiftrailError = errors.CannotReach("the order was not sent")
    for tries in range(1, PLACEMENT_TRIES + 1):
        try:
            reply = yield from call("POST", "/orders", body=body, headers=headers)
            replayed = reply.headers.get("idempotent-replayed") == "true"
            return _placed(read(reply, models.order, replayed=replayed), body, sent_at)
        except errors.RateLimited as error:  # refused before anything was done
            why = error
            yield Pause(_pause_seconds(tries, error.retry_after_seconds))
            continue
        except (errors.CannotReach, errors.Unavailable) as error:
            why = error
        found = yield from _find_placed(reference_id, why)
        if found is not None:
            return _placed(found, body, sent_at)
        yield Pause(_pause_seconds(tries, getattr(why, "retry_after_seconds", None)))
    if isinstance(why, (errors.RateLimited, errors.Unavailable)):
        raise why  # the last look-up said that it is not there
    raise errors.OutcomeUnknown(reference_id, why) from why


def _placed(order: models.Order, body: Mapping[str, Any], sent_at: float) -> models.Order:
    # A replayed order is as old as the service says, not as this request.
    return tell_failure(replace(order, request=body, sent_at=None if order.replayed else sent_at))


def _find_placed(reference_id: str, why: errors.GiftrailError) -> Flow[models.Order | None]:
    """The order, or None when the service says that it does not exist. Raises OutcomeUnknown."""
    try:
        return (yield from get(by_reference_path(reference_id), models.order))
    except errors.NotFound:
        return None
    except (errors.CannotReach, errors.Unavailable, errors.RateLimited) as error:
        raise errors.OutcomeUnknown(reference_id, error) from why


def wait(order: models.Order, *, schedule: tuple[float, ...], clock: Callable[[], float]) -> Flow[models.Order]:
    """Poll until the order is terminal. Raises OrderTimedOut after 15 minutes, OrderStillProcessing when polled out.

    The service's clock may be ahead of the client's, or behind it: no order is older than this client's placing it.
    """
    if order.is_terminal:
        return order
    now = clock()
    told_at = order.created_at.timestamp() if order.created_at else now
    gives_up_at = max(min(told_at, now), order.sent_at or 0.0) + GIVE_UP_SECONDS
    for seconds in schedule:
        yield Pause(min(seconds, max(gives_up_at - clock(), 0.0)))
        read_now = yield from get(f"/orders/{quote(order.id, safe='')}", models.order)
        order = replace(read_now, request=order.request, sent_at=order.sent_at)
        if order.is_terminal:
            return tell_failure(order)
        if clock() >= gives_up_at:
            raise errors.OrderTimedOut(order)
    raise errors.OrderStillProcessing(order)


def by_reference_path(reference_id: str) -> str:
    """The look-up's path; the reference percent-encoded, slashes too."""
    return f"/orders/by-reference/{quote(reference_id, safe='')}"


def new_reference() -> str:
    """A reference that nobody has."""
    return str(uuid.uuid4())


def _once(send: Send) -> Flow[Reply]:
    reply: Reply = yield send
    return reply


def _retrying(once: Callable[[], Flow[Reply]]) -> Flow[Reply]:
    """The good answer of a safe call. Raises ServiceError, CannotReach."""
    for tries in range(1, TRIES + 1):
        try:
            return _checked((yield from once()))
        except (errors.CannotReach, errors.RateLimited, errors.Unavailable) as error:
            if tries == TRIES:
                raise
            after = getattr(error, "retry_after_seconds", None)
            log.info("try %d of %d failed, trying again: %s", tries, TRIES, error)
        yield Pause(_pause_seconds(tries, after))
    raise AssertionError("the last try returns or raises")


def _pause_seconds(tries: int, retry_after_seconds: float | None) -> float:
    """What the service asks for, or a doubling pause; a little more at random, so that clients do not come in step."""
    seconds = FIRST_PAUSE_SECONDS * 2.0 ** (tries - 1) if retry_after_seconds is None else retry_after_seconds
    return min(seconds * (1 + random.random() / 4), MAX_PAUSE_SECONDS)  # noqa: S311 — nothing secret


def _checked(reply: Reply) -> Reply:
    if reply.status < 400:
        return reply
    try:
        body = wire.decode(reply.body)
    except ValueError:
        body = None
    raise errors.from_answer(
        reply.status,
        body,
        request_id=reply.headers.get("x-request-id"),
        retry_after_seconds=_retry_after(reply.headers.get("retry-after")),
    )


def read(reply: Reply, read_body: Callable[..., T], **more: Any) -> T:
    """The body of a good answer, as a function of `models` reads it. Raises UnexpectedAnswer."""
    try:
        return read_body(wire.decode(reply.body), **more)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise errors.UnexpectedAnswer(
            f"the answer is not of this contract: {error!r}", request_id=reply.headers.get("x-request-id")
        ) from None


def tell_failure(order: models.Order) -> models.Order:
    """The order; when it failed, a line in the log says so (specification, Errors)."""
    if order.failed:
        log.warning(
            "order %s (reference %s) failed: %s (%s)",
            order.id, order.reference_id, order.failure_reason, order.failure_code,
        )  # fmt: skip
    return order


def _headers(token: str | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    headers = {"X-REQUEST-ID": str(uuid.uuid4()), "Content-Type": "application/json", "Accept": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return headers | dict(more or {})


def _pairs(query: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        for one in value if isinstance(value, (list, tuple, set, frozenset)) else [value]:
            if one is not None:
                pairs += [(name, one.isoformat() if isinstance(one, datetime) else str(one))]
    return tuple(pairs)


def _retry_after(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return max(0.0, float(int(value)))
    except (ValueError, OverflowError):
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None
