"""The fingerprint of an order's content, by which a replay is told from a conflict (wire contract, replay)."""

import hashlib
from collections.abc import Mapping

import msgspec

# Stored in front of the digest, so that a later canonical form can live beside this one.
_VERSION = b"\x01"


def fingerprint(
    *,
    brand_id: str,
    amount_minor: int,
    lines: Mapping[int, int],
    customer: Mapping[str, str] | None,
    delivery: Mapping[str, str] | None,
) -> bytes:
    """33 bytes that are equal exactly when the content is.

    `lines` is merged by denomination; absent members are absent from `customer` and `delivery`, an empty object is
    None. Members that the service ignores are no content.
    """
    canonical = msgspec.json.encode(
        [brand_id, amount_minor, sorted(lines.items()), _sorted(customer), _sorted(delivery)]
    )
    return _VERSION + hashlib.sha256(canonical).digest()


def _sorted(members: Mapping[str, str] | None) -> list[tuple[str, str]] | None:
    return sorted(members.items()) if members else None
