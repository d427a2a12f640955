"""What the fake writes: numbers without trailing zeros, times in UTC with a Z, as the service has them."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from giftrail_client import wire
from giftrail_client.testing import money

_made = itertools.count()


def encode(value: Any) -> bytes:
    """The value as JSON."""
    return wire.encode(_spell(value))


def new_id(prefix: str, *, now: datetime) -> str:
    """A new id such as `ord_0193a5c2f1e8…`; later ones sort after it, in a time that stands still too."""
    return f"{prefix}_{int(now.timestamp() * 1000):012x}{next(_made):08x}{secrets.token_hex(6)}"


def _spell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _spell(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spell(item) for item in value]
    if isinstance(value, Decimal):
        return money.plain(value)
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
