"""What an operator does with partners: create, set, suspend, credentials, networks.

Every deed raises the version of the topic `partners`, so that each process sees it within a second.
"""

import base64
import hashlib
import ipaddress
import os
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg
import msgspec

from giftrail.db import changes, pool
from giftrail.kit import ids, money
from giftrail.partners import model, store

# 256 random bits: too many to guess, so a plain digest keeps the secret safe.
_SECRET_BYTES = 32
_SETTABLE = {"kind", "region", "request_id_mode", "rate_per_second", "rate_burst", "failed_logins_per_minute"}


class PartnerUnknown(Exception):
    """There is no partner of that name or id."""


class PartnerExists(Exception):
    """Another partner has that name."""


class PartnerInvalid(ValueError):
    """A value that a partner cannot have; the message names it."""


class CredentialUnknown(Exception):
    """There is no live credential of that clientId."""


class NetworkUnknown(Exception):
    """The network is not in the partner's list."""


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A clientId and its secret, which is shown once and not kept."""

    client_id: str
    client_secret: str


async def read_partner(conn: pool.Connection | pool.Pool, *, name_or_id: str) -> model.Partner:
    """The partner of that id or name. Raises PartnerUnknown."""
    partner = await store.find_partner(conn, name_or_id=name_or_id)
    if partner is None:
        raise PartnerUnknown(f"there is no partner {name_or_id!r}")
    return partner


async def create_partner(
    conn: pool.Connection,
    *,
    name: str,
    kind: model.Kind,
    currency: str,
    region: str = "IN",
    request_id_mode: model.RequestIdMode = model.RequestIdMode.REQUIRE,
    rate_per_second: int | None = None,
    rate_burst: int | None = None,
    now: datetime,
) -> model.Partner:
    """A new partner, for whom no brand is enabled. Raises PartnerExists, PartnerInvalid, money.UnknownCurrency."""
    if not name.strip() or len(name) > model.MAX_NAME_CHARACTERS or not name.isprintable():
        raise PartnerInvalid(f"the name {name!r} is empty, longer than {model.MAX_NAME_CHARACTERS} or not printable")
    money.decimals_of(currency)
    _check_values({"region": region, "rate_per_second": rate_per_second, "rate_burst": rate_burst})
    partner = model.Partner(
        partner_id=ids.new("prt", now=now),
        name=name,
        kind=kind,
        currency=currency,
        region=region,
        request_id_mode=request_id_mode,
        rate_per_second=rate_per_second,
        rate_burst=rate_burst,
        failed_logins_per_minute=None,
        suspended_at=None,
        version=await changes.raise_version(conn, topic="partners"),
        created_at=now,
        credentials=frozenset(),
        networks=(),
    )
    try:
        await store.insert_partner(conn, partner)
    except asyncpg.UniqueViolationError:
        raise PartnerExists(f"there is already a partner {name!r}") from None
    return partner


async def set_partner(conn: pool.Connection, *, partner_id: str, values: dict[str, Any], now: datetime) -> None:
    """Change kind, region, request_id_mode and the limits. Raises PartnerInvalid."""
    if unknown := values.keys() - _SETTABLE:
        raise PartnerInvalid(f"{sorted(unknown)} cannot be set; what can: {sorted(_SETTABLE)}")
    _check_values(values)
    await _touch(conn, partner_id=partner_id, now=now, **values)


async def set_delivery(
    conn: pool.Connection, *, partner_id: str, delivery: model.Delivery | None, now: datetime
) -> None:
    """Deliver vouchers to the partner's recipients, or, with None, no more. Raises PartnerInvalid."""
    encoded = None
    if delivery is not None:
        if not re.fullmatch(r"#[0-9a-fA-F]{6}", delivery.colour):
            raise PartnerInvalid(f"the colour {delivery.colour!r} is not written #rrggbb")
        if delivery.logo_url is not None and not delivery.logo_url.startswith("https://"):
            raise PartnerInvalid(f"the logo {delivery.logo_url!r} is no https address")
        encoded = msgspec.json.encode(delivery).decode()
    await _touch(conn, partner_id=partner_id, now=now, delivery=encoded)


async def suspend_partner(conn: pool.Connection, *, partner_id: str, now: datetime) -> None:
    """From now on logins and tokens of the partner are refused (401)."""
    await _touch(conn, partner_id=partner_id, now=now, suspended_at=now)


async def resume_partner(conn: pool.Connection, *, partner_id: str, now: datetime) -> None:
    """Undo a suspension; tokens that have not expired work again."""
    await _touch(conn, partner_id=partner_id, now=now, suspended_at=None)


async def create_credential(
    conn: pool.Connection, *, partner_id: str, environment: str, now: datetime
) -> NewCredential:
    """A new clientId and secret for one environment."""
    secret = base64.urlsafe_b64encode(os.urandom(_SECRET_BYTES)).decode().rstrip("=")
    new = NewCredential(client_id=ids.new("crd", now=now), client_secret=f"gts_{secret}")
    await _touch(conn, partner_id=partner_id, now=now)
    await store.insert_credential(
        conn,
        credential_id=new.client_id,
        partner_id=partner_id,
        secret_digest=digest_secret(new.client_secret),
        environment=environment,
        now=now,
    )
    return new


async def revoke_credential(conn: pool.Connection, *, client_id: str, now: datetime) -> str:
    """Refuse the credential and every token it was given; returns the partner's id. Raises CredentialUnknown."""
    partner_id = await store.revoke_credential(conn, credential_id=client_id, now=now)
    if partner_id is None:
        raise CredentialUnknown(f"there is no live credential {client_id!r}")
    await _touch(conn, partner_id=partner_id, now=now)
    return partner_id


async def allow_network(conn: pool.Connection, *, partner_id: str, network: str, now: datetime) -> model.Network:
    """Allow an address or a network in CIDR notation. Raises PartnerInvalid."""
    parsed = _parse_network(network)
    await _touch(conn, partner_id=partner_id, now=now)
    await store.insert_network(conn, partner_id=partner_id, network=parsed, now=now)
    return parsed


async def remove_network(conn: pool.Connection, *, partner_id: str, network: str, now: datetime) -> None:
    """Take a network from the list. Raises NetworkUnknown, PartnerInvalid."""
    parsed = _parse_network(network)
    await _touch(conn, partner_id=partner_id, now=now)
    if not await store.delete_network(conn, partner_id=partner_id, network=parsed):
        raise NetworkUnknown(f"{parsed} is not in the list")


def digest_secret(secret: str) -> bytes:
    """What is kept of a client secret."""
    return hashlib.sha256(secret.encode()).digest()


async def _touch(conn: pool.Connection, *, partner_id: str, now: datetime, **columns: Any) -> None:
    version = await changes.raise_version(conn, topic="partners")
    await store.update_partner(conn, partner_id=partner_id, version=version, now=now, columns=columns)


def _parse_network(network: str) -> model.Network:
    try:
        return ipaddress.ip_network(network)
    except ValueError as error:
        raise PartnerInvalid(str(error)) from None


def _check_values(values: dict[str, Any]) -> None:
    region = values.get("region")
    if region is not None and not (len(region) == 2 and region.isascii() and region.isalpha() and region.isupper()):
        raise PartnerInvalid(f"the region {region!r} is not a two-letter country code such as IN")
    for name, least in (("rate_per_second", 0), ("rate_burst", 1), ("failed_logins_per_minute", 0)):
        value = values.get(name)
        if value is not None and not least <= value <= 1_000_000:
            raise PartnerInvalid(f"{name} {value} is not between {least} and 1000000")
