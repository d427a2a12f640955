"""SQL of endpoints. Their secrets are sealed to their endpoint."""

from datetime import datetime

from giftrail.db import pool
from giftrail.kit import seal
from giftrail.webhooks import model

_SECRETS = ("secret", "staged_secret", "old_secret")
_COLUMNS = tuple(model.Endpoint.__dataclass_fields__)


async def upsert_endpoint(
    conn: pool.Connection, endpoint: model.Endpoint, *, version: int, ring: seal.KeyRing, now: datetime
) -> None:
    """Write the endpoint, new or changed."""
    columns = (*_COLUMNS, "version", "updated_at")
    places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    assignments = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns[2:] if name != "last_success_at")
    await conn.execute(
        f"INSERT INTO webhook_endpoint ({', '.join(columns)}) VALUES ({places})"
        f" ON CONFLICT (partner_id, endpoint_id) DO UPDATE SET {assignments}",
        *(_column(endpoint, name, ring) for name in _COLUMNS), version, now,
    )  # fmt: skip


async def find_endpoint(
    conn: pool.Connection | pool.Pool, *, partner_id: str, endpoint_id: str, ring: seal.KeyRing, lock: bool = False
) -> model.Endpoint | None:
    """The partner's endpoint, unless it was removed; with `lock` nobody else changes it in this transaction."""
    row = await conn.fetchrow(
        "SELECT * FROM webhook_endpoint WHERE partner_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL"
        + (" FOR UPDATE" if lock else ""),
        partner_id, endpoint_id,
    )  # fmt: skip
    return _endpoint(row, ring) if row else None


async def list_endpoints(
    conn: pool.Connection | pool.Pool, *, partner_id: str, ring: seal.KeyRing
) -> list[model.Endpoint]:
    """The partner's endpoints, oldest first."""
    rows = await conn.fetch(
        "SELECT * FROM webhook_endpoint WHERE partner_id = $1 AND deleted_at IS NULL ORDER BY endpoint_id", partner_id
    )
    return [_endpoint(row, ring) for row in rows]


async def list_changed(conn: pool.Connection | pool.Pool, *, version: int, ring: seal.KeyRing) -> list[model.Endpoint]:
    """All endpoints changed after the version, removed ones too."""
    rows = await conn.fetch("SELECT * FROM webhook_endpoint WHERE version > $1", version)
    return [_endpoint(row, ring) for row in rows]


async def count_endpoints(conn: pool.Connection, *, partner_id: str) -> int:
    """How many endpoints the partner has."""
    row = await conn.fetchrow(
        "SELECT count(*) FROM webhook_endpoint WHERE partner_id = $1 AND deleted_at IS NULL", partner_id
    )
    return row[0] if row else 0


async def hold_deliveries(conn: pool.Connection, *, partner_id: str, endpoint_id: str) -> None:
    """What is on its way to the endpoint waits until it is replayed; what is just being sent is let end."""
    await conn.execute(
        "UPDATE webhook_delivery SET state = 'HELD', lease_until = NULL, lease_token = NULL"
        " WHERE partner_id = $1 AND endpoint_id = $2 AND state = 'DUE'",
        partner_id, endpoint_id,
    )  # fmt: skip


def _column(endpoint: model.Endpoint, name: str, ring: seal.KeyRing) -> object:
    value = getattr(endpoint, name)
    if name in _SECRETS:
        return None if value is None else ring.seal(value.encode(), bound_to=_place(endpoint.endpoint_id))
    return list(value) if name == "kinds" else value


def _endpoint(row: pool.Record, ring: seal.KeyRing) -> model.Endpoint:
    values = {name: row[name] for name in _COLUMNS} | {"kinds": tuple(row["kinds"])}
    for name in _SECRETS:
        if values[name] is not None:
            values[name] = ring.open(values[name], bound_to=_place(row["endpoint_id"])).decode()
    return model.Endpoint(**values)


def _place(endpoint_id: str) -> str:
    return f"webhook/{endpoint_id}"
