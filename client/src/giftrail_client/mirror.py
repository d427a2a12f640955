"""A partner's own copy of the catalogue, fresh by Brand Updated and by ETag (specification, Events: refresh it)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable

from giftrail_client import aio, errors, flows, lists, models, sync, webhooks
from giftrail_client.router import WebhookRouter

PAGE_BRANDS = 500
# A catalogue that changes while it is read is read again so many times in all.
READINGS = 3
# The catalogue is asked for again after so long, should a webhook have been missed.
MAX_AGE_SECONDS = 3600.0
# After a refresh that failed, the next one comes after so long.
RETRY_SECONDS = 30.0
KINDS: tuple[str, ...] = (webhooks.BRAND_UPDATED, webhooks.BRAND_DISCOUNT_UPDATED)

log: logging.Logger = logging.getLogger("giftrail_client")


class _Shelf:
    """What was read, and the flows that read it; whoever runs them holds a lock."""

    def __init__(self) -> None:
        self._pages: dict[int, tuple[str | None, models.Page[models.Brand]]] = {}
        self._brands: dict[str, models.Brand] | None = None
        self.read_at: float | None = None

    def refresh(self, now: float) -> flows.Flow[None]:
        """Read every page that changed. Raises ServiceError, CannotReach; then what was there stays."""
        brands: dict[str, models.Brand] = {}
        for _ in range(READINGS):
            pages: dict[int, tuple[str | None, models.Page[models.Brand]]] = {}
            page_no: int | None = 1
            while page_no is not None:
                etag, page = self._pages.get(page_no, (None, None))
                if page is None:
                    etag = None
                came = yield from lists.brands_if_changed(page_no=page_no, limit=PAGE_BRANDS, etag=etag)
                if came is not None:
                    etag, page = came
                elif page is None:
                    raise errors.UnexpectedAnswer("a page that was never read has not changed")
                pages[page_no] = (etag, page)
                page_no = page.next_cursor
            brands = {brand.id: brand for _, page in pages.values() for brand in page.data}
            self._pages = pages
            if {page.total for _, page in pages.values()} <= {len(brands), None}:
                break
        self._brands, self.read_at = brands, now

    def reread(self, event: webhooks.Event, now: float) -> flows.Flow[None]:
        """Read the brand of an event again; one that is no longer ours is gone.

        An event may come before the process that is asked has seen the change: then what the event says holds.
        """
        brand_id = event.brand_id
        if self._brands is None or brand_id is None:
            return
        try:
            brand = yield from lists.brand(brand_id)
        except errors.NotFound:
            self._brands = {name: kept for name, kept in self._brands.items() if name != brand_id}
            return
        if brand_id not in self._brands:  # where it stands among the others, the service knows
            yield from self.refresh(now)
        self._brands = {**self._brands, brand_id: _with_news(brand, event)}

    def is_old(self, now: float, max_age_seconds: float) -> bool:
        """Whether it is to be refreshed."""
        return self.read_at is None or now - self.read_at >= max_age_seconds

    def active(self) -> Iterable[models.Brand]:
        """What may be displayed and ordered."""
        return [brand for brand in (self._brands or {}).values() if brand.is_active]


class CatalogMirror:
    """The ACTIVE brands in memory; INACTIVE ones are left out. Safe to share between threads.

    `attach` it to a router that receives the brand events. It is refreshed when it is older than `max_age_seconds`
    (ETag: what did not change is not sent again); when that fails, what is known is served on, and a line is logged.
    """

    def __init__(self, client: sync.Giftrail, *, max_age_seconds: float = MAX_AGE_SECONDS) -> None:
        self._client = client
        self._max_age_seconds = max_age_seconds
        self._shelf = _Shelf()
        self._reading = threading.Lock()

    def attach(self, router: WebhookRouter) -> None:
        """Have the router's brand events read their brand again."""
        router.on(*KINDS)(self.on_event)

    def on_event(self, event: webhooks.Event) -> None:
        """Read the brand of an event again. Raises ServiceError, CannotReach."""
        with self._reading:
            self._client.run(self._shelf.reread(event, self._client.clock()))

    def refresh(self) -> None:
        """Read what changed, now. Raises ServiceError, CannotReach."""
        with self._reading:
            self._client.run(self._shelf.refresh(self._client.clock()))

    def list(self) -> list[models.Brand]:
        """The ACTIVE brands, in the service's order. Raises only when nothing was ever read."""
        # While one reads, the others are served what is known.
        if self._is_old() and self._reading.acquire(blocking=self._shelf.read_at is None):
            try:
                if self._is_old():
                    self._client.run(self._shelf.refresh(self._client.clock()))
            except errors.GiftrailError as error:
                _serve_on(self._shelf, error, self._client.clock(), self._max_age_seconds)
            finally:
                self._reading.release()
        return list(self._shelf.active())

    def get(self, brand_id: str) -> models.Brand | None:
        """A brand that may be ordered, or None."""
        return next((brand for brand in self.list() if brand.id == brand_id), None)

    def _is_old(self) -> bool:
        return self._shelf.is_old(self._client.clock(), self._max_age_seconds)


class AsyncCatalogMirror:
    """As `CatalogMirror`, for the tasks of one loop."""

    def __init__(self, client: aio.AsyncGiftrail, *, max_age_seconds: float = MAX_AGE_SECONDS) -> None:
        self._client = client
        self._max_age_seconds = max_age_seconds
        self._shelf = _Shelf()
        self._reading = asyncio.Lock()

    def attach(self, router: WebhookRouter) -> None:
        """Have the router's brand events read their brand again."""
        router.on(*KINDS)(self.on_event)

    async def on_event(self, event: webhooks.Event) -> None:
        """Read the brand of an event again. Raises ServiceError, CannotReach."""
        async with self._reading:
            await self._client.run(self._shelf.reread(event, self._client.clock()))

    async def refresh(self) -> None:
        """Read what changed, now. Raises ServiceError, CannotReach."""
        async with self._reading:
            await self._client.run(self._shelf.refresh(self._client.clock()))

    async def list(self) -> list[models.Brand]:
        """The ACTIVE brands, in the service's order. Raises only when nothing was ever read."""
        # While one reads, the others are served what is known.
        if self._is_old() and not (self._reading.locked() and self._shelf.read_at is not None):
            async with self._reading:
                try:
                    if self._is_old():
                        await self._client.run(self._shelf.refresh(self._client.clock()))
                except errors.GiftrailError as error:
                    _serve_on(self._shelf, error, self._client.clock(), self._max_age_seconds)
        return list(self._shelf.active())

    async def get(self, brand_id: str) -> models.Brand | None:
        """A brand that may be ordered, or None."""
        return next((brand for brand in await self.list() if brand.id == brand_id), None)

    def _is_old(self) -> bool:
        return self._shelf.is_old(self._client.clock(), self._max_age_seconds)


def _with_news(brand: models.Brand, event: webhooks.Event) -> models.Brand:
    """The brand, with what a younger event tells of it."""
    updated_at = models.moment(brand.raw.get("updatedAt"))
    if event.occurred_at is None or updated_at is None or updated_at > event.occurred_at:
        return brand
    members = dict(brand.raw)
    limits = dict(members.get("amountRestrictions") or {})
    told = event.body
    members |= {name: told[name] for name in ("status", "denominationType", "discountPercentage") if name in told}
    limits |= told.get("amountRestrictions") or {}
    if "denominations" in told:
        limits["denominations"] = told["denominations"]
    return models.brand(members | {"amountRestrictions": limits})


def _serve_on(shelf: _Shelf, error: errors.GiftrailError, now: float, max_age_seconds: float) -> None:
    """Serve what is known for a while before the next try. Raises the error when nothing is known."""
    if shelf.read_at is None:
        raise error
    log.warning("the catalogue could not be refreshed, what is known is served on: %s", error)
    shelf.read_at = now - max_age_seconds + min(RETRY_SECONDS, max_age_seconds)
