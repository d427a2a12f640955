from datetime import UTC, date, datetime

import asyncpg
import msgspec
import pytest

import counter
from giftrail import app
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.kit import checkdigit, seal
from giftrail.orders import model as orders
from giftrail.orders import place, read
from giftrail.vouchers import store


async def sell(
    conn: pool.Connection, of: catalog.Brand, *, partner_id: str | None = None, count: int = 1
) -> orders.Order:
    """A finished order of so many vouchers of 100."""
    buyer = partner_id or (await counter.new_partner(conn)).partner_id
    draft = counter.draft(buyer, of, {100: count})
    [answer] = await place.place_orders(conn, [draft], keys=counter.KEYS, now=app.now())
    assert isinstance(answer, orders.Receipt)
    assert answer.order.status.value == "SUCCESS"
    return answer.order


def codes(order: orders.Order) -> list[tuple[str | None, str | None, date | None]]:
    return [(one.code.card_number, one.code.card_pin, one.code.valid_till) for one in order.vouchers]


@pytest.mark.parametrize(
    ("card_type", "number_digits", "pin_characters"),
    [("CARD_NUMBER_SECURED", 19, None), ("PIN_NO_SECURED", None, 16), ("CARD_AND_PIN_NO_SECURED", 19, 6)],
)
async def test_a_generated_voucher_is_read_as_it_was_sold(
    database_url: str, card_type: str, number_digits: int | None, pin_characters: int | None
) -> None:
    async with pool.connect(database_url) as conn:
        sold = await sell(conn, await counter.new_brand(conn, cardType=card_type), count=20)
        found = await read.read_order(conn, partner_id=sold.partner_id, order_id=sold.order_id, ring=counter.KEYS.ring)
        assert codes(found) == codes(sold)
        assert len(set(codes(found))) == 20
        for number, pin, _ in codes(found):
            assert (number and len(number), pin and len(pin)) == (number_digits, pin_characters)
            assert number is None or checkdigit.is_valid(number, alphabet=checkdigit.DIGITS)
            assert number is not None or checkdigit.is_valid(pin or "", alphabet=checkdigit.BASE32)


async def test_no_code_lies_open_in_the_database(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn)
        stocked = await counter.new_brand(conn, providers=["stock"])
        await counter.put_stock(conn, stocked, 100, 2)
        secrets = [
            secret
            for of in (await counter.new_brand(conn), stocked)
            for number, pin, _ in codes(await sell(conn, of, partner_id=partner.partner_id))
            for secret in (number, pin)
            if secret and len(secret) > 8
        ]
        assert len(secrets) == 3
        tables = await conn.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in tables:
            for row in await conn.fetch(f"SELECT * FROM {table}"):
                kept = " ".join(
                    value.decode("latin-1") if isinstance(value, bytes) else str(value) for value in row.values()
                )
                assert not [secret for secret in secrets if secret in kept], table


@pytest.mark.parametrize(
    "moved",
    [
        "UPDATE voucher SET voucher_id = 'vch_moved' WHERE position = 0",
        "UPDATE voucher SET partner_id = 'prt_moved' WHERE position = 0",
        "UPDATE voucher SET order_id = 'ord_moved' WHERE position = 0",
        "UPDATE voucher v SET sealed = o.sealed FROM voucher o WHERE v.position = 0 AND o.position = 1",
    ],
    ids=["another voucher", "another partner", "another order", "another's bytes"],
)
async def test_a_sealed_row_that_was_moved_does_not_open(database_url: str, moved: str) -> None:
    async with pool.connect(database_url) as conn:
        sold = await sell(conn, await counter.new_brand(conn), count=2)
        await conn.execute(moved)
        row = await conn.fetchrow("SELECT partner_id, voucher_id FROM voucher WHERE position = 0")
        assert row is not None
        with pytest.raises(seal.CannotOpen):
            await store.find_voucher(conn, **row, ring=counter.KEYS.ring)
        untouched = await conn.fetchrow("SELECT partner_id, voucher_id FROM voucher WHERE position = 1")
        assert untouched is not None
        second = await store.find_voucher(conn, **untouched, ring=counter.KEYS.ring)
        assert second is not None
        assert second.code.card_number == sold.vouchers[1].code.card_number


@pytest.mark.parametrize("column", ["brand_id", "stock_id"])
async def test_a_row_of_stock_that_was_moved_is_not_sold(database_url: str, column: str) -> None:
    async with pool.connect(database_url) as conn:
        stocked = await counter.new_brand(conn, providers=["stock"])
        await counter.put_stock(conn, stocked, 100, 1)
        target = await counter.new_brand(conn, providers=["stock"]) if column == "brand_id" else stocked
        moved_to = target.brand_id if column == "brand_id" else "stk_moved"
        await conn.execute(f"UPDATE stock_code SET {column} = $1", moved_to)
        with pytest.raises(AssertionError, match="FAILED"):
            await sell(conn, target)
        assert await conn.fetchval("SELECT failure_code FROM orders") == "E150"
        assert await conn.fetchval("SELECT count(*) FROM stock_code WHERE sold_at IS NOT NULL") == 0


async def test_a_code_from_stock_is_sealed_again_for_its_buyer_and_emptied_in_the_stock(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        stocked = await counter.new_brand(conn, providers=["stock"])
        await counter.put_stock(conn, stocked, 100, 2)
        sold = await sell(conn, stocked)
        found = await conn.fetch("SELECT length(sealed) AS length, partner_id, voucher_id FROM stock_code ORDER BY 1")
        assert (found[0]["length"], found[0]["partner_id"]) == (0, sold.partner_id)
        assert found[0]["voucher_id"] == sold.vouchers[0].voucher_id
        assert (found[1]["length"] > 0, found[1]["partner_id"]) == (True, None)
        again = await read.read_order(conn, partner_id=sold.partner_id, order_id=sold.order_id, ring=counter.KEYS.ring)
        assert codes(again) == codes(sold)


async def test_a_voucher_belongs_to_its_partner_and_to_an_order_that_stands(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        sold = await sell(conn, await counter.new_brand(conn))
        voucher_id = sold.vouchers[0].voucher_id
        found = await read.read_voucher(conn, partner_id=sold.partner_id, voucher_id=voucher_id, ring=counter.KEYS.ring)
        assert found == sold.vouchers[0]
        stranger = (await counter.new_partner(conn)).partner_id
        with pytest.raises(orders.OrderUnknown):
            await read.read_voucher(conn, partner_id=stranger, voucher_id=voucher_id, ring=counter.KEYS.ring)
        await conn.execute("UPDATE orders SET status = 'REVERSED'")
        with pytest.raises(orders.OrderUnknown):
            await read.read_voucher(conn, partner_id=sold.partner_id, voucher_id=voucher_id, ring=counter.KEYS.ring)


async def test_a_code_that_was_sold_cannot_be_recorded_again(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        sold = await sell(conn, await counter.new_brand(conn))
        stranger = (await counter.new_partner(conn)).partner_id
        again = msgspec.structs.replace(sold.vouchers[0], partner_id=stranger)
        with pytest.raises(asyncpg.UniqueViolationError):
            await store.append_issued_codes(conn, source="generator", vouchers=[again])


async def test_vouchers_are_valid_for_the_brand_s_months(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        brand = await counter.new_brand(conn, voucherExpiryInMonths=6)
        partner = await counter.new_partner(conn)
        for placed_at, till in (
            ("2025-08-31", "2026-02-28"),
            ("2023-08-31", "2024-02-29"),
            ("2025-06-15", "2025-12-15"),
        ):
            at = datetime.fromisoformat(placed_at).replace(tzinfo=UTC)
            draft = counter.draft(partner.partner_id, brand, placed_at=at)
            [answer] = await place.place_orders(conn, [draft], keys=counter.KEYS, now=app.now())
            assert isinstance(answer, orders.Receipt)
            assert answer.order.vouchers[0].code.valid_till == date.fromisoformat(till)
