"""Pages of the catalogue as they were sent, kept until the partner's catalogue changes."""

from collections import OrderedDict
from dataclasses import dataclass

from giftrail.catalog import snapshot

# Kept in one process over all partners; the pages asked for longest ago are dropped first.
MAX_BYTES_KEPT = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Page:
    """A page's bytes and their ETag."""

    etag: str
    body: bytes


class Pages:
    """Pages by partner and query. One of an older catalogue is not found."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, bytes], tuple[snapshot.PartnerCatalog, Page]] = OrderedDict()
        self._bytes = 0

    def find(self, partner_id: str, query: bytes, *, catalog: snapshot.PartnerCatalog) -> Page | None:
        """The page of this catalogue."""
        known = self._pages.get((partner_id, query))
        if known is None or known[0] is not catalog:
            return None
        self._pages.move_to_end((partner_id, query))
        return known[1]

    def keep(self, partner_id: str, query: bytes, page: Page, *, catalog: snapshot.PartnerCatalog) -> None:
        """Keep the page instead of the one before."""
        self._drop((partner_id, query))
        self._pages[partner_id, query] = (catalog, page)
        self._bytes += len(page.body)
        while self._bytes > MAX_BYTES_KEPT:
            self._drop(next(iter(self._pages)))

    def _drop(self, key: tuple[str, bytes]) -> None:
        known = self._pages.pop(key, None)
        if known is not None:
            self._bytes -= len(known[1].body)
