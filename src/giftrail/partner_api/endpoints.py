"""An endpoint as the route table lists it: what is called, what it takes and gives, which errors it answers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from giftrail.breakers import health
from giftrail.catalog import snapshot
from giftrail.db import bell, changes, pool
from giftrail.delivery import model as delivery
from giftrail.delivery import protocol as channels
from giftrail.orders import batch, waiting
from giftrail.partner_api import headers, metrics, pages, problems, queries, rates
from giftrail.partners import directory, login
from giftrail.partners import model as partners
from giftrail.providers import protocol
from giftrail.settings import Settings
from giftrail.webhooks import directory as webhooks


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the door works with; made once a process by the composition root."""

    settings: Settings
    database: pool.Database
    watcher: changes.Watcher
    directory: directory.Directory
    catalog: snapshot.Snapshot
    tokens: login.Tokens
    keys: protocol.Keys
    gatherer: batch.Gatherer
    providers: Mapping[str, protocol.Provider]
    channels: Mapping[delivery.Channel, channels.Channel]
    health: health.Health
    bell: bell.Bell
    webhooks: webhooks.Directory
    waiters: waiting.Waiters
    buckets: rates.Buckets
    login_buckets: rates.Buckets
    page_buckets: rates.Buckets
    catalog_pages: pages.Pages
    metrics: metrics.Metrics
    now: Callable[[], datetime]
    clock: Callable[[], float]


class Call(msgspec.Struct, kw_only=True):
    """A request that passed the guard. `caller` is set on authenticated endpoints; `plain` as in requests.is_plain."""

    around: Surroundings
    raw_path: bytes
    path_values: Mapping[str, Any]
    query: queries.Query
    headers: headers.Headers
    body: dict[str, Any]
    address: partners.Address | None
    now: datetime
    arrived: float  # of the clock
    plain: bool
    caller: partners.Partner | None
    request_id: str

    @property
    def partner(self) -> partners.Partner:
        """Who calls."""
        if self.caller is None:
            raise AssertionError("the endpoint is not authenticated")
        return self.caller


class Answer(msgspec.Struct, frozen=True):
    """What goes back: JSON bytes, and headers beside those that every answer carries."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}
    content_type: bytes = b"application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path, the query or a header, for the OpenAPI document."""

    name: str
    where: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path. `secret` answers carry tokens or vouchers and are never stored by anyone between."""

    method: str
    path: str
    operation: str
    summary: str
    handle: Callable[[Call], Awaitable[Answer]]
    response: type[msgspec.Struct]
    request: type[msgspec.Struct] | None = None
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[problems.Code, ...] = ()
    admit: Callable[[Surroundings, partners.Partner], None] | None = None  # raises before the body is read
    body_required: bool = True  # of a POST; else a request without any body is an empty object
    authenticated: bool = True
    secret: bool = False

    @property
    def reads_query(self) -> bool:
        """Whether it asks for parameters of the query."""
        return any(parameter.where == "query" for parameter in self.parameters)
