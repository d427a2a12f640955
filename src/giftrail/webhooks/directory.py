"""The endpoints in memory, so that a worker knows whom to call; refreshed when the topic's version rises."""

from collections.abc import Sequence

from giftrail.db import pool
from giftrail.kit import seal
from giftrail.webhooks import model, store


class Directory:
    """Enabled endpoints by partner and id, as of the last version seen."""

    def __init__(self, database: pool.Database, ring: seal.KeyRing) -> None:
        self._database = database
        self._ring = ring
        self._endpoints: dict[tuple[str, str], model.Endpoint] = {}
        self._version = -1

    def find(self, partner_id: str, endpoint_id: str) -> model.Endpoint | None:
        """The endpoint, if it is called at all."""
        return self._endpoints.get((partner_id, endpoint_id))

    def enabled(self) -> Sequence[model.Endpoint]:
        """All that are called."""
        return list(self._endpoints.values())

    async def refresh(self, version: int) -> None:
        """Read what changed since the last version seen."""
        for endpoint in await store.list_changed(self._database.read, version=self._version, ring=self._ring):
            key = (endpoint.partner_id, endpoint.endpoint_id)
            if endpoint.is_enabled:
                self._endpoints[key] = endpoint
            else:
                self._endpoints.pop(key, None)
        self._version = version
