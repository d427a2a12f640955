"""The gatherer: concurrent orders of one wallet become one transaction (engines, placement in batches).

While a transaction of a wallet runs, the orders that arrive for it wait and make the next batch; so do settlements of
orders that took time. There is no timer: an idle wallet's order starts at once. One transaction is in flight per wallet
and process.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from giftrail.db import pool
from giftrail.orders import decide, endings, model, place, read, settle, store
from giftrail.providers import protocol
from giftrail.spending import model as spending

# How often an order whose codes are held by another transaction asks again before it is turned away.
MAX_ROUNDS = 3
ROUND_PAUSE_SECONDS = 0.02
# How long the references are read again after a COMMIT whose answer was lost.
LOOK_AGAIN_SECONDS = 2.0

_LOST = "the answer of the database was lost; look the order up by its referenceId"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is gathered. `patience_seconds`: a placement not begun by then is refused (wire contract)."""

    batch_orders: int
    batch_vouchers: int
    waiting_orders: int
    patience_seconds: float


@dataclass(slots=True)
class _Waiting:
    """A draft that waits to be placed, or a settlement; `arrived` is of the clock."""

    item: model.Draft | endings.Settlement
    arrived: float
    answer: asyncio.Future[Any]
    rounds: int = 0
    again: bool = False  # lined up again, or about to be

    @property
    def vouchers_count(self) -> int:
        return self.item.vouchers_count if isinstance(self.item, model.Draft) else 1


@dataclass(slots=True)
class _Line:
    """The orders that wait on one wallet, and the task that places them."""

    waiting: deque[_Waiting] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class Gatherer:
    """Places orders in batches. `clock` is monotonic seconds, `now` the time of day, `batch_size` is told each size."""

    def __init__(
        self,
        database: pool.Database,
        *,
        keys: protocol.Keys,
        limits: Limits,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        batch_size: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._keys = keys
        self._limits = limits
        self._clock = clock
        self._now = now
        self._batch_size = batch_size
        self._lines: dict[str, _Line] = {}
        self._unanswered: set[asyncio.Future[model.Receipt]] = set()
        self._closing = False

    async def submit(self, draft: model.Draft, *, arrived: float) -> model.Receipt:
        """Place one order, which arrived at that reading of the clock, with those that wait on the same wallet.

        Raises ReferenceConflict, Unavailable. Once begun it is finished even if the caller goes away.
        """
        if self._closing:
            raise model.Unavailable("the service is shutting down")
        line = self._lines.setdefault(draft.partner_id, _Line())
        if len(line.waiting) >= self._limits.waiting_orders:
            raise model.Unavailable(f"{len(line.waiting)} orders are waiting on this wallet already")
        waiting = self._begin(draft, arrived)
        left = self._limits.patience_seconds - (self._clock() - arrived)
        expiry = asyncio.get_running_loop().call_later(
            max(0.0, left) + ROUND_PAUSE_SECONDS, self._refuse_late, line, "the service is overloaded"
        )
        try:
            receipt: model.Receipt = await waiting.answer
        finally:
            expiry.cancel()
        return receipt

    async def settle(self, settlement: endings.Settlement) -> model.Order | endings.OutOfStock | decide.Again:
        """End or reverse an order, with what else waits on its wallet.

        Raises WrongState, OrderUnknown, Unavailable. Once begun it is finished even if the caller goes away.
        """
        if self._closing:
            raise model.Unavailable("the service is shutting down")
        answer: endings.Answer = await self._begin(settlement, self._clock()).answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Refuse new orders and wait for those that were taken."""
        self._closing = True
        while self._unanswered:
            await asyncio.wait(self._unanswered)

    def _begin(self, item: model.Draft | endings.Settlement, arrived: float) -> _Waiting:
        waiting = _Waiting(item, arrived, asyncio.get_running_loop().create_future())
        self._unanswered.add(waiting.answer)
        waiting.answer.add_done_callback(self._unanswered.discard)
        self._line_up(waiting)
        return waiting

    async def _work(self, partner_id: str, line: _Line) -> None:
        try:
            while line.waiting:
                await self._place_next(line)
        except Exception as error:
            _log.exception("placement stopped", orders=len(line.waiting))
            while line.waiting:
                _fail(line.waiting.popleft(), error)
        finally:
            line.task = None
            del self._lines[partner_id]

    async def _place_next(self, line: _Line) -> None:
        batch: list[_Waiting] = []
        try:
            async with self._database.write.acquire(timeout=self._limits.patience_seconds) as conn:
                batch = self._take_batch(line)
                if batch:
                    self._batch_size(len(batch))
                    await self._place_batch(conn, batch)
        except pool.UNAVAILABLE as error:
            # No connection to be had, or it broke while being handed back: those that waited too long give up.
            _log.warning("placement found no connection", error=repr(error))
            self._refuse_late(line, "the database cannot be reached")
            await asyncio.sleep(ROUND_PAUSE_SECONDS)
        finally:
            # Whatever happened: who was taken is answered, or has been lined up again.
            for waiting in batch:
                if not waiting.again:
                    _fail(waiting, model.Unavailable(_LOST, outcome_unknown=True))

    def _take_batch(self, line: _Line) -> list[_Waiting]:
        self._refuse_late(line, "the service is overloaded")
        batch: list[_Waiting] = []
        vouchers = 0
        while line.waiting and len(batch) < self._limits.batch_orders:
            vouchers += line.waiting[0].vouchers_count
            if batch and (vouchers > self._limits.batch_vouchers or not _are_alike(batch[0], line.waiting[0])):
                break
            waiting = line.waiting.popleft()
            waiting.again = False
            batch.append(waiting)
        return batch

    def _refuse_late(self, line: _Line, why: str) -> None:
        late = [waiting for waiting in line.waiting if self._is_late(waiting)]
        for waiting in late:
            line.waiting.remove(waiting)
            _fail(waiting, model.Unavailable(why))

    def _is_late(self, waiting: _Waiting) -> bool:
        return self._clock() - waiting.arrived >= self._limits.patience_seconds

    async def _place_batch(self, conn: pool.Connection, batch: Sequence[_Waiting]) -> None:
        try:
            answers = await self._carry_out(conn, [waiting.item for waiting in batch])
        except pool.UNAVAILABLE as error:
            _log.warning("a batch was cut off", orders=len(batch), error=repr(error))
            await self._look_again(batch)
        except Exception as error:
            if len(batch) == 1:
                _log.exception("an order cannot be placed or settled", order_id=batch[0].item.order_id)
                _fail(batch[0], error)
                return
            # One of them broke the transaction: each alone, so that only that one fails.
            for waiting in batch:
                if self._is_late(waiting):
                    _fail(waiting, model.Unavailable("the service is overloaded"))
                else:
                    await self._place_batch(conn, [waiting])
        else:
            for waiting, answer in zip(batch, answers, strict=True):
                self._tell(waiting, answer)

    async def _carry_out(
        self, conn: pool.Connection, items: Sequence[model.Draft | endings.Settlement]
    ) -> Sequence[place.Answer | endings.Answer]:
        drafts = [item for item in items if isinstance(item, model.Draft)]
        if drafts:
            return await place.place_orders(conn, drafts, keys=self._keys, now=self._now())
        settlements = [item for item in items if not isinstance(item, model.Draft)]
        return await settle.settle_orders(conn, settlements, keys=self._keys, now=self._now())

    def _tell(self, waiting: _Waiting, answer: place.Answer | endings.Answer) -> None:
        if not isinstance(waiting.item, model.Draft):
            if not waiting.answer.done():
                waiting.answer.set_result(answer)
            return
        match answer:
            case model.Receipt():
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)
            case model.ReferenceConflict() | spending.SpendingLimitExceeded():
                _fail(waiting, answer)
            case decide.Again():
                waiting.rounds += 1
                if waiting.rounds > MAX_ROUNDS:
                    _fail(
                        waiting,
                        model.Unavailable("the codes in stock are being sold by other orders just now"),
                    )
                else:
                    waiting.again = True
                    asyncio.get_running_loop().call_later(ROUND_PAUSE_SECONDS, self._line_up, waiting)

    def _line_up(self, waiting: _Waiting) -> None:
        line = self._lines.setdefault(waiting.item.partner_id, _Line())
        line.waiting.append(waiting)
        if line.task is None:
            line.task = asyncio.create_task(self._work(waiting.item.partner_id, line))

    async def _look_again(self, batch: Sequence[_Waiting]) -> None:
        """The connection broke, perhaps in COMMIT: answer what stands in the database, 503 for the rest."""
        drafts = {id(waiting): waiting.item for waiting in batch if isinstance(waiting.item, model.Draft)}
        if not drafts:
            for waiting in batch:  # who settles looks at the order and tries again
                _fail(waiting, model.Unavailable(_LOST, outcome_unknown=True))
            return
        partner_id = batch[0].item.partner_id
        references = [draft.reference_id for draft in drafts.values()]
        found: dict[str, decide.Known] = {}
        orders: dict[str, model.Order] = {}
        try:
            async with (
                asyncio.timeout(LOOK_AGAIN_SECONDS),
                self._database.read.acquire(timeout_seconds=LOOK_AGAIN_SECONDS) as conn,
            ):
                found = await store.list_known(conn, partner_id=partner_id, reference_ids=references)
                orders = await read.read_orders(
                    conn,
                    partner_id=partner_id,
                    order_ids=[known.order_id for known in found.values()],
                    ring=self._keys.ring,
                )
        except Exception as error:
            _log.warning("the references could not be read again", error=repr(error))
        for waiting in batch:
            draft = drafts[id(waiting)]
            known = found.get(draft.reference_id)
            if known is None or known.order_id not in orders:
                _fail(waiting, model.Unavailable(_LOST, outcome_unknown=True))
            elif known.fingerprint != draft.fingerprint:
                _fail(waiting, model.ReferenceConflict(reference_id=draft.reference_id, order_id=known.order_id))
            elif not waiting.answer.done():
                replayed = known.order_id != draft.order_id
                waiting.answer.set_result(model.Receipt(orders[known.order_id], replayed=replayed))


def _are_alike(one: _Waiting, other: _Waiting) -> bool:
    return isinstance(one.item, model.Draft) is isinstance(other.item, model.Draft)


def _fail(waiting: _Waiting, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
