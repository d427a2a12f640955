"""How PostgreSQL carries out what a deed asks: the plans of its statements, with values and as they are kept."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import asyncpg
from benchmarks.doings import DEEDS, Doer
from benchmarks.past import Past

from giftrail.db import pool

MODES = ("force_custom_plan", "force_generic_plan")
# A statement that takes less is not worth telling; nor is an INSERT, which could not be repeated.
TOLD_MS = 0.5


async def explain(past: Past, name: str, *, statement_timeout_seconds: float) -> str:
    """The plans of the deed's slow statements, each made for its values and made for any (as a kept one is).

    A statement may be slow under one of them only, so the deed is done under both.
    """
    found: dict[str, asyncpg.connection.LoggedQuery] = {}
    for mode in MODES:
        for one in await _listen(f"{past.url}&plan_cache_mode={mode}", past, name, statement_timeout_seconds):
            if one.query not in found or one.elapsed > found[one.query].elapsed:
                found[one.query] = one
    worth = [one for one in found.values() if one.elapsed * 1000 >= TOLD_MS and not one.query.startswith("INSERT")]
    told = []
    async with pool.connect(past.url) as conn:
        for one in sorted(worth, key=lambda one: -one.elapsed)[:2]:
            told += [f"-- {name}, {mode}\n{await _explain(conn, one.query, one.args, mode)}" for mode in MODES]
    return "\n".join(told)


async def _listen(
    url: str, past: Past, name: str, statement_timeout_seconds: float
) -> list[asyncpg.connection.LoggedQuery]:
    """What the deed asks, with values; it is done twice, for the driver asks for types the first time."""
    seen: list[asyncpg.connection.LoggedQuery] = []
    database = await pool.open_database(
        url, read_connections=1, write_connections=1, statement_timeout_seconds=statement_timeout_seconds
    )
    try:
        doer = Doer(past, database, seed=1)
        await DEEDS[name](doer)
        async with database.write.acquire() as write, database.read.connections.acquire() as read:
            for conn in (write, read):
                conn.add_query_logger(seen.append)
        await DEEDS[name](doer)
    finally:
        await database.close()
    return [one for one in seen if one.args]


async def _explain(conn: pool.Connection, query: str, values: Sequence[Any], mode: str) -> str:
    given = ", ".join(map(_literal, values))
    transaction = conn.transaction()
    await transaction.start()
    try:
        await conn.execute(f"SET LOCAL plan_cache_mode = {mode}; SET LOCAL jit = off; PREPARE asked AS {query}")
        rows = await conn.fetch(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, SUMMARY OFF) EXECUTE asked ({given})")
        return "\n".join(row[0] for row in rows)
    finally:
        await transaction.rollback()
        await conn.execute("DEALLOCATE asked")


def _literal(value: Any) -> str:
    if value is None or isinstance(value, int | float):
        return "NULL" if value is None else str(value)
    return "'" + _text(value).replace("'", "''") + "'"


def _text(value: Any) -> str:
    """The value as PostgreSQL reads it from a text."""
    match value:
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return rf"\x{value.hex()}"
        case list() | tuple():
            return "{" + ",".join(map(_element, value)) + "}"
        case _:
            return str(value)


def _element(value: Any) -> str:
    text = _text(value).replace("\\", "\\\\").replace('"', '\\"')
    return "NULL" if value is None else f'"{text}"'
