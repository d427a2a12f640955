"""What to do next for an order that takes time: pure, over what was asked so far (engines, fulfilment)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from giftrail.calls import model as calls
from giftrail.providers import protocol


@dataclass(frozen=True, slots=True)
class Ask:
    """Commit the key and ask the provider for the part."""

    part: calls.Part
    provider: str


@dataclass(frozen=True, slots=True)
class LookUp:
    """The provider may have created it: find out without asking for anything new."""

    call: calls.Call


@dataclass(frozen=True, slots=True)
class GiveToOperator:
    """The provider may have created it, and cannot be asked: nobody but the operator can find out."""

    call: calls.Call


@dataclass(frozen=True, slots=True)
class Finish:
    """Every part is delivered, or is to be served by the at-once provider that `local` names."""

    local: Mapping[calls.Part, str]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No provider is left that could serve it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before that moment."""

    until: datetime


@dataclass(frozen=True, slots=True)
class _Stuck(Wait):
    """Only the operator can go on with the part, and nothing more is to be bought meanwhile."""


Step = Ask | LookUp | GiveToOperator | Finish | GiveUp | Wait


def next_step(
    parts: Sequence[calls.Part],
    asked: Sequence[calls.Call],
    *,
    names: Sequence[str],
    providers: Mapping[str, protocol.Provider],
    closed_until: Callable[[str], datetime | None],
    deadline: datetime,
    now: datetime,
) -> Step:
    """The next step of an order that is PROCESSING.

    `names` are the brand's providers in the order they are asked; `closed_until` tells of open breakers. While one part
    is waited for the others are asked, but none once a part has no provider left or is the operator's: no more is
    bought than can be sold.
    """
    of_part: dict[calls.PartId, list[calls.Call]] = {part.part_id: [] for part in parts}
    for call in asked:
        of_part[call.part.part_id].append(call)
    local: dict[calls.Part, str] = {}
    steps: list[Step] = []
    for part in parts:
        made = of_part[part.part_id]
        if any(call.state is calls.State.DELIVERED for call in made):
            continue
        out = [call for call in made if call.state not in calls.NOT_CREATED]
        if out:
            steps.append(_pursue(out[0], providers=providers, deadline=deadline, now=now))
            continue
        chosen = _choose(part, made, names, providers, closed_until, deadline, now)
        if isinstance(chosen, str):
            local[part] = chosen
        else:
            steps.append(chosen)
    return _first(steps) or Finish(local)


def _first(steps: Sequence[Step]) -> Step | None:
    """The step to take of those that the parts need; None when they need none."""
    for kind in (GiveUp, LookUp, GiveToOperator):
        for step in steps:
            if isinstance(step, kind):
                return step
    asks = [step for step in steps if isinstance(step, Ask)]
    if asks and not any(isinstance(step, _Stuck) for step in steps):
        return asks[0]
    waits = [step.until for step in steps if isinstance(step, Wait)]
    return Wait(min(waits)) if waits else None


def _pursue(call: calls.Call, *, providers: Mapping[str, protocol.Provider], deadline: datetime, now: datetime) -> Step:
    """A call is out: until it is known what became of it, nobody else is asked."""
    if call.state is not calls.State.ASKED:
        return _Stuck(deadline) if now < deadline else GiveUp()
    provider = providers.get(call.provider)
    if provider is None or not (provider.finds or provider.replays):
        return GiveToOperator(call)
    if now >= deadline:
        # The last ask; when that was in vain, the order ends.
        return GiveUp() if call.last_asked_at >= deadline else LookUp(call)
    return LookUp(call) if call.next_at <= now else Wait(min(call.next_at, deadline))


def _choose(  # noqa: PLR0917 — private, called once just above
    part: calls.Part,
    made: Sequence[calls.Call],
    names: Sequence[str],
    providers: Mapping[str, protocol.Provider],
    closed_until: Callable[[str], datetime | None],
    deadline: datetime,
    now: datetime,
) -> Step | str:
    """Nothing is out: the first provider that has not refused and is well, or the name of one that serves at once."""
    if now >= deadline:
        return GiveUp()
    known = {call.provider: call for call in made}
    later: list[datetime] = []
    for name in names:
        call = known.get(name)
        if call is not None and call.state is calls.State.REFUSED:
            continue
        if name in protocol.AT_ONCE:
            return name
        if name not in providers:
            continue
        closed = closed_until(name)
        waits = [moment for moment in (closed, call.next_at if call else None) if moment is not None and moment > now]
        if not waits:
            return Ask(part, name)
        later.append(max(waits))
    return Wait(min(*later, deadline)) if later else GiveUp()
