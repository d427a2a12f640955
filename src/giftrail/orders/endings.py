"""What may become of an order after its placement, and what is answered to who settles it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from giftrail.calls import model as calls
from giftrail.orders import decide, model

Parts = Mapping[calls.Part, str]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Every part was delivered or is to be served by an at-once provider, which `local` names: SUCCESS."""

    partner_id: str
    order_id: str
    local: Parts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No provider serves it, or the deadline passed: FAILED, E200, the money released."""

    partner_id: str
    order_id: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """The partner changed its mind before any provider was asked: CANCELLED, the money released."""

    partner_id: str
    order_id: str


@dataclass(frozen=True, slots=True)
class Reverse:
    """The vouchers are void: REVERSED, the money refunded."""

    partner_id: str
    order_id: str


Settlement = Deliver | GiveUp | Cancel | Reverse


@dataclass(frozen=True, slots=True)
class OutOfStock:
    """The at-once providers cannot serve these parts; it was recorded, the order is still PROCESSING."""


Answer = model.Order | model.WrongState | model.OrderUnknown | OutOfStock | decide.Again
