"""What the sync and the async client share of HTTP: how a request is made for httpx and how its answer is read."""

from __future__ import annotations

from typing import Any

import httpx

from giftrail_client import errors, flows

DEFAULT_TIMEOUT_SECONDS = 35.0  # more than the 30 s that Place Order may be asked to wait
CONNECT_TIMEOUT_SECONDS = 5.0


def options(base_url: str, timeout_seconds: float | None) -> dict[str, Any]:
    """The arguments of an httpx client."""
    seconds = DEFAULT_TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
    return {
        "base_url": base_url,
        "timeout": httpx.Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT_SECONDS)),
        "follow_redirects": False,
    }


def request(send: flows.Send) -> dict[str, Any]:
    """The arguments of httpx's request."""
    return {
        "method": send.method,
        "url": send.path,
        "params": list(send.query),
        "headers": dict(send.headers),
        "content": send.body,
    }


def reply(response: httpx.Response) -> flows.Reply:
    """The answer, whole."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return flows.Reply(response.status_code, headers, response.content)


def unreachable(error: Exception, send: flows.Send) -> errors.CannotReach:
    """What is thrown into a flow when there was no whole answer."""
    request_id = send.headers.get("X-REQUEST-ID")
    return errors.CannotReach(f"{type(error).__name__}: {error or 'no answer'}", request_id=request_id)


FAILURES = (httpx.TransportError, httpx.DecodingError, httpx.StreamError)
