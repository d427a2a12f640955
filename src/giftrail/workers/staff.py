"""All the workers of a process: fulfilment, reversals, housekeeping."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from giftrail.breakers import health
from giftrail.db import bell, pool
from giftrail.leases import loop
from giftrail.leases import model as leases
from giftrail.orders import asking, batch, decide, endings, fulfil, model, undo
from giftrail.providers import protocol
from giftrail.workers import housekeeping


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
    limits: leases.Limits
    deadline_seconds: float
    audit_every_seconds: float
    low_stock_codes: int
    now: Callable[[], datetime]


async def run(staffing: Staffing) -> None:
    """Work until cancelled; then each lets what it holds end, or gives it back."""
    async with asyncio.TaskGroup() as group:
        for loop_ in _loops(staffing):
            group.create_task(loop_.run())
        group.create_task(
            housekeeping.run(
                staffing.database_url,
                audit_every_seconds=staffing.audit_every_seconds,
                low_stock_codes=staffing.low_stock_codes,
                now=staffing.now,
            )
        )


def _loops(staffing: Staffing) -> list[loop.Loop]:
    async def settle_order(settlement: endings.Settlement) -> model.Order | endings.OutOfStock | decide.Again:
        settled = await staffing.gatherer.settle(settlement)
        staffing.bell.ring("orders")
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
    ]
