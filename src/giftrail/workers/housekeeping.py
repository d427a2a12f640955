"""The periodic audit and the stock alarm: findings go to the log as errors, low stock as a warning."""

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog

from giftrail.audit import findings as auditor
from giftrail.db import pool
from giftrail.providers import store as stock

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
