"""A request that the fake has let in, and what is answered to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from giftrail_client.testing.parameters import Query

if TYPE_CHECKING:
    from giftrail_client.testing.service import FakeService

SYNCHRONOUS_SECONDS, MAX_WAIT_SECONDS = 2.0, 30
_PREFER_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,9})\s*(?:$|[,;])", re.ASCII | re.IGNORECASE)


@dataclass
class Call:
    """A request that was let in; `headers` are those of its answer."""

    service: FakeService
    ids: tuple[str, ...]  # in the path
    raw_path: str
    query: Query
    prefer: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)

    def wait_seconds(self) -> float:
        """How long the caller wants to wait for what takes time; the answer tells that it was heard."""
        wanted = _PREFER_WAIT.search(self.prefer)
        if wanted is None:
            return SYNCHRONOUS_SECONDS
        seconds = min(int(wanted[1]), MAX_WAIT_SECONDS)
        self.headers["Preference-Applied"] = f"wait={seconds}"
        return float(seconds)


Handler = Callable[[Call], Any]


@dataclass(frozen=True)
class Route:
    """One method of one path. `secret` answers are kept by nobody, `tagged` ones are told by their ETag."""

    method: str
    path: str
    handle: Handler
    body_required: bool = True  # of a POST; else a request without any body is an empty object
    authenticated: bool = True
    secret: bool = False
    tagged: bool = False
