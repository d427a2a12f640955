"""What to do next for an order that takes time, row by row (engines, fulfilment; wire contract, deadline)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from giftrail.calls import model as calls
from giftrail.orders import plan
from giftrail.providers import protocol

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
EARLIER, SOON, LATER = NOW - timedelta(seconds=60), NOW + timedelta(seconds=30), NOW + timedelta(seconds=90)
DEADLINE = NOW + timedelta(minutes=10)
FOR_EVER = datetime.max.replace(tzinfo=UTC)
ASKED, DELIVERED, REFUSED = calls.State.ASKED, calls.State.DELIVERED, calls.State.REFUSED
UNAVAILABLE, UNKNOWN, RESOLVED = calls.State.UNAVAILABLE, calls.State.UNKNOWN, calls.State.RESOLVED
ONE, TWO, THREE = calls.Part(1, 1, 10000, 2), calls.Part(1, 2, 10000, 1), calls.Part(2, 1, 25000, 1)


@dataclass
class Vendor:
    """As much of a provider as the plan looks at."""

    name: str
    replays: bool
    finds: bool
    max_vouchers: int = 2
    timeout_seconds: float = 1.0

    async def issue(self, request: protocol.Request) -> protocol.Outcome:
        raise AssertionError(request)

    async def look_up(self, request: protocol.Request) -> protocol.Outcome:
        raise AssertionError(request)

    async def void(
        self, request: protocol.Request, *, provider_voucher_ids: Sequence[str]
    ) -> protocol.Voided | protocol.VoidRefused | protocol.Pending:
        raise AssertionError(request, provider_voucher_ids)

    async def close(self) -> None:
        raise AssertionError


PROVIDERS = {
    "finder": Vendor("finder", replays=False, finds=True),
    "replayer": Vendor("replayer", replays=True, finds=False),
    "blunt": Vendor("blunt", replays=False, finds=False),
}


def call(
    state: calls.State,
    provider: str = "finder",
    part: calls.Part = ONE,
    *,
    next_at: datetime = EARLIER,
    last_asked_at: datetime = EARLIER,
) -> calls.Call:
    """A call of a part, asked a while ago and to be asked about again already."""
    return calls.Call(
        part=part, provider=provider, key=part.key("ord_1"), state=state, reason=None, asks=1, asked_at=EARLIER,
        last_asked_at=last_asked_at, next_at=next_at,
    )  # fmt: skip


@dataclass
class Row:
    """What was asked so far of the brand's providers, and the step that follows."""

    step: plan.Step
    asked: Sequence[calls.Call] = ()
    names: Sequence[str] = ("finder",)
    parts: Sequence[calls.Part] = (ONE,)
    closed: Sequence[tuple[str, datetime]] = ()
    now: datetime = NOW


ROWS = {
    # Nobody was asked yet.
    "the first provider is asked": Row(plan.Ask(ONE, "finder"), names=("finder", "replayer")),
    "a provider that is not configured is passed over": Row(plan.Ask(ONE, "replayer"), names=("gone", "replayer")),
    "no provider is configured": Row(plan.GiveUp(), names=("gone",)),
    "stock comes first": Row(plan.Finish({ONE: "stock"}), names=("stock", "finder")),
    "the generator comes first": Row(plan.Finish({ONE: "generator"}), names=("generator",)),
    "every part is served at once": Row(
        plan.Finish({ONE: "stock", TWO: "stock"}), names=("stock",), parts=(ONE, TWO)
    ),
    "the first part is asked for first": Row(plan.Ask(ONE, "finder"), parts=(ONE, TWO, THREE)),
    # Breakers.
    "one that is left alone is passed over": Row(
        plan.Ask(ONE, "replayer"), names=("finder", "replayer"), closed=[("finder", LATER)]
    ),
    "stock serves while the first is left alone": Row(
        plan.Finish({ONE: "stock"}), names=("finder", "stock"), closed=[("finder", LATER)]
    ),
    "all are left alone: the first that is back is waited for": Row(
        plan.Wait(SOON), names=("finder", "replayer"), closed=[("finder", LATER), ("replayer", SOON)]
    ),
    "all are paused for ever: the deadline is waited for": Row(plan.Wait(DEADLINE), closed=[("finder", FOR_EVER)]),
    "a breaker that is half open lets ask": Row(plan.Ask(ONE, "finder"), closed=[("finder", NOW)]),
    "a breaker holds nobody from looking up what is out": Row(
        plan.LookUp(call(ASKED)), asked=[call(ASKED)], closed=[("finder", FOR_EVER)]
    ),
    # One call, by its state.
    "delivered: finish": Row(plan.Finish({}), asked=[call(DELIVERED)]),
    "refused: the next provider": Row(
        plan.Ask(ONE, "replayer"), asked=[call(REFUSED)], names=("finder", "replayer")
    ),
    "refused by all: give up": Row(
        plan.GiveUp(), asked=[call(REFUSED), call(REFUSED, "replayer")], names=("finder", "replayer")
    ),
    "refused, then stock": Row(plan.Finish({ONE: "stock"}), asked=[call(REFUSED)], names=("finder", "stock")),
    "out of stock, then a remote one": Row(
        plan.Ask(ONE, "finder"), asked=[call(REFUSED, "stock")], names=("stock", "finder")
    ),
    "out of stock, and nobody else": Row(plan.GiveUp(), asked=[call(REFUSED, "stock")], names=("stock",)),
    "unavailable for a while: the next provider": Row(
        plan.Ask(ONE, "replayer"), asked=[call(UNAVAILABLE, next_at=LATER)], names=("finder", "replayer")
    ),
    "unavailable for a while and nobody else: wait": Row(plan.Wait(LATER), asked=[call(UNAVAILABLE, next_at=LATER)]),
    "unavailable beyond the deadline: wait for the deadline": Row(
        plan.Wait(DEADLINE), asked=[call(UNAVAILABLE, next_at=FOR_EVER)]
    ),
    "unavailable till now: ask again": Row(plan.Ask(ONE, "finder"), asked=[call(UNAVAILABLE, next_at=NOW)]),
    "unavailable and its breaker open: the later of both": Row(
        plan.Wait(LATER), asked=[call(UNAVAILABLE, next_at=SOON)], closed=[("finder", LATER)]
    ),
    "the first is back before the second was asked": Row(
        plan.Ask(ONE, "finder"), asked=[call(UNAVAILABLE, next_at=NOW)], names=("finder", "replayer")
    ),
    "out, and not yet to be asked about: wait": Row(plan.Wait(SOON), asked=[call(ASKED, next_at=SOON)]),
    "out, and to be asked about: look up": Row(plan.LookUp(call(ASKED)), asked=[call(ASKED)]),
    "out at one that replays: ask the same again": Row(
        plan.LookUp(call(ASKED, "replayer")), asked=[call(ASKED, "replayer")], names=("replayer",)
    ),
    "out at one that can do neither: the operator's": Row(
        plan.GiveToOperator(call(ASKED, "blunt")), asked=[call(ASKED, "blunt")], names=("blunt", "replayer")
    ),
    "out at one that can do neither, though it said pending": Row(
        plan.GiveToOperator(call(ASKED, "blunt", next_at=LATER)),
        asked=[call(ASKED, "blunt", next_at=LATER)],
        names=("blunt",),
    ),
    "out at one that is no longer configured: the operator's": Row(
        plan.GiveToOperator(call(ASKED, "gone")), asked=[call(ASKED, "gone")], names=("gone", "finder")
    ),
    "out, and nobody else is asked meanwhile": Row(
        plan.Wait(SOON), asked=[call(ASKED, next_at=SOON)], names=("finder", "replayer", "stock")
    ),
    "out at one the brand no longer names: it is pursued still": Row(
        plan.LookUp(call(ASKED)), asked=[call(ASKED)], names=("replayer",)
    ),
    "the operator's: wait for the deadline, ask nobody": Row(
        plan.Wait(DEADLINE), asked=[call(UNKNOWN)], names=("finder", "replayer")
    ),
    "the operator found it created: likewise": Row(
        plan.Wait(DEADLINE), asked=[call(RESOLVED)], names=("finder", "stock")
    ),
    "the operator found it not created: the next provider": Row(
        plan.Ask(ONE, "replayer"), asked=[call(REFUSED)], names=("finder", "replayer")
    ),
    # Several parts.
    "one delivered, the other is asked for": Row(
        plan.Ask(TWO, "finder"), asked=[call(DELIVERED)], parts=(ONE, TWO)
    ),
    "one delivered, the other from stock": Row(
        plan.Finish({TWO: "stock"}),
        asked=[call(DELIVERED), call(REFUSED, part=TWO)],
        parts=(ONE, TWO),
        names=("finder", "stock"),
    ),
    "all delivered, by whom ever": Row(
        plan.Finish({}), asked=[call(DELIVERED), call(DELIVERED, "replayer", TWO)], parts=(ONE, TWO)
    ),
    "while one is waited for the others are asked": Row(
        plan.Ask(TWO, "finder"), asked=[call(ASKED, next_at=SOON)], parts=(ONE, TWO)
    ),
    "what can be looked up comes before what can be asked": Row(
        plan.LookUp(call(ASKED, part=TWO)), asked=[call(ASKED, part=TWO)], parts=(ONE, TWO, THREE)
    ),
    "two are waited for: until the first of them": Row(
        plan.Wait(SOON), asked=[call(ASKED, next_at=LATER), call(ASKED, part=TWO, next_at=SOON)], parts=(ONE, TWO)
    ),
    "one has no provider left: give up, whatever the others do": Row(
        plan.GiveUp(), asked=[call(REFUSED), call(ASKED, part=TWO)], parts=(ONE, TWO, THREE)
    ),
    "one is the operator's: nothing more is bought": Row(
        plan.Wait(DEADLINE), asked=[call(UNKNOWN)], parts=(ONE, TWO)
    ),
    "one is the operator's: what is out is looked up": Row(
        plan.LookUp(call(ASKED, part=TWO)), asked=[call(UNKNOWN), call(ASKED, part=TWO)], parts=(ONE, TWO)
    ),
    "one is the operator's: what is out is waited for": Row(
        plan.Wait(SOON), asked=[call(UNKNOWN), call(ASKED, part=TWO, next_at=SOON)], parts=(ONE, TWO)
    ),
    "one is the operator's: stock is not taken before the others are there": Row(
        plan.Wait(DEADLINE),
        asked=[call(UNKNOWN), call(REFUSED, part=TWO)],
        parts=(ONE, TWO),
        names=("finder", "stock"),
    ),
    "one is from stock, the other asked for: ask first": Row(
        plan.Ask(TWO, "finder"), asked=[call(REFUSED, "stock", TWO)], parts=(ONE, TWO), names=("stock", "finder")
    ),
    # The deadline.
    "a wait never goes beyond the deadline": Row(plan.Wait(DEADLINE), asked=[call(ASKED, next_at=FOR_EVER)]),
    "just before the deadline it is asked": Row(plan.Ask(ONE, "finder"), now=DEADLINE - timedelta(microseconds=1)),
    "at the deadline nobody new is asked": Row(plan.GiveUp(), now=DEADLINE),
    "at the deadline stock is not taken": Row(plan.GiveUp(), now=DEADLINE, names=("stock",)),
    "at the deadline what is out is asked a last time": Row(
        plan.LookUp(call(ASKED, next_at=FOR_EVER)), asked=[call(ASKED, next_at=FOR_EVER)], now=DEADLINE
    ),
    "after the last ask: give up": Row(
        plan.GiveUp(), asked=[call(ASKED, last_asked_at=DEADLINE)], now=DEADLINE + timedelta(seconds=1)
    ),
    "at the deadline what is delivered is sold": Row(plan.Finish({}), asked=[call(DELIVERED)], now=DEADLINE),
    "long after the deadline too, if it is all there": Row(
        plan.Finish({}), asked=[call(DELIVERED)], now=DEADLINE + timedelta(hours=1)
    ),
    "at the deadline the operator's: give up": Row(plan.GiveUp(), asked=[call(UNKNOWN)], now=DEADLINE),
    "at the deadline found created by the operator: give up": Row(
        plan.GiveUp(), asked=[call(RESOLVED)], now=DEADLINE
    ),
    "at the deadline out at one that can do neither: the operator's first": Row(
        plan.GiveToOperator(call(ASKED, "blunt")), asked=[call(ASKED, "blunt")], names=("blunt",), now=DEADLINE
    ),
    "at the deadline each part that is out is asked a last time": Row(
        plan.LookUp(call(ASKED, part=TWO)), asked=[call(DELIVERED), call(ASKED, part=TWO)], parts=(ONE, TWO),
        now=DEADLINE,
    ),
    "at the deadline a part was never asked for: give up, though another is out": Row(
        plan.GiveUp(), asked=[call(ASKED)], parts=(ONE, TWO), now=DEADLINE
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_the_next_step(row: Row) -> None:
    closed = dict(row.closed)

    def closed_until(name: str) -> datetime | None:
        until = closed.get(name)
        return until if until is not None and until > row.now else None

    step = plan.next_step(
        row.parts,
        row.asked,
        names=row.names,
        providers=PROVIDERS,
        closed_until=closed_until,
        deadline=DEADLINE,
        now=row.now,
    )
    if isinstance(row.step, plan.Wait):
        assert isinstance(step, plan.Wait)
        assert step.until == row.step.until
    else:
        assert step == row.step
