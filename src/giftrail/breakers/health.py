"""The breakers in memory, so that an order is judged without a query; refreshed when the topic's version rises."""

from datetime import datetime

from giftrail.breakers import model, store
from giftrail.db import pool


class Health:
    """Which providers are left alone for which brands, as of the last version seen."""

    def __init__(self, database: pool.Database) -> None:
        self._database = database
        self._breakers: dict[tuple[str, str], model.Breaker] = {}

    def closed_to_calls_until(self, provider: str, brand_id: str, *, now: datetime) -> datetime | None:
        """Until when the provider is not to be asked for the brand; None when it may be."""
        breaker = self._breakers.get((provider, brand_id))
        return breaker.closed_to_calls_until(now) if breaker else None

    def is_open(self, provider: str, brand_id: str, *, now: datetime) -> bool:
        """Whether new orders of the brand should not count on the provider."""
        breaker = self._breakers.get((provider, brand_id))
        return breaker is not None and breaker.is_open(now)

    async def refresh(self, _version: int = 0) -> None:
        """Read all breakers that are not closed."""
        self._breakers = {
            (breaker.provider, breaker.brand_id): breaker for breaker in await store.list_breakers(self._database.read)
        }
