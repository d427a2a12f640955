"""Pages of the catalogue as they were sent, kept until the partner's catalogue changes."""

from collections import OrderedDict
from dataclasses import dataclass

# Kept in one process over all partners; the pages asked for longest ago are dropped first.
MAX_BYTES_KEPT = 64 * 2**20
# What keeping a page costs beside its bytes: one partner that asks ever new questions fills no more than the bound.
BYTES_BESIDE = 1024


@dataclass(frozen=True, slots=True)
class Page:
    """A page's bytes and their ETag."""

    etag: str
    body: bytes


_Key = tuple[str, bytes]


class Pages:
    """Pages by partner and question (path and query), each of the catalogue with a number.

    One of an older catalogue is not found.
    """

    def __init__(self) -> None:
        self.bytes_kept = 0
        self._pages: OrderedDict[_Key, tuple[int, Page]] = OrderedDict()

    def find(self, partner_id: str, question: bytes, *, catalog_number: int) -> Page | None:
        """The page of this catalogue."""
        known = self._pages.get((partner_id, question))
        if known is None or known[0] != catalog_number:
            return None
        self._pages.move_to_end((partner_id, question))
        return known[1]

    def keep(self, partner_id: str, question: bytes, page: Page, *, catalog_number: int) -> None:
        """Keep the page instead of the one before."""
        key = (partner_id, question)
        self._drop(key)
        self._pages[key] = (catalog_number, page)
        self.bytes_kept += _cost(key, page)
        while self.bytes_kept > MAX_BYTES_KEPT:
            self._drop(next(iter(self._pages)))

    def _drop(self, key: _Key) -> None:
        known = self._pages.pop(key, None)
        if known is not None:
            self.bytes_kept -= _cost(key, known[1])


def _cost(key: _Key, page: Page) -> int:
    return len(page.body) + len(key[1]) + BYTES_BESIDE
