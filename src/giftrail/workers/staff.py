"""All the workers of a process: fulfilment, reversals, messages to recipients, webhooks, housekeeping."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog

from giftrail.attempts import courier, dispatch
from giftrail.breakers import health
from giftrail.db import bell, pool
from giftrail.delivery import send
from giftrail.kit import outbound
from giftrail.leases import loop
from giftrail.leases import model as leases
from giftrail.orders import asking, batch, decide, endings, fulfil, model, undo
from giftrail.providers import protocol
from giftrail.webhooks import directory, manage
from giftrail.webhooks import model as webhooks
from giftrail.workers import housekeeping

# How long a worker that stopped by an error rests before it goes on.
AFTER_ERROR_SECONDS = 1.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Staffing:
    """What the workers work with."""

    database: pool.Database
    database_url: str
    keys: protocol.Keys
    gatherer: batch.Gatherer
    providers: Mapping[str, protocol.Provider]
    health: health.Health
    bell: bell.Bell
    webhooks: directory.Directory
    sender: send.Sender
    caller: outbound.Caller
    observer: courier.Observer
    limits: leases.Limits
    webhook_limits: courier.Limits
    deadline_seconds: float
    audit_every_seconds: float
    low_stock_codes: int
    retention: housekeeping.Retention
    now: Callable[[], datetime]
    clock: Callable[[], float]


async def run(staffing: Staffing) -> None:
    """Work until cancelled; then each lets what it holds end, or gives it back."""
    sending = _courier(staffing)
    rung, woken = staffing.bell.heard("events"), staffing.bell.heard("deliveries")
    everyone: list[Callable[[], Awaitable[None]]] = [
        *(loop_.run for loop_ in _loops(staffing)),
        sending.run,
        lambda: _dispatch(staffing, sending, rung),
        lambda: _hear(woken, sending),
        lambda: housekeeping.watch_webhooks(
            staffing.database, sending, tell=staffing.observer.set_webhooks, now=staffing.now
        ),
        lambda: housekeeping.forget(staffing.database, retention=staffing.retention, now=staffing.now),
        lambda: housekeeping.run(
            staffing.database_url,
            audit_every_seconds=staffing.audit_every_seconds,
            low_stock_codes=staffing.low_stock_codes,
            now=staffing.now,
        ),
    ]
    async with asyncio.TaskGroup() as group:
        for one in everyone:
            group.create_task(_keep_running(one))


async def _keep_running(worker: Callable[[], Awaitable[None]]) -> None:
    """Nobody stops for good because of an error that nobody expected, and nobody takes the others along."""
    while True:
        try:
            await worker()
        except Exception:
            _log.exception("a worker stopped and is started again")
        await asyncio.sleep(AFTER_ERROR_SECONDS)


def _loops(staffing: Staffing) -> list[loop.Loop]:
    async def settle_order(settlement: endings.Settlement) -> model.Order | endings.OutOfStock | decide.Again:
        try:
            settled = await staffing.gatherer.settle(settlement)
        except model.Unavailable as error:
            # To the loop it is an outage, which does not count against the job.
            raise ConnectionError(str(error)) from error
        staffing.bell.ring("orders")
        staffing.bell.ring("events")
        if isinstance(settled, model.Order) and settled.deliveries:
            staffing.bell.ring("recipients")
        return settled

    fulfiller = fulfil.Fulfiller(
        staffing.database,
        providers=staffing.providers,
        health_=staffing.health,
        settle_order=settle_order,
        keys=staffing.keys,
        deadline_seconds=staffing.deadline_seconds,
        now=staffing.now,
    )
    undoer = undo.Undoer(staffing.database, providers=staffing.providers, settle_order=settle_order, now=staffing.now)
    return [
        loop.Loop(
            staffing.database,
            asking.WORK,
            work=fulfiller.advance,
            limits=staffing.limits,
            woken=staffing.bell.heard("fulfilment"),
            now=staffing.now,
        ),
        loop.Loop(
            staffing.database,
            undo.WORK,
            work=undoer.advance,
            limits=staffing.limits,
            woken=staffing.bell.heard("reversal"),
            now=staffing.now,
        ),
        loop.Loop(
            staffing.database,
            send.WORK,
            work=staffing.sender.advance,
            limits=staffing.limits,
            woken=staffing.bell.heard("recipients"),
            now=staffing.now,
        ),
    ]


def _courier(staffing: Staffing) -> courier.Courier:
    async def disable(endpoint: webhooks.Endpoint, why: str) -> None:
        _log.error("a webhook endpoint was switched off", endpoint_id=endpoint.endpoint_id, why=why)
        async with staffing.database.write.acquire(timeout=pool.ACQUIRE_TIMEOUT_SECONDS) as conn, conn.transaction():
            await manage.disable_endpoint(conn, endpoint, why=why, ring=staffing.keys.ring, now=staffing.now())

    return courier.Courier(
        staffing.database,
        endpoints=staffing.webhooks,
        caller=staffing.caller,
        disable=disable,
        limits=staffing.webhook_limits,
        observer=staffing.observer,
        now=staffing.now,
        clock=staffing.clock,
    )


async def _dispatch(staffing: Staffing, sending: courier.Courier, rung: asyncio.Event) -> None:
    def tell() -> None:
        sending.wake()
        staffing.bell.ring("deliveries")

    await dispatch.run(staffing.database, woken=rung, tell=tell, now=staffing.now)


async def _hear(rung: asyncio.Event, sending: courier.Courier) -> None:
    while True:
        await rung.wait()
        rung.clear()
        sending.wake()
