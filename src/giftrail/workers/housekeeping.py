"""The periodic audit, the stock alarm, late webhooks, and what is forgotten when it is old; alarms go to the log."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from giftrail.attempts import courier
from giftrail.attempts import forget as forgetting
from giftrail.attempts import store as attempts
from giftrail.audit import findings as auditor
from giftrail.breakers import record
from giftrail.db import pool
from giftrail.providers import store as stock
from giftrail.spending import book

WATCH_EVERY_SECONDS = 10.0
LATE_SECONDS = 60.0
FORGET_EVERY_SECONDS = 3600.0
FORGET_WINDOWS_DAYS = 62

_log = structlog.get_logger()


async def run(
    database_url: str, *, audit_every_seconds: float, low_stock_codes: int, now: Callable[[], datetime]
) -> None:
    """Look after the house every `audit_every_seconds`, for as long as the process lives; 0 is never."""
    while audit_every_seconds > 0:
        try:
            async with pool.connect(database_url) as conn:
                await look(conn, low_stock_codes=low_stock_codes, now=now())
        except pool.UNAVAILABLE as error:
            _log.warning("housekeeping could not reach the database", error=repr(error))
        except Exception:
            _log.exception("housekeeping failed")
        await asyncio.sleep(audit_every_seconds)
    await asyncio.Event().wait()


async def look(conn: pool.Connection, *, low_stock_codes: int, now: datetime) -> list[str]:
    """One audit and one look at the stock; returns the findings."""
    findings = await auditor.list_findings(conn, now=now)
    for finding in findings:
        _log.error("audit finding", finding=finding)
    _log.info("audit", findings=len(findings))
    for level in await stock.list_levels(conn, brand_id=None, today=now.date()):
        if level["unsold"] < low_stock_codes:
            _log.warning(
                "stock is low",
                brand_id=level["brand_id"],
                denomination_minor=level["denomination_minor"],
                unsold=level["unsold"],
            )
    return findings


@dataclass(frozen=True, slots=True)
class Retention:
    """How long events with their deliveries, and attempts, are kept."""

    event_days: int
    attempt_days: int


async def forget(database: pool.Database, *, retention: Retention, now: Callable[[], datetime]) -> None:
    """Forget what is old, in batches, every FORGET_EVERY_SECONDS, for as long as the process lives."""
    while True:
        try:
            at, reads = now(), database.read
            await forgetting.forget_events(reads, before=at - timedelta(days=retention.event_days))
            await forgetting.forget_attempts(reads, before=at - timedelta(days=retention.attempt_days))
            await record.forget_counts(reads, before=at - timedelta(days=1))
            await book.forget_windows(reads, before=at - timedelta(days=FORGET_WINDOWS_DAYS))
        except pool.UNAVAILABLE as error:
            _log.warning("old rows could not be removed", error=repr(error))
        except Exception:
            _log.exception("old rows could not be removed")
        await asyncio.sleep(FORGET_EVERY_SECONDS)


async def watch_webhooks(
    database: pool.Database,
    sending: courier.Courier,
    *,
    tell: Callable[[float, int], None],
    now: Callable[[], datetime],
) -> None:
    """Look at how late webhooks are every WATCH_EVERY_SECONDS, for as long as the process lives."""
    while True:
        await asyncio.sleep(WATCH_EVERY_SECONDS)
        try:
            tell(await look_at_webhooks(database, sending, now=now()), sending.open_breakers)
        except pool.UNAVAILABLE as error:
            _log.warning("webhooks cannot be looked at", error=repr(error))
        except Exception:
            _log.exception("webhooks cannot be looked at")


async def look_at_webhooks(database: pool.Database, sending: courier.Courier, *, now: datetime) -> float:
    """Since how many seconds the oldest delivery is due, throttled or not; over LATE_SECONDS is an error in the log."""
    oldest = await attempts.find_oldest_due(database.read, now=now)
    late = (now - oldest).total_seconds() if oldest is not None else 0.0
    if late > LATE_SECONDS:
        _log.error("webhooks are late", oldest_due_seconds=round(late), open_breakers=sending.open_breakers)
    return late
