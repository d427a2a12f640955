"""Deliveries over a real database: begun, begun again, sent, put off and given up; and the links in them."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest

import counter
from conftest import new_database
from giftrail.attempts import plan
from giftrail.audit import findings as audit
from giftrail.db import pool
from giftrail.delivery import begin, links, model, pictures, protocol, send, store
from giftrail.leases import model as leases
from giftrail.leases import store as lease_store
from giftrail.orders import model as orders
from giftrail.orders import place
from giftrail.partners import manage
from giftrail.partners import model as partners
from giftrail.workers import recipients
from house import execute
from rooms.test_webhook_plans import Reader

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LEASE = timedelta(seconds=90)
COOLDOWN_SECONDS, MOST_A_DAY = 3600.0, 3
LINK = re.compile(r"https://gifts\.example/v/([\w-]{32})(?![\w-])")
MEERA = model.Recipient(model.Channel.EMAIL, "meera@example.com")
PHONE = model.Recipient(model.Channel.SMS, "+919820000001")
DETAILS = (
    '{"recipientType": "OTHER", "recipientName": "Meera", "senderName": "Asha", "wishMessage": "Happy birthday!",'
    ' "recipientEmail": "meera@example.com"}'
)


@dataclass
class Post:
    """A channel of the test: keeps its parcels and answers as it is told."""

    parcels: list[protocol.Parcel] = field(default_factory=list)
    answers: list[protocol.Result] = field(default_factory=list)

    async def send(self, parcel: protocol.Parcel) -> protocol.Result:
        self.parcels.append(parcel)
        return self.answers.pop(0) if self.answers else protocol.Sent()

    async def close(self) -> None:
        pass


@dataclass
class Bench:
    """A sender over a real database, and a clock that a test moves."""

    database: pool.Database
    conn: pool.Connection
    partner: partners.Partner
    post: Post = field(default_factory=Post)
    at: datetime = START

    def now(self) -> datetime:
        """The test's time."""
        return self.at

    async def order(self, *to: model.Recipient, quantity: int = 1) -> orders.Order:
        """A SUCCESS order with deliveries to these."""
        brand = await counter.new_brand(self.conn)
        draft = counter.draft(
            self.partner.partner_id,
            brand,
            {100: quantity},
            recipients=to or (MEERA,),
            delivery=DETAILS,
            placed_at=self.at,
        )
        [answer] = await place.place_orders(self.conn, [draft], keys=counter.KEYS, now=self.at)
        assert isinstance(answer, orders.Receipt)
        return answer.order

    def sender(self, **members: Any) -> send.Sender:
        """A sender by the test's channel."""
        options: dict[str, Any] = {
            "channels": dict.fromkeys(model.Channel, self.post),
            "paces": {channel: send.Pace(10_000) for channel in model.Channel},
            "read_content": recipients.content_reader(self.database, ring=counter.KEYS.ring, now=self.now),
            "public_url": "https://gifts.example/",
            "now": self.now,
        } | members
        return send.Sender(self.database, **options)

    async def claim(self) -> list[leases.Claim]:
        """What is due."""
        return await lease_store.claim(
            self.database.read, send.WORK, rows=100, now=self.at, lease_until=self.at + LEASE
        )

    async def work(self, **members: Any) -> int:
        """Take what is due further; how many there were."""
        claims = await self.claim()
        for claim in claims:
            await self.sender(**members).advance(claim)
        return len(claims)

    async def deliveries(self, order: orders.Order) -> list[model.Delivery]:
        """The order's, oldest first."""
        return await store.list_deliveries(self.conn, partner_id=self.partner.partner_id, order_ids=[order.order_id])

    async def only(self, order: orders.Order) -> model.Delivery:
        """The order's only one."""
        [one] = await self.deliveries(order)
        return one

    async def again(self, order: orders.Order, *to: model.Recipient) -> list[model.Delivery]:
        """Begin again."""
        async with self.conn.transaction():
            return await begin.begin_again(
                self.conn,
                partner_id=self.partner.partner_id,
                order_id=order.order_id,
                recipients=to or (MEERA,),
                cooldown_seconds=COOLDOWN_SECONDS,
                most_a_day=MOST_A_DAY,
                now=self.at,
            )

    async def row(self, delivery: model.Delivery) -> dict[str, Any]:
        """As it stands in the table."""
        found = await self.conn.fetchrow(
            "SELECT * FROM recipient_delivery WHERE delivery_id = $1", delivery.delivery_id
        )
        assert found
        return dict(found)


@pytest.fixture(scope="module")
def url(server_url: str) -> str:
    return new_database(server_url)


@pytest.fixture
async def bench(url: str) -> AsyncIterator[Bench]:
    database = await pool.open_database(url, read_connections=8, write_connections=1, statement_timeout_seconds=10)
    async with pool.connect(url) as conn:
        await conn.execute("DELETE FROM recipient_delivery")
        partner = await counter.new_partner(conn)
        made = Bench(database, conn, partner)
        await switch(made, partners.Delivery())
        yield made
    await database.close()


async def switch(bench: Bench, delivery: partners.Delivery | None) -> None:
    async with bench.conn.transaction():
        await manage.set_delivery(bench.conn, partner_id=bench.partner.partner_id, delivery=delivery, now=bench.at)


# Begun, and begun again.


async def test_an_order_and_its_deliveries_are_written_together_or_not_at_all(bench: Bench) -> None:
    brand = await counter.new_brand(bench.conn)
    draft = counter.draft(bench.partner.partner_id, brand, {100: 1}, recipients=(MEERA, PHONE), delivery=DETAILS)
    transaction = bench.conn.transaction()
    await transaction.start()
    [answer] = await place.place_orders(bench.conn, [draft], keys=counter.KEYS, now=bench.at)
    assert isinstance(answer, orders.Receipt)
    assert len(await bench.deliveries(answer.order)) == 2
    assert await bench.claim() == [], "nobody sends what is not committed"
    await transaction.rollback()
    assert await bench.deliveries(answer.order) == []
    order = await bench.order(MEERA, PHONE)
    assert {(one.channel, one.address, one.outcome, one.tries) for one in await bench.deliveries(order)} == {
        (model.Channel.EMAIL, "meera@example.com", model.Outcome.PENDING, 0),
        (model.Channel.SMS, "+919820000001", model.Outcome.PENDING, 0),
    }


async def test_channels_stand_in_the_same_order_each_time(bench: Bench) -> None:
    for _ in range(8):
        order = await bench.order(MEERA, PHONE)
        assert [one.channel for one in await bench.deliveries(order)] == [one.channel for one in order.deliveries]


async def test_an_order_is_delivered_again_after_the_cooldown_alone(bench: Bench) -> None:
    order = await bench.order()
    for minutes in (0, 30, 59):
        bench.at = START + timedelta(minutes=minutes)
        with pytest.raises(model.TooSoon) as refused:
            await bench.again(order)
        assert refused.value.retry_after_seconds == (60 - minutes) * 60
        assert "2026-01-31T12:00:00Z" in str(refused.value)
    bench.at = START + HOUR
    assert [one.channel for one in await bench.again(order)] == [model.Channel.EMAIL]
    bench.at += timedelta(seconds=1)
    with pytest.raises(model.TooSoon):
        await bench.again(order)
    assert len(await bench.deliveries(order)) == 2


async def test_the_cooldown_is_each_channels_own_and_all_or_none_begin(bench: Bench) -> None:
    order = await bench.order(MEERA, PHONE)
    bench.at = START + HOUR
    await bench.again(order, MEERA)
    bench.at += timedelta(minutes=1)
    with pytest.raises(model.TooSoon):
        await bench.again(order, MEERA, PHONE)
    assert len(await bench.deliveries(order)) == 3
    await bench.again(order, PHONE)


async def test_so_many_a_day_on_the_first_day(bench: Bench) -> None:
    order = await bench.order()
    for number in range(1, MOST_A_DAY + 1):
        bench.at = START + number * HOUR
        await bench.again(order)
    bench.at = START + 10 * HOUR
    with pytest.raises(model.TooSoon) as refused:
        await bench.again(order)
    assert refused.value.retry_after_seconds == (START + HOUR + DAY - bench.at).total_seconds()
    bench.at += timedelta(seconds=refused.value.retry_after_seconds)
    await bench.again(order)


async def test_so_many_a_day_on_every_later_day_too(bench: Bench) -> None:
    order = await bench.order()
    began = START + 3 * DAY
    for number in range(MOST_A_DAY):
        bench.at = began + number * HOUR
        await bench.again(order)
    bench.at = began + 10 * HOUR
    with pytest.raises(model.TooSoon):
        await bench.again(order)
    bench.at = began + DAY
    await bench.again(order)


@pytest.mark.parametrize(
    "wrong",
    [
        partners.Delivery(colour="red"),
        partners.Delivery(colour="#12345"),
        partners.Delivery(colour="#123456;background:url(//x)"),
        partners.Delivery(logo_url="http://acme.example/logo.png"),
        partners.Delivery(logo_url="javascript:alert(1)"),
    ],
    ids=str,
)
async def test_a_colour_and_a_logo_are_looked_at(bench: Bench, wrong: partners.Delivery) -> None:
    with pytest.raises(manage.PartnerInvalid):
        await switch(bench, wrong)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n...", "image/png"),
        (b"\xff\xd8\xff\xe0...", "image/jpeg"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", None),
        (b"<svg/>", None),
        (b"GIF89a", None),
        (b"", None),
        (b"\x89PNG\r\n\x1a\n" + bytes(pictures.MAX_BYTES), None),
    ],
    ids=lambda value: str(value)[:12],
)
def test_what_is_a_picture(content: bytes, media_type: str | None) -> None:
    if media_type:
        assert pictures.read_media_type(content) == media_type
    else:
        with pytest.raises(pictures.PictureRefused):
            pictures.read_media_type(content)


# Sent.


async def test_what_is_sent_is_sent_once_with_a_link(bench: Bench) -> None:
    order = await bench.order()
    assert await bench.work() == 1
    assert await bench.work() == 0
    [parcel] = bench.post.parcels
    sent = await bench.only(order)
    assert (sent.outcome, sent.tries, sent.sent_at, sent.reason) == (model.Outcome.SENT, 1, START, None)
    assert (parcel.parcel_id, parcel.address) == (sent.delivery_id, "meera@example.com")
    assert (parcel.from_name, parcel.reply_to) == (bench.partner.name, None)
    assert LINK.findall(parcel.message.text) == LINK.findall(parcel.message.html)[:1]
    row = await bench.row(sent)
    assert (row["state"], row["lease_token"], row["lease_until"]) == ("DONE", None, None)


async def test_a_text_message_has_a_text_alone(bench: Bench) -> None:
    await bench.order(PHONE)
    await bench.work()
    [parcel] = bench.post.parcels
    assert (parcel.address, parcel.message.subject, parcel.message.html) == ("+919820000001", "", "")
    assert "\n" not in parcel.message.text
    assert LINK.search(parcel.message.text)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (protocol.Refused("554 no"), model.Outcome.FAILED),
        (protocol.Refused("550 nobody", bounced=True), model.Outcome.BOUNCED),
    ],
)
async def test_a_permanent_refusal_ends_at_once(bench: Bench, result: protocol.Refused, outcome: model.Outcome) -> None:
    order = await bench.order()
    bench.post.answers = [result]
    await bench.work()
    ended = await bench.only(order)
    assert (ended.outcome, ended.reason, ended.tries, ended.sent_at) == (outcome, result.reason, 1, None)
    bench.at += 30 * DAY
    assert await bench.work() == 0


async def test_not_now_follows_the_schedule_until_it_has_failed(bench: Bench) -> None:
    order = await bench.order()
    bench.post.answers = [protocol.NotNow(f"busy {number}") for number in range(100)]
    for tries, delay in enumerate(plan.DELAYS_SECONDS, 1):
        assert await bench.work() == 1
        waiting = await bench.only(order)
        assert (waiting.outcome, waiting.tries, waiting.reason) == (model.Outcome.PENDING, tries, f"busy {tries - 1}")
        wait = (await bench.row(waiting))["next_at"] - bench.at
        assert (1 - plan.JITTER) * delay <= wait.total_seconds() <= (1 + plan.JITTER) * delay
        bench.at += wait - timedelta(seconds=1)
        assert await bench.work() == 0
        bench.at += timedelta(seconds=1)
    assert await bench.work() == 1
    failed = await bench.only(order)
    last = len(plan.DELAYS_SECONDS)
    assert (failed.outcome, failed.tries, failed.reason) == (model.Outcome.FAILED, last + 1, f"busy {last}")
    bench.at += 30 * DAY
    assert await bench.work() == 0
    assert len({parcel.parcel_id for parcel in bench.post.parcels}) == 1
    tokens = [LINK.search(parcel.message.text) for parcel in bench.post.parcels]
    assert len({found[1] for found in tokens if found}) == last + 1


async def test_a_late_success_ends_it(bench: Bench) -> None:
    order = await bench.order()
    bench.post.answers = [protocol.NotNow("x" * 1000), protocol.Sent()]
    await bench.work()
    assert len((await bench.only(order)).reason or "") == model.MAX_REASON_CHARACTERS
    bench.at += HOUR
    await bench.work()
    sent = await bench.only(order)
    assert (sent.outcome, sent.tries, sent.reason, sent.sent_at) == (model.Outcome.SENT, 2, None, bench.at)


@pytest.mark.parametrize(
    "result", [protocol.Sent(), protocol.Refused("no"), protocol.NotNow("later")], ids=lambda one: type(one).__name__
)
async def test_whoever_lost_the_lease_changes_nothing(bench: Bench, result: protocol.Result) -> None:
    order = await bench.order()
    [stale] = await bench.claim()
    bench.at += LEASE
    [current] = await bench.claim()
    before = await bench.row(await bench.only(order))
    bench.post.answers = [result]
    with pytest.raises(leases.LeaseLost):
        await bench.sender().advance(stale)
    assert await bench.row(await bench.only(order)) == before
    await bench.sender().advance(current)
    assert (await bench.only(order)).outcome is model.Outcome.SENT
    assert len({parcel.parcel_id for parcel in bench.post.parcels}) == 1


async def test_what_never_comes_back_is_given_up(bench: Bench) -> None:
    order = await bench.order()
    for _ in range(send.MAX_CLAIMS):
        assert len(await bench.claim()) == 1
        bench.at += LEASE
    await bench.work()
    assert (await bench.only(order)).outcome is model.Outcome.FAILED
    assert bench.post.parcels == []


async def test_a_channel_that_is_missing_is_waited_for(bench: Bench) -> None:
    order = await bench.order()
    await bench.work(channels={})
    waiting = await bench.only(order)
    assert (waiting.outcome, waiting.reason) == (model.Outcome.PENDING, "this installation has no channel EMAIL")
    bench.at += HOUR
    await bench.work()
    assert (await bench.only(order)).outcome is model.Outcome.SENT


async def ends_unsent(bench: Bench, order: orders.Order) -> str:
    await bench.work()
    ended = await bench.only(order)
    assert (ended.outcome, bench.post.parcels) == (model.Outcome.FAILED, [])
    assert await bench.conn.fetchval("SELECT count(*) FROM voucher_link WHERE order_id = $1", order.order_id) == 0
    return ended.reason or ""


@pytest.mark.parametrize("change", ["status = 'REVERSED'", "reversal_pending = true"])
async def test_an_order_that_was_reversed_meanwhile_is_not_sent(bench: Bench, change: str) -> None:
    order = await bench.order()
    await bench.conn.execute(f"UPDATE orders SET {change} WHERE order_id = $1", order.order_id)
    reason = await ends_unsent(bench, order)
    assert reason != "the order is SUCCESS", "it says why"
    assert "order" in reason


async def test_delivery_that_was_switched_off_meanwhile_sends_nothing(bench: Bench) -> None:
    order = await bench.order()
    await switch(bench, None)
    assert "no longer delivers" in await ends_unsent(bench, order)


async def test_a_suspended_partners_vouchers_are_not_sent(bench: Bench) -> None:
    order = await bench.order()
    await manage.suspend_partner(bench.conn, partner_id=bench.partner.partner_id, now=bench.at)
    assert "no longer delivers" in await ends_unsent(bench, order)


async def test_vouchers_that_have_expired_are_not_sent(bench: Bench) -> None:
    order = await bench.order(quantity=2)
    last = START.date()
    await bench.conn.execute("UPDATE voucher SET valid_till = $2 WHERE order_id = $1", order.order_id, last)
    bench.at = START + DAY
    assert "expired" in await ends_unsent(bench, order)
    other = await bench.order(quantity=2)
    await bench.conn.execute(
        "UPDATE voucher SET valid_till = $2 WHERE order_id = $1 AND position = 0", other.order_id, date(2026, 1, 30)
    )
    await bench.work()
    assert (await bench.only(other)).outcome is model.Outcome.SENT


async def test_codes_stand_in_messages_only_where_the_partner_wants_them(bench: Bench) -> None:
    order = await bench.order()
    await bench.work()
    await switch(bench, partners.Delivery(codes_in_messages=True))
    bench.at += HOUR
    await bench.again(order)
    await bench.work()
    without, within = (parcel.message.text + parcel.message.html for parcel in bench.post.parcels)
    [voucher] = order.vouchers
    for code in (voucher.code.card_number, voucher.code.card_pin):
        assert code
        assert code not in without
        assert within.count(code) == 2


# Links and reveals.


async def test_no_token_lies_open_in_the_database(bench: Bench) -> None:
    order = await bench.order()
    await bench.work()
    found = LINK.search(bench.post.parcels[0].message.text)
    assert found
    token = found[1]
    assert await links.find_order(bench.conn, token) == (bench.partner.partner_id, order.order_id)
    for table, column, kind in await bench.conn.fetch(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
        " AND data_type IN ('text', 'bytea', 'json', 'jsonb', 'ARRAY', 'character varying')"
    ):
        text = f"encode({column}, 'escape')" if kind == "bytea" else f"{column}::text"
        held = await bench.conn.fetchval(f'SELECT count(*) FROM "{table}" WHERE position($1 in {text}) > 0', token)
        assert held == 0, (table, column)
    digests = await bench.conn.fetch("SELECT token_digest FROM voucher_link WHERE order_id = $1", order.order_id)
    assert [len(row["token_digest"]) for row in digests] == [32]


async def test_a_token_leads_to_its_own_order_alone(bench: Bench) -> None:
    one, other = await bench.order(), await bench.order()
    tokens = {}
    for order in (one, other):
        token = await links.make_link(bench.conn, delivery=await bench.only(order), now=bench.at)
        assert len(token) == links.TOKEN_CHARACTERS
        tokens[order.order_id] = token
    for order_id, token in tokens.items():
        assert await links.find_order(bench.conn, token) == (bench.partner.partner_id, order_id)
        for wrong in (token[:-1], token + "A", token.swapcase(), "", "\x00" * 32, token[::-1]):
            assert await links.find_order(bench.conn, wrong) is None


async def reveal(bench: Bench, order: orders.Order, *, most: int = 3) -> bool:
    async with bench.database.write.acquire() as conn, conn.transaction():
        return await links.reveal(
            conn, partner_id=order.partner_id, order_id=order.order_id, address=None, most=most, now=bench.at
        )


async def test_so_many_reveals_within_an_hour(bench: Bench) -> None:
    order, other = await bench.order(), await bench.order()
    assert [await reveal(bench, order) for _ in range(5)] == [True, True, True, False, False]
    assert await reveal(bench, other)
    bench.at += HOUR - timedelta(seconds=1)
    assert not await reveal(bench, order)
    bench.at += timedelta(seconds=1)
    assert await reveal(bench, order)
    seen = await store.list_reveals(bench.conn, partner_id=order.partner_id, order_id=order.order_id)
    assert [one.at for one in seen] == [START, START, START, START + HOUR]


async def test_reveals_at_the_same_moment_are_no_more_than_the_limit(bench: Bench) -> None:
    order = await bench.order()

    async def reveal_by(conn: pool.Connection) -> bool:
        return await links.reveal(
            conn, partner_id=order.partner_id, order_id=order.order_id, address=None, most=1, now=bench.at
        )

    async with bench.database.read.acquire() as one, bench.database.read.acquire() as other:
        transaction = one.transaction()
        await transaction.start()
        assert await reveal_by(one)
        second = asyncio.create_task(reveal_by(other))
        await asyncio.sleep(0.1)  # it is at it, or waits
        await transaction.commit()
        assert await second is False


# What is asked of a full database.

PARTNERS, EACH = 5, 4_000
FILL = f"""
INSERT INTO recipient_delivery (partner_id, delivery_id, order_id, channel, address, outcome, tries, state, next_at,
    created_at, updated_at)
  SELECT 'prt_' || p, 'dlv_' || p || '_' || lpad(n::text, 9, '0'), 'ord_' || p || '_' || n / 2, 'EMAIL',
    'meera@example.com', CASE WHEN n % 200 = 0 THEN 'PENDING' ELSE 'SENT' END, 1,
    CASE WHEN n % 200 = 0 THEN 'DUE' ELSE 'DONE' END, '{START}'::timestamptz + (n % 7 - 3) * interval '1 min',
    '{START}', '{START}'
  FROM generate_series(1, {PARTNERS}) p, generate_series(1, {EACH}) n;
INSERT INTO voucher_link (token_digest, partner_id, order_id, delivery_id, created_at)
  SELECT sha256((p || '-' || n)::bytea), 'prt_' || p, 'ord_' || p || '_' || n / 2, 'dlv', '{START}'
  FROM generate_series(1, {PARTNERS}) p, generate_series(1, {EACH}) n;
INSERT INTO voucher_reveal (partner_id, order_id, reveal_id, at)
  SELECT 'prt_' || p, 'ord_' || p || '_' || n / 2, 'rvl_' || n, '{START}'
  FROM generate_series(1, {PARTNERS}) p, generate_series(1, {EACH}) n;
ANALYZE recipient_delivery; ANALYZE voucher_link; ANALYZE voucher_reveal;
"""


@pytest.fixture(scope="module")
def full_url(server_url: str) -> str:
    made = new_database(server_url)
    execute(made, FILL)
    return made


@pytest.fixture
async def reader(full_url: str) -> AsyncIterator[Reader]:
    """A reader inside a transaction that comes to nothing."""
    async with pool.connect(full_url) as opened:
        transaction = opened.transaction()
        await transaction.start()
        yield Reader(opened)
        await transaction.rollback()


@pytest.mark.parametrize(
    ("what", "index", "most_rows"),
    [
        ("claim", "recipient_delivery_due", 1_500),
        ("list", "recipient_delivery_order", 100),
        ("link", "voucher_link_pkey", 10),
        ("delivery", "recipient_delivery_pkey", 10),
        ("reveals", "voucher_reveal_pkey", 50),
        ("reveal", "voucher_reveal_pkey", 50),
    ],
)
async def test_it_goes_by_its_indexes(reader: Reader, what: str, index: str, most_rows: int) -> None:
    conn = cast(pool.Connection, reader)
    partner_id, order_id = "prt_2", "ord_2_700"
    match what:
        case "claim":
            await lease_store.claim(conn, send.WORK, rows=20, now=START, lease_until=START + LEASE)
        case "list":
            await store.list_deliveries(conn, partner_id=partner_id, order_ids=[order_id, "ord_2_3", "ord_2_9"])
        case "link":
            await store.find_link(conn, digest=b"x" * 32)
        case "delivery":
            await store.find_delivery(conn, partner_id=partner_id, delivery_id="dlv_2_000000700")
        case "reveals":
            await store.list_reveals(conn, partner_id=partner_id, order_id=order_id)
        case "reveal":
            await store.append_reveal(
                conn, reveal_id="rvl_x", partner_id=partner_id, order_id=order_id, address=None,
                since=START - links.REVEAL_WINDOW, most=30, now=START,
            )  # fmt: skip
    assert reader.read_through == set()
    assert index in reader.indexes
    assert reader.rows <= most_rows


async def test_the_auditor_misses_a_delivery_that_was_never_begun(bench: Bench) -> None:
    async def findings() -> list[str]:
        return [one for one in await audit.list_findings(bench.conn, now=bench.at) if "recipients" in one]

    await bench.conn.execute("UPDATE orders SET recipients = NULL")  # those whose deliveries other tests removed
    order = await bench.order(MEERA)
    assert await findings() == []
    await bench.conn.execute("DELETE FROM recipient_delivery WHERE order_id = $1", order.order_id)
    assert [order.order_id in one for one in await findings()] == [True]
    await bench.conn.execute("UPDATE orders SET recipients = NULL")
