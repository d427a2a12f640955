"""What is timed over a small and a large past: the rooms' own deeds, as the service and its workers call them."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from benchmarks.past import BATCH, Past, new_event

from giftrail import app
from giftrail.attempts import plan
from giftrail.attempts import store as attempts
from giftrail.db import pool
from giftrail.events import store as outbox
from giftrail.kit import ids, seal
from giftrail.leases import store as leases
from giftrail.orders import asking, endings, model, place, read, settle, store
from giftrail.vouchers import store as vouchers
from giftrail.wallet import ledger
from giftrail.wallet import store as wallets

PAGE = 51  # what a page of 50 reads
CLAIMED = 50
ROOM = 20  # for webhooks of one endpoint
EVENTS = 20


class AnyKey(seal.KeyRing):
    """Opens whatever it is given: the codes of a past were never sealed."""

    def open(self, sealed: bytes, *, bound_to: str) -> bytes:
        """Some code."""
        del sealed, bound_to
        return msgspec.msgpack.encode(("6039280000000000000", "123456"))


class Doer:
    """A past with the service's pools over it; every deed returns the seconds it took."""

    def __init__(self, past: Past, database: pool.Database, *, seed: int) -> None:
        self.past = past
        self.database = database
        self._choice = random.Random(seed)
        self._ring = AnyKey([("k1", bytes(32))])
        self._middle = past.begin + (past.made_at - past.begin) / 2

    async def place_batch(self) -> float:
        return await self._place([self.past.draft() for _ in range(BATCH)])

    async def place_one(self) -> float:
        return await self._place([self.past.draft()])

    async def cancel_one(self) -> float:
        draft = self.past.draft(remote=True)
        await self._place([draft])
        async with self.database.write.acquire() as conn:
            cancel = endings.Cancel(draft.partner_id, draft.order_id)
            return await _timed(settle.settle_orders(conn, [cancel], keys=self.past.keys, now=app.now()))

    async def read_by_reference(self) -> float:
        partner_id, reference_id = self.past.any_reference(self._choice)
        return await _timed(
            read.read_order_by_reference(
                self.database.read, partner_id=partner_id, reference_id=reference_id, ring=self._ring
            )
        )

    async def read_by_id(self) -> float:
        order = await self._any_order()
        return await _timed(
            read.read_order(self.database.read, partner_id=order[0], order_id=order[1], ring=self._ring)
        )

    async def read_voucher(self) -> float:
        partner_id, order_id = await self._any_order()
        [voucher, *_] = await vouchers.list_vouchers(
            self.database.read, partner_id=partner_id, order_ids=[order_id], ring=self._ring
        )
        return await _timed(
            read.read_voucher(self.database.read, partner_id=partner_id, voucher_id=voucher.voucher_id, ring=self._ring)
        )

    async def balance(self) -> float:
        return await _timed(ledger.read_wallet(self.database.read, partner_id=self.past.big))

    async def statement(self) -> float:
        return await self._statement(None)

    async def statement_further_on(self) -> float:
        return await self._statement(self._choice.randrange(PAGE, self.past.orders // 2))

    async def statement_of_a_day(self) -> float:
        return await _timed(
            wallets.list_transfers(
                self.database.read, partner_id=self.past.big, created_from=self._middle,
                created_to=self._middle + timedelta(days=1), limit=PAGE,
            )
        )  # fmt: skip

    async def statement_since(self) -> float:
        return await _timed(
            wallets.list_transfers(
                self.database.read, partner_id=self.past.big, created_from=app.now() + timedelta(days=1), limit=PAGE
            )
        )

    async def orders(self) -> float:
        return await self._orders()

    async def orders_further_on(self) -> float:
        at = self.past.begin + (self.past.made_at - self.past.begin) * self._choice.uniform(0.1, 0.9)
        return await self._orders(before_id=ids.floor("ord", at=at))

    async def orders_of_a_day(self) -> float:
        before = ids.floor("ord", at=self._middle + timedelta(days=1))
        return await self._orders(before_id=before, since=True)

    async def orders_processing(self) -> float:
        return await self._orders(statuses=["PROCESSING"])

    async def orders_failed(self) -> float:
        return await self._orders(statuses=["FAILED"])

    async def claim_orders(self) -> float:
        now = app.now()  # a lease that ends at once: what is claimed is due again
        return await _timed(leases.claim(self.database.read, asking.WORK, rows=CLAIMED, now=now, lease_until=now))

    async def renew_leases(self) -> float:
        now = app.now()
        claims = await leases.claim(self.database.read, asking.WORK, rows=CLAIMED, now=now, lease_until=now)
        return await _timed(leases.renew(self.database.read, asking.WORK, claims=claims, lease_until=now))

    async def claim_webhooks(self) -> float:
        now = app.now()
        chosen = self._choice.sample(self.past.endpoints, min(EVENTS, len(self.past.endpoints)))
        rooms = [(partner_id, endpoint_id, ROOM) for partner_id, endpoint_id in chosen]
        return await _timed(
            attempts.claim(self.database.read, endpoints=rooms, now=now, lease_until=now, limit=CLAIMED)
        )

    async def fan_out(self) -> float:
        made = [new_event(partner_id) for partner_id in self._choice.choices(self.past.partners, k=EVENTS)]
        async with self.database.write.acquire() as conn:
            await outbox.append_events(conn, made)
            async with conn.transaction():
                return await _timed(attempts.fan_out(conn, limit=EVENTS, now=app.now()))

    async def oldest_webhook(self) -> float:
        return await _timed(attempts.find_oldest_due(self.database.read, now=app.now()))

    async def event_feed(self) -> float:
        after = self._choice.randrange(self.past.orders // 20)
        return await _timed(
            outbox.list_feed(self.database.read, partner_id=self.past.big, after_sequence=after, limit=PAGE)
        )

    async def deliveries(self) -> float:
        return await self._deliveries(None)

    async def deliveries_exhausted(self) -> float:
        return await self._deliveries(plan.State.EXHAUSTED)

    async def order_of_anyone(self) -> float:
        _, order_id = await self._any_order()
        async with self.database.read.acquire() as conn:
            return await _timed(store.find_order_of_anyone(conn, order_id=order_id))

    async def _any_order(self) -> tuple[str, str]:
        partner_id, reference_id = self.past.any_reference(self._choice)
        found = await store.find_order_by_reference(
            self.database.read, partner_id=partner_id, reference_id=reference_id
        )
        assert found is not None
        return partner_id, found.order_id

    async def _place(self, drafts: list[model.Draft]) -> float:
        async with self.database.write.acquire() as conn:
            return await _timed(place.place_orders(conn, drafts, keys=self.past.keys, now=app.now())) / len(drafts)

    async def _statement(self, before: int | None) -> float:
        return await _timed(
            wallets.list_transfers(self.database.read, partner_id=self.past.big, before_version=before, limit=PAGE)
        )

    async def _orders(
        self, *, before_id: str | None = None, since: bool = False, statuses: list[str] | None = None
    ) -> float:
        return await _timed(
            store.list_orders(
                self.database.read, partner_id=self.past.big, statuses=statuses,
                created_from=self._middle if since else None,
                created_to=self._middle + timedelta(days=1) if since else None,
                floor_id=ids.floor("ord", at=self._middle) if since else "", before_id=before_id, limit=PAGE,
            )
        )  # fmt: skip

    async def _deliveries(self, state: plan.State | None) -> float:
        partner_id, endpoint_id = self.past.endpoints[0]
        return await _timed(
            attempts.list_deliveries(
                self.database.read, partner_id=partner_id, endpoint_id=endpoint_id, state=state, before_id=None,
                limit=PAGE,
            )
        )  # fmt: skip


DEEDS: dict[str, Callable[[Doer], Awaitable[float]]] = {
    "place, in batches of 100, per order": Doer.place_batch,
    "place one order": Doer.place_one,
    "cancel an order": Doer.cancel_one,
    "order by reference": Doer.read_by_reference,
    "order by id": Doer.read_by_id,
    "voucher by id": Doer.read_voucher,
    "balance": Doer.balance,
    "statement": Doer.statement,
    "statement, further on": Doer.statement_further_on,
    "statement of a day": Doer.statement_of_a_day,
    "statement since just now": Doer.statement_since,
    "orders": Doer.orders,
    "orders, further on": Doer.orders_further_on,
    "orders of a day": Doer.orders_of_a_day,
    "orders PROCESSING": Doer.orders_processing,
    "orders FAILED": Doer.orders_failed,
    "claim 50 orders": Doer.claim_orders,
    "renew 50 leases": Doer.renew_leases,
    "claim 50 webhooks": Doer.claim_webhooks,
    "fan out 20 events": Doer.fan_out,
    "oldest webhook due": Doer.oldest_webhook,
    "event feed": Doer.event_feed,
    "deliveries": Doer.deliveries,
    "deliveries EXHAUSTED": Doer.deliveries_exhausted,
    "giftrail order show": Doer.order_of_anyone,
}


async def _timed(deed: Awaitable[object]) -> float:
    started = time.perf_counter()
    await asyncio.ensure_future(deed)
    return time.perf_counter() - started
