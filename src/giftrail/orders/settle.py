"""Settlement: what was PROCESSING ends, what was SUCCESS is reversed; a batch of one wallet in one transaction.

Each order is looked at again under its lock: one that has ended already is answered as it is, so that a settlement may
be tried again. Locks: wallet, order, work row, stock. Commits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from giftrail.calls import deliver
from giftrail.calls import model as calls
from giftrail.calls import store as call_store
from giftrail.catalog import model as catalog
from giftrail.catalog import store as catalog_store
from giftrail.db import pool
from giftrail.delivery import begin
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids
from giftrail.orders import decide, endings, failures, issue, model, states, store
from giftrail.providers import protocol, sandbox, stock
from giftrail.reversals import model as reversals
from giftrail.reversals import store as reversal_store
from giftrail.spending import book
from giftrail.wallet import ledger

# A finishing transaction this long after placement writes FAILED whatever the provider said (wire contract, deadline):
# clients give up after 15 minutes.
FINAL_SECONDS = 14 * 60.0
# When calls of an ended order are still out, they are heard of after this long.
LOOK_AGAIN_SECONDS = 60.0


async def settle_orders(
    conn: pool.Connection, settlements: Sequence[endings.Settlement], *, keys: protocol.Keys, now: datetime
) -> list[endings.Answer]:
    """One answer for each settlement, in their order, once their transaction is committed. All are of one partner."""
    async with conn.transaction():
        batch = await _open(conn, settlements, keys=keys, now=now)
        answers = [await batch.settle(settlement) for settlement in settlements]
        await batch.write()
    return answers


async def _open(
    conn: pool.Connection, settlements: Sequence[endings.Settlement], *, keys: protocol.Keys, now: datetime
) -> "_Batch":
    partner_id = settlements[0].partner_id
    order_ids = sorted({settlement.order_id for settlement in settlements})
    wallet = (await ledger.open_wallets(conn, partner_ids=[partner_id]))[partner_id]
    orders = await store.lock_orders(conn, partner_id=partner_id, order_ids=order_ids)
    return _Batch(
        conn,
        wallet=wallet,
        orders={order_id: order for order_id, (order, _) in orders.items()},
        lines={order_id: lines for order_id, (_, lines) in orders.items()},
        holds=await ledger.list_holds(conn, partner_id=partner_id, order_ids=order_ids),
        asked=await call_store.list_calls(conn, partner_id=partner_id, order_ids=order_ids),
        delivered=await call_store.list_waiting_codes(conn, partner_id=partner_id, order_ids=order_ids),
        limits=await book.open_book(
            conn,
            partner_id=partner_id,
            limited=wallet.wallet.limited,
            moments=[order.created_at for order, _ in orders.values()],
            currency=wallet.wallet.currency,
        ),
        keys=keys,
        now=now,
    )


@dataclass(slots=True)
class _Batch:
    """The transaction: what it holds, and what it will write."""

    conn: pool.Connection
    wallet: ledger.OpenWallet
    orders: dict[str, model.Order]
    lines: Mapping[str, Mapping[int, int]]
    holds: Mapping[str, ledger.Held]
    asked: Mapping[str, Sequence[calls.Call]]
    delivered: Mapping[str, Sequence[pool.Record]]
    limits: book.Book
    keys: protocol.Keys
    now: datetime
    picked: bool = False
    changed: dict[str, model.Order] = field(default_factory=dict)
    told: list[events.Event] = field(default_factory=list)

    async def settle(self, settlement: endings.Settlement) -> endings.Answer:
        order = self.orders.get(settlement.order_id)
        if order is None:
            return model.OrderUnknown()
        match settlement:
            case endings.Cancel():
                return self._cancel(order)
            case endings.Reverse():
                return self._reverse(order)
        if order.status is not states.Status.PROCESSING:
            return order
        if isinstance(settlement, endings.GiveUp) or self.now - order.created_at >= timedelta(seconds=FINAL_SECONDS):
            return self._fail(order)
        return await self._succeed(order, settlement.local)

    async def _succeed(self, order: model.Order, local: endings.Parts) -> endings.Answer:
        brand = await self._brand(order)
        found = await self._find_local(order, brand, local)
        if isinstance(found, endings.OutOfStock | decide.Again):
            return found
        codes = [
            (
                (row["line"], row["part"]),
                row["place"],
                issue.Issue(row["denomination_minor"], row["provider"], deliver.open_code(row, keys=self.keys)),
            )
            for row in self.delivered[order.order_id]
        ] + found
        codes.sort(key=lambda one: one[:2])
        served = dict.fromkeys(self.lines[order.order_id], 0)
        for _, _, code in codes:
            served[code.amount_minor] += 1
        if served != self.lines[order.order_id]:
            raise AssertionError(f"order {order.order_id} was to end without all of its vouchers")
        made = issue.make_vouchers(
            [code for _, _, code in codes],
            partner_id=order.partner_id,
            order_id=order.order_id,
            brand=brand,
            now=self.now,
        )
        self.wallet.capture(self.holds[order.order_id], now=self.now)
        sent = begin.make(order.recipients, partner_id=order.partner_id, order_id=order.order_id, now=self.now)
        return self._change(
            order, states.Status.SUCCESS, events.Kind.ORDER_TERMINAL_STATE, vouchers=made, deliveries=sent
        )

    async def _find_local(
        self, order: model.Order, brand: catalog.Brand, local: endings.Parts
    ) -> list[tuple[calls.PartId, int, issue.Issue]] | endings.OutOfStock | decide.Again:
        """Codes of the at-once providers, locked; or what is in the way, recorded."""
        found: list[tuple[calls.PartId, int, issue.Issue]] = []
        stocked = [part for part, provider in local.items() if provider == protocol.STOCK]
        if stocked and self.picked:
            return decide.Again()  # this transaction's own locks would not keep its second pick off the same codes
        self.picked = self.picked or bool(stocked)
        wanted: dict[int, int] = {}
        for part in stocked:
            wanted[part.denomination_minor] = wanted.get(part.denomination_minor, 0) + part.quantity
        demands = [protocol.Demand(brand.brand_id, denomination, n) for denomination, n in wanted.items()]
        shelves = await stock.pick(self.conn, demands=demands, keys=self.keys, now=self.now) if demands else {}
        short = {
            demand.denomination_minor: shelves[brand.brand_id, demand.denomination_minor].contended
            for demand in demands
            if len(shelves[brand.brand_id, demand.denomination_minor].codes) < demand.quantity
        }
        if any(short.values()):
            return decide.Again()
        if short:
            empty = {part: protocol.STOCK for part in stocked if part.denomination_minor in short}
            await call_store.refuse_parts(
                self.conn, partner_id=order.partner_id, order_id=order.order_id, parts=empty, reason="out of stock",
                now=self.now,
            )  # fmt: skip
            return endings.OutOfStock()
        shelf = {place: list(one.codes) for place, one in shelves.items()}
        for part, provider in local.items():
            if provider == protocol.STOCK:
                left = shelf[brand.brand_id, part.denomination_minor]
                codes, left[: part.quantity] = left[: part.quantity], []
            else:
                codes = issue.generate(brand, quantity=part.quantity, placed_on=order.created_at.date(), keys=self.keys)
            found += [
                (part.part_id, place, issue.Issue(part.denomination_minor, provider, code))
                for place, code in enumerate(codes)
            ]
        return found

    def _fail(self, order: model.Order) -> model.Order:
        self.wallet.release(self.holds[order.order_id], now=self.now)
        self._uncount(order)
        return self._change(
            order,
            states.Status.FAILED,
            events.Kind.ORDER_TERMINAL_STATE,
            failure_code=failures.GENERATION_FAILED,
            debit_minor=0,
        )

    def _cancel(self, order: model.Order) -> endings.Answer:
        if order.status is states.Status.CANCELLED:
            return order
        if order.status is not states.Status.PROCESSING:
            return model.WrongState(f"the order is {order.status}; only a PROCESSING order can be cancelled")
        if any(call.state not in calls.NOT_CREATED for call in self.asked[order.order_id]):
            return model.WrongState("a provider has been asked for its vouchers already")
        self.wallet.release(self.holds[order.order_id], now=self.now)
        self._uncount(order)
        return self._change(order, states.Status.CANCELLED, events.Kind.ORDER_STATUS_CHANGED, debit_minor=0)

    def _reverse(self, order: model.Order) -> endings.Answer:
        if order.status is states.Status.REVERSED:
            return order
        if order.status is not states.Status.SUCCESS:
            return model.WrongState(f"the order is {order.status}; only a SUCCESS order can be reversed")
        self.wallet.refund(order.debit_minor, order_id=order.order_id, reference_id=order.reference_id, now=self.now)
        self._uncount(order)
        return self._change(order, states.Status.REVERSED, events.Kind.ORDER_STATUS_CHANGED, reversal_pending=False)

    def _change(self, order: model.Order, status: states.Status, kind: events.Kind, **members: Any) -> model.Order:
        """The order as it is from now on, with its event; `members` change with its status."""
        if (order.status, status) not in states.TRANSITIONS:
            raise AssertionError(f"order {order.order_id} was to go from {order.status} to {status}")
        ended = msgspec.structs.replace(order, status=status, updated_at=self.now, **members)
        self.orders[order.order_id] = self.changed[order.order_id] = ended
        body = events.order_changed(order_id=order.order_id, reference_id=order.reference_id, status=status.value)
        self.told.append(
            events.Event(
                partner_id=order.partner_id,
                event_id=ids.new("evt", now=self.now),
                kind=kind,
                body=body,
                occurred_at=self.now,
                fault=sandbox.webhook_fault(order.brand_id),
            )
        )
        return ended

    def _uncount(self, order: model.Order) -> None:
        self.limits.add(brand_id=order.brand_id, amount_minor=-order.amount_minor, at=order.created_at, orders=-1)

    async def _brand(self, order: model.Order) -> catalog.Brand:
        brand = await catalog_store.find_brand(self.conn, brand_id=order.brand_id)
        if brand is None:
            raise AssertionError(f"brand {order.brand_id} of order {order.order_id} is gone")
        return brand

    async def write(self) -> None:
        """Write everything, set-based."""
        ended = list(self.changed.values())
        if not ended:
            return
        partner_id = self.wallet.wallet.partner_id
        await store.update_statuses(self.conn, partner_id=partner_id, orders=ended)
        await issue.append_vouchers(self.conn, ended, keys=self.keys, now=self.now)
        await begin.begin(self.conn, [delivery for order in ended for delivery in order.deliveries])
        await self._mark_codes(ended, partner_id=partner_id)
        out = [order for order in ended if self._is_out(order)]
        await store.end_fulfilments(
            self.conn,
            partner_id=partner_id,
            order_ids=[order.order_id for order in ended if order.status is not states.Status.REVERSED],
            look_again_at={order.order_id: self.now + timedelta(seconds=LOOK_AGAIN_SECONDS) for order in out},
        )
        for order in ended:
            if order.status is states.Status.REVERSED:
                await reversal_store.end_reversal(
                    self.conn, partner_id=partner_id, order_id=order.order_id, outcome=reversals.Outcome.REVERSED,
                    why=None,
                )  # fmt: skip
        await book.close_book(self.conn, self.limits, partner_id=partner_id)
        await ledger.close_wallet(self.conn, self.wallet, now=self.now)
        await outbox.append_events(self.conn, self.told)

    async def _mark_codes(self, ended: Sequence[model.Order], *, partner_id: str) -> None:
        sold = []
        for order in ended:
            by_digest = {(row["provider"], row["code_digest"]): row for row in self.delivered[order.order_id]}
            for voucher in order.vouchers:
                row = by_digest.get((voucher.provider, voucher.code.digest))
                if row is not None:
                    sold.append((row["provider"], row["provider_voucher_id"], voucher.voucher_id))
        if sold:
            await call_store.mark_codes_sold(self.conn, sold=sold)
        failed = [order.order_id for order in ended if order.status is states.Status.FAILED]
        if failed:
            await call_store.set_codes_aside(self.conn, partner_id=partner_id, order_ids=failed)

    def _is_out(self, order: model.Order) -> bool:
        return any(call.state is calls.State.ASKED for call in self.asked[order.order_id])
