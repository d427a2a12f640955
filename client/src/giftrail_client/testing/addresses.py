"""Which addresses the fake lets partners register, as the service does."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from giftrail_client.testing import problems

# The fake's operator lists these, so that a test can name a receiver on its own computer; of them http is taken too.
_LISTED = (ipaddress.ip_network("127.0.0.0/8"),)
_DENIED_V4 = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24
192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
"""
_DENIED_V6 = """
::/96 ::1/128 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7
fe80::/10 ff00::/8
"""
_DENIED = tuple(map(ipaddress.ip_network, (_DENIED_V4 + _DENIED_V6).split()))


def check_url(url: str) -> str:
    """The url as it can be called. Raises Refused."""
    complaint = _complain_of_url(url)
    if complaint is not None:
        raise problems.invalid(("url", complaint))
    return url


def _complain_of_url(url: str) -> str | None:
    if not url.isascii() or not url.isprintable() or " " in url:
        return "is not of plain printable characters"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return f"{url!r} is not a url"
    if parts.scheme not in {"https", "http"} or not host or port == 0:
        return f"{url!r} is not an https url"
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "carries a user name, a password or a fragment"
    return None if _may_be_called(host, parts.scheme) else f"{host} is not an address that may be called"


def _may_be_called(host: str, scheme: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return True  # a name: what it resolves to is looked at when it is called
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    listed = any(address in network for network in _LISTED)
    return listed or (scheme == "https" and not any(address in network for network in _DENIED))
