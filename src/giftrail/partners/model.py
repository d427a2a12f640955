"""A partner, and what is known of it on every request."""

import ipaddress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec

MAX_NAME_CHARACTERS = 100

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Kind(StrEnum):
    """Whom the partner serves; a B2C partner names the customer in each order (specification, Place Order)."""

    B2B = "B2B"
    B2C = "B2C"


class RequestIdMode(StrEnum):
    """Whether the partner must send X-REQUEST-ID or has one made when it is absent (wire contract, requests)."""

    REQUIRE = "REQUIRE"
    GENERATE = "GENERATE"


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How the service delivers vouchers to the partner's recipients.

    Messages hold a link to the voucher page, and the codes themselves only with `codes_in_messages`.
    """

    language: str = "en"
    logo_url: str | None = None
    colour: str = "#1f4b99"
    reply_to: str | None = None
    codes_in_messages: bool = False


@dataclass(frozen=True, slots=True)
class Partner:
    """A partner as the guard sees it: one version of its row, its live credentials and its networks."""

    partner_id: str
    name: str
    kind: Kind
    currency: str
    region: str
    request_id_mode: RequestIdMode
    rate_per_second: int | None
    rate_burst: int | None
    failed_logins_per_minute: int | None
    suspended_at: datetime | None
    version: int
    created_at: datetime
    credentials: frozenset[str]
    networks: tuple[Network, ...]
    delivery: Delivery | None = None  # None: the service does not deliver for it

    def allows(self, address: Address) -> bool:
        """Whether the address is in one of the networks; an empty list allows nobody."""
        return any(address in network for network in self.networks)
