"""HTTP to addresses that strangers name: each socket is checked as it connects, names and literals alike."""

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
MAX_READ_BYTES = 16 * 1024
KEEP_ALIVE_SECONDS = 15.0
# Python's own is_global is wrong for several of these.
_DENIED_V4 = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24
192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
"""
_DENIED_V6 = """
::/96 ::1/128 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7
fe80::/10 ff00::/8
"""
_DENIED = tuple(map(ipaddress.ip_network, (_DENIED_V4 + _DENIED_V6).split()))


class AddressDenied(OSError):
    """The address is none that strangers may have us call."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, the first bytes of the body, and Retry-After as it was sent."""

    status: int
    body: bytes
    retry_after: str | None


def is_allowed(address: Address, *, allowlist: Sequence[Network]) -> bool:
    """Whether the address is public, or one that the operator lists."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_allowed(address.ipv4_mapped, allowlist=allowlist)
    return is_listed(address, allowlist=allowlist) or not any(address in network for network in _DENIED)


def is_listed(address: Address, *, allowlist: Sequence[Network]) -> bool:
    """Whether the operator lists the address."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in allowlist)


class Caller:
    """Sessions that call what partners name: https anywhere public, plain http only where the operator lists it."""

    def __init__(self, *, allowlist: Sequence[Network], connections: int) -> None:
        self._allowlist = tuple(allowlist)
        self._sessions = {
            scheme: aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    # No limit by host: endpoints of several partners may share one, and each is limited by itself.
                    limit=connections,
                    keepalive_timeout=KEEP_ALIVE_SECONDS,
                    socket_factory=self._open_public if scheme == "https" else self._open_listed,
                    ttl_dns_cache=10,
                ),
                timeout=aiohttp.ClientTimeout(total=TOTAL_SECONDS, sock_connect=CONNECT_SECONDS),
                trust_env=False,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            for scheme in ("https", "http")
        }

    async def post(self, url: str, *, body: bytes, headers: dict[str, str]) -> Answer:
        """POST; redirects are not followed, of the answer no more than MAX_READ_BYTES is read.

        Raises aiohttp.ClientError, OSError, TimeoutError.
        """
        session = self._sessions["http" if url.startswith("http://") else "https"]
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            read = bytearray()
            while len(read) < MAX_READ_BYTES and (chunk := await response.content.read(MAX_READ_BYTES - len(read))):
                read += chunk
            if not response.content.at_eof():
                response.close()  # what is left is not worth reading, nor the connection keeping
            return Answer(response.status, bytes(read), response.headers.get("Retry-After"))

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()

    def _open_public(self, info: aiohttp.AddrInfoType) -> socket.socket:
        return self._open(info, allowed=is_allowed(_address(info), allowlist=self._allowlist))

    def _open_listed(self, info: aiohttp.AddrInfoType) -> socket.socket:
        return self._open(info, allowed=is_listed(_address(info), allowlist=self._allowlist))

    @staticmethod
    def _open(info: aiohttp.AddrInfoType, *, allowed: bool) -> socket.socket:
        if not allowed:
            raise AddressDenied("the address is not one that may be called")
        family, kind, protocol, _, _ = info
        return socket.socket(family, kind, protocol)


def _address(info: aiohttp.AddrInfoType) -> Address:
    host = str(info[4][0])
    return ipaddress.ip_address(host.partition("%")[0])
