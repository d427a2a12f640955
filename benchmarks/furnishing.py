"""What an endurance run is about: brands of every kind of provider, a stock that runs out, partners with money."""

from pathlib import Path

from benchmarks import market
from benchmarks.told import Account, Offer

from giftrail import app
from giftrail import keys as installation_keys
from giftrail.db import migrate, pool
from giftrail.providers import protocol, sandbox
from giftrail.settings import Settings

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
    rows = [
        market.brand_row(offer.brand_id, providers=providers, denominations=DENOMINATIONS)
        | {"reversible": offer.reverses}
        for offer, providers in OFFERS.items()
    ]
    async with pool.connect(url) as conn, conn.transaction():
        await market.make_brands(conn, rows, known_providers=app.provider_names(settings))
        for number, brand_id in enumerate((STOCKED, REFUSED), 1):
            codes = CODES_PER_KILL * kills + CODES_BESIDES
            await market.fill_stock(
                conn, brand_id, denominations=DENOMINATIONS, codes=codes, keys=keys, first=number * 10**12
            )
        return [await _make_partner(conn, f"Endurance {number}") for number in range(1, how_many + 1)]


async def _make_partner(conn: pool.Connection, name: str) -> Account:
    brand_ids = [offer.brand_id for offer in OFFERS]
    made = await market.make_partner(conn, name, brand_ids=brand_ids, money_minor=MONEY_MINOR)
    return Account(made.partner.partner_id, made.credential.client_id, made.credential.client_secret)
