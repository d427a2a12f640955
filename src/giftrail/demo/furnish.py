"""The demo's catalogue, partners, money and stock, made by the same deeds as an operator's."""

import io
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from importlib import resources
from pathlib import Path

from giftrail.catalog import edit, importing
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.demo import sandbox
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.providers import importing as stock_importing
from giftrail.providers import protocol
from giftrail.settings import Environment
from giftrail.wallet import ledger, onboard

CODES_PER_DENOMINATION = 40
DISCOUNTS = {"chai-verandah": Decimal("2.5"), "monsoon-threads": Decimal(6)}


@dataclass(frozen=True, slots=True)
class DemoPartner:
    """A partner of the demo, with the secret that a real one is shown once."""

    name: str
    kind: str
    client_id: str
    client_secret: str

    def members(self) -> dict[str, str]:
        """As `giftrail demo --json` prints it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "clientId": self.client_id,
            "clientSecret": self.client_secret,
        }


async def furnish(url: str, *, keys: protocol.Keys, now: datetime) -> list[DemoPartner]:
    """Brands, stock, and two partners with money: B2B with plenty, B2C with little."""
    async with pool.connect(url) as conn:
        brands = _read_brands()
        async with conn.transaction():
            await edit.upsert_brands(conn, brands, now=now)
            for brand in brands:
                if protocol.STOCK in brand.providers:
                    await _import_stock(conn, brand, keys=keys, now=now)
            made = [
                await _partner(conn, "Acme Rewards", partners.Kind.B2B, brands, money_minor=10_000_000, now=now),
                await _partner(conn, "Bazaar Gifts", partners.Kind.B2C, brands, money_minor=500_000, now=now),
            ]
            giver, _ = made[0]
            await manage.set_delivery(conn, partner_id=giver.partner_id, delivery=partners.Delivery(), now=now)
            await sandbox.furnish_sandbox(conn, [partner for partner, _ in made], now=now)
            return [told for _, told in made]


def _read_brands() -> list[catalog.Brand]:
    with resources.as_file(resources.files("giftrail.demo") / "brands.json") as path:
        brands, problems = importing.read_brands(Path(path), known_providers=protocol.AT_ONCE)
    if problems:
        raise AssertionError(f"the demo's own catalogue is wrong: {problems[0]}")
    return brands


async def _import_stock(conn: pool.Connection, brand: catalog.Brand, *, keys: protocol.Keys, now: datetime) -> None:
    valid_till = (now + timedelta(days=365)).date().isoformat()
    lines = ["denomination,cardNumber,cardPin,validTill"]
    for minor in brand.denominations_minor:
        for _ in range(CODES_PER_DENOMINATION):
            number = str(random.randrange(10**15, 10**16)) if brand.card_type.shows_number else ""  # noqa: S311
            pin = f"{random.randrange(10**8):08}" if brand.card_type.shows_pin else ""  # noqa: S311
            lines.append(f"{Decimal(minor) / 100},{number},{pin},{valid_till}")
    shape = stock_importing.Shape(
        brand_id=brand.brand_id,
        currency=brand.currency,
        shows_number=brand.card_type.shows_number,
        shows_pin=brand.card_type.shows_pin,
        denominations_minor=brand.denominations_minor,
    )
    await stock_importing.import_stock(conn, io.StringIO("\n".join(lines)), shape=shape, keys=keys, now=now)


async def _partner(
    conn: pool.Connection,
    name: str,
    kind: partners.Kind,
    brands: list[catalog.Brand],
    *,
    money_minor: int,
    now: datetime,
) -> tuple[partners.Partner, DemoPartner]:
    partner = await onboard.create_partner(conn, name=name, kind=kind, currency="INR", now=now)
    made = await manage.create_credential(conn, partner_id=partner.partner_id, environment=Environment.STAGING, now=now)
    await edit.set_enabled(conn, partner=partner, brand_ids=[brand.brand_id for brand in brands], enabled=True, now=now)
    for brand_id, percentage in DISCOUNTS.items():
        await edit.set_discount(conn, partner=partner, brand_id=brand_id, percentage=percentage, now=now)
    wallet = await ledger.open_wallet(conn, partner_id=partner.partner_id)
    wallet.top_up(money_minor, note="the demo's opening balance", now=now)
    wallet.set_threshold(money_minor // 5)
    await ledger.close_wallet(conn, wallet, now=now)
    return partner, DemoPartner(name, kind.value, made.client_id, made.client_secret)
