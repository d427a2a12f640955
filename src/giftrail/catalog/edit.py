"""What an operator does with brands: import, activate, enable for a partner, discount.

Every deed raises the version of the topic `catalog`, so that each process sees it within a second, and writes the
events of the specification for the partners whom it concerns.
"""

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from giftrail.catalog import model, store
from giftrail.db import changes, pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids, money
from giftrail.partners import model as partners


class BrandUnknown(Exception):
    """There is no brand of that id."""


class CurrencyDiffers(Exception):
    """A brand cannot be enabled for a partner with a wallet of another currency, nor change its own."""


class DiscountRefused(ValueError):
    """A discount that is no percentage; the message names it."""


async def read_brand(conn: pool.Connection | pool.Pool, *, brand_id: str) -> model.Brand:
    """The brand of that id. Raises BrandUnknown."""
    brand = await store.find_brand(conn, brand_id=brand_id)
    if brand is None:
        raise BrandUnknown(f"there is no brand {brand_id!r}")
    return brand


async def upsert_brands(conn: pool.Connection, brands: Sequence[model.Brand], *, now: datetime) -> int:
    """Insert or replace the brands; returns how many were new. Partners are told of those that changed.

    Raises CurrencyDiffers when a brand that exists would change its currency.
    """
    version = await changes.raise_version(conn, topic="catalog")
    known = await store.lock_brands(conn, brand_ids=[brand.brand_id for brand in brands])
    for brand in brands:
        before = known.get(brand.brand_id)
        if before and before.currency != brand.currency:
            raise CurrencyDiffers(
                f"brand {brand.brand_id!r} is in {before.currency} and cannot become {brand.currency}"
            )
    stamped = [dataclasses.replace(brand, version=version, updated_at=now) for brand in brands]
    await store.upsert_brands(conn, stamped)
    changed = [
        brand
        for brand in stamped
        if (before := known.get(brand.brand_id)) is not None and not brand.restricts_like(before)
    ]
    await _tell_updated(conn, changed, now=now)
    return len(brands) - len(known)


async def set_status(conn: pool.Connection, *, brand_id: str, status: model.Status, now: datetime) -> bool:
    """Activate or deactivate a brand; returns whether that changed it. Raises BrandUnknown."""
    version = await changes.raise_version(conn, topic="catalog")
    brand = (await store.lock_brands(conn, brand_ids=[brand_id])).get(brand_id)
    if brand is None:
        raise BrandUnknown(f"there is no brand {brand_id!r}")
    if brand.status is status:
        return False
    changed = dataclasses.replace(brand, status=status, version=version, updated_at=now)
    await store.upsert_brands(conn, [changed])
    await _tell_updated(conn, [changed], now=now)
    return True


async def set_enabled(
    conn: pool.Connection,
    *,
    partner: partners.Partner,
    brand_ids: Sequence[str],
    enabled: bool,
    now: datetime,
) -> None:
    """Enable or disable brands for a partner. Raises BrandUnknown, CurrencyDiffers; then nothing changes."""
    version = await changes.raise_version(conn, topic="catalog")
    known = await store.lock_brands(conn, brand_ids=brand_ids)
    for brand_id in brand_ids:
        if brand_id not in known:
            raise BrandUnknown(f"there is no brand {brand_id!r}")
        if enabled and known[brand_id].currency != partner.currency:
            raise CurrencyDiffers(
                f"brand {brand_id!r} is in {known[brand_id].currency},"
                f" the wallet of {partner.name!r} in {partner.currency}"
            )
    await store.set_enabled(
        conn, partner_id=partner.partner_id, brand_ids=brand_ids, enabled=enabled, version=version, now=now
    )


async def set_discount(
    conn: pool.Connection, *, partner: partners.Partner, brand_id: str, percentage: Decimal, now: datetime
) -> None:
    """Set a partner's discount for a brand, in percent; the partner is told if the brand is enabled for it.

    Raises BrandUnknown, DiscountRefused.
    """
    if not percentage.is_finite() or not 0 <= percentage <= model.MAX_DISCOUNT_PERCENTAGE:
        raise DiscountRefused(f"a discount of {percentage} is not between 0 and {model.MAX_DISCOUNT_PERCENTAGE}")
    if percentage != round(percentage, model.MAX_DISCOUNT_DECIMALS):
        raise DiscountRefused(f"a discount of {percentage} has more than {model.MAX_DISCOUNT_DECIMALS} decimals")
    version = await changes.raise_version(conn, topic="catalog")
    await read_brand(conn, brand_id=brand_id)
    before = await store.find_entitlement(conn, partner_id=partner.partner_id, brand_id=brand_id)
    previous = before.discount_percentage if before else Decimal(0)
    if previous == percentage:
        return
    await store.set_discount(
        conn,
        partner_id=partner.partner_id,
        brand_id=brand_id,
        percentage=percentage,
        version=version,
        now=now,
    )
    if before is None or not before.enabled:
        return  # what a partner does not see it is not told of
    body = events.brand_discount_updated(
        brand_id=brand_id, discount=money.plain(percentage), previous=money.plain(previous)
    )
    await outbox.append_events(
        conn,
        [
            events.Event(
                partner_id=partner.partner_id,
                event_id=ids.new("evt", now=now),
                kind=events.Kind.BRAND_DISCOUNT_UPDATED,
                body=body,
                occurred_at=now,
            )
        ],
    )


async def _tell_updated(conn: pool.Connection, brands: Sequence[model.Brand], *, now: datetime) -> None:
    bodies = {brand.brand_id: brand.updated_body() for brand in brands}
    enabled = await store.list_enabled_partners(conn, brand_ids=list(bodies)) if bodies else []
    await outbox.append_events(
        conn,
        [
            events.Event(
                partner_id=partner_id,
                event_id=ids.new("evt", now=now),
                kind=events.Kind.BRAND_UPDATED,
                body=bodies[brand_id],
                occurred_at=now,
            )
            for brand_id, partner_id in enabled
        ],
    )
