import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import asyncpg
import pytest

import counter
from giftrail import app
from giftrail.audit import findings as audit
from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.orders import model as orders
from giftrail.orders import place
from giftrail.partners import model as partners
from giftrail.wallet import ledger, model, store

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
Step = Callable[[ledger.OpenWallet], None]


def top_up(amount: int) -> Step:
    return lambda wallet: wallet.top_up(amount, note="paid in", now=NOW)


def adjust(amount: int) -> Step:
    return lambda wallet: wallet.adjust(amount, note="corrected", now=NOW)


def debit(amount: int) -> Step:
    return lambda wallet: wallet.debit(amount, order_id="ord_1", reference_id="ref-1", now=NOW)


def threshold(amount: int | None) -> Step:
    return lambda wallet: wallet.set_threshold(amount)


async def move(conn: pool.Connection, partner: partners.Partner, *steps: Step) -> model.Wallet:
    """Each step in a transaction of its own; the wallet as it stands afterwards."""
    for step in steps:
        async with conn.transaction():
            opened = await ledger.open_wallet(conn, partner_id=partner.partner_id)
            step(opened)
            await ledger.close_wallet(conn, opened, now=NOW)
    return await ledger.read_wallet(conn, partner_id=partner.partner_id)


async def entries(conn: pool.Connection, partner: partners.Partner) -> list[tuple[int, str, int, int | None]]:
    rows = await conn.fetch(
        "SELECT wallet_version, account, amount_minor, balance_after_minor FROM entry WHERE partner_id = $1"
        " ORDER BY wallet_version, account",
        partner.partner_id,
    )
    return [tuple(row) for row in rows]


async def alerts(conn: pool.Connection, partner: partners.Partner) -> list[dict[str, Any]]:
    """The bodies, the highest balance first: events of one millisecond have no order of their own."""
    found = await outbox.list_events(conn, partner_id=partner.partner_id)
    bodies = [event.body for event in found if event.kind is events.Kind.WALLET_LOW_BALANCE]
    return sorted(bodies, key=lambda body: -body["balance"])


async def test_every_movement_is_a_double_entry_that_adds_to_zero(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=0)
        wallet = await move(conn, partner, top_up(1_000), adjust(50), adjust(-20), debit(300), debit(0))
        assert (wallet.available_minor, wallet.held_minor, wallet.version) == (730, 0, 5)
        assert await entries(conn, partner) == [
            (1, "AVAILABLE", 1_000, 1_000), (1, "FUNDING", -1_000, None),
            (2, "AVAILABLE", 50, 1_050), (2, "CORRECTIONS", -50, None),
            (3, "AVAILABLE", -20, 1_030), (3, "CORRECTIONS", 20, None),
            (4, "AVAILABLE", -300, 730), (4, "SALES", 300, None),
            (5, "AVAILABLE", 0, 730), (5, "SALES", 0, None),
        ]  # fmt: skip


async def test_the_statement_is_newest_first_and_pages(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=0)
        await move(conn, partner, top_up(1_000), debit(300), adjust(-1))
        found = await store.list_transfers(conn, partner_id=partner.partner_id, limit=2)
        assert [(one.kind, one.amount_minor, one.available_after_minor) for one in found] == [
            (model.Kind.ADJUSTMENT, -1, 699),
            (model.Kind.DEBIT, -300, 700),
        ]
        rest = await store.list_transfers(conn, partner_id=partner.partner_id, before_version=2, limit=2)
        assert [one.kind for one in rest] == [model.Kind.TOP_UP]
        assert found[0].transfer_id > found[1].transfer_id > rest[0].transfer_id


@pytest.mark.parametrize(
    ("step", "refusal"),
    [
        (top_up(0), ledger.AmountInvalid),
        (top_up(-1), ledger.AmountInvalid),
        (top_up(ledger.MAX_BALANCE_MINOR), ledger.AmountInvalid),
        (adjust(0), ledger.AmountInvalid),
        (adjust(-101), ledger.InsufficientBalance),
        (adjust(ledger.MAX_BALANCE_MINOR), ledger.AmountInvalid),
        (debit(101), ledger.InsufficientBalance),
        (threshold(-1), ledger.AmountInvalid),
    ],
    ids=["top up 0", "top up -1", "too much", "adjust 0", "below 0", "adjust too much", "debit", "threshold"],
)
async def test_what_a_wallet_cannot_take_changes_nothing(
    database_url: str, step: Step, refusal: type[Exception]
) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=100)
        before = await ledger.read_wallet(conn, partner_id=partner.partner_id), await entries(conn, partner)
        with pytest.raises(refusal):
            await move(conn, partner, step)
        assert before == (await ledger.read_wallet(conn, partner_id=partner.partner_id), await entries(conn, partner))
        assert (await move(conn, partner, debit(100))).available_minor == 0


async def test_a_partner_without_a_wallet_is_named(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        for deed in (ledger.read_wallet, ledger.open_wallet):
            with pytest.raises(ledger.WalletUnknown, match="prt_nobody"):
                await deed(conn, partner_id="prt_nobody")


@pytest.mark.parametrize(
    ("steps", "balances"),
    [
        ([threshold(500), debit(500)], []),
        ([threshold(500), debit(501)], [4.99]),
        ([threshold(500), debit(501), debit(1)], [4.99]),
        ([threshold(500), debit(501), top_up(1), debit(1)], [4.99, 4.99]),
        ([threshold(500), debit(600), top_up(99), debit(1)], [4]),
        ([threshold(2_000)], []),
        ([threshold(2_000), debit(1)], []),
        ([threshold(2_000), top_up(1_000), debit(1)], [19.99]),
        ([threshold(500), debit(501), threshold(None), debit(1)], [4.99]),
        ([threshold(500), debit(501), threshold(400), debit(100)], [4.99, 3.99]),
        ([threshold(500), adjust(-600)], [4]),
        ([debit(1_000)], []),
        ([threshold(0), debit(1_000)], []),
    ],
    ids=[
        "at it", "below it", "once", "armed again at it", "not armed below it", "raised above", "still low",
        "armed after a raise", "off", "lowered, crossed again", "adjusted", "none", "zero",
    ],
)  # fmt: skip
async def test_low_balance_is_told_once_for_each_downward_crossing(
    database_url: str, steps: list[Step], balances: list[float]
) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=1_000)
        await move(conn, partner, *steps)
        assert [body["balance"] for body in await alerts(conn, partner)] == balances


async def test_two_crossings_in_one_transaction_are_two_alerts(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=1_000)
        await move(conn, partner, threshold(500))

        def down_and_up_and_down(wallet: ledger.OpenWallet) -> None:
            for step in (debit(600), top_up(600), debit(700)):
                step(wallet)

        await move(conn, partner, down_and_up_and_down)
        assert await alerts(conn, partner) == [{"balance": 4, "threshold": 5}, {"balance": 3, "threshold": 5}]


async def test_concurrent_movements_wait_for_each_other(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=0)

        async def one(amount: int) -> None:
            async with pool.connect(database_url) as own:
                await move(own, partner, *[top_up(amount)] * 5)

        await asyncio.gather(*(one(amount) for amount in (1, 10, 100, 1_000)))
        wallet = await ledger.read_wallet(conn, partner_id=partner.partner_id)
        assert (wallet.available_minor, wallet.version) == (5_555, 20)
        assert await audit.list_findings(conn, now=app.now()) == []


@pytest.mark.parametrize("table", ["transfer", "entry", "operator_act"])
@pytest.mark.parametrize(
    "statement",
    ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {}", "TRUNCATE {} CASCADE"],
    ids=["update", "delete", "truncate", "cascade"],
)
async def test_the_books_are_never_changed_or_removed(database_url: str, table: str, statement: str) -> None:
    column = {"operator_act": "operator"}.get(table, "partner_id")
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=100)
        with pytest.raises(asyncpg.RaiseError, match=f"{table} rows are never changed or removed"):
            await conn.execute(statement.format(table, column, column))
        assert len(await entries(conn, partner)) == 2


@pytest.mark.parametrize("change", ["posted_minor = -1", "held_minor = -1", "held_minor = posted_minor + 1"])
async def test_the_database_itself_refuses_an_overdrawn_wallet(database_url: str, change: str) -> None:
    async with pool.connect(database_url) as conn:
        await counter.new_partner(conn, money_minor=100)
        with pytest.raises(asyncpg.CheckViolationError):
            await conn.execute(f"UPDATE wallet SET {change}")


@pytest.mark.parametrize("note", ["x" * 201, "two\nlines", "nul\0", "\x1b[31m"])
def test_a_note_that_cannot_be_shown_is_refused(note: str) -> None:
    with pytest.raises(ledger.AmountInvalid, match="note"):
        ledger.check_note(note)


def test_a_note_that_can_be_shown_is_kept() -> None:
    assert ledger.check_note("UTR 4711, दिसंबर") == "UTR 4711, दिसंबर"
    assert ledger.check_note(None) is None


# ---- the auditor --------------------------------------------------------------------------------------------------


@dataclass
class Books:
    """A partner whose wallet has moved three times: money in, an order generated, an order from stock; one FAILED."""

    partner: str
    generated: str
    generated_voucher: str
    stocked: str
    stocked_voucher: str
    failed: str

    def fill(self, text: str) -> str:
        """The text with $names replaced by ids."""
        for name, value in sorted(vars(self).items(), key=lambda item: -len(item[0])):
            text = text.replace(f"${name}", value)
        return text


async def open_books(conn: pool.Connection) -> Books:
    partner = (await counter.new_partner(conn, money_minor=100_000)).partner_id
    brand = await counter.new_brand(conn)
    stock = await counter.new_brand(conn, providers=["stock"])
    await counter.put_stock(conn, stock, 250, 2)
    drafts = [
        counter.draft(partner, brand, {100: 1}),
        counter.draft(partner, stock, {250: 1}),
        counter.draft(partner, brand, {500: 9_999}),
    ]
    answers = await place.place_orders(conn, drafts, keys=counter.KEYS, now=NOW)
    placed = [answer.order for answer in answers if isinstance(answer, orders.Receipt)]
    assert [order.status.value for order in placed] == ["SUCCESS", "SUCCESS", "FAILED"]
    return Books(
        partner=partner,
        generated=placed[0].order_id,
        generated_voucher=placed[0].vouchers[0].voucher_id,
        stocked=placed[1].order_id,
        stocked_voucher=placed[1].vouchers[0].voucher_id,
        failed=placed[2].order_id,
    )


WITHOUT_2 = "DELETE FROM entry WHERE wallet_version = 2; DELETE FROM transfer WHERE wallet_version = 2"

CORRUPTIONS = {
    "entries do not add up": (
        "UPDATE entry SET amount_minor = amount_minor + 1 WHERE wallet_version = 2 AND account = 'SALES'",
        "transfer $partner/2: its entries add to 1, not to 0",
    ),
    "a transfer without entries": (
        "DELETE FROM entry WHERE wallet_version = 2",
        "transfer $partner/2: its entries add to",
    ),
    "an entry without a transfer": (
        "DELETE FROM transfer WHERE wallet_version = 2",
        "entry $partner/2/AVAILABLE: it belongs to no transfer",
    ),
    "a wallet with more than its entries": (
        "UPDATE wallet SET posted_minor = posted_minor + 1",
        "wallet $partner: available 65001 and held 0, but its entries say 65000 and 0",
    ),
    "a wallet that holds more than its entries": (
        "UPDATE wallet SET held_minor = 7, posted_minor = posted_minor + 7",
        "wallet $partner: available 65000 and held 7, but its entries say 65000 and 0",
    ),
    "entries without their wallet": ("DELETE FROM wallet", "$partner"),
    "a gap in the chain": (WITHOUT_2, "wallet $partner: version 3, but its transfers are 1 to 3, 2 in all"),
    "a chain that begins late": (
        WITHOUT_2.replace("= 2", "= 1"),
        "wallet $partner: version 3, but its transfers are 2 to 3, 2 in all",
    ),
    "a chain that ends early": (
        "UPDATE wallet SET version = 4",
        "wallet $partner: version 4, but its transfers are 1 to 3, 3 in all",
    ),
    "a balance that does not follow": (
        "UPDATE entry SET balance_after_minor = 1 WHERE wallet_version = 2 AND account = 'AVAILABLE'",
        "entry $partner/2/AVAILABLE: its balance does not follow the one before",
    ),
    "a transfer of another amount than its entries": (
        "UPDATE transfer SET amount_minor = 1 WHERE wallet_version = 1",
        "transfer $partner/1",
    ),
    "a transfer of another balance than its entries": (
        "UPDATE transfer SET available_after_minor = 1 WHERE wallet_version = 1",
        "transfer $partner/1",
    ),
    "SUCCESS and not paid": (WITHOUT_2, "order $partner/$generated: SUCCESS with debit 10000"),
    "SUCCESS and another debit": (
        "UPDATE orders SET debit_minor = 9999 WHERE order_id = '$generated'",
        "order $partner/$generated: SUCCESS with debit 9999, but its transfers are DEBIT",
    ),
    "paid twice": (
        "UPDATE transfer SET order_id = '$generated' WHERE wallet_version = 3",
        "order $partner/$generated: SUCCESS with debit 10000, but its transfers are DEBIT, DEBIT",
    ),
    "FAILED and paid": (
        "UPDATE transfer SET order_id = '$failed' WHERE wallet_version = 2",
        "order $partner/$failed: FAILED with debit 0, but its transfers are DEBIT",
    ),
    "CANCELLED and paid": (
        "UPDATE orders SET status = 'CANCELLED' WHERE order_id = '$generated'",
        "order $partner/$generated: CANCELLED with debit 10000, but its transfers are DEBIT",
    ),
    "PROCESSING without a hold": (
        "UPDATE orders SET status = 'PROCESSING' WHERE order_id = '$generated'",
        "order $partner/$generated: PROCESSING with debit 10000, but its transfers are DEBIT",
    ),
    "REVERSED without a refund": (
        "UPDATE orders SET status = 'REVERSED' WHERE order_id = '$generated'",
        "order $partner/$generated: REVERSED with debit 10000, but its transfers are DEBIT",
    ),
    "a hold of an order that is finished": (
        "UPDATE transfer SET kind = 'HOLD' WHERE wallet_version = 2",
        "order $partner/$generated: SUCCESS with debit 10000, but its transfers are HOLD",
    ),
    "a payment for no order": (
        "DELETE FROM orders WHERE order_id = '$generated'",
        "transfer $partner/2: its order $generated does not exist",
    ),
    "a payment that names no order": (
        "UPDATE transfer SET order_id = NULL WHERE wallet_version = 2",
        "transfer $partner/2: its order None does not exist",
    ),
    "an amount unlike its lines": (
        "UPDATE orders SET amount_minor = amount_minor + 1 WHERE order_id = '$generated'",
        "order $partner/$generated: SUCCESS, but amount 10001 and debit 10000 do not follow",
    ),
    "a debit unlike its discount": (
        "UPDATE orders SET discount_percentage = 50 WHERE order_id = '$generated'",
        "order $partner/$generated: SUCCESS, but amount 10000 and debit 10000 do not follow",
    ),
    "SUCCESS without its voucher": (
        "DELETE FROM voucher WHERE voucher_id = '$generated_voucher'",
        "order $partner/$generated: SUCCESS, but its vouchers are not those of its lines",
    ),
    "a voucher of another denomination": (
        "UPDATE voucher SET amount_minor = 25000 WHERE voucher_id = '$generated_voucher'",
        "order $partner/$generated: SUCCESS, but its vouchers are not those of its lines",
    ),
    "FAILED with a voucher": (
        "UPDATE voucher SET order_id = '$failed' WHERE voucher_id = '$generated_voucher'",
        "order $partner/$failed: FAILED, but its vouchers are not those of its lines",
    ),
    "a voucher of no order": (
        "UPDATE voucher SET order_id = 'ord_none' WHERE voucher_id = '$generated_voucher'",
        "order $partner/ord_none: unknown, but its vouchers are not those of its lines",
    ),
    "a generated code that is not recorded": (
        "DELETE FROM issued_code",
        "voucher $partner/$generated_voucher: its code is not recorded as sold once by generator",
    ),
    "a stock code that can be sold again": (
        "UPDATE stock_code SET sold_at = NULL, partner_id = NULL, voucher_id = NULL",
        "voucher $partner/$stocked_voucher: its code is not recorded as sold once by stock",
    ),
    "a code recorded twice": (
        """INSERT INTO issued_code SELECT provider, code_digest, partner_id, voucher_id FROM voucher
           WHERE voucher_id = '$stocked_voucher'""",
        "voucher $partner/$stocked_voucher: its code is not recorded as sold once by stock",
    ),
    "one code in two vouchers": (
        """UPDATE voucher v SET code_digest = s.code_digest, provider = 'stock' FROM voucher s
           WHERE v.voucher_id = '$generated_voucher' AND s.voucher_id = '$stocked_voucher'""",
        "voucher $partner/$generated_voucher: its code is not recorded as sold once by stock",
    ),
    "a generated code sold as no voucher": (
        "DELETE FROM voucher WHERE voucher_id = '$generated_voucher'",
        "sold code of voucher $partner/$generated_voucher: the voucher does not exist",
    ),
    "a stock code sold as no voucher": (
        "DELETE FROM voucher WHERE voucher_id = '$stocked_voucher'",
        "sold code of voucher $partner/$stocked_voucher: the voucher does not exist",
    ),
}


@pytest.mark.parametrize(("corruption", "finding"), CORRUPTIONS.values(), ids=CORRUPTIONS)
async def test_the_auditor_names_the_row_that_cannot_be(database_url: str, corruption: str, finding: str) -> None:
    async with pool.connect(database_url) as conn:
        books = await open_books(conn)
        await counter.new_partner(conn, money_minor=0)  # a wallet that never moved is sound
        assert await audit.list_findings(conn, now=app.now()) == []
        # No trigger fires for a replica: this is how a corrupted database is made.
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(books.fill(corruption))
        findings = await audit.list_findings(conn, now=app.now())
        assert any(books.fill(finding) in found for found in findings), findings


async def test_time_does_not_go_back_in_a_wallet(database_url: str) -> None:
    """Processes whose clocks differ: otherwise a statement of a day would miss lines, or show another day's."""
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=0)
        moments = [NOW, NOW - timedelta(seconds=30), NOW + timedelta(seconds=1), NOW]
        for moment in moments:
            async with conn.transaction():
                opened = await ledger.open_wallet(conn, partner_id=partner.partner_id)
                opened.top_up(100, note=None, now=moment)
                await ledger.close_wallet(conn, opened, now=moment)
        found = await store.list_transfers(conn, partner_id=partner.partner_id, limit=10)
        assert [one.created_at for one in found] == [NOW + timedelta(seconds=1)] * 2 + [NOW] * 2


async def test_a_statement_goes_from_one_moment_up_to_another(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=0)
        for second in (0, 0, 1, 2, 2, 4):  # several in one moment, as in a batch
            moment = NOW + timedelta(seconds=second)
            async with conn.transaction():
                opened = await ledger.open_wallet(conn, partner_id=partner.partner_id)
                opened.top_up(100, note=None, now=moment)
                await ledger.close_wallet(conn, opened, now=moment)

        async def versions(start: float | None, end: float | None, before: int | None = None) -> list[int]:
            found = await store.list_transfers(
                conn,
                partner_id=partner.partner_id,
                created_from=None if start is None else NOW + timedelta(seconds=start),
                created_to=None if end is None else NOW + timedelta(seconds=end),
                before_version=before,
                limit=10,
            )
            return [one.wallet_version for one in found]

        assert await versions(None, None) == [6, 5, 4, 3, 2, 1]
        assert await versions(0, 2) == [3, 2, 1]
        assert await versions(1, None) == [6, 5, 4, 3]
        assert await versions(None, 0) == []
        assert await versions(2, 4) == [5, 4]
        assert await versions(3, 4) == []
        assert await versions(5, None) == []
        assert await versions(4, 1) == []
        assert await versions(0, 5, before=4) == [3, 2, 1]


async def test_a_past_day_of_a_statement_is_found_without_walking_to_it(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        partner = await counter.new_partner(conn, money_minor=0)
        await conn.execute(
            "INSERT INTO transfer (partner_id, wallet_version, kind, amount_minor, available_after_minor,"
            " held_after_minor, created_at) SELECT $1, n, 'TOP_UP', 1, n, 0, $2::timestamptz + n * interval '1 minute'"
            " FROM generate_series(1, 20000) n",
            partner.partner_id, NOW,
        )  # fmt: skip
        await conn.execute("ANALYZE transfer")
        asked: list[tuple[str, tuple[Any, ...]]] = []

        class Asked:
            async def fetch(self, query: str, *values: Any) -> list[pool.Record]:
                asked.append((query, values))
                return []

        await store.list_transfers(
            cast(pool.Connection, Asked()),
            partner_id=partner.partner_id,
            created_from=NOW + timedelta(days=1),
            created_to=NOW + timedelta(days=2),
            limit=51,
        )
        [(query, values)] = asked
        for mode in ("force_custom_plan", "force_generic_plan"):
            await conn.execute(f"SET plan_cache_mode = {mode}")
            plan = json.loads(await conn.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", *values))[0]
            assert plan["Plan"]["Actual Rows"] == 51
            assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 50, mode
