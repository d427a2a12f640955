"""Where a request comes from: the socket, or what our own proxies say (wire contract, IP allowlist)."""

import functools
import ipaddress
from collections.abc import Sequence

from giftrail.partners import model as partners

MAX_FORWARDED_HOPS = 20
# Addresses kept as they were read: a partner calls from few.
ADDRESSES_KEPT = 4096


def client_address(
    peer: str | None, *, forwarded: str | None, trusted_proxies: Sequence[partners.Network]
) -> partners.Address | None:
    """The client's address; None when nobody can tell.

    `forwarded` is the X-Forwarded-For header. From the nearest hop outwards, the first that is no proxy of ours is the
    client.
    """
    address = _read(peer or "")
    hops = forwarded.split(",")[-MAX_FORWARDED_HOPS:] if forwarded else []
    while address is not None and hops and any(address in network for network in trusted_proxies):
        address = _read(hops.pop().strip())
    return address


@functools.lru_cache(maxsize=ADDRESSES_KEPT)
def _read(text: str) -> partners.Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # An IPv4 address that came as ::ffff:a.b.c.d is itself.
    return getattr(address, "ipv4_mapped", None) or address
