"""SQL of leases. Every change but the claim checks the lease's token, so that a stale worker changes nothing."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from giftrail.db import pool
from giftrail.leases import model


async def claim(
    conn: pool.Connection | pool.Pool, table: model.Table, *, rows: int, now: datetime, lease_until: datetime
) -> list[model.Claim]:
    """Take up to so many rows that are due, those due longest first.

    A claimed row is due again when its lease ends: there is nothing else to find out about a worker that died.
    """
    key = ", ".join(table.key)
    # SKIP LOCKED: rows that another worker is claiming at this moment are its own.
    records = await conn.fetch(
        f"UPDATE {table.name} SET next_at = $2, lease_until = $2, lease_token = gen_random_uuid(),"
        f" attempts = attempts + 1 WHERE ({key}) IN (SELECT {key} FROM {table.name}"
        f" WHERE state = 'DUE' AND next_at <= $1 ORDER BY next_at LIMIT $3 FOR UPDATE SKIP LOCKED)"
        f" RETURNING {key}, lease_token, attempts",
        now, lease_until, rows,
    )  # fmt: skip
    return [
        model.Claim(
            key=tuple(record[column] for column in table.key),
            token=uuid.UUID(str(record["lease_token"])),
            attempts=record["attempts"],
        )
        for record in records
    ]


async def renew(
    conn: pool.Connection | pool.Pool, table: model.Table, *, claims: Sequence[model.Claim], lease_until: datetime
) -> set[uuid.UUID]:
    """Lengthen the leases; returns the tokens of those that were still ours."""
    records = await conn.fetch(
        f"UPDATE {table.name} SET next_at = $2, lease_until = $2 WHERE lease_token = ANY ($1::uuid[])"
        " AND state = 'DUE' RETURNING lease_token",
        [claim.token for claim in claims], lease_until,
    )  # fmt: skip
    return {uuid.UUID(str(record["lease_token"])) for record in records}


async def finish(conn: pool.Connection | pool.Pool, table: model.Table, *, claim: model.Claim) -> None:
    """The work is done. Raises LeaseLost."""
    await _leave(conn, table, claim, "state = 'DONE', attempts = 0")


async def postpone(
    conn: pool.Connection | pool.Pool,
    table: model.Table,
    *,
    claim: model.Claim,
    next_at: datetime,
    attempts: int = 0,
) -> None:
    """Give the row back, due again at `next_at`. Raises LeaseLost."""
    await _leave(conn, table, claim, f"next_at = ${len(claim.key) + 2}, attempts = {attempts:d}", next_at)


async def hold(conn: pool.Connection, table: model.Table, *, claim: model.Claim) -> None:
    """Lock the row for the rest of the transaction, if it is still ours. Raises LeaseLost."""
    found = await conn.fetchrow(f"SELECT FROM {table.name} WHERE {_where(table)} FOR UPDATE", *claim.key, claim.token)
    if found is None:
        raise model.LeaseLost


async def list_overdue(conn: pool.Connection, table: model.Table, *, before: datetime) -> list[pool.Record]:
    """The keys of rows whose lease ended before that and that nobody has claimed since."""
    return await conn.fetch(
        f"SELECT {', '.join(table.key)} FROM {table.name} WHERE state = 'DUE' AND lease_until < $1", before
    )


async def _leave(
    conn: pool.Connection | pool.Pool, table: model.Table, claim: model.Claim, assignments: str, *more: object
) -> None:
    found = await conn.fetchrow(
        f"UPDATE {table.name} SET lease_token = NULL, lease_until = NULL, {assignments}"
        f" WHERE {_where(table)} RETURNING true",
        *claim.key, claim.token, *more,
    )  # fmt: skip
    if found is None:
        raise model.LeaseLost


def _where(table: model.Table) -> str:
    key = " AND ".join(f"{column} = ${number}" for number, column in enumerate(table.key, 1))
    return f"{key} AND lease_token = ${len(table.key) + 1}"
