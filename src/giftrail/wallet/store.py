"""SQL of wallets, transfers and entries."""

from collections.abc import Sequence
from datetime import datetime

from giftrail.db import pool
from giftrail.wallet import model

_BEHIND_ALL_VERSIONS = 2**63 - 1
_WALLET = (
    "SELECT partner_id, currency, posted_minor, held_minor, version, low_threshold_minor, low_alerted, limited,"
    " moved_at FROM wallet"
)


async def insert_wallet(conn: pool.Connection, *, partner_id: str, currency: str) -> None:
    """An empty wallet."""
    await conn.execute("INSERT INTO wallet (partner_id, currency) VALUES ($1, $2)", partner_id, currency)


async def find_wallet(conn: pool.Connection | pool.Pool, *, partner_id: str) -> model.Wallet | None:
    """The wallet as committed."""
    return _wallet(await conn.fetchrow(_WALLET + " WHERE partner_id = $1", partner_id))


async def lock_wallet(conn: pool.Connection, *, partner_id: str) -> model.Wallet | None:
    """The wallet, locked until the transaction ends: this lock puts a partner's money in order."""
    return _wallet(await conn.fetchrow(_WALLET + " WHERE partner_id = $1 FOR UPDATE", partner_id))


async def lock_wallets(
    conn: pool.Connection, *, partner_ids: Sequence[str], skip_locked: bool
) -> dict[str, model.Wallet]:
    """By partner, the wallets, locked in the order of the ids until the transaction ends.

    One order for everyone, so that two transactions never wait for each other; `skip_locked` leaves out those that
    another transaction holds.
    """
    rows = await conn.fetch(
        f"SELECT w.* FROM unnest($1::text[]) AS wanted (id) CROSS JOIN LATERAL ({_WALLET} WHERE partner_id = wanted.id"
        f" FOR UPDATE{' SKIP LOCKED' if skip_locked else ''}) w",
        sorted(partner_ids),
    )
    return {wallet.partner_id: wallet for row in rows if (wallet := _wallet(row)) is not None}


async def limit_lock_waits(conn: pool.Connection, *, seconds: float) -> None:
    """Until the transaction ends, wait for no lock longer than this."""
    await conn.execute("SELECT set_config('lock_timeout', $1, true)", f"{seconds * 1000:.0f}ms")


async def update_wallets(conn: pool.Connection, wallets: Sequence[model.Wallet]) -> None:
    """Write what the caller, who holds their locks, made of them."""
    await conn.execute(
        "UPDATE wallet w SET posted_minor = n.posted_minor, held_minor = n.held_minor, version = n.version,"
        " low_threshold_minor = n.low_threshold_minor, low_alerted = n.low_alerted, limited = n.limited,"
        " moved_at = n.moved_at"
        " FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bool[], $7::bool[],"
        " $8::timestamptz[])"
        " AS n (partner_id, posted_minor, held_minor, version, low_threshold_minor, low_alerted, limited, moved_at)"
        " WHERE w.partner_id = n.partner_id",
        [wallet.partner_id for wallet in wallets],
        [wallet.posted_minor for wallet in wallets],
        [wallet.held_minor for wallet in wallets],
        [wallet.version for wallet in wallets],
        [wallet.low_threshold_minor for wallet in wallets],
        [wallet.low_alerted for wallet in wallets],
        [wallet.limited for wallet in wallets],
        [wallet.moved_at for wallet in wallets],
    )


async def append_transfers(
    conn: pool.Connection, *, transfers: Sequence[model.Transfer], entries: Sequence[model.Entry]
) -> None:
    """Write the transfers and their entries."""
    await conn.execute(
        "INSERT INTO transfer (partner_id, wallet_version, kind, amount_minor, available_after_minor,"
        " held_after_minor, order_id, reference_id, note, created_at, resolves_version)"
        " SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],"
        " $7::text[], $8::text[], $9::text[], $10::timestamptz[], $11::bigint[])",
        [transfer.partner_id for transfer in transfers],
        [transfer.wallet_version for transfer in transfers],
        [transfer.kind.value for transfer in transfers],
        [transfer.amount_minor for transfer in transfers],
        [transfer.available_after_minor for transfer in transfers],
        [transfer.held_after_minor for transfer in transfers],
        [transfer.order_id for transfer in transfers],
        [transfer.reference_id for transfer in transfers],
        [transfer.note for transfer in transfers],
        [transfer.created_at for transfer in transfers],
        [transfer.resolves_version for transfer in transfers],
    )
    await conn.execute(
        "INSERT INTO entry (partner_id, wallet_version, account, amount_minor, balance_after_minor)"
        " SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])",
        [entry.partner_id for entry in entries],
        [entry.wallet_version for entry in entries],
        [entry.account.value for entry in entries],
        [entry.amount_minor for entry in entries],
        [entry.balance_after_minor for entry in entries],
    )


async def list_transfers(
    conn: pool.Connection | pool.Pool,
    *,
    partner_id: str,
    before_version: int | None = None,
    created_from: datetime | None = None,
    created_to: datetime | None = None,
    limit: int,
) -> list[model.Transfer]:
    """A partner's transfers, newest first, of versions below the given one; `created_to` is exclusive."""
    query = "SELECT * FROM transfer WHERE partner_id = $1 AND wallet_version < $2"
    values: list[object] = [partner_id, before_version or _BEHIND_ALL_VERSIONS, limit]
    # The times of a wallet's transfers never go back, so a moment is a place in the chain.
    if created_from is not None:
        values.append(created_from)
        query += (
            f" AND wallet_version >= coalesce((SELECT wallet_version FROM transfer WHERE partner_id = $1 AND created_at"
            f" >= ${len(values)} ORDER BY created_at, wallet_version LIMIT 1), {_BEHIND_ALL_VERSIONS})"
        )
    if created_to is not None:
        values.append(created_to)
        query += (
            " AND wallet_version <= coalesce((SELECT wallet_version FROM transfer WHERE partner_id = $1 AND created_at"
            f" < ${len(values)} ORDER BY created_at DESC, wallet_version DESC LIMIT 1), 0)"
        )
    rows = await conn.fetch(f"{query} ORDER BY wallet_version DESC LIMIT $3", *values)
    return [_transfer(row) for row in rows]


async def list_holds(conn: pool.Connection, *, partner_id: str, order_ids: Sequence[str]) -> dict[str, model.Transfer]:
    """By order, the hold that each of the orders began with."""
    rows = await conn.fetch(
        "SELECT t.* FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (SELECT * FROM transfer"
        " WHERE partner_id = $1 AND order_id = wanted.id AND kind = 'HOLD' LIMIT 1) t",
        partner_id, list(order_ids),
    )  # fmt: skip
    return {row["order_id"]: _transfer(row) for row in rows}


async def list_holds_unlike_held(conn: pool.Connection) -> list[pool.Record]:
    """Wallets whose held money is not that of the holds not yet resolved: partner_id, held_minor, open_minor."""
    return await conn.fetch(
        "SELECT partner_id, w.held_minor, coalesce(h.open_minor, 0) AS open_minor FROM wallet w LEFT JOIN ("
        "   SELECT partner_id, -sum(amount_minor) AS open_minor FROM transfer t WHERE kind = 'HOLD' AND NOT EXISTS"
        "   (SELECT FROM transfer r WHERE r.partner_id = t.partner_id AND r.resolves_version = t.wallet_version)"
        "   GROUP BY partner_id) h USING (partner_id) WHERE w.held_minor <> coalesce(h.open_minor, 0)"
    )


async def list_wrong_resolutions(conn: pool.Connection) -> list[pool.Record]:
    """Captures and releases that do not end a hold of the same order and amount: partner_id, wallet_version, kind."""
    return await conn.fetch(
        "SELECT r.partner_id, r.wallet_version, r.kind FROM transfer r LEFT JOIN transfer h"
        " ON h.partner_id = r.partner_id AND h.wallet_version = r.resolves_version AND h.kind = 'HOLD'"
        " WHERE r.kind IN ('CAPTURE', 'RELEASE') AND (h.order_id IS DISTINCT FROM r.order_id"
        "   OR abs(h.amount_minor) IS DISTINCT FROM abs(r.amount_minor))"
    )


async def list_unbalanced(conn: pool.Connection) -> list[pool.Record]:
    """Transfers whose entries do not add to zero, or that have none: partner_id, wallet_version, total."""
    return await conn.fetch(
        "SELECT t.partner_id, t.wallet_version, sum(e.amount_minor) AS total FROM transfer t"
        " LEFT JOIN entry e USING (partner_id, wallet_version) GROUP BY t.partner_id, t.wallet_version"
        " HAVING sum(e.amount_minor) IS DISTINCT FROM 0"
    )


async def list_entries_without_transfer(conn: pool.Connection) -> list[pool.Record]:
    """Entries that belong to no transfer: partner_id, wallet_version, account."""
    return await conn.fetch(
        "SELECT partner_id, wallet_version, account FROM entry e WHERE NOT EXISTS"
        " (SELECT FROM transfer t WHERE t.partner_id = e.partner_id AND t.wallet_version = e.wallet_version)"
    )


async def list_wallets_unlike_their_entries(conn: pool.Connection) -> list[pool.Record]:
    """Wallets whose row is not the sum of their entries: partner_id, available, held and what the entries say."""
    return await conn.fetch(
        "SELECT partner_id, w.posted_minor - w.held_minor AS available, w.held_minor AS held,"
        " coalesce(e.available, 0) AS entries_available, coalesce(e.held, 0) AS entries_held"
        " FROM wallet w FULL JOIN (SELECT partner_id,"
        "   sum(amount_minor) FILTER (WHERE account = 'AVAILABLE') AS available,"
        "   sum(amount_minor) FILTER (WHERE account = 'HELD') AS held"
        "   FROM entry GROUP BY partner_id) e USING (partner_id)"
        " WHERE w.posted_minor - w.held_minor IS DISTINCT FROM coalesce(e.available, 0)"
        " OR w.held_minor IS DISTINCT FROM coalesce(e.held, 0)"
    )


async def list_transfers_unlike_their_entries(conn: pool.Connection) -> list[pool.Record]:
    """Transfers whose amount or balances their entries do not have: partner_id, wallet_version."""
    return await conn.fetch(
        "SELECT t.partner_id, t.wallet_version FROM transfer t"
        " LEFT JOIN entry a ON (a.partner_id, a.wallet_version, a.account)"
        "   = (t.partner_id, t.wallet_version, 'AVAILABLE')"
        " LEFT JOIN entry h ON (h.partner_id, h.wallet_version, h.account) = (t.partner_id, t.wallet_version, 'HELD')"
        " WHERE a.balance_after_minor <> t.available_after_minor OR h.balance_after_minor <> t.held_after_minor"
        " OR (t.kind <> 'CAPTURE' AND a.amount_minor IS DISTINCT FROM t.amount_minor)"
    )


async def list_gaps(conn: pool.Connection) -> list[pool.Record]:
    """Wallets whose transfers are not exactly 1 to the wallet's version: partner_id, version, first, last, count."""
    return await conn.fetch(
        "SELECT w.partner_id, w.version, min(t.wallet_version) AS first, max(t.wallet_version) AS last,"
        " count(t.wallet_version) AS count FROM wallet w LEFT JOIN transfer t USING (partner_id)"
        " GROUP BY w.partner_id, w.version HAVING count(t.wallet_version) <> w.version"
        " OR coalesce(max(t.wallet_version), 0) <> w.version OR coalesce(min(t.wallet_version), 1) <> 1"
    )


async def list_broken_balances(conn: pool.Connection) -> list[pool.Record]:
    """Entries whose balance is not the one before plus their amount: partner_id, wallet_version, account."""
    return await conn.fetch(
        "SELECT partner_id, wallet_version, account FROM (SELECT *, amount_minor + coalesce(lag(balance_after_minor)"
        " OVER (PARTITION BY partner_id, account ORDER BY wallet_version), 0) AS expected"
        " FROM entry WHERE balance_after_minor IS NOT NULL) chain WHERE balance_after_minor <> expected"
    )


def _transfer(row: pool.Record) -> model.Transfer:
    return model.Transfer(
        partner_id=row["partner_id"],
        wallet_version=row["wallet_version"],
        kind=model.Kind(row["kind"]),
        amount_minor=row["amount_minor"],
        available_after_minor=row["available_after_minor"],
        held_after_minor=row["held_after_minor"],
        order_id=row["order_id"],
        reference_id=row["reference_id"],
        note=row["note"],
        created_at=row["created_at"],
        resolves_version=row["resolves_version"],
    )


def _wallet(row: pool.Record | None) -> model.Wallet | None:
    return model.Wallet(*row) if row else None
