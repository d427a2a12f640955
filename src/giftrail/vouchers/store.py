"""SQL of vouchers and of the record of issued codes."""

from collections.abc import Sequence

from giftrail.db import pool
from giftrail.kit import seal
from giftrail.vouchers import model, vault


async def append_vouchers(conn: pool.Connection, *, vouchers: Sequence[model.Voucher], ring: seal.KeyRing) -> None:
    """Write vouchers, sealed, inside the caller's transaction."""
    await conn.execute(
        "INSERT INTO voucher (partner_id, voucher_id, order_id, position, card_type, amount_minor, currency,"
        " valid_till, sealed, code_digest, provider)"
        " SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::text[], $6::bigint[], $7::text[],"
        " $8::date[], $9::bytea[], $10::bytea[], $11::text[])",
        [voucher.partner_id for voucher in vouchers],
        [voucher.voucher_id for voucher in vouchers],
        [voucher.order_id for voucher in vouchers],
        [voucher.position for voucher in vouchers],
        [voucher.card_type for voucher in vouchers],
        [voucher.amount_minor for voucher in vouchers],
        [voucher.currency for voucher in vouchers],
        [voucher.code.valid_till for voucher in vouchers],
        [vault.seal_code(voucher, ring=ring) for voucher in vouchers],
        [voucher.code.digest for voucher in vouchers],
        [voucher.provider for voucher in vouchers],
    )


async def append_issued_codes(conn: pool.Connection, *, source: str, vouchers: Sequence[model.Voucher]) -> None:
    """Record that the codes were sold. Raises asyncpg.UniqueViolationError when one of them was sold before."""
    await conn.execute(
        "INSERT INTO issued_code (source, code_digest, partner_id, voucher_id)"
        " SELECT $1, * FROM unnest($2::bytea[], $3::text[], $4::text[])",
        source,
        [voucher.code.digest for voucher in vouchers],
        [voucher.partner_id for voucher in vouchers],
        [voucher.voucher_id for voucher in vouchers],
    )  # fmt: skip


async def list_vouchers(
    conn: pool.Connection | pool.Pool, *, partner_id: str, order_ids: Sequence[str], ring: seal.KeyRing
) -> list[model.Voucher]:
    """The vouchers of the orders, opened, by order and position. Raises seal.CannotOpen."""
    rows = await conn.fetch(
        "SELECT v.* FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (SELECT * FROM voucher"
        " WHERE partner_id = $1 AND order_id = wanted.id ORDER BY position) v ORDER BY v.order_id, v.position",
        partner_id, list(order_ids),
    )  # fmt: skip
    return [_voucher(row, ring) for row in rows]


async def find_voucher(
    conn: pool.Connection | pool.Pool, *, partner_id: str, voucher_id: str, ring: seal.KeyRing
) -> model.Voucher | None:
    """The voucher, opened. Raises seal.CannotOpen."""
    row = await conn.fetchrow("SELECT * FROM voucher WHERE partner_id = $1 AND voucher_id = $2", partner_id, voucher_id)
    return _voucher(row, ring) if row else None


async def list_providers(conn: pool.Connection, *, partner_id: str, order_id: str) -> set[str]:
    """From which providers the order's vouchers are."""
    rows = await conn.fetch(
        "SELECT DISTINCT provider FROM voucher WHERE partner_id = $1 AND order_id = $2", partner_id, order_id
    )
    return {row["provider"] for row in rows}


def _voucher(row: pool.Record, ring: seal.KeyRing) -> model.Voucher:
    return model.Voucher(
        partner_id=row["partner_id"],
        voucher_id=row["voucher_id"],
        order_id=row["order_id"],
        position=row["position"],
        card_type=row["card_type"],
        amount_minor=row["amount_minor"],
        currency=row["currency"],
        provider=row["provider"],
        code=vault.open_code(
            row["sealed"],
            partner_id=row["partner_id"],
            order_id=row["order_id"],
            voucher_id=row["voucher_id"],
            valid_till=row["valid_till"],
            digest=row["code_digest"],
            ring=ring,
        ),
    )
