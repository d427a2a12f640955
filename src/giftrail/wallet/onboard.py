"""A new partner with its wallet: neither is ever without the other."""

from datetime import datetime

from giftrail.db import pool
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.wallet import store


async def create_partner(
    conn: pool.Connection,
    *,
    name: str,
    kind: partners.Kind,
    currency: str,
    region: str = "IN",
    request_id_mode: partners.RequestIdMode = partners.RequestIdMode.REQUIRE,
    rate_per_second: int | None = None,
    rate_burst: int | None = None,
    now: datetime,
) -> partners.Partner:
    """The partner and an empty wallet of its currency. Raises what manage.create_partner raises."""
    partner = await manage.create_partner(
        conn,
        name=name,
        kind=kind,
        currency=currency,
        region=region,
        request_id_mode=request_id_mode,
        rate_per_second=rate_per_second,
        rate_burst=rate_burst,
        now=now,
    )
    await store.insert_wallet(conn, partner_id=partner.partner_id, currency=currency)
    return partner
