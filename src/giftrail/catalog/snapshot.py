"""The catalogue in memory: all brands, and the entitlements of the partners that called lately.

Refreshed by what changed since the last version seen, so that one edit among ten thousand brands reads one row.
"""

import itertools
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from giftrail.catalog import model, store
from giftrail.db import pool

# Entitlements kept in memory over all partners (about 100 bytes each); the partners idle longest are dropped first.
MAX_ENTITLEMENTS_KEPT = 2_000_000


@dataclass(frozen=True, slots=True)
class Offer:
    """A brand as one partner sees it."""

    brand: model.Brand
    discount_percentage: Decimal
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PartnerCatalog:
    """What a partner sees: its offers by title and id, and all its entitlements by brand.

    `number` is its own: what was made of an older one is told by it, without keeping that alive.
    """

    number: int
    offers: tuple[Offer, ...]
    entitlements: dict[str, model.Entitlement]


class Snapshot:
    """The catalogue as of the last version seen."""

    def __init__(self, database: pool.Database) -> None:
        self._database = database
        self._brands: dict[str, model.Brand] = {}
        self._partners: OrderedDict[str, dict[str, model.Entitlement]] = OrderedDict()
        self._catalogs: dict[str, PartnerCatalog] = {}
        self._entitlements_kept = 0
        self._version = -1
        self._numbers = itertools.count()

    def find_brand(self, brand_id: str) -> model.Brand | None:
        """The brand of that id."""
        return self._brands.get(brand_id)

    async def read_entitlements(self, partner_id: str) -> dict[str, model.Entitlement]:
        """The partner's entitlements by brand, read once and then kept."""
        known = self._partners.get(partner_id)
        if known is None:
            version = self._version
            known = {e.brand_id: e for e in await store.list_entitlements(self._database.read, partner_id=partner_id)}
            if version == self._version:  # else they may be older than the version now promised
                self._keep(partner_id, known)
        else:
            self._partners.move_to_end(partner_id)
        return known

    async def read_catalog(self, partner_id: str) -> PartnerCatalog:
        """What the partner sees, sorted once and then kept until something changes."""
        entitlements = await self.read_entitlements(partner_id)
        catalog = self._catalogs.get(partner_id)
        if catalog is None or catalog.entitlements is not entitlements:
            offers = [
                Offer(
                    brand=brand,
                    discount_percentage=entitlement.discount_percentage,
                    updated_at=max(brand.updated_at, entitlement.updated_at),
                )
                for entitlement in entitlements.values()
                if entitlement.enabled and (brand := self._brands.get(entitlement.brand_id)) is not None
            ]
            offers.sort(key=lambda offer: (offer.brand.title, offer.brand.brand_id))
            catalog = PartnerCatalog(next(self._numbers), offers=tuple(offers), entitlements=entitlements)
            if self._partners.get(partner_id) is entitlements:
                self._catalogs[partner_id] = catalog
        return catalog

    async def refresh(self, version: int) -> None:
        """Read what changed since the last version seen."""
        brands = await store.list_brands(self._database.read, changed_since_version=self._version)
        partners = await store.list_partners_entitled_since(self._database.read, version=self._version)
        # No await from here on: a request sees all of a version or nothing of it.
        self._brands.update({brand.brand_id: brand for brand in brands})
        if brands:
            self._catalogs.clear()
        for partner_id in partners:
            self._drop(partner_id)
        self._version = version

    def _keep(self, partner_id: str, entitlements: dict[str, model.Entitlement]) -> None:
        self._drop(partner_id)
        self._partners[partner_id] = entitlements
        self._entitlements_kept += len(entitlements)
        while self._entitlements_kept > MAX_ENTITLEMENTS_KEPT and len(self._partners) > 1:
            self._drop(next(iter(self._partners)))

    def _drop(self, partner_id: str) -> None:
        self._entitlements_kept -= len(self._partners.pop(partner_id, ()))
        self._catalogs.pop(partner_id, None)
