"""SQL of the audit trail."""

from datetime import datetime
from typing import Any

import msgspec

from giftrail.db import pool


async def append_act(
    conn: pool.Connection, *, act_id: str, operator: str, act: str, subject: str, detail: dict[str, Any], now: datetime
) -> None:
    """Add a line to the trail."""
    await conn.execute(
        "INSERT INTO operator_act (act_id, operator, act, subject, detail, acted_at)"
        " VALUES ($1, $2, $3, $4, $5, $6)",
        act_id, operator, act, subject, msgspec.json.encode(detail, enc_hook=str).decode(), now,
    )  # fmt: skip


async def list_acts(conn: pool.Connection, *, subject: str) -> list[pool.Record]:
    """The acts on a subject, oldest first: operator, act, detail (JSON text), acted_at."""
    return await conn.fetch(
        "SELECT operator, act, detail, acted_at FROM operator_act WHERE subject = $1 ORDER BY act_id", subject
    )
