"""Which addresses strangers may have us call: the list, to the first and last address of each range."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrail.kit import outbound

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
NOWHERE: tuple[outbound.Network, ...] = ()
# Each range in full, with what lies just before and just behind it when that is public.
RANGES = [
    ("0.0.0.0/8", None, "1.0.0.0"),
    ("10.0.0.0/8", "9.255.255.255", "11.0.0.0"),
    ("100.64.0.0/10", "100.63.255.255", "100.128.0.0"),
    ("127.0.0.0/8", "126.255.255.255", "128.0.0.0"),
    ("169.254.0.0/16", "169.253.255.255", "169.255.0.0"),
    ("172.16.0.0/12", "172.15.255.255", "172.32.0.0"),
    ("192.0.0.0/24", "191.255.255.255", "192.0.1.0"),
    ("192.0.2.0/24", "192.0.1.255", "192.0.3.0"),
    ("192.88.99.0/24", "192.88.98.255", "192.88.100.0"),
    ("192.168.0.0/16", "192.167.255.255", "192.169.0.0"),
    ("198.18.0.0/15", "198.17.255.255", "198.20.0.0"),
    ("198.51.100.0/24", "198.51.99.255", "198.51.101.0"),
    ("203.0.113.0/24", "203.0.112.255", "203.0.114.0"),
    ("224.0.0.0/4", "223.255.255.255", None),
    ("240.0.0.0/4", None, None),
    ("::/96", None, "::1:0:0"),
    ("64:ff9b::/96", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "64:ff9b::1:0:0"),
    ("64:ff9b:1::/48", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff", "64:ff9b:2::"),
    ("100::/64", "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "100:0:0:1::"),
    ("2001::/23", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
    ("2001:db8::/32", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"),
    ("2002::/16", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
    ("3fff::/20", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
    ("5f00::/16", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "5f01::"),
    ("fc00::/7", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe00::"),
    ("fe80::/10", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fec0::"),
    ("ff00::/8", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),
]
DENIED = [ipaddress.ip_network(name) for name, _, _ in RANGES]
DENIED_V4 = [network for network in DENIED if isinstance(network, ipaddress.IPv4Network)]


def allowed(address: str, allowlist: tuple[outbound.Network, ...] = NOWHERE) -> bool:
    return outbound.is_allowed(ipaddress.ip_address(address), allowlist=allowlist)


@pytest.mark.parametrize(("name", "before", "behind"), RANGES)
def test_a_range_is_denied_to_its_first_and_last_address_and_no_further(
    name: str, before: str | None, behind: str | None
) -> None:
    network = ipaddress.ip_network(name)
    first, last = network.network_address, network.broadcast_address
    for address in (first, first + 1, last - 1, last):
        assert not allowed(str(address))
    if before is not None:
        assert ipaddress.ip_address(before) + 1 == first
        assert allowed(before)
    if behind is not None:
        assert ipaddress.ip_address(behind) - 1 == last
        assert allowed(behind)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "93.184.215.14", "223.255.255.255", "2606:4700::1111", "2a00:1450::1"]
)
def test_what_is_public_is_allowed(address: str) -> None:
    assert allowed(address)
    assert not outbound.is_listed(ipaddress.ip_address(address), allowlist=NOWHERE)


@pytest.mark.parametrize("inner", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "0.0.0.0", "172.31.0.1"])
def test_a_private_address_of_version_4_is_denied_in_every_dress_of_version_6(inner: str) -> None:
    number = int(ipaddress.IPv4Address(inner))
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    dresses = [
        f"::ffff:{inner}",  # mapped
        f"::ffff:{high}:{low}",
        f"0:0:0:0:0:FFFF:{inner}",
        f"::{inner}",  # compatible, deprecated
        f"::{high}:{low}",
        f"64:ff9b::{inner}",  # NAT64
        f"64:ff9b::{high}:{low}",
        f"64:ff9b:1::{high}:{low}",  # NAT64 of a local prefix
        f"2002:{high}:{low}::",  # 6to4
        f"2002:{high}:{low}::1",
        f"2001:0:4136:e378:8000:63bf:{~number >> 16 & 0xFFFF:x}:{~number & 0xFFFF:x}",  # Teredo
    ]
    for dress in dresses:
        assert not allowed(dress), dress


@pytest.mark.parametrize(
    "address", ["::", "::1", "0:0:0:0:0:0:0:1", "fe80::1", "fe80::1%1", "fd00::1", "ff02::1", "::2"]
)
def test_loopback_and_the_nearer_surroundings_are_denied_in_version_6(address: str) -> None:
    assert not allowed(address)


@given(st.integers(0, 2**32 - 1))
def test_an_address_of_version_4_is_judged_alike_when_it_is_mapped(number: int) -> None:
    plain = ipaddress.IPv4Address(number)
    mapped = ipaddress.ip_address(f"::ffff:{plain}")
    for allowlist in (NOWHERE, LOOPBACK, (ipaddress.ip_network("0.0.0.0/1"),)):
        assert outbound.is_allowed(mapped, allowlist=allowlist) is outbound.is_allowed(plain, allowlist=allowlist)
        assert outbound.is_listed(mapped, allowlist=allowlist) is outbound.is_listed(plain, allowlist=allowlist)


@given(st.sampled_from(DENIED), st.data())
def test_nothing_within_a_range_is_allowed(network: outbound.Network, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, network.num_addresses - 1))
    assert not outbound.is_allowed(network.network_address + offset, allowlist=NOWHERE)


@given(st.integers(0, 2**32 - 1))
def test_an_address_of_version_4_is_denied_by_the_list_and_by_nothing_else(number: int) -> None:
    address = ipaddress.IPv4Address(number)
    assert outbound.is_allowed(address, allowlist=NOWHERE) is not any(address in network for network in DENIED_V4)


@pytest.mark.parametrize(
    ("address", "listed"),
    [
        ("127.0.0.1", True), ("127.255.255.255", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("126.255.255.255", False), ("128.0.0.0", False), ("::2", False), ("::", False), ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False), ("::127.0.0.1", False), ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False),
        ("8.8.8.8", False),
    ],
)  # fmt: skip
def test_what_the_operator_lists_is_listed_and_nothing_else(address: str, listed: bool) -> None:  # noqa: FBT001
    assert outbound.is_listed(ipaddress.ip_address(address), allowlist=LOOPBACK) is listed


def test_what_is_listed_is_allowed_and_the_rest_is_as_before() -> None:
    assert allowed("127.0.0.1", LOOPBACK)
    assert allowed("::1", LOOPBACK)
    assert allowed("8.8.8.8", LOOPBACK)
    assert not allowed("10.0.0.1", LOOPBACK)
    assert not allowed("::127.0.0.1", LOOPBACK)
    assert not allowed("127.0.0.1", (ipaddress.ip_network("10.0.0.0/8"),))
