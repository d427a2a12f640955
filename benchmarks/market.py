"""Who trades in a benchmark: brands, stock, partners with money and endpoints, made by the deeds of an operator."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from giftrail import app
from giftrail import keys as installation_keys
from giftrail.catalog import edit, rows
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.kit import seal
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.providers import importing as stock_importing
from giftrail.providers import protocol, sandbox
from giftrail.settings import Settings
from giftrail.wallet import ledger, onboard
from giftrail.webhooks import manage as webhooks
from giftrail.webhooks import model as webhook_model

CURRENCY = "INR"
MONEY_MINOR = 10**15
# What the benchmarks order: a brand of generated codes whose one denomination is this, in major units.
BRAND, DENOMINATION = "bench", 100
KNOWN_PROVIDERS = protocol.AT_ONCE | frozenset(sandbox.NAMES)
CUSTOMER = {"name": "Asha Rao", "phoneNumber": "+919800000000", "email": "asha@example.com"}
NETWORKS = "127.0.0.0/8"


@dataclass(frozen=True, slots=True)
class Trader:
    """A partner and how it logs in."""

    partner: partners.Partner
    credential: manage.NewCredential
    brand_ids: Sequence[str]


def keys_of(folder: Path) -> protocol.Keys:
    """The keys that the service draws in that folder, and keeps."""
    return installation_keys.code_keys(installation_keys.with_keys(Settings(data_dir=folder)))


def brand_row(
    brand_id: str, *, providers: Sequence[str] = (protocol.GENERATOR,), denominations: Sequence[int] = (DENOMINATION,)
) -> dict[str, Any]:
    """A brand as a file of brands holds it."""
    return {
        "id": brand_id,
        "title": brand_id,
        "category": ["Food"],
        "denominationType": "FIXED",
        "denominations": [Decimal(one) for one in denominations],
        "maxOrderAmount": Decimal(1_000_000),
        "redemptionType": "ONLINE",
        "cardType": "CARD_AND_PIN_NO_SECURED",
        "currency": CURRENCY,
        "thumbnailUrl": "https://assets.giftrail.example/t.png",
        "providers": list(providers),
    }


async def make_brands(
    conn: pool.Connection,
    wanted: Sequence[Mapping[str, Any]],
    *,
    known_providers: frozenset[str] = KNOWN_PROVIDERS,
) -> list[catalog.Brand]:
    """Put the rows into the catalogue. Raises AssertionError when one of them is wrong."""
    read = [rows.Row(line, dict(values)) for line, values in enumerate(wanted, 1)]
    brands = [row.brand(known_providers) for row in read]
    if problems := [problem for row in read for problem in row.problems]:
        raise AssertionError(problems)
    await edit.upsert_brands(conn, brands, now=app.now())
    return brands


async def make_partner(
    conn: pool.Connection, name: str, *, brand_ids: Sequence[str], money_minor: int = MONEY_MINOR
) -> Trader:
    """A partner with money and those brands."""
    now = app.now()
    partner = await onboard.create_partner(conn, name=name, kind=partners.Kind.B2B, currency=CURRENCY, now=now)
    made = await manage.create_credential(conn, partner_id=partner.partner_id, environment="staging", now=now)
    await edit.set_enabled(conn, partner=partner, brand_ids=list(brand_ids), enabled=True, now=now)
    wallet = await ledger.open_wallet(conn, partner_id=partner.partner_id)
    wallet.top_up(money_minor, note="for a benchmark", now=now)
    await ledger.close_wallet(conn, wallet, now=now)
    return Trader(partner, made, brand_ids)


async def make_endpoint(
    conn: pool.Connection, partner: partners.Partner, url: str, *, ring: seal.KeyRing
) -> webhook_model.Endpoint:
    """Where the partner is called, on this machine."""
    return await webhooks.create_endpoint(
        conn,
        partner_id=partner.partner_id,
        url=url,
        kinds=None,
        description=None,
        secret=None,
        allowlist=networks(),
        ring=ring,
        now=app.now(),
    )


def networks() -> Any:
    """Networks that webhooks of a benchmark may call."""
    return Settings(webhook_networks=NETWORKS).webhook_networks  # as the environment writes it


async def fill_stock(
    conn: pool.Connection,
    brand_id: str,
    *,
    denominations: Sequence[int],
    codes: int,
    keys: protocol.Keys,
    first: int = 0,
) -> None:
    """So many codes of each denomination, numbered from `first`."""
    minor = tuple(denomination * 100 for denomination in denominations)
    shape = stock_importing.Shape(brand_id, CURRENCY, shows_number=True, shows_pin=True, denominations_minor=minor)
    with tempfile.TemporaryFile("w+") as file:
        file.write("denomination,cardNumber,cardPin\n")
        for place, denomination in enumerate(denominations):
            numbers = range(first + place * codes, first + (place + 1) * codes)
            file.writelines(f"{denomination},{number:016},{number % 10**6:06}\n" for number in numbers)
        file.seek(0)
        await stock_importing.import_stock(conn, file, shape=shape, keys=keys, now=app.now())


def furnish(url: str, *, partners_count: int = 1) -> list[Trader]:
    """One brand of generated codes, and so many partners that may order it."""

    async def make() -> list[Trader]:
        async with pool.connect(url) as conn:
            async with conn.transaction():
                await make_brands(conn, [brand_row(BRAND)])
                made = [
                    await make_partner(conn, f"Bench {number}", brand_ids=[BRAND]) for number in range(partners_count)
                ]
            await conn.execute("VACUUM ANALYZE")
        return made

    return asyncio.run(make())


def order(vouchers: int = 1) -> dict[str, Any]:
    """An order of that brand as it is sent; the load puts a new reference into each."""
    return {
        "productId": BRAND,
        "referenceId": "REFERENCE",
        "amount": DENOMINATION * vouchers,
        "denominationDetails": [{"denomination": DENOMINATION, "quantity": vouchers}],
        "customerDetails": CUSTOMER,
    }
