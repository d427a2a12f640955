"""The whole service against a model of it, for all that a partner, an operator, a provider and a clock may do.

The database is real and so is everything above it; the providers, the workers' deaths and the time of day are the
machine's. What it checks beside its model is the auditor.
"""

import asyncio
import contextlib
import enum
import itertools
import os
import secrets
import sys
import time
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import hypothesis
import msgspec
import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

import counter
from giftrail import running
from giftrail.audit import findings as audit
from giftrail.breakers import health
from giftrail.breakers import record as breakers
from giftrail.calls import shelve
from giftrail.calls import store as call_store
from giftrail.catalog import edit, rules
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.kit import ids, money
from giftrail.leases import model as leases
from giftrail.leases import store as lease_store
from giftrail.orders import asking, batch, endings, fulfil, limit, read, settle, undo
from giftrail.orders import model as orders
from giftrail.orders.fingerprint import fingerprint
from giftrail.orders.states import TRANSITIONS, Status
from giftrail.providers import protocol
from giftrail.spending import model as spending
from giftrail.wallet import ledger

T = TypeVar("T")

EXAMPLES = int(os.environ.get("GIFTRAIL_MACHINE_EXAMPLES", "150"))
SEED = int(os.environ.get("GIFTRAIL_MACHINE_SEED") or secrets.randbits(32))
# A failure is made smaller only when asked for: that takes minutes.
SHRINK = bool(os.environ.get("GIFTRAIL_MACHINE_SHRINK"))
STEPS = 50
# Shortly before an hour, a day and a month end, so that the windows of the spending limits do too.
START = datetime(2030, 1, 31, 23, 48, tzinfo=UTC)
DEADLINE_SECONDS = 13 * 60.0
LEASE_SECONDS = 90.0
PART_VOUCHERS = 2
DENOMINATIONS = (10000, 25000)
ANYTHING = 1000
FINDER, REPLAYER, BLUNT = "finder", "replayer", "blunt"
VENDORS = {FINDER: (False, True), REPLAYER: (True, False), BLUNT: (False, False)}  # replays, finds
BRANDS: Mapping[str, tuple[str, ...]] = {
    "own": ("generator",),
    "stocked": ("stock",),
    "remote": (FINDER,),
    "remote, then stock": (REPLAYER, "stock"),
    "stock, then remote": ("stock", FINDER),
    "two remotes": (BLUNT, REPLAYER),
    "remote, then own": (FINDER, "generator"),
    "blunt": (BLUNT,),
}
ASKED = [(brand, name) for brand, providers in BRANDS.items() for name in providers if name in VENDORS]
WAITS = (0, 0, 5, 30, LEASE_SECONDS + 1)
LONG_TIMES = (DEADLINE_SECONDS, settle.FINAL_SECONDS, 3600, 24 * 3600)


QUESTIONS = {
    "unknown": "SELECT EXISTS (SELECT FROM provider_call WHERE partner_id = $1 AND state = 'UNKNOWN')",
    "aside": "SELECT EXISTS (SELECT FROM delivered_code WHERE partner_id = $1 AND state = 'ASIDE')",
    "reversal": "SELECT EXISTS (SELECT FROM reversal WHERE partner_id = $1 AND state = 'DUE')",
}


class Turn(enum.Enum):
    """What a provider does when it is asked. It never lies: what it created is never told to be not created."""

    DELIVER = enum.auto()
    DELIVER_TWICE = enum.auto()  # each voucher stands there twice
    PENDING = enum.auto()
    REFUSE = enum.auto()
    BE_AWAY = enum.auto()
    LOSE_ANSWER = enum.auto()  # created, and nobody heard
    FAIL = enum.auto()  # nothing created, and nobody heard
    DIE_BEFORE = enum.auto()  # the worker dies, nothing was created
    DIE_AFTER = enum.auto()  # the worker dies, it was created
    DELIVER_TOO_FEW = enum.auto()
    DELIVER_A_KNOWN_CODE = enum.auto()
    HANG = enum.auto()  # answers when the machine says so


class VoidTurn(enum.Enum):
    """What a provider does when it is to void."""

    VOID = enum.auto()
    REFUSE = enum.auto()
    PENDING = enum.auto()
    LOSE_ANSWER = enum.auto()
    FAIL = enum.auto()
    DIE = enum.auto()


class WorkerDied(BaseException):
    """The process is gone; nothing below may catch it."""


@dataclass
class Script:
    """What the providers do next; when it is played to its end they deliver and void."""

    turns: deque[Turn] = field(default_factory=deque)
    voids: deque[VoidTurn] = field(default_factory=deque)
    stuck: dict[str, asyncio.Future[None]] = field(default_factory=dict)  # by order: resolved when its worker hangs
    hanging: dict[str, asyncio.Future[Turn]] = field(default_factory=dict)  # by order: the turn it goes on with
    wrongs: list[str] = field(default_factory=list)  # what the service must never do


class Vendor:
    """A provider that remembers what it created."""

    max_vouchers = PART_VOUCHERS
    timeout_seconds = 3600.0  # a hanging call is ended by the machine

    def __init__(self, name: str, script: Script, peers: Mapping[str, "Vendor"]) -> None:
        self.name = name
        self.replays, self.finds = VENDORS[name]
        self.created: dict[str, list[protocol.Issued]] = {}
        self.asked: set[str] = set()
        self.uncertain: set[str] = set()  # asked for, and never told whether it was created
        self.closed: set[str] = set()  # told that it was not created: a request still under way comes too late
        self.voided: set[str] = set()
        self.void_refused: set[str] = set()
        self._script = script
        self._peers = peers

    async def issue(self, request: protocol.Request) -> protocol.Outcome:
        """Create the vouchers, or not."""
        key = request.key
        if not self.replays and key in self.uncertain:
            self._script.wrongs.append(f"{self.name} was asked again for {key}, whose outcome it had not told")
        if request.quantity > self.max_vouchers:
            self._script.wrongs.append(f"{self.name} was asked for {request.quantity} vouchers at once")
        self.asked.add(key)
        self.uncertain.add(key)
        self.closed.discard(key)
        return await self._answer(request, may_create=True)

    async def look_up(self, request: protocol.Request) -> protocol.Outcome:
        """What became of it; what was not created by now never will be, unless it is still pending."""
        return await self._answer(request, may_create=request.key in self.uncertain)

    async def void(
        self, request: protocol.Request, *, provider_voucher_ids: Sequence[str]
    ) -> protocol.Voided | protocol.VoidRefused | protocol.Pending:
        """Void what was created, or not."""
        key = request.key
        known = [issued.provider_voucher_id for issued in self.created.get(key, [])]
        if sorted(provider_voucher_ids) != sorted(known):
            self._script.wrongs.append(f"{self.name} was to void {provider_voucher_ids} of {key}, which has {known}")
        turn = self._script.voids.popleft() if self._script.voids else VoidTurn.VOID
        if key in self.voided:
            return protocol.Voided()
        match turn:
            case VoidTurn.VOID:
                self.voided.add(key)
            case VoidTurn.REFUSE:
                self.void_refused.add(key)
                return protocol.VoidRefused("no")
            case VoidTurn.PENDING:
                return protocol.Pending(5)
            case VoidTurn.LOSE_ANSWER:
                self.voided.add(key)
                raise ConnectionError("the answer was lost")
            case VoidTurn.FAIL:
                raise ConnectionError("no connection")
            case VoidTurn.DIE:
                self.voided.add(key)
                raise WorkerDied
        return protocol.Voided()

    async def close(self) -> None:
        """Nothing to let go of."""

    async def _answer(self, request: protocol.Request, *, may_create: bool) -> protocol.Outcome:
        turn = self._script.turns.popleft() if self._script.turns else Turn.DELIVER
        if turn is Turn.HANG:
            order_id = order_of(request.key)
            goes_on: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
            self._script.hanging[order_id] = goes_on
            self._script.stuck[order_id].set_result(None)
            turn = await goes_on
            if request.key in self.closed:
                turn = Turn.REFUSE
        match turn:
            case Turn.PENDING:
                return protocol.Pending(5)
            case Turn.FAIL:
                raise ConnectionError("no connection")
            case Turn.DIE_BEFORE:
                raise WorkerDied
        if (turn in {Turn.REFUSE, Turn.BE_AWAY} or not may_create) and request.key not in self.created:
            self.uncertain.discard(request.key)
            self.closed.add(request.key)
            return protocol.Refused("no") if turn is Turn.REFUSE else protocol.Unavailable("not now", 5)
        return self._deliver(request, turn)

    def _deliver(self, request: protocol.Request, turn: Turn) -> protocol.Outcome:
        vouchers = self.created.get(request.key)
        if vouchers is None:
            vouchers = self.created[request.key] = self._create(request, turn)
        match turn:
            case Turn.LOSE_ANSWER:
                raise ConnectionError("the answer was lost")
            case Turn.DIE_AFTER:
                raise WorkerDied
            case Turn.DELIVER_TWICE:
                return protocol.Delivered([*vouchers, *reversed(vouchers)])
        return protocol.Delivered(vouchers)

    def _create(self, request: protocol.Request, turn: Turn) -> list[protocol.Issued]:
        for peer in self._peers.values():
            if request.key in peer.created:
                self._script.wrongs.append(f"{self.name} and {peer.name} both created {request.key}")
        count = request.quantity - (turn is Turn.DELIVER_TOO_FEW)
        vouchers = [
            protocol.Issued(f"{request.key}/{place}", uuid.uuid4().hex, uuid.uuid4().hex[:8], None)
            for place in range(count)
        ]
        if turn is Turn.DELIVER_A_KNOWN_CODE:
            known = next((one.card_number for issued in self.created.values() for one in issued), None)
            vouchers[0] = replace(vouchers[0], card_number=known or vouchers[0].card_number)
        return vouchers


@dataclass
class Placed:
    """An order as the model knows it."""

    draft: orders.Draft
    status: Status
    codes: frozenset[str] = frozenset()  # card numbers, as first seen


@dataclass
class World:
    """What all examples share: an event loop, a database, and the time of day."""

    loop: asyncio.Runner
    database: pool.Database
    conn: pool.Connection
    at: datetime = START
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def now(self) -> datetime:
        """The machine's time."""
        return self.at

    def run(self, deed: Coroutine[Any, Any, T]) -> T:
        """Run it to its end; tasks it leaves behind stand still until the next run."""
        return self.loop.run(deed)


def order_of(key: str) -> str:
    """The order that a call's key belongs to."""
    return "ord_" + key.rsplit("-", 2)[0]


async def make_brands(conn: pool.Connection, tag: str) -> dict[str, catalog.Brand]:
    """Each of BRANDS, stored under ids of its own."""
    made = {
        name: replace(counter.brand(f"{tag}-{place}", reversible=name != "remote, then own"), providers=providers)
        for place, (name, providers) in enumerate(BRANDS.items())
    }
    async with conn.transaction():
        await edit.upsert_brands(conn, list(made.values()), now=START)
    return {name: await edit.read_brand(conn, brand_id=brand.brand_id) for name, brand in made.items()}


waits = st.sampled_from(WAITS)
turns = st.lists(st.sampled_from(Turn), min_size=1, max_size=6)
turns_but_hang = st.lists(st.sampled_from([turn for turn in Turn if turn is not Turn.HANG]), min_size=1, max_size=3)
void_turns = st.lists(st.sampled_from(VoidTurn), min_size=1, max_size=3)
lines = st.dictionaries(st.sampled_from(DENOMINATIONS), st.integers(1, 4), min_size=1)
percentages = st.sampled_from([Decimal(0), Decimal("2.5"), Decimal(100)])
wishes = st.tuples(st.sampled_from(sorted(BRANDS)), lines, percentages)
remote_wishes = st.tuples(st.sampled_from(sorted({brand for brand, _ in ASKED})), lines, percentages)


class ServiceMachine(RuleBasedStateMachine):
    """One partner, its wallet and brands of its own; everything else that is due is left alone."""

    world: World
    references = Bundle("references")

    def __init__(self) -> None:
        super().__init__()
        self.world.at = START
        self.tag = f"machine{next(self.world.numbers)}"
        self.script = Script()
        self.vendors: dict[str, Vendor] = {}
        for name in VENDORS:
            self.vendors[name] = Vendor(name, self.script, self.vendors)
        self.tasks: dict[str, asyncio.Task[None]] = {}  # by order: workers whose provider hangs
        self.numbers = itertools.count(int(self.tag.removeprefix("machine")) << 32)
        self.money = 0
        self.placed: dict[str, Placed] = {}
        self.shelf: Counter[tuple[str, int]] = Counter()
        self.limits: dict[tuple[str, spending.Period], tuple[int | None, int | None]] = {}
        self.sold: set[str] = set()
        self.is_there = {"unknown": False, "aside": False, "reversal": False}
        self.run(self._open())

    async def _open(self) -> None:
        world = self.world
        # What a failed example left behind is nobody's work.
        for table in ("fulfilment", "reversal"):
            done = "state = 'DONE', lease_token = NULL, lease_until = NULL"
            done += ", outcome = 'UNKNOWN'" if table == "reversal" else ""
            await world.conn.execute(f"UPDATE {table} SET {done} WHERE state = 'DUE'")
        await world.conn.execute("DELETE FROM provider_breaker")
        self.partner_id = (await counter.new_partner(world.conn, money_minor=0)).partner_id
        self.brands = await make_brands(world.conn, self.tag)
        self.health, self.workers_health = health.Health(world.database), health.Health(world.database)
        for one in (self.health, self.workers_health):
            await one.refresh()
        self.gatherer = batch.Gatherer(
            world.database,
            keys=counter.KEYS,
            limits=batch.Limits(
                writers=2,
                batch_orders=128,
                batch_vouchers=2000,
                waiting_orders=1024,
                crowded_orders=48,
                patience_seconds=60,
            ),
            clock=time.monotonic,
            now=world.now,
        )
        self.fulfiller = fulfil.Fulfiller(
            world.database,
            providers=self.vendors,
            health_=self.workers_health,
            settle_order=self.gatherer.settle,
            keys=counter.KEYS,
            deadline_seconds=DEADLINE_SECONDS,
            now=world.now,
        )
        self.undoer = undo.Undoer(
            world.database, providers=self.vendors, settle_order=self.gatherer.settle, now=world.now
        )

    def run(self, deed: Coroutine[Any, Any, T]) -> T:
        return self.world.run(deed)

    # The partner.

    @rule(target=references, wished=st.lists(wishes, min_size=1, max_size=3), copies=st.integers(1, 2))
    def place(self, wished: list[tuple[str, dict[int, int], Decimal]], copies: int) -> Any:
        """Place some orders side by side, each so many times under its reference."""
        drafts = [self._draft(*wish) for wish in wished]
        foreseen, balance, shelf = [], self._available(), Counter(self.shelf)
        counted: list[orders.Draft] = []
        for draft in drafts:
            what = self._foresee(draft, balance, shelf, counted)
            foreseen.append(what)
            if isinstance(what, Status):
                counted.append(draft)
                balance -= draft.debit_minor
        answers = self.run(self._submit([self._again(draft) for draft in drafts for _ in range(copies)]))
        made = []
        for place, (draft, what) in enumerate(zip(drafts, foreseen, strict=True)):
            mine = answers[place * copies : (place + 1) * copies]
            if what == "E013":
                assert {type(answer) for answer in mine} == {spending.SpendingLimitExceeded}, (what, mine)
                continue
            receipts = [answer for answer in mine if isinstance(answer, orders.Receipt)]
            assert len(receipts) == copies, (what, mine)
            assert [receipt.replayed for receipt in receipts] == [False] + [True] * (copies - 1)
            assert len({receipt.order for receipt in receipts}) == 1
            order = receipts[0].order
            assert (order.failure_code or order.status) == what
            same = msgspec.structs.replace(draft, order_id=order.order_id)
            self.placed[draft.reference_id] = Placed(same, Status.PROCESSING)
            self._see(self.placed[draft.reference_id], order, new=True)
            made.append(draft.reference_id)
        return multiple(*made)

    @rule(target=references, wished=st.lists(remote_wishes, min_size=1, max_size=3), turns=turns)
    def place_and_work(self, wished: list[tuple[str, dict[int, int], Decimal]], turns: list[Turn]) -> Any:
        """Place orders that take time, with a worker at hand."""
        made = self.place(wished, 1)
        self.work(0, turns, ANYTHING)
        return made

    @rule(reference=references)
    def replay(self, reference: str) -> None:
        """The same reference and content: the order as it is now."""
        placed = self.placed[reference]
        [answer] = self.run(self._submit([self._again(placed.draft)]))
        assert isinstance(answer, orders.Receipt)
        assert answer.replayed
        assert answer.order.order_id == placed.draft.order_id
        assert answer.order.status is placed.status
        assert codes_of(answer.order) == (placed.codes if placed.status is Status.SUCCESS else frozenset())

    @rule(reference=references)
    def mismatch(self, reference: str) -> None:
        """The same reference with other content changes nothing."""
        placed = self.placed[reference]
        [answer] = self.run(self._submit([self._again(placed.draft, fingerprint=b"\x01other")]))
        assert isinstance(answer, orders.ReferenceConflict)
        assert answer.order_id == placed.draft.order_id

    @rule(reference=references)
    def cancel(self, reference: str) -> None:
        """Only what no provider may have created is cancelled."""
        placed = self.placed[reference]
        order_id = placed.draft.order_id
        answer = self.run(caught(self.gatherer.settle(endings.Cancel(self.partner_id, order_id)), orders.WrongState))
        before = placed.status
        self._look()
        if isinstance(answer, orders.Order):
            assert answer.status is placed.status is Status.CANCELLED
        else:
            was_asked = any(order_of(key) == order_id for vendor in self.vendors.values() for key in vendor.asked)
            assert placed.status is before is not Status.CANCELLED
            assert before is not Status.PROCESSING or was_asked

    @rule(reference=references)
    def reverse(self, reference: str) -> None:
        """Ask for a reversal; brand, age and what was told before decide."""
        placed = self.placed[reference]
        answer = self.run(caught(self._request_reversal(placed.draft.order_id), orders.WrongState))
        if placed.status is Status.SUCCESS:
            brand = placed.draft.brand
            age = self.world.at - placed.draft.placed_at
            if not brand.reversible or (age >= timedelta(hours=24) and not isinstance(answer, orders.Order)):
                assert isinstance(answer, orders.WrongState)
            if isinstance(answer, orders.Order):
                assert answer.reversal_pending
            elif brand.reversible and age < timedelta(hours=24) and protocol.STOCK not in brand.providers:
                assert any(
                    order_of(key) == answer_id
                    for answer_id in [placed.draft.order_id]
                    for vendor in self.vendors.values()
                    for key in vendor.void_refused
                )
        else:
            assert isinstance(answer, orders.Order) == (placed.status is Status.REVERSED)

    # The operator.

    @initialize(amount=st.sampled_from([1000000, 100000]))
    def begin_with(self, amount: int) -> None:
        """Money and some stock are there from the start, so that most orders can be served."""
        self.top_up(amount)
        for name, providers in BRANDS.items():
            if protocol.STOCK in providers:
                self.stock_arrives(name, DENOMINATIONS[0], 3)

    @rule(amount=st.sampled_from([10000, 50000, 500000]))
    def top_up(self, amount: int) -> None:
        """Money comes in."""

        async def deed() -> None:
            async with self.world.conn.transaction():
                wallet = await ledger.open_wallet(self.world.conn, partner_id=self.partner_id)
                wallet.top_up(amount, note=None, now=self.world.at)
                await ledger.close_wallet(self.world.conn, wallet, now=self.world.at)

        self.run(deed())
        self.money += amount

    @rule(
        brand=st.sampled_from([name for name, providers in BRANDS.items() if "stock" in providers]),
        denomination=st.sampled_from(DENOMINATIONS),
        count=st.integers(1, 5),
    )
    def stock_arrives(self, brand: str, denomination: int, count: int) -> None:
        """Codes are imported."""
        self.run(counter.put_stock(self.world.conn, self.brands[brand], denomination // 100, count))
        self.shelf[self.brands[brand].brand_id, denomination] += count

    @rule(
        brand=st.sampled_from(["", *sorted(BRANDS)]),
        period=st.sampled_from(spending.Period),
        amount=st.none() | st.sampled_from([30000, 300000]),
        count=st.integers(1, 9),
    )
    def set_limit(self, brand: str, period: spending.Period, amount: int | None, count: int) -> None:
        """A spending limit binds from now on; what was ordered in its window counts."""
        brand_id = self.brands[brand].brand_id if brand else ""

        async def deed() -> None:
            wanted = spending.SpendingLimit(self.partner_id, brand_id, period, amount, count, self.world.at)
            async with self.world.conn.transaction():
                await limit.set_limit(self.world.conn, wanted, now=self.world.at)

        self.run(deed())
        self.limits[brand_id, period] = (amount, count)

    @precondition(lambda self: self.limits)
    @rule(which=st.integers(0, 9))
    def lift_limit(self, which: int) -> None:
        """A spending limit is gone."""
        brand_id, period = sorted(self.limits)[which % len(self.limits)]

        async def deed() -> bool:
            async with self.world.conn.transaction():
                return await limit.lift_limit(
                    self.world.conn, partner_id=self.partner_id, brand_id=brand_id, period=period, now=self.world.at
                )

        assert self.run(deed())
        del self.limits[brand_id, period]

    @rule(asked=st.sampled_from(ASKED), pause=st.booleans())
    def pause_or_resume(self, asked: tuple[str, str], pause: bool) -> None:  # noqa: FBT001 — drawn
        """A provider is left alone for a brand; the workers may hear of it late."""

        async def deed() -> None:
            vendor, brand_id = asked[1], self.brands[asked[0]].brand_id
            async with self.world.conn.transaction():
                if pause:
                    await breakers.pause(self.world.conn, provider=vendor, brand_id=brand_id, now=self.world.at)
                else:
                    await breakers.resume(self.world.conn, provider=vendor, brand_id=brand_id)
            await self.health.refresh()

        self.run(deed())

    @precondition(lambda self: self.is_there["unknown"])
    @rule(which=st.integers(0, 9))
    def resolve(self, which: int) -> None:
        """The operator asks the provider about a call of unknown outcome, and says what it heard."""

        async def deed() -> None:
            unknown = [
                row for row in await call_store.list_unknown(self.world.conn) if row["partner_id"] == self.partner_id
            ]
            row = unknown[which % len(unknown)]
            vendor = self.vendors[row["provider"]]
            if row["key"] not in vendor.created:
                vendor.uncertain.discard(row["key"])
                vendor.closed.add(row["key"])
            async with self.world.conn.transaction():
                await shelve.resolve(
                    self.world.conn,
                    provider=vendor.name,
                    key=row["key"],
                    created=row["key"] in vendor.created,
                    now=self.world.at,
                )

        self.run(deed())

    @precondition(lambda self: self.is_there["aside"])
    @rule(which=st.integers(0, 9))
    def shelve_a_code(self, which: int) -> None:
        """A code that was set aside becomes stock."""

        async def deed() -> tuple[str, int]:
            aside = [
                row
                for row in await call_store.list_aside(self.world.conn, brand_id=None)
                if row["partner_id"] == self.partner_id
            ]
            row = aside[which % len(aside)]
            async with self.world.conn.transaction():
                await shelve.shelve(
                    self.world.conn,
                    provider=row["provider"],
                    provider_voucher_id=row["provider_voucher_id"],
                    keys=counter.KEYS,
                    now=self.world.at,
                )
            return row["brand_id"], row["denomination_minor"]

        self.shelf[self.run(deed())] += 1

    # Workers and their providers.

    @rule(after=waits, turns=turns, rows=st.sampled_from([1, 3, ANYTHING]))
    def work(self, after: float, turns: list[Turn], rows: int) -> None:
        """A worker takes orders further; its providers do as the script says."""
        self._pass(after)
        self.script.turns.extend(turns)
        for error in self.run(self._work(rows)):
            assert isinstance(error, WorkerDied), repr(error)
        self.script.turns.clear()
        self._look()

    @rule(after=waits, turns=turns)
    def work_on(self, after: float, turns: list[Turn]) -> None:
        """The same for all that is due; so that it comes to this more often."""
        self.work(after, turns, ANYTHING)

    @precondition(lambda self: self.is_there["reversal"])
    @rule(after=waits, voids=void_turns)
    def work_on_reversals(self, after: float, voids: list[VoidTurn]) -> None:
        """A worker takes reversals further."""
        self._pass(after)
        self.script.voids.extend(voids)
        for error in self.run(self._undo()):
            assert isinstance(error, WorkerDied), repr(error)
        self.script.voids.clear()
        self._look()

    @precondition(lambda self: self.tasks)
    @rule(which=st.integers(0, 9), turns=turns_but_hang)
    def a_provider_answers_late(self, which: int, turns: list[Turn]) -> None:
        """A worker goes on whose lease may have ended, whose order may have too."""
        self._answer_late(sorted(self.tasks)[which % len(self.tasks)], turns)
        self._look()

    @rule(rows=st.sampled_from([1, ANYTHING]), table=st.sampled_from([asking.WORK, undo.WORK]))
    def a_worker_dies(self, rows: int, table: leases.Table) -> None:
        """It claims, and is never heard of again."""
        self.run(self._claim(table, rows))

    @rule(seconds=st.sampled_from(LONG_TIMES))
    def time_passes(self, seconds: float) -> None:
        """Leases end, deadlines pass."""
        self._pass(seconds)

    @rule(reference=references, seconds=st.sampled_from([0.0, 1.0, settle.FINAL_SECONDS - DEADLINE_SECONDS]))
    def a_deadline_comes(self, reference: str, seconds: float) -> None:
        """It is exactly so long after the deadline of an order, unless that is past."""
        left = self.placed[reference].draft.placed_at + timedelta(seconds=DEADLINE_SECONDS + seconds) - self.world.at
        self._pass(max(0.0, left.total_seconds()))

    # What holds after every step.

    @invariant()
    def all_is_well(self) -> None:
        """The wallet is what came in, less what was bought; held is what is PROCESSING; no provider was misused."""

        async def deed() -> tuple[int, int]:
            for name, question in QUESTIONS.items():
                self.is_there[name] = await self.world.conn.fetchval(question, self.partner_id)
            wallet = await ledger.read_wallet(self.world.conn, partner_id=self.partner_id)
            return wallet.available_minor, wallet.held_minor

        assert self.run(deed()) == (self._available(), self._sum(Status.PROCESSING))
        assert self.script.wrongs == []

    def teardown(self) -> None:
        """Let everything end, then nothing may be left, lost or wrong."""
        try:
            if sys.exc_info()[0] is None:
                self._end()
        finally:
            self.run(self._abandon())

    def _end(self) -> None:
        for order_id in sorted(self.tasks):
            self._answer_late(order_id, [Turn.FAIL])
        self._resume_everything()
        for seconds in (LEASE_SECONDS + 1, DEADLINE_SECONDS, LEASE_SECONDS + 1, 24 * 3600, 24 * 3600, 72 * 3600):
            self._pass(seconds)
            for _ in range(2):
                assert self.run(self._work(ANYTHING)) == []
                assert self.run(self._undo()) == []
            self._look()
        self.all_is_well()
        assert [one for one in self.placed.values() if one.status is Status.PROCESSING] == []
        self.run(self._check_nothing_is_lost())
        findings = self.run(self._audit())
        assert findings == []

    def _resume_everything(self) -> None:
        async def deed() -> None:
            await self.world.conn.execute("DELETE FROM provider_breaker")
            await self.workers_health.refresh()

        self.run(deed())

    async def _abandon(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await self.gatherer.close()

    async def _audit(self) -> list[str]:
        found = await audit.list_findings(self.world.conn, now=self.world.at)
        mine = [self.partner_id, self.tag, *(placed.draft.order_id[4:] for placed in self.placed.values())]
        return [finding for finding in found if any(name in finding for name in mine)]

    async def _check_nothing_is_lost(self) -> None:
        """Whatever a provider created is sold, set aside, or known to be the operator's; what is void is refunded."""
        conn = self.world.conn
        order_ids = [placed.draft.order_id for placed in self.placed.values()]
        calls = await call_store.list_calls(conn, partner_id=self.partner_id, order_ids=order_ids)
        states = {(call.provider, call.key): call.state.value for made in calls.values() for call in made}
        codes = await conn.fetch("SELECT * FROM delivered_code WHERE partner_id = $1", self.partner_id)
        kept = {(row["provider"], row["provider_voucher_id"]): row["state"] for row in codes}
        status = {placed.draft.order_id: placed.status for placed in self.placed.values()}
        for vendor in self.vendors.values():
            for key, vouchers in vendor.created.items():
                state = states[vendor.name, key]
                assert state in {"DELIVERED", "UNKNOWN", "RESOLVED"}, (vendor.name, key, state)
                assert status[order_of(key)] is not Status.CANCELLED
                if state == "DELIVERED":
                    sold = status[order_of(key)] in {Status.SUCCESS, Status.REVERSED}
                    wanted = {"SOLD"} if sold else {"ASIDE", "SHELVED"}
                    assert {kept[vendor.name, one.provider_voucher_id] for one in vouchers} <= wanted
                if status[order_of(key)] is Status.REVERSED:
                    assert key in vendor.voided or state != "DELIVERED"
        due = "SELECT count(*) FROM {} WHERE partner_id = $1 AND state = 'DUE'"
        for table in ("fulfilment", "reversal"):
            assert await conn.fetchval(due.format(table), self.partner_id) == 0, table

    # The model.

    def _available(self) -> int:
        return self.money - self._sum(Status.SUCCESS) - self._sum(Status.PROCESSING)

    def _sum(self, status: Status) -> int:
        return sum(placed.draft.debit_minor for placed in self.placed.values() if placed.status is status)

    def _draft(self, name: str, lines: Mapping[int, int], percentage: Decimal) -> orders.Draft:
        """As the door makes it of a request."""
        brand, now = self.brands[name], self.world.at
        amount = sum(denomination * quantity for denomination, quantity in lines.items())
        remote = frozenset(
            vendor
            for vendor in brand.providers
            if vendor in self.vendors and not self.health.is_open(vendor, brand.brand_id, now=now)
        )
        return orders.Draft(
            order_id=self._order_id(),
            partner_id=self.partner_id,
            reference_id=f"{self.tag}-{len(self.placed)}-{uuid.uuid4().hex[:8]}",
            fingerprint=fingerprint(
                brand_id=brand.brand_id, amount_minor=amount, lines=lines, customer=None, delivery=None
            ),
            brand=brand,
            lines=lines,
            amount_minor=amount,
            discount_percentage=percentage,
            debit_minor=money.discounted(amount, percentage=percentage),
            customer=None,
            delivery=None,
            refusal=rules.judge(brand, enabled=True, lines=lines, known_providers=protocol.AT_ONCE | remote),
            placed_at=now,
            remote=remote,
            part_vouchers=PART_VOUCHERS,
        )

    def _order_id(self) -> str:
        """An id whose place among the others is the same each time the example runs."""
        return ids.floor("ord", at=self.world.at) + f"{next(self.numbers):020x}"

    def _again(self, draft: orders.Draft, **changes: Any) -> orders.Draft:
        """The same request, sent again."""
        return msgspec.structs.replace(draft, order_id=self._order_id(), **changes)

    def _foresee(
        self, draft: orders.Draft, balance: int, shelf: Counter[tuple[str, int]], counted: Sequence[orders.Draft]
    ) -> Status | str:
        """What a placement comes to; takes what it sells from the shelf."""
        brand = draft.brand
        if draft.refusal is not None:
            return "E100"
        if self._is_over_a_limit(draft, counted):
            return "E013"
        for provider in brand.providers:
            if provider in draft.remote:
                return Status.PROCESSING if draft.debit_minor <= balance else "E300"
            if provider == protocol.STOCK and any(shelf[brand.brand_id, d] < n for d, n in draft.lines.items()):
                continue
            if provider in protocol.AT_ONCE:
                if draft.debit_minor > balance:
                    return "E300"
                if provider == protocol.STOCK:
                    shelf.subtract({(brand.brand_id, d): n for d, n in draft.lines.items()})
                return Status.SUCCESS
        return "E150"

    def _is_over_a_limit(self, draft: orders.Draft, counted: Sequence[orders.Draft]) -> bool:
        for (brand_id, period), (amount, count) in self.limits.items():
            if brand_id not in {"", draft.brand.brand_id}:
                continue
            window = period.window_start(draft.placed_at)
            standing = [one.draft for one in self.placed.values() if one.status in {Status.SUCCESS, Status.PROCESSING}]
            before = [
                one
                for one in (*standing, *counted)
                if brand_id in {"", one.brand.brand_id} and period.window_start(one.placed_at) == window
            ]
            if amount is not None and sum(one.amount_minor for one in before) + draft.amount_minor > amount:
                return True
            if count is not None and len(before) >= count:
                return True
        return False

    def _look(self) -> None:
        """See what became of every order, and that it may."""
        for placed in self.placed.values():
            if placed.status in {Status.PROCESSING, Status.SUCCESS}:
                self._see(placed, self.run(self._read(placed.draft.order_id)))

    def _see(self, placed: Placed, order: orders.Order, *, new: bool = False) -> None:
        before, after = placed.status, order.status
        if new:
            assert (None, after) in TRANSITIONS
        elif before is not after:
            assert (before, after) in TRANSITIONS
        if (before, after) == (Status.PROCESSING, Status.SUCCESS):
            assert order.updated_at <= self.world.at
            assert order.updated_at - placed.draft.placed_at < timedelta(seconds=settle.FINAL_SECONDS)
            self._check_vouchers(placed, order)
            placed.codes = codes_of(order)
        elif after is not Status.SUCCESS:
            assert order.vouchers == ()
        else:
            assert codes_of(order) == placed.codes
        placed.status = after

    def _check_vouchers(self, placed: Placed, order: orders.Order) -> None:
        assert Counter(voucher.amount_minor for voucher in order.vouchers) == Counter(dict(placed.draft.lines))
        for voucher in order.vouchers:
            number = voucher.code.card_number
            assert number is not None
            assert number not in self.sold
            self.sold.add(number)
            if voucher.provider == protocol.STOCK:
                self.shelf[order.brand_id, voucher.amount_minor] -= 1
                assert self.shelf[order.brand_id, voucher.amount_minor] >= 0
            elif voucher.provider != protocol.GENERATOR:
                created = self.vendors[voucher.provider].created
                mine = [key for key, made in created.items() if number in {one.card_number for one in made}]
                assert order.order_id in {order_of(key) for key in mine}
            assert voucher.provider in placed.draft.brand.providers

    def _pass(self, seconds: float) -> None:
        self.world.at += timedelta(seconds=seconds)
        self.run(self.workers_health.refresh())

    # What the rules are made of.

    async def _submit(self, drafts: Sequence[orders.Draft]) -> list[Any]:
        arrived = time.monotonic()
        return await asyncio.gather(
            *(self.gatherer.submit(draft, arrived=arrived) for draft in drafts), return_exceptions=True
        )

    async def _request_reversal(self, order_id: str) -> orders.Order:
        async with self.world.conn.transaction():
            return await undo.request_reversal(
                self.world.conn, partner_id=self.partner_id, order_id=order_id, reason="no", now=self.world.at
            )

    async def _read(self, order_id: str) -> orders.Order:
        return await read.read_order(
            self.world.conn, partner_id=self.partner_id, order_id=order_id, ring=counter.KEYS.ring
        )

    async def _claim(self, table: leases.Table, rows: int) -> list[leases.Claim]:
        until = self.world.at + timedelta(seconds=LEASE_SECONDS)
        claims = await lease_store.claim(
            self.world.database.read, table, rows=rows, now=self.world.at, lease_until=until
        )
        assert {claim.key[0] for claim in claims} <= {self.partner_id}
        return sorted(claims, key=lambda claim: claim.key)

    async def _work(self, rows: int) -> list[BaseException]:
        """Claim, go on with so many orders one by one, give the others back; returns what went wrong.

        Workers whose provider hangs stay in `tasks`.
        """
        claims = await self._claim(asking.WORK, ANYTHING)
        for claim in claims[rows:]:
            await lease_store.postpone(
                self.world.database.read, asking.WORK, claim=claim, next_at=self.world.at, attempts=claim.attempts - 1
            )
        errors = [await self._advance(claim) for claim in claims[:rows]]
        return [error for error in errors if error is not None]

    async def _advance(self, claim: leases.Claim) -> BaseException | None:
        order_id = claim.key[1]
        if order_id in self.tasks:  # one hanging worker an order is enough; this one dies
            return None
        return await self._until_it_hangs(order_id, asyncio.create_task(self.fulfiller.advance(claim)))

    async def _until_it_hangs(self, order_id: str, task: asyncio.Task[None]) -> BaseException | None:
        hangs = self.script.stuck[order_id] = asyncio.get_running_loop().create_future()
        await asyncio.wait([task, hangs], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            self.tasks.pop(order_id, None)
            return task.exception()
        self.tasks[order_id] = task
        return None

    async def _undo(self) -> list[BaseException]:
        claims = await self._claim(undo.WORK, ANYTHING)
        errors: list[BaseException] = []
        for claim in claims:
            task = asyncio.create_task(self.undoer.advance(claim))
            await asyncio.wait([task])
            errors += filter(None, [task.exception()])
        return errors

    def _answer_late(self, order_id: str, turns: Sequence[Turn]) -> None:
        async def deed() -> BaseException | None:
            self.script.turns.extend(turns[1:])
            self.script.hanging.pop(order_id).set_result(turns[0])
            return await self._until_it_hangs(order_id, self.tasks[order_id])

        error = self.run(deed())
        assert error is None or isinstance(error, WorkerDied | leases.LeaseLost), repr(error)
        self.script.turns.clear()


def codes_of(order: orders.Order) -> frozenset[str]:
    """The card numbers of an order."""
    return frozenset(voucher.code.card_number or "" for voucher in order.vouchers)


async def caught(deed: Awaitable[T], *errors: type[Exception]) -> T | Exception:
    """What it returns, or which of these it raises."""
    try:
        return await deed
    except errors as error:
        return error


def test_the_service_does_what_its_model_does_and_the_auditor_finds_nothing(database_url: str) -> None:
    print(f"GIFTRAIL_MACHINE_SEED={SEED} GIFTRAIL_MACHINE_EXAMPLES={EXAMPLES}")
    with contextlib.ExitStack() as stack:
        loop = stack.enter_context(asyncio.Runner(loop_factory=running.loop_factory))
        database = loop.run(
            pool.open_database(database_url, read_connections=4, write_connections=4, statement_timeout_seconds=10)
        )
        stack.callback(database.terminate)
        connected = pool.connect(database_url)
        conn = loop.run(connected.__aenter__())
        stack.callback(lambda: loop.run(connected.__aexit__(None, None, None)))
        ServiceMachine.world = World(loop, database, conn)
        stack.enter_context(structlog.testing.capture_logs())  # outages and refusals by the thousand
        run_state_machine_as_test(
            hypothesis.seed(SEED)(ServiceMachine),
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                derandomize=False,
                print_blob=True,
                phases=[Phase.generate, Phase.shrink] if SHRINK else [Phase.generate],
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
