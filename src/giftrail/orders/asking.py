"""Asking a provider: the key committed first, nothing open meanwhile, what came of it recorded."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from giftrail.breakers import health
from giftrail.breakers import record as breakers
from giftrail.calls import deliver
from giftrail.calls import model as calls
from giftrail.calls import store as call_store
from giftrail.db import pool
from giftrail.kit import backoff
from giftrail.leases import model as leases
from giftrail.leases import store as lease_store
from giftrail.orders import model, states, store
from giftrail.providers import protocol

WORK = leases.Table("fulfilment", ("partner_id", "order_id"))
# The last ask at the deadline takes no longer.
LAST_ASK_SECONDS = 30.0
# How long until a call is asked about again, unless the provider says.
WAITS = backoff.Doubling(first_seconds=2.0, last_seconds=60.0)
# No provider has us come back sooner.
AGAIN_SECONDS = 0.1

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed order as it stood when it was read."""

    order: model.Order
    parts: tuple[calls.Part, ...]
    asked: list[calls.Call]
    names: tuple[str, ...]
    shows_number: bool
    shows_pin: bool


def make_request(
    order: model.Order, call: calls.Call, *, shows_number: bool, shows_pin: bool, now: datetime
) -> protocol.Request:
    """The call as its provider sees it."""
    return protocol.Request(
        key=call.key,
        brand_id=order.brand_id,
        denomination_minor=call.part.denomination_minor,
        currency=order.currency,
        quantity=call.part.quantity,
        shows_number=shows_number,
        shows_pin=shows_pin,
        asked_at=call.asked_at,
        asks=call.asks,
        now=now,
    )


class Asker:
    """Asks providers for parts of claimed orders. Each change checks the claim: a stale worker's is dropped."""

    def __init__(
        self,
        database: pool.Database,
        *,
        providers: Mapping[str, protocol.Provider],
        health_: health.Health,
        keys: protocol.Keys,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._providers = providers
        self._health = health_
        self._keys = keys
        self._now = now

    async def commit_key(
        self, claim: leases.Claim, job: Job, part: calls.Part, name: str, *, first: bool
    ) -> calls.Call | None:
        """Commit that the provider is being asked, under the order's lock, so that it cannot race a cancel.

        None when the order has ended meanwhile, or the breaker lets nobody through. Raises LeaseLost.
        """
        order, now, allowed = job.order, self._now(), True
        async with self._database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
            locked = await store.lock_orders(conn, partner_id=order.partner_id, order_ids=[order.order_id])
            if first and locked[order.order_id][0].status is not states.Status.PROCESSING:
                return None
            await lease_store.hold(conn, WORK, claim=claim)
            if first:
                allowed = await breakers.may_ask(conn, provider=name, brand_id=order.brand_id, now=now)
            if allowed:
                return await call_store.commit_key(
                    conn, partner_id=order.partner_id, order_id=order.order_id, part=part, provider=name, now=now
                )
        await self._health.refresh()
        return None

    async def ask(self, claim: leases.Claim, job: Job, call: calls.Call, *, look_up: bool, last: bool) -> None:
        """Ask, with nothing open and nothing locked, and record what came of it."""
        provider = self._providers[call.provider]
        request = make_request(job.order, call, shows_number=job.shows_number, shows_pin=job.shows_pin, now=self._now())
        seconds = provider.timeout_seconds
        if last:
            seconds = min(seconds, LAST_ASK_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                outcome = _sound(await (provider.look_up(request) if look_up else provider.issue(request)))
        except Exception as error:
            _log.warning("a provider did not answer", provider=provider.name, call_key=call.key, error=repr(error))
            recoverable = provider.finds or provider.replays
            state = calls.State.ASKED if recoverable else calls.State.UNKNOWN
            await self.record(claim, job, call, state, reason=type(error).__name__, failed=True)
        else:
            await self._hear(claim, job, call, request, outcome)

    async def _hear(
        self,
        claim: leases.Claim,
        job: Job,
        call: calls.Call,
        request: protocol.Request,
        outcome: protocol.Outcome,
    ) -> None:
        match outcome:
            case protocol.Delivered():
                await self._keep(claim, job, call, request, outcome)
            case protocol.Pending(seconds):
                await self.record(claim, job, call, calls.State.ASKED, reason="pending", seconds=seconds)
            case protocol.Refused(reason):
                await self.record(claim, job, call, calls.State.REFUSED, reason=reason)
            case protocol.Unavailable(reason, after):
                await self.record(claim, job, call, calls.State.UNAVAILABLE, reason=reason, seconds=after, failed=True)

    async def _keep(
        self,
        claim: leases.Claim,
        job: Job,
        call: calls.Call,
        request: protocol.Request,
        outcome: protocol.Delivered,
    ) -> None:
        """Seal what was delivered: for the order while it is PROCESSING, else for the operator."""
        order, now = job.order, self._now()
        try:
            codes = deliver.check_delivery(outcome, request, provider=call.provider, keys=self._keys)
            async with self._database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
                locked = await store.lock_orders(conn, partner_id=order.partner_id, order_ids=[order.order_id])
                await lease_store.hold(conn, WORK, claim=claim)
                await deliver.append_delivery(
                    conn,
                    codes=codes,
                    provider=call.provider,
                    partner_id=order.partner_id,
                    order_id=order.order_id,
                    part=call.part,
                    brand_id=order.brand_id,
                    aside=locked[order.order_id][0].status is not states.Status.PROCESSING,
                    now=now,
                )
                await self._write(conn, job, call, calls.State.DELIVERED, None, now)
                await breakers.record_call(conn, provider=call.provider, brand_id=order.brand_id, failed=False, now=now)
        except calls.WrongDelivery as wrong:
            _log.error("a provider delivered wrongly", provider=call.provider, call_key=call.key, error=str(wrong))
            await self.record(claim, job, call, calls.State.UNKNOWN, reason=str(wrong), failed=True)

    async def record(
        self,
        claim: leases.Claim,
        job: Job,
        call: calls.Call,
        state: calls.State,
        *,
        reason: str,
        seconds: float | None = None,
        failed: bool = False,
    ) -> None:
        """Write how the call stands; it is not asked about again for so many seconds. Raises LeaseLost."""
        now = self._now()
        wait = WAITS.seconds(call.asks) if seconds is None else max(seconds, AGAIN_SECONDS)
        async with self._database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
            await lease_store.hold(conn, WORK, claim=claim)
            await self._write(conn, job, call, state, reason, now + timedelta(seconds=wait))
            await breakers.record_call(
                conn, provider=call.provider, brand_id=job.order.brand_id, failed=failed, now=now
            )

    async def give_to_operator(self, claim: leases.Claim, job: Job, call: calls.Call, *, reason: str) -> None:
        """Nobody else can find out what became of the call; its provider's breaker learns nothing. Raises LeaseLost."""
        async with self._database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
            await lease_store.hold(conn, WORK, claim=claim)
            await self._write(conn, job, call, calls.State.UNKNOWN, reason, self._now())

    async def _write(  # noqa: PLR0917 — private, called twice just above
        self,
        conn: pool.Connection,
        job: Job,
        call: calls.Call,
        state: calls.State,
        reason: str | None,
        next_at: datetime,
    ) -> None:
        await call_store.update_call(
            conn, partner_id=job.order.partner_id, order_id=job.order.order_id, call=call, state=state,
            reason=reason, next_at=next_at,
        )  # fmt: skip


def _sound(outcome: object) -> protocol.Outcome:
    """What a provider returned, which may be anybody's code. Raises TypeError."""
    if not isinstance(outcome, protocol.Outcome):
        raise TypeError(f"{type(outcome).__name__} is no outcome")
    return outcome
