"""Reversal: committed as work first, then providers are asked to void, then the money is refunded.

Wire contract, cancel and reverse.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

import structlog

from giftrail.calls import model as calls
from giftrail.calls import store as call_store
from giftrail.catalog import store as catalog_store
from giftrail.db import pool
from giftrail.kit import backoff
from giftrail.leases import model as leases
from giftrail.leases import store as lease_store
from giftrail.orders import asking, endings, fulfil, model, states, store
from giftrail.providers import protocol
from giftrail.reversals import model as reversals
from giftrail.reversals import store as reversal_store
from giftrail.vouchers import store as voucher_store

WORK = leases.Table("reversal", ("partner_id", "order_id"))
# Claims that ended without an answer before the reversal becomes the operator's.
MAX_ATTEMPTS = 20
WAITS = backoff.Doubling(first_seconds=2.0, last_seconds=300.0)

# What a partner is told; what a provider said is the operator's to read.
_WHY: Mapping[reversals.Outcome | None, str] = {
    reversals.Outcome.REFUSED: "the order was not reversed: its issuer does not take the vouchers back",
    reversals.Outcome.UNKNOWN: "the order was not reversed yet: the operator is finding out what became of it",
}

_log = structlog.get_logger()


async def request_reversal(
    conn: pool.Connection, *, partner_id: str, order_id: str, reason: str | None, confirmed: bool = False, now: datetime
) -> model.Order:
    """Commit that the order is to be reversed, inside the caller's transaction; asked again it changes nothing.

    `confirmed`: the operator knows that the issuer voided the vouchers, whatever the brand allows. Raises WrongState,
    OrderUnknown.
    """
    order = (await store.lock_orders(conn, partner_id=partner_id, order_ids=[order_id])).get(order_id)
    if order is None:
        raise model.OrderUnknown
    kept = order[0]
    if kept.status is states.Status.REVERSED or (kept.reversal_pending and not confirmed):
        return kept
    if kept.status is not states.Status.SUCCESS:
        raise model.WrongState(f"the order is {kept.status}; only a SUCCESS order can be reversed")
    known = await reversal_store.find_reversal(conn, partner_id=partner_id, order_id=order_id)
    if known is not None and known.outcome in _WHY and not confirmed:
        raise model.WrongState(_WHY[known.outcome])
    if not confirmed:
        await _check_allowed(conn, kept, now=now)
    await reversal_store.append_reversal(conn, partner_id=partner_id, order_id=order_id, reason=reason, now=now)
    return await store.mark_reversal_pending(conn, order=kept, now=now)


async def explain(conn: pool.Connection | pool.Pool, *, partner_id: str, order_id: str) -> None:
    """Raises WrongState with what ended the order's reversal, when that was not its success."""
    known = await reversal_store.find_reversal(conn, partner_id=partner_id, order_id=order_id)
    if known is not None and known.outcome in _WHY:
        raise model.WrongState(_WHY[known.outcome])


async def _check_allowed(conn: pool.Connection, order: model.Order, *, now: datetime) -> None:
    brand = await catalog_store.find_brand(conn, brand_id=order.brand_id)
    if brand is None or not brand.reversible:
        raise model.WrongState(f"orders of brand {order.brand_id!r} cannot be reversed")
    if now - order.created_at >= timedelta(hours=brand.reversal_window_hours):
        raise model.WrongState(f"the order is older than the {brand.reversal_window_hours} hours of its brand")
    providers = await voucher_store.list_providers(conn, partner_id=order.partner_id, order_id=order.order_id)
    if protocol.STOCK in providers:
        raise model.WrongState("its vouchers are from stock: only the operator can confirm that they are void")


class Undoer:
    """Takes claimed reversals to their end."""

    def __init__(
        self,
        database: pool.Database,
        *,
        providers: Mapping[str, protocol.Provider],
        settle_order: fulfil.Settle,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._providers = providers
        self._settle = settle_order
        self._now = now

    async def advance(self, claim: leases.Claim) -> None:
        """Have the providers void what is not void yet, then refund. Raises LeaseLost and what the database raises."""
        partner_id, order_id = claim.key
        async with self._database.read.acquire() as conn:
            reversal = await reversal_store.find_reversal(conn, partner_id=partner_id, order_id=order_id)
            asked = (await call_store.list_calls(conn, partner_id=partner_id, order_ids=[order_id]))[order_id]
            codes = await call_store.list_sold_codes(conn, partner_id=partner_id, order_id=order_id)
            order = await store.find_order(conn, partner_id=partner_id, order_id=order_id)
        if reversal is None or order is None:
            raise AssertionError(f"the reversal of work {claim.key} is gone")
        voided = set(reversal.voided)
        of_call = groupby(codes, key=lambda row: (row["provider"], row["line"], row["part"]))
        for (name, line, part), rows in of_call:
            call = next(one for one in asked if (one.provider, one.part.part_id) == (name, (line, part)))
            if _void_key(call) in voided:
                continue
            provider_voucher_ids = [row["provider_voucher_id"] for row in rows]
            if not await self._void(claim, order, call, provider_voucher_ids, some_are_void=bool(voided)):
                return
            voided.add(_void_key(call))
        await self._settle(endings.Reverse(partner_id, order_id))

    async def _void(
        self,
        claim: leases.Claim,
        order: model.Order,
        call: calls.Call,
        provider_voucher_ids: Sequence[str],
        *,
        some_are_void: bool,
    ) -> bool:
        """Ask for one call's vouchers; returns whether they are void now."""
        provider = self._providers.get(call.provider)
        if provider is None:
            await self._end(claim, reversals.Outcome.UNKNOWN, f"provider {call.provider!r} is not configured")
            return False
        request = asking.make_request(order, call, shows_number=True, shows_pin=True, now=self._now())
        try:
            async with asyncio.timeout(provider.timeout_seconds):
                outcome = await provider.void(request, provider_voucher_ids=provider_voucher_ids)
        except Exception as error:
            _log.warning("a provider did not answer", provider=provider.name, call_key=call.key, error=repr(error))
            if claim.attempts >= MAX_ATTEMPTS:
                await self._end(claim, reversals.Outcome.UNKNOWN, f"provider {call.provider!r} does not answer")
            else:
                await self._postpone(claim, WAITS.seconds(claim.attempts), attempts=claim.attempts)
            return False
        match outcome:
            case protocol.Voided():
                async with self._database.write.acquire() as conn, conn.transaction():
                    await lease_store.hold(conn, WORK, claim=claim)
                    await reversal_store.add_voided(
                        conn, partner_id=order.partner_id, order_id=order.order_id, key=_void_key(call)
                    )
                return True
            case protocol.Pending(seconds):
                await self._postpone(claim, seconds, attempts=0)
            case protocol.VoidRefused(reason) if some_are_void:
                why = f"some vouchers are void, provider {call.provider!r} refuses the others: {reason}"
                await self._end(claim, reversals.Outcome.UNKNOWN, why)
            case protocol.VoidRefused(reason):
                await self._end(claim, reversals.Outcome.REFUSED, reason)
        return False

    async def _end(self, claim: leases.Claim, outcome: reversals.Outcome, why: str) -> None:
        """The order stays SUCCESS, and it is known why."""
        partner_id, order_id = claim.key
        async with self._database.write.acquire() as conn, conn.transaction():
            locked = await store.lock_orders(conn, partner_id=partner_id, order_ids=[order_id])
            await lease_store.hold(conn, WORK, claim=claim)
            await reversal_store.end_reversal(conn, partner_id=partner_id, order_id=order_id, outcome=outcome, why=why)
            await store.update_statuses(conn, partner_id=partner_id, orders=[locked[order_id][0]])
        _log.warning("an order was not reversed", order_id=order_id, outcome=outcome, why=why)

    async def _postpone(self, claim: leases.Claim, seconds: float, *, attempts: int) -> None:
        await lease_store.postpone(
            self._database.read,
            WORK,
            claim=claim,
            next_at=self._now() + timedelta(seconds=seconds),
            attempts=attempts,
        )


def _void_key(call: calls.Call) -> str:
    return f"{call.provider}/{call.key}"
