"""SQL of partners, credentials and networks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from giftrail.db import pool
from giftrail.partners import model

_PARTNER = """
SELECT p.*,
       ARRAY(SELECT credential_id FROM credential c
             WHERE c.partner_id = p.partner_id AND c.revoked_at IS NULL) AS credentials,
       ARRAY(SELECT network FROM allowed_network n
             WHERE n.partner_id = p.partner_id ORDER BY network) AS networks
FROM partner p
"""


async def list_partners(conn: pool.Connection | pool.Pool, *, changed_since_version: int = -1) -> list[model.Partner]:
    """The partners whose row, credentials or networks changed after the version, by name."""
    rows = await conn.fetch(_PARTNER + "WHERE p.version > $1 ORDER BY p.name", changed_since_version)
    return [_partner(row) for row in rows]


async def find_partner(conn: pool.Connection | pool.Pool, *, name_or_id: str) -> model.Partner | None:
    """The partner of that id, else of that name."""
    row = await conn.fetchrow(
        _PARTNER + "WHERE p.partner_id = $1 OR p.name = $1 ORDER BY p.partner_id = $1 DESC LIMIT 1",
        name_or_id,
    )
    return _partner(row) if row else None


async def find_credential(conn: pool.Connection | pool.Pool, *, credential_id: str) -> pool.Record | None:
    """partner_id, secret_digest, environment and revoked_at of a credential."""
    return await conn.fetchrow(
        "SELECT partner_id, secret_digest, environment, revoked_at FROM credential WHERE credential_id = $1",
        credential_id,
    )


async def list_credentials(conn: pool.Connection, *, partner_id: str) -> list[pool.Record]:
    """credential_id, environment, created_at and revoked_at of each credential, oldest first."""
    return await conn.fetch(
        "SELECT credential_id, environment, created_at, revoked_at FROM credential"
        " WHERE partner_id = $1 ORDER BY credential_id",
        partner_id,
    )


async def insert_partner(conn: pool.Connection, partner: model.Partner) -> None:
    """Raises asyncpg.UniqueViolationError when the name is taken."""
    await conn.execute(
        "INSERT INTO partner (partner_id, name, kind, currency, region, request_id_mode, rate_per_second, rate_burst,"
        " version, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)",
        partner.partner_id, partner.name, partner.kind.value, partner.currency, partner.region,
        partner.request_id_mode.value, partner.rate_per_second, partner.rate_burst, partner.version,
        partner.created_at,
    )  # fmt: skip


async def update_partner(
    conn: pool.Connection, *, partner_id: str, version: int, now: datetime, columns: Mapping[str, Any]
) -> None:
    """Set the columns, and the version by which every process sees that something about the partner changed."""
    assignments = "".join(f", {name} = ${number}" for number, name in enumerate(columns, 4))
    await conn.execute(
        f"UPDATE partner SET version = $2, updated_at = $3{assignments} WHERE partner_id = $1",
        partner_id, version, now, *columns.values(),
    )  # fmt: skip


async def insert_credential(
    conn: pool.Connection,
    *,
    credential_id: str,
    partner_id: str,
    secret_digest: bytes,
    environment: str,
    now: datetime,
) -> None:
    """Store a credential; of its secret only the digest."""
    await conn.execute(
        "INSERT INTO credential (credential_id, partner_id, secret_digest, environment, created_at)"
        " VALUES ($1, $2, $3, $4, $5)",
        credential_id, partner_id, secret_digest, environment, now,
    )  # fmt: skip


async def revoke_credential(conn: pool.Connection, *, credential_id: str, now: datetime) -> str | None:
    """The partner whose credential it was, or None when there is no such live credential."""
    partner_id: str | None = await conn.fetchval(
        "UPDATE credential SET revoked_at = $2 WHERE credential_id = $1 AND revoked_at IS NULL RETURNING partner_id",
        credential_id, now,
    )  # fmt: skip
    return partner_id


async def insert_network(conn: pool.Connection, *, partner_id: str, network: model.Network, now: datetime) -> None:
    """Allow the network; nothing happens when it is allowed already."""
    await conn.execute(
        "INSERT INTO allowed_network (partner_id, network, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        partner_id, network, now,
    )  # fmt: skip


async def delete_network(conn: pool.Connection, *, partner_id: str, network: model.Network) -> bool:
    """Whether the network had been allowed."""
    done = await conn.execute("DELETE FROM allowed_network WHERE partner_id = $1 AND network = $2", partner_id, network)
    return done == "DELETE 1"


def _partner(row: pool.Record) -> model.Partner:
    return model.Partner(
        partner_id=row["partner_id"],
        name=row["name"],
        kind=model.Kind(row["kind"]),
        currency=row["currency"],
        region=row["region"],
        request_id_mode=model.RequestIdMode(row["request_id_mode"]),
        rate_per_second=row["rate_per_second"],
        rate_burst=row["rate_burst"],
        failed_logins_per_minute=row["failed_logins_per_minute"],
        suspended_at=row["suspended_at"],
        version=row["version"],
        created_at=row["created_at"],
        credentials=frozenset(row["credentials"]),
        networks=tuple(row["networks"]),
        delivery=msgspec.json.decode(row["delivery"], type=model.Delivery) if row["delivery"] else None,
    )
