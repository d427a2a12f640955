"""Plans that were made while the tables were empty must serve as well when they are not."""

import json
from typing import Any, cast

import pytest

import counter
from giftrail import app
from giftrail.db import pool
from giftrail.orders import place, store

ORDERS = 3_000
BATCH = 100


async def test_placing_reads_no_more_the_more_was_placed_before(database_url: str) -> None:
    """Index entries read by a batch, on the connection that saw the tables empty: none of its references is taken."""
    database = await pool.open_database(
        database_url, read_connections=1, write_connections=1, statement_timeout_seconds=30
    )
    try:
        async with pool.connect(database_url) as conn:
            partner, brand = await counter.new_partner(conn), await counter.new_brand(conn)
        async with database.write.acquire() as conn:
            read = []
            for _ in range(ORDERS // BATCH):
                before = await _entries_read(conn)
                drafts = [counter.draft(partner.partner_id, brand) for _ in range(BATCH)]
                await place.place_orders(conn, drafts, keys=counter.KEYS, now=app.now())
                read.append(await _entries_read(conn) - before)
        assert max(read) <= BATCH, read
    finally:
        await database.close()


async def _entries_read(conn: pool.Connection) -> int:
    await conn.execute("SELECT pg_stat_force_next_flush()")
    found: int = await conn.fetchval(
        "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'orders'"
    )
    return found


@pytest.mark.parametrize(
    ("table", "index", "query"),
    [
        ("orders", "orders_partner_id_reference_id_key",
         "SELECT * FROM orders WHERE partner_id = $1::text AND reference_id = $2::text"),
        ("orders", "orders_pkey", "SELECT * FROM orders WHERE partner_id = $1::text AND order_id = $2::text"),
        ("orders", "orders_pkey",
         "SELECT * FROM orders WHERE partner_id = $1::text AND order_id < $2::text ORDER BY order_id DESC LIMIT 50"),
        ("orders", "orders_not_success",
         "SELECT * FROM orders WHERE partner_id = $1::text AND status = 'PROCESSING' ORDER BY order_id DESC LIMIT 50"),
        ("voucher", "voucher_pkey", "SELECT * FROM voucher WHERE partner_id = $1::text AND voucher_id = $2::text"),
        ("voucher", "voucher_partner_id_order_id_position_key",
         "SELECT * FROM voucher WHERE partner_id = $1::text AND order_id = $2::text ORDER BY position"),
        ("transfer", "transfer_pkey",
         "SELECT * FROM transfer WHERE partner_id = $1::text AND wallet_version < 9 ORDER BY wallet_version DESC LIMIT 5"),  # noqa: E501
        ("stock_code", "stock_code_unsold",
         "SELECT * FROM stock_code WHERE brand_id = $1::text AND denomination_minor = 1 AND sold_at IS NULL LIMIT 5"),
    ],
)  # fmt: skip
async def test_every_look_up_has_its_index(database_url: str, table: str, index: str, query: str) -> None:
    async with pool.connect(database_url) as conn:
        partner, brand = await counter.new_partner(conn), await counter.new_brand(conn)
        drafts = [counter.draft(partner.partner_id, brand) for _ in range(BATCH)]
        await place.place_orders(conn, drafts, keys=counter.KEYS, now=app.now())
        await conn.execute("ANALYZE; SET enable_seqscan = off; SET enable_bitmapscan = off")
        await conn.execute(f"SET plan_cache_mode = force_generic_plan; PREPARE looking AS {query}")
        values = "'a', 'b'" if "$2" in query else "'a'"
        plan = json.loads(await conn.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE looking ({values})"))
        used = [node["Index Name"] for node in _nodes(plan[0]["Plan"]) if "Index Name" in node]
        assert used == [index], table


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(inner for child in node.get("Plans", ()) for inner in _nodes(child))]


@pytest.mark.parametrize("statuses", [["FAILED"], ["FAILED", "PROCESSING"]])
@pytest.mark.parametrize("before_id", [None, "ord_0"])
async def test_orders_that_did_not_succeed_are_listed_without_walking_through_the_others(
    database_url: str, statuses: list[str], before_id: str | None
) -> None:
    asked: list[tuple[str, tuple[Any, ...]]] = []

    class Asked:
        async def fetch(self, query: str, *values: Any) -> list[pool.Record]:
            asked.append((query, values))
            return []

    await store.list_orders(
        cast(pool.Connection, Asked()), partner_id="p", statuses=statuses, created_from=None, created_to=None,
        floor_id="", before_id=before_id, limit=50,
    )  # fmt: skip
    [(query, values)] = asked
    async with pool.connect(database_url) as conn:
        partner, brand = await counter.new_partner(conn), await counter.new_brand(conn)
        drafts = [counter.draft(partner.partner_id, brand) for _ in range(BATCH)]
        await place.place_orders(conn, drafts, keys=counter.KEYS, now=app.now())
        await conn.execute("ANALYZE orders; SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
        plan = json.loads(await conn.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *values))
        used = {node["Index Name"] for node in _nodes(plan[0]["Plan"]) if "Index Name" in node}
        assert used == {"orders_not_success"}
