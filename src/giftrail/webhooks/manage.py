"""What is done with endpoints: register, change, rotate, enable, disable. Each raises the topic `webhooks`."""

import base64
import binascii
import dataclasses
import ipaddress
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from giftrail.db import changes, pool
from giftrail.kit import ids, outbound, seal
from giftrail.webhooks import model, store

_LOCAL_NAMES = frozenset({"localhost", "localhost."})


async def read_endpoint(
    conn: pool.Connection | pool.Pool, *, partner_id: str, endpoint_id: str, ring: seal.KeyRing
) -> model.Endpoint:
    """The partner's endpoint. Raises EndpointUnknown."""
    endpoint = await store.find_endpoint(conn, partner_id=partner_id, endpoint_id=endpoint_id, ring=ring)
    if endpoint is None:
        raise model.EndpointUnknown(f"there is no endpoint {endpoint_id!r}")
    return endpoint


async def create_endpoint(
    conn: pool.Connection,
    *,
    partner_id: str,
    url: str,
    kinds: Sequence[str] | None,
    description: str | None,
    secret: str | None,
    allowlist: Sequence[outbound.Network],
    ring: seal.KeyRing,
    now: datetime,
) -> model.Endpoint:
    """Register an endpoint, inside the caller's transaction; its secret is drawn unless one is brought.

    Raises EndpointInvalid.
    """
    version = await changes.raise_version(conn, topic="webhooks")
    if await store.count_endpoints(conn, partner_id=partner_id) >= model.MAX_ENDPOINTS:
        raise model.EndpointInvalid("url", f"the partner has {model.MAX_ENDPOINTS} endpoints already")
    endpoint = model.Endpoint(
        partner_id=partner_id,
        endpoint_id=ids.new("whk", now=now),
        url=check_url(url, allowlist=allowlist),
        description=_check_description(description),
        kinds=_check_kinds(kinds),
        secret=draw_secret() if secret is None else _check_secret(secret),
        staged_secret=None,
        old_secret=None,
        old_secret_until=None,
        rate_per_second=None,
        disabled_at=None,
        disabled_why=None,
        last_success_at=None,
        created_at=now,
        deleted_at=None,
    )
    await store.upsert_endpoint(conn, endpoint, version=version, ring=ring, now=now)
    return endpoint


async def change_endpoint(
    conn: pool.Connection,
    endpoint: model.Endpoint,
    *,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    description: str | None = None,
    rate_per_second: int | None = None,
    allowlist: Sequence[outbound.Network],
    ring: seal.KeyRing,
    now: datetime,
) -> model.Endpoint:
    """Change what is given. Raises EndpointInvalid."""
    endpoint = await _lock(conn, endpoint, ring=ring)
    changed = dataclasses.replace(
        endpoint,
        url=endpoint.url if url is None else check_url(url, allowlist=allowlist),
        kinds=endpoint.kinds if kinds is None else _check_kinds(kinds),
        description=endpoint.description if description is None else _check_description(description),
        rate_per_second=endpoint.rate_per_second if rate_per_second is None else rate_per_second or None,
    )
    return await _write(conn, changed, ring=ring, now=now)


async def stage_secret(
    conn: pool.Connection, endpoint: model.Endpoint, *, secret: str | None, ring: seal.KeyRing, now: datetime
) -> model.Endpoint:
    """The first step of a rotation: a second secret signs beside the one in force. Raises EndpointInvalid."""
    endpoint = await _lock(conn, endpoint, ring=ring)
    staged = draw_secret() if secret is None else _check_secret(secret)
    return await _write(conn, dataclasses.replace(endpoint, staged_secret=staged), ring=ring, now=now)


async def promote_secret(
    conn: pool.Connection, endpoint: model.Endpoint, *, ring: seal.KeyRing, now: datetime
) -> model.Endpoint:
    """The second step: the staged secret is in force, the old one signs beside it for a day. Raises EndpointInvalid."""
    endpoint = await _lock(conn, endpoint, ring=ring)
    if endpoint.staged_secret is None:
        raise model.EndpointInvalid("secret", "none is staged: rotate first")
    promoted = dataclasses.replace(
        endpoint,
        secret=endpoint.staged_secret,
        staged_secret=None,
        old_secret=endpoint.secret,
        old_secret_until=now + timedelta(seconds=model.OLD_SECRET_SECONDS),
    )
    return await _write(conn, promoted, ring=ring, now=now)


async def disable_endpoint(
    conn: pool.Connection, endpoint: model.Endpoint, *, why: str, ring: seal.KeyRing, now: datetime
) -> model.Endpoint:
    """Call it no more; what is on its way is held and can be replayed."""
    endpoint = await _lock(conn, endpoint, ring=ring)
    if endpoint.disabled_at is not None:
        return endpoint
    disabled = dataclasses.replace(endpoint, disabled_at=now, disabled_why=why)
    await store.hold_deliveries(conn, partner_id=endpoint.partner_id, endpoint_id=endpoint.endpoint_id)
    return await _write(conn, disabled, ring=ring, now=now)


async def enable_endpoint(
    conn: pool.Connection, endpoint: model.Endpoint, *, ring: seal.KeyRing, now: datetime
) -> model.Endpoint:
    """Call it again from now on; what was held stays so until it is replayed."""
    endpoint = await _lock(conn, endpoint, ring=ring)
    enabled = dataclasses.replace(endpoint, disabled_at=None, disabled_why=None, last_success_at=None)
    return await _write(conn, enabled, ring=ring, now=now)


async def delete_endpoint(
    conn: pool.Connection, endpoint: model.Endpoint, *, ring: seal.KeyRing, now: datetime
) -> None:
    """Remove it; what is on its way is held."""
    endpoint = await _lock(conn, endpoint, ring=ring)
    await store.hold_deliveries(conn, partner_id=endpoint.partner_id, endpoint_id=endpoint.endpoint_id)
    await _write(conn, dataclasses.replace(endpoint, deleted_at=now), ring=ring, now=now)


async def _lock(conn: pool.Connection, endpoint: model.Endpoint, *, ring: seal.KeyRing) -> model.Endpoint:
    """The endpoint as it stands now, locked: what the caller has may be old. Raises EndpointUnknown."""
    fresh = await store.find_endpoint(
        conn, partner_id=endpoint.partner_id, endpoint_id=endpoint.endpoint_id, ring=ring, lock=True
    )
    if fresh is None:
        raise model.EndpointUnknown(f"there is no endpoint {endpoint.endpoint_id!r}")
    return fresh


async def _write(
    conn: pool.Connection, endpoint: model.Endpoint, *, ring: seal.KeyRing, now: datetime
) -> model.Endpoint:
    version = await changes.raise_version(conn, topic="webhooks")
    await store.upsert_endpoint(conn, endpoint, version=version, ring=ring, now=now)
    return endpoint


def draw_secret() -> str:
    """A new secret: whsec_ and the Base64 of 32 random bytes."""
    return model.SECRET_PREFIX + base64.b64encode(secrets.token_bytes(model.SECRET_BYTES)).decode()


def check_url(url: str, *, allowlist: Sequence[outbound.Network]) -> str:
    """The url as it can be called. What a name resolves to is checked at each connection. Raises EndpointInvalid."""
    if len(url) > model.MAX_URL_CHARACTERS or not url.isascii() or not url.isprintable() or " " in url:
        raise model.EndpointInvalid("url", "is too long, or not of plain printable characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise model.EndpointInvalid("url", f"{url!r} is not a url") from None
    if parts.scheme not in {"https", "http"} or not host or port == 0:
        raise model.EndpointInvalid("url", f"{url!r} is not an https url")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise model.EndpointInvalid("url", "carries a user name, a password or a fragment")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if parts.scheme == "http" and not allowlist:
        raise model.EndpointInvalid("url", "plain http is only for networks that the operator lists")
    if address is not None:
        allowed = (
            outbound.is_allowed(address, allowlist=allowlist)
            if parts.scheme == "https"
            else outbound.is_listed(address, allowlist=allowlist)
        )
        if not allowed:
            raise model.EndpointInvalid("url", f"{host} is not an address that may be called")
    elif host.lower() in _LOCAL_NAMES and not allowlist:
        raise model.EndpointInvalid("url", f"{host} is not a name that may be called")
    return url


def _check_kinds(kinds: Sequence[str] | None) -> tuple[str, ...]:
    if kinds is None:
        return tuple(kind.value for kind in model.DEFAULT_KINDS)
    if not kinds:
        raise model.EndpointInvalid("events", "names no kind of event")
    for kind in kinds:
        if kind not in set(model.KINDS):
            raise model.EndpointInvalid("events", f"{kind!r} is not one of {', '.join(model.KINDS)}")
    return tuple(kind.value for kind in model.KINDS if kind in set(kinds))


def _check_description(description: str | None) -> str | None:
    if description is not None and (
        len(description) > model.MAX_DESCRIPTION_CHARACTERS or not description.isprintable()
    ):
        raise model.EndpointInvalid(
            "description", f"is longer than {model.MAX_DESCRIPTION_CHARACTERS} characters or not printable"
        )
    return description or None


def _check_secret(secret: str) -> str:
    if not model.MIN_SECRET_CHARACTERS <= len(secret) <= model.MAX_SECRET_CHARACTERS or not secret.isprintable():
        raise model.EndpointInvalid(
            "secret", f"has not {model.MIN_SECRET_CHARACTERS} to {model.MAX_SECRET_CHARACTERS} printable characters"
        )
    if secret.startswith(model.SECRET_PREFIX):
        try:
            base64.b64decode(secret[len(model.SECRET_PREFIX) :], validate=True)
        except binascii.Error:
            raise model.EndpointInvalid("secret", "is not Base64 behind whsec_") from None
    return secret
