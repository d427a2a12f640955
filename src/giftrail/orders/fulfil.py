"""Fulfilment: one claimed order is taken as far as it goes, its providers asked with no transaction open."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import structlog

from giftrail.breakers import health
from giftrail.calls import model as calls
from giftrail.calls import store as call_store
from giftrail.catalog import store as catalog_store
from giftrail.db import pool
from giftrail.leases import model as leases
from giftrail.leases import store as lease_store
from giftrail.orders import asking, decide, endings, model, plan, settle, states, store
from giftrail.providers import protocol

# Claims that did not come back: the job kills its worker, and what it asked for becomes the operator's.
MAX_CLAIMS = 5
# A call that is out when its order has ended is heard of for this long, then it is the operator's.
AFTERWARDS_SECONDS = 24 * 3600.0
AGAIN_SECONDS = 0.1

Settle = Callable[[endings.Settlement], Awaitable[model.Order | endings.OutOfStock | decide.Again]]

_log = structlog.get_logger()


class Fulfiller:
    """Takes claimed orders further. `settle_order` ends one in its wallet's batches."""

    def __init__(
        self,
        database: pool.Database,
        *,
        providers: Mapping[str, protocol.Provider],
        health_: health.Health,
        settle_order: Settle,
        keys: protocol.Keys,
        deadline_seconds: float,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._providers = providers
        self._health = health_
        self._settle = settle_order
        self._asker = asking.Asker(database, providers=providers, health_=health_, keys=keys, now=now)
        self._deadline = timedelta(seconds=deadline_seconds)
        self._now = now

    async def advance(self, claim: leases.Claim) -> None:
        """Go on with the order until it ends or has to wait. Raises LeaseLost, and what the database raises."""
        if claim.attempts > MAX_CLAIMS:
            await self._give_up_on_calls(claim)
        while True:
            job = await self._read(claim)
            if job.order.status is not states.Status.PROCESSING:
                await self._look_afterwards(claim, job)
                return
            step = plan.next_step(
                job.parts,
                job.asked,
                names=job.names,
                providers=self._providers,
                closed_until=lambda name, job=job: self._health.closed_to_calls_until(  # type: ignore[misc]
                    name, job.order.brand_id, now=self._now()
                ),
                deadline=self._deadline_of(job.order),
                now=self._now(),
            )
            if not await self._take(claim, job, step):
                return

    async def _take(self, claim: leases.Claim, job: asking.Job, step: plan.Step) -> bool:
        """Take one step; returns whether to go on."""
        order = job.order
        match step:
            case plan.Wait(until):
                await lease_store.postpone(self._database.read, asking.WORK, claim=claim, next_at=until)
                return False
            case plan.Finish(local):
                done = await self._settle(endings.Deliver(order.partner_id, order.order_id, local))
                if isinstance(done, decide.Again):
                    await asyncio.sleep(AGAIN_SECONDS)
                return not isinstance(done, model.Order)
            case plan.GiveUp():
                _log.warning("an order failed", order_id=order.order_id, brand_id=order.brand_id)
                await self._settle(endings.GiveUp(order.partner_id, order.order_id))
                return False
            case plan.GiveToOperator(call):
                await self._asker.give_to_operator(claim, job, call, reason="its outcome cannot be looked up")
                return True
            case plan.Ask(part, name):
                asked = await self._asker.commit_key(claim, job, part, name, first=True)
                if asked is not None:
                    await self._asker.ask(claim, job, asked, look_up=False, last=False)
                return True
            case plan.LookUp(call):
                await self._look_up(claim, job, call)
                return True

    async def _look_up(self, claim: leases.Claim, job: asking.Job, call: calls.Call) -> None:
        asked = await self._asker.commit_key(claim, job, call.part, call.provider, first=False)
        if asked is not None:
            last = self._now() >= self._deadline_of(job.order)
            look_up = self._providers[call.provider].finds
            await self._asker.ask(claim, job, asked, look_up=look_up, last=last)

    async def _read(self, claim: leases.Claim) -> asking.Job:
        partner_id, order_id = claim.key
        async with self._database.read.acquire() as conn:
            found = await store.find_order_with_lines(conn, partner_id=partner_id, order_id=order_id)
            part_vouchers = await store.find_part_vouchers(conn, partner_id=partner_id, order_id=order_id)
            if found is None or part_vouchers is None:
                raise AssertionError(f"the order of work {claim.key} is gone")
            order, lines = found
            brand = await catalog_store.find_brand(conn, brand_id=order.brand_id)
            if brand is None:
                raise AssertionError(f"brand {order.brand_id} of order {order_id} is gone")
            asked = await call_store.list_calls(conn, partner_id=partner_id, order_ids=[order_id])
        return asking.Job(
            order=order,
            parts=calls.split(lines, part_vouchers=part_vouchers),
            asked=asked[order_id],
            names=brand.providers,
            shows_number=brand.card_type.shows_number,
            shows_pin=brand.card_type.shows_pin,
        )

    async def _give_up_on_calls(self, claim: leases.Claim) -> None:
        """Whoever asks about these calls dies of it: they are the operator's, the order ends at its deadline."""
        job = await self._read(claim)
        for call in job.asked:
            if call.state is calls.State.ASKED:
                await self._asker.record(
                    claim, job, call, calls.State.UNKNOWN, reason=f"{MAX_CLAIMS} workers did not come back", failed=True
                )

    async def _look_afterwards(self, claim: leases.Claim, job: asking.Job) -> None:
        """The order has ended: hear of the calls that are out, so that what they bring is kept aside."""
        out = [call for call in job.asked if call.state is calls.State.ASKED]
        since = self._now() - job.order.updated_at
        for call in out:
            provider = self._providers.get(call.provider)
            if provider is None or not (provider.finds or provider.replays):
                await self._asker.give_to_operator(claim, job, call, reason="its outcome cannot be looked up")
            elif since >= timedelta(seconds=AFTERWARDS_SECONDS):
                await self._asker.give_to_operator(claim, job, call, reason="never answered")
            else:
                await self._look_up(claim, job, call)
        if out:
            next_at = self._now() + max(since, timedelta(seconds=settle.LOOK_AGAIN_SECONDS))
            await lease_store.postpone(self._database.read, asking.WORK, claim=claim, next_at=next_at)
        else:
            await lease_store.finish(self._database.read, asking.WORK, claim=claim)

    def _deadline_of(self, order: model.Order) -> datetime:
        return order.created_at + self._deadline
