"""SQL of the stock of imported codes."""

from collections.abc import Sequence
from datetime import date, datetime

from giftrail.db import pool
from giftrail.providers import protocol

STAGED_COLUMNS = ("line", "stock_id", "denomination_minor", "sealed", "code_digest", "valid_till")


async def pick_unsold(
    conn: pool.Connection, *, demands: Sequence[protocol.Demand], today: date, but: Sequence[str]
) -> list[pool.Record]:
    """Up to the demanded number of unsold codes of each denomination, locked.

    Those another transaction holds, and the stock ids in `but`, are passed over. Columns: brand_id,
    denomination_minor, stock_id, sealed, code_digest, valid_till.
    """
    return await conn.fetch(
        "SELECT d.brand_id, d.denomination_minor, s.* FROM unnest($1::text[], $2::bigint[], $3::int[])"
        " AS d (brand_id, denomination_minor, quantity) CROSS JOIN LATERAL ("
        "   SELECT stock_id, sealed, code_digest, valid_till FROM stock_code c"
        "   WHERE c.brand_id = d.brand_id AND c.denomination_minor = d.denomination_minor"
        "     AND c.sold_at IS NULL AND c.valid_till >= $4 AND c.stock_id <> ALL ($5::text[])"
        "   ORDER BY c.valid_till, c.stock_id LIMIT d.quantity FOR UPDATE SKIP LOCKED) s",
        [demand.brand_id for demand in demands],
        [demand.denomination_minor for demand in demands],
        [demand.quantity for demand in demands],
        today,
        list(but),
    )


async def list_unsold(
    conn: pool.Connection, *, demands: Sequence[protocol.Demand], today: date, but: Sequence[str] = ()
) -> list[int]:
    """For each demand how many unsold codes there are, locked or not and not in `but`, up to the demanded number."""
    rows = await conn.fetch(
        "SELECT (SELECT count(*) FROM (SELECT FROM stock_code c"
        "   WHERE c.brand_id = d.brand_id AND c.denomination_minor = d.denomination_minor"
        "     AND c.sold_at IS NULL AND c.valid_till >= $4 AND c.stock_id <> ALL ($5::text[])"
        "   LIMIT d.quantity) found) AS unsold"
        " FROM unnest($1::text[], $2::bigint[], $3::int[]) WITH ORDINALITY"
        " AS d (brand_id, denomination_minor, quantity, place) ORDER BY place",
        [demand.brand_id for demand in demands],
        [demand.denomination_minor for demand in demands],
        [demand.quantity for demand in demands],
        today,
        list(but),
    )
    return [row["unsold"] for row in rows]


async def mark_sold(
    conn: pool.Connection,
    *,
    brand_ids: Sequence[str],
    stock_ids: Sequence[str],
    partner_ids: Sequence[str],
    voucher_ids: Sequence[str],
    now: datetime,
) -> None:
    """The codes were sold as these vouchers; their sealed copy here is emptied."""
    await conn.execute(
        "UPDATE stock_code c SET sold_at = $5, partner_id = s.partner_id, voucher_id = s.voucher_id, sealed = ''"
        " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])"
        " AS s (brand_id, stock_id, partner_id, voucher_id) WHERE c.brand_id = s.brand_id AND c.stock_id = s.stock_id",
        list(brand_ids), list(stock_ids), list(partner_ids), list(voucher_ids), now,
    )  # fmt: skip


async def stage(conn: pool.Connection) -> None:
    """A temporary table, empty, into which an import is copied before anything is sold from it."""
    await conn.execute("DROP TABLE IF EXISTS pg_temp.staged_code")
    await conn.execute(
        "CREATE TEMPORARY TABLE staged_code (line bigint, stock_id text, denomination_minor bigint, sealed bytea,"
        " code_digest bytea, valid_till date) ON COMMIT DROP"
    )


async def copy_staged(conn: pool.Connection, rows: Sequence[tuple[object, ...]]) -> None:
    """Add rows of STAGED_COLUMNS."""
    await conn.copy_records_to_table("staged_code", records=rows, columns=STAGED_COLUMNS)


async def list_repeated_lines(conn: pool.Connection, *, limit: int) -> tuple[list[tuple[int, int]], int]:
    """(line, earlier line) of staged codes that stand in the file already, the first few, and how many in all."""
    rows = await conn.fetch(
        "SELECT line, earlier, count(*) OVER () AS total FROM"
        " (SELECT line, min(line) OVER (PARTITION BY code_digest) AS earlier FROM staged_code) s"
        " WHERE line > earlier ORDER BY line LIMIT $1",
        limit,
    )
    return [(row["line"], row["earlier"]) for row in rows], rows[0]["total"] if rows else 0


async def list_known_lines(conn: pool.Connection, *, brand_id: str, limit: int) -> tuple[list[int], int]:
    """The lines of staged codes that the brand's stock holds or held, the first few, and how many in all."""
    rows = await conn.fetch(
        "SELECT line, count(*) OVER () AS total FROM staged_code s WHERE EXISTS (SELECT FROM stock_code c"
        " WHERE c.brand_id = $1 AND c.code_digest = s.code_digest) ORDER BY line LIMIT $2",
        brand_id, limit,
    )  # fmt: skip
    return [row["line"] for row in rows], rows[0]["total"] if rows else 0


async def shelve_staged(conn: pool.Connection, *, brand_id: str, now: datetime) -> None:
    """Put all staged codes into the brand's stock. Raises asyncpg.UniqueViolationError on one that is there."""
    await conn.execute(
        "INSERT INTO stock_code (brand_id, stock_id, denomination_minor, sealed, code_digest, valid_till, imported_at)"
        " SELECT $1, stock_id, denomination_minor, sealed, code_digest, valid_till, $2 FROM staged_code",
        brand_id, now,
    )  # fmt: skip


async def append_stock_code(
    conn: pool.Connection,
    *,
    brand_id: str,
    stock_id: str,
    denomination_minor: int,
    sealed: bytes,
    code_digest: bytes,
    valid_till: date,
    now: datetime,
) -> None:
    """Put one code into the stock. Raises asyncpg.UniqueViolationError when it is there."""
    await conn.execute(
        "INSERT INTO stock_code (brand_id, stock_id, denomination_minor, sealed, code_digest, valid_till, imported_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7)",
        brand_id, stock_id, denomination_minor, sealed, code_digest, valid_till, now,
    )  # fmt: skip


async def list_levels(conn: pool.Connection | pool.Pool, *, brand_id: str | None, today: date) -> list[pool.Record]:
    """brand_id, denomination_minor, unsold, expired and sold of each denomination ever imported."""
    return await conn.fetch(
        "SELECT brand_id, denomination_minor,"
        " count(*) FILTER (WHERE sold_at IS NULL AND valid_till >= $2) AS unsold,"
        " count(*) FILTER (WHERE sold_at IS NULL AND valid_till < $2) AS expired,"
        " count(*) FILTER (WHERE sold_at IS NOT NULL) AS sold"
        " FROM stock_code WHERE $1::text IS NULL OR brand_id = $1"
        " GROUP BY brand_id, denomination_minor ORDER BY brand_id, denomination_minor",
        brand_id, today,
    )  # fmt: skip
