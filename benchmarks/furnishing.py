"""What an endurance run is about: brands of every kind of provider, a stock that runs out, partners with money."""

import io
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from benchmarks.told import Account, Offer

from giftrail import app
from giftrail import keys as installation_keys
from giftrail.catalog import edit, rows
from giftrail.db import migrate, pool
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.providers import importing as stock_importing
from giftrail.providers import protocol, sandbox
from giftrail.settings import Settings
from giftrail.wallet import ledger, onboard

MONEY_MINOR = 10**14
DENOMINATIONS = (100, 250, 500)
# Of each denomination, for each kill, and besides: enough for most of a run, so that its end meets the last codes.
CODES_PER_KILL, CODES_BESIDES = 3, 5
# What is ordered, how often, from whom. What the sandbox refuses is served from a stock of its own.
STOCKED, REFUSED = "endurance-stock", "sandbox-refused"
OFFERS: dict[Offer, tuple[str, ...]] = {
    Offer("endurance-generator", 34): (protocol.GENERATOR,),
    Offer(STOCKED, 22): (protocol.STOCK,),
    Offer("sandbox-at-once", 10): (sandbox.FIRST,),
    Offer("sandbox-after-1-seconds", 5): (sandbox.FIRST,),
    Offer("sandbox-after-6-seconds", 3): (sandbox.FIRST,),
    Offer("sandbox-lost-answer", 2): (sandbox.FIRST, sandbox.SECOND),
    Offer("sandbox-second-provider", 6): (sandbox.FIRST, sandbox.SECOND),
    Offer(REFUSED, 5): (sandbox.FIRST, protocol.STOCK),
    Offer("sandbox-reversible", 8, reverses=True, voids=True): (sandbox.FIRST,),
    Offer("sandbox-void-refused", 1, reverses=True): (sandbox.FIRST,),
    Offer("sandbox-first-part", 1): (sandbox.FIRST,),
    Offer("sandbox-twice", 1): (sandbox.FIRST,),
    Offer("sandbox-away", 0.5, cancels=True, ends=False): (sandbox.FIRST,),
    Offer("sandbox-never", 0.2, cancels=True, ends=False): (sandbox.FIRST,),
}
NEVER_ENDING = tuple(offer.brand_id for offer in OFFERS if not offer.ends)


async def furnish(url: str, folder: Path, *, how_many: int, kills: int) -> list[Account]:
    """Migrate, and make everything by the deeds of an operator."""
    await migrate.migrate(url)
    settings = installation_keys.with_keys(Settings(data_dir=folder))
    keys = installation_keys.code_keys(settings)
    async with pool.connect(url) as conn, conn.transaction():
        await _make_brands(conn, settings)
        for number, brand_id in enumerate((STOCKED, REFUSED), 1):
            await _fill_stock(conn, brand_id, CODES_PER_KILL * kills + CODES_BESIDES, first=number * 10**12, keys=keys)
        return [await _make_partner(conn, f"Endurance {number}") for number in range(1, how_many + 1)]


async def _make_brands(conn: pool.Connection, settings: Settings) -> None:
    known = app.provider_names(settings)
    made = [
        rows.Row(
            line,
            {
                "id": offer.brand_id,
                "title": offer.brand_id,
                "category": ["Food"],
                "denominationType": "FIXED",
                "denominations": [Decimal(one) for one in DENOMINATIONS],
                "maxOrderAmount": Decimal(1_000_000),
                "redemptionType": "ONLINE",
                "cardType": "CARD_AND_PIN_NO_SECURED",
                "currency": "INR",
                "thumbnailUrl": "https://assets.giftrail.example/t.png",
                "providers": list(providers),
                "reversible": offer.reverses,
            },
        )
        for line, (offer, providers) in enumerate(OFFERS.items(), 1)
    ]
    brands = [row.brand(known) for row in made]
    problems = [problem for row in made for problem in row.problems]
    if problems:
        raise AssertionError(problems)
    await edit.upsert_brands(conn, brands, now=app.now())


async def _fill_stock(conn: pool.Connection, brand_id: str, codes: int, *, first: int, keys: protocol.Keys) -> None:
    lines = ["denomination,cardNumber,cardPin"]
    for place, denomination in enumerate(DENOMINATIONS):
        start = first + place * codes
        lines += [f"{denomination},{number:016},{number % 10**6:06}" for number in range(start, start + codes)]
    minor = tuple(denomination * 100 for denomination in DENOMINATIONS)
    shape = stock_importing.Shape(brand_id, "INR", shows_number=True, shows_pin=True, denominations_minor=minor)
    await stock_importing.import_stock(conn, io.StringIO("\n".join(lines)), shape=shape, keys=keys, now=app.now())


async def _make_partner(conn: pool.Connection, name: str) -> Account:
    now = app.now()
    partner = await onboard.create_partner(conn, name=name, kind=partners.Kind.B2B, currency="INR", now=now)
    made = await manage.create_credential(conn, partner_id=partner.partner_id, environment="staging", now=now)
    brand_ids: Sequence[str] = [offer.brand_id for offer in OFFERS]
    await edit.set_enabled(conn, partner=partner, brand_ids=brand_ids, enabled=True, now=now)
    wallet = await ledger.open_wallet(conn, partner_id=partner.partner_id)
    wallet.top_up(MONEY_MINOR, note="for a run of endurance", now=now)
    await ledger.close_wallet(conn, wallet, now=now)
    return Account(partner.partner_id, made.client_id, made.client_secret)
