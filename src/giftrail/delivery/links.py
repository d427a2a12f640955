"""Links to the voucher page: a token of 192 random bits, of which only the digest is kept."""

import base64
import hashlib
import os
from datetime import datetime, timedelta

from giftrail.db import pool
from giftrail.delivery import model, store
from giftrail.kit import ids

TOKEN_BYTES = 24
TOKEN_CHARACTERS = 32
REVEAL_WINDOW = timedelta(hours=1)


async def make_link(conn: pool.Connection | pool.Pool, *, delivery: model.Delivery, now: datetime) -> str:
    """A new token for a delivery. Each try has one of its own: what is stored cannot be turned into a link again."""
    token = base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).decode()
    await store.append_link(conn, digest=_digest(token), delivery=delivery, now=now)
    return token


async def find_order(conn: pool.Connection | pool.Pool, token: str) -> tuple[str, str] | None:
    """Partner and order of a token, or None."""
    return await store.find_link(conn, digest=_digest(token)) if len(token) == TOKEN_CHARACTERS else None


async def reveal(
    conn: pool.Connection, *, partner_id: str, order_id: str, address: object, most: int, now: datetime
) -> bool:
    """Record that the codes are shown, inside the caller's transaction; False when they were shown too often.

    Reveals of an order wait for each other.
    """
    await store.lock_reveals(conn, order_id=order_id)
    return await store.append_reveal(
        conn, reveal_id=ids.new("rvl", now=now), partner_id=partner_id, order_id=order_id, address=address,
        since=now - REVEAL_WINDOW, most=most, now=now,
    )  # fmt: skip


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
