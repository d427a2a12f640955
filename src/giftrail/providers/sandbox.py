"""The sandbox: a provider whose brands do what their names say, the same each time (wire contract, beyond).

It keeps nothing: what it issues follows from the request's key, as if it remembered it.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from giftrail.providers import protocol

FIRST = "sandbox"
SECOND = "sandbox-second"
NAMES = (FIRST, SECOND)
MAX_VOUCHERS = 50
TIMEOUT_SECONDS = 2.0
VALID_DAYS = 365
# How soon the sandbox wants to be asked again.
POLL_SECONDS = 0.5
# When it answers an order that is too late: after the service has given up and before the client does.
TOO_LATE_SECONDS = 14.5 * 60
AFTER = re.compile(r"sandbox-after-(\d{1,4})-seconds")

Answer = Callable[["Sandbox", protocol.Request], protocol.Outcome]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A row of the sandbox table: what the brand of that id does, told to a partner's developer."""

    brand_id: str
    does: str
    answer: Answer
    providers: tuple[str, ...] = (FIRST,)
    loses_first_answer: bool = False
    voids: bool = False
    webhook_fault: str | None = None  # LOST or TWICE: what becomes of its order's webhook


class Sandbox:
    """One of the sandbox's providers."""

    max_vouchers = MAX_VOUCHERS
    timeout_seconds = TIMEOUT_SECONDS
    replays = True
    finds = True

    def __init__(self, name: str) -> None:
        self.name = name

    async def issue(self, request: protocol.Request) -> protocol.Outcome:
        """What the brand's name says."""
        behaviour = _find(request.brand_id)
        if behaviour is None:
            return protocol.Refused("the sandbox knows no such brand")
        if behaviour.loses_first_answer and request.asks == 1:
            await asyncio.sleep(2 * self.timeout_seconds)
        return behaviour.answer(self, request)

    async def look_up(self, request: protocol.Request) -> protocol.Outcome:
        """As it would have been answered."""
        behaviour = _find(request.brand_id)
        return behaviour.answer(self, request) if behaviour else protocol.Refused("the sandbox knows no such brand")

    async def void(
        self, request: protocol.Request, *, provider_voucher_ids: Sequence[str]
    ) -> protocol.Voided | protocol.VoidRefused | protocol.Pending:
        """Void what the brand lets void."""
        del provider_voucher_ids
        behaviour = _find(request.brand_id)
        if behaviour is not None and behaviour.voids:
            return protocol.Voided()
        return protocol.VoidRefused("the sandbox does not take vouchers of this brand back")

    async def close(self) -> None:
        """There is nothing to let go of."""

    def deliver(self, request: protocol.Request) -> protocol.Delivered:
        """The vouchers that belong to the key."""
        return protocol.Delivered([self._voucher(request, place) for place in range(request.quantity)])

    def _voucher(self, request: protocol.Request, place: int) -> protocol.Issued:
        number = int.from_bytes(hashlib.sha256(f"{self.name}/{request.key}/{place}".encode()).digest())
        valid_till: date = request.asked_at.date() + timedelta(days=VALID_DAYS)
        return protocol.Issued(
            provider_voucher_id=f"{request.key}-{place}",
            card_number=f"{number % 10**16:016}" if request.shows_number else None,
            card_pin=f"{number // 10**16 % 10**12:012}" if request.shows_pin else None,
            valid_till=valid_till,
        )


def make(name: str, options: Mapping[str, Any]) -> Sandbox:
    """A sandbox under another name; it takes no options. Raises ValueError."""
    if options:
        raise ValueError(f"the sandbox has no option {next(iter(options))!r}")
    return Sandbox(name)


def _deliver(sandbox: Sandbox, request: protocol.Request) -> protocol.Outcome:
    return sandbox.deliver(request)


def _deliver_after(seconds: float) -> Answer:
    def answer(sandbox: Sandbox, request: protocol.Request) -> protocol.Outcome:
        left = seconds - (request.now - request.asked_at).total_seconds()
        return sandbox.deliver(request) if left <= 0 else protocol.Pending(min(left, POLL_SECONDS))

    return answer


def _never(_: Sandbox, __: protocol.Request) -> protocol.Outcome:
    return protocol.Pending(POLL_SECONDS)


def _refuse(_: Sandbox, __: protocol.Request) -> protocol.Outcome:
    return protocol.Refused("the sandbox refuses this brand")


def _be_away(_: Sandbox, __: protocol.Request) -> protocol.Outcome:
    return protocol.Unavailable("the sandbox is away for this brand")


def _deliver_second(sandbox: Sandbox, request: protocol.Request) -> protocol.Outcome:
    return sandbox.deliver(request) if sandbox.name == SECOND else _refuse(sandbox, request)


def _deliver_twice(sandbox: Sandbox, request: protocol.Request) -> protocol.Outcome:
    vouchers = sandbox.deliver(request).vouchers
    return protocol.Delivered([*vouchers, *vouchers])


def _deliver_one_part(sandbox: Sandbox, request: protocol.Request) -> protocol.Outcome:
    return sandbox.deliver(request) if request.key.endswith("-1-1") else _refuse(sandbox, request)


TABLE: tuple[Behaviour, ...] = (
    Behaviour("sandbox-at-once", "SUCCESS within the answer; cannot be reversed", _deliver),
    Behaviour("sandbox-after-5-seconds", "PROCESSING, SUCCESS after 5 s (any N in the id)", _deliver_after(5)),
    Behaviour("sandbox-never", "PROCESSING until the deadline, then FAILED E200", _never),
    Behaviour("sandbox-refused", "FAILED E200: the provider refuses", _refuse),
    Behaviour(
        "sandbox-second-provider",
        "SUCCESS: the first provider refuses, the second serves",
        _deliver_second,
        (FIRST, SECOND),
    ),
    Behaviour(
        "sandbox-too-late",
        "FAILED E200 at the deadline; the codes come later and are set aside",
        _deliver_after(TOO_LATE_SECONDS),
    ),
    Behaviour(
        "sandbox-twice", "SUCCESS: the provider hands each voucher over twice, the order has it once", _deliver_twice
    ),
    Behaviour(
        "sandbox-lost-answer",
        "PROCESSING, then SUCCESS: issued, the answer timed out, found by look-up",
        _deliver,
        loses_first_answer=True,
    ),
    Behaviour(
        "sandbox-away", "PROCESSING until the deadline, and can be cancelled: the provider cannot be reached", _be_away
    ),
    Behaviour(
        "sandbox-first-part",
        f"FAILED E200 when it has more than one line or more than {MAX_VOUCHERS} vouchers of a line: a part is"
        " delivered, the rest refused, what was delivered is set aside",
        _deliver_one_part,
    ),
    Behaviour(
        "sandbox-lost-webhook",
        "SUCCESS after 3 s; its webhook never comes, until the event is redelivered",
        _deliver_after(3),
        webhook_fault="LOST",
    ),
    Behaviour(
        "sandbox-duplicate-webhook",
        "SUCCESS after 3 s; its webhook comes twice, with the same event id",
        _deliver_after(3),
        webhook_fault="TWICE",
    ),
    Behaviour("sandbox-reversible", "SUCCESS, and can be reversed for 24 hours", _deliver, voids=True),
    Behaviour("sandbox-void-refused", "SUCCESS; reversing is allowed, but the provider refuses to void", _deliver),
)
_BY_ID: Mapping[str, Behaviour] = {behaviour.brand_id: behaviour for behaviour in TABLE}


def webhook_fault(brand_id: str) -> str | None:
    """What the sandbox does to the webhook of an order of the brand: LOST, TWICE or nothing."""
    behaviour = _BY_ID.get(brand_id)
    return behaviour.webhook_fault if behaviour else None


def _find(brand_id: str) -> Behaviour | None:
    after = AFTER.fullmatch(brand_id)
    if after:
        return Behaviour(brand_id, "", _deliver_after(int(after[1])))
    return _BY_ID.get(brand_id)
