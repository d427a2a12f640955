"""What every channel does: take one message to one address, once as far as its protocol can promise."""

from dataclasses import dataclass
from typing import Protocol

from giftrail.delivery import message


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message for an address. `parcel_id` is the same at each try, so that a repeat can be recognized."""

    parcel_id: str
    address: str
    from_name: str
    reply_to: str | None
    message: message.Message


@dataclass(frozen=True, slots=True)
class Sent:
    """The next station has it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It will never go: tried again it would be refused again. `bounced` when the address is why."""

    reason: str
    bounced: bool = False


@dataclass(frozen=True, slots=True)
class NotNow:
    """It did not go, or nobody knows whether it did: to be tried again."""

    reason: str


Result = Sent | Refused | NotNow


class Channel(Protocol):
    """A way to recipients."""

    async def send(self, parcel: Parcel) -> Result:
        """Take the parcel to its address. Never raises for what the other side does."""
        ...

    async def close(self) -> None:
        """Let go of what is held open."""
        ...
