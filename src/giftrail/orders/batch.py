"""The gatherer: concurrent orders become one transaction (engines, placement in batches).

Each wallet belongs to one of a few writers. While a transaction of a writer runs, the orders that arrive for its
wallets wait and make the next batch; so do settlements of orders that took time. There is no timer: an idle writer's
order starts at once. One transaction is in flight per writer and process.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg
import structlog

from giftrail.db import pool
from giftrail.orders import decide, endings, model, place, read, settle, store
from giftrail.orders import line as lines
from giftrail.providers import protocol
from giftrail.spending import model as spending

# How often an order whose codes are held by another transaction asks again before it is turned away.
MAX_ROUNDS = 3
ROUND_PAUSE_SECONDS = 0.02
# After a wallet was held by another transaction, its writer passes over held wallets for so long.
SKIP_SECONDS = 1.0
# How long the references are read again after a COMMIT whose answer was lost.
LOOK_AGAIN_SECONDS = 2.0

_LOST = "the answer of the database was lost; look the order up by its referenceId"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is gathered, by how many writers. A placement not begun after `patience_seconds` is refused.

    `waiting_orders` may wait on a wallet; `crowded_orders` on all wallets of a writer for whom more come than it can
    place.
    """

    writers: int
    batch_orders: int
    batch_vouchers: int
    waiting_orders: int
    crowded_orders: int
    patience_seconds: float


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
        self._lines = [lines.Line() for _ in range(limits.writers)]
        self._unanswered: set[asyncio.Future[model.Receipt]] = set()
        self._closing = False

    async def submit(self, draft: model.Draft, *, arrived: float) -> model.Receipt:
        """Place one order, which arrived at that reading of the clock, with those that wait on the same writer.

        Raises ReferenceConflict, Unavailable. Once begun it is finished even if the caller goes away.
        """
        self.check_room(draft.partner_id)
        receipt: model.Receipt = await self._begin(draft, arrived).answer
        return receipt

    def check_room(self, partner_id: str) -> None:
        """Raises Unavailable when no more orders may wait on the partner's wallet."""
        if self._closing:
            raise model.Unavailable("the service is shutting down")
        line, limits = self._line_of(partner_id), self._limits
        if not line.has_room(
            partner_id, most=limits.waiting_orders, most_crowded=limits.crowded_orders, now=self._clock()
        ):
            raise model.Unavailable(f"{line.count(partner_id)} orders are waiting on this wallet already")

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

    def _begin(self, item: model.Draft | endings.Settlement, arrived: float) -> lines.Waiting:
        waiting = lines.Waiting(item, arrived, asyncio.get_running_loop().create_future())
        self._unanswered.add(waiting.answer)
        waiting.answer.add_done_callback(self._unanswered.discard)
        self._line_up(waiting)
        return waiting

    def _line_of(self, partner_id: str) -> lines.Line:
        return self._lines[zlib.crc32(partner_id.encode()) % len(self._lines)]

    async def _work(self, line: lines.Line) -> None:
        try:
            while line:
                await self._place_next(line)
        except Exception as error:
            _log.exception("placement stopped")
            for waiting in line.drop(lambda _: True):
                _fail(waiting, error)
        finally:
            line.task = None

    async def _place_next(self, line: lines.Line) -> None:
        batch: list[lines.Waiting] = []
        try:
            async with self._database.write.acquire(timeout=self._limits.patience_seconds) as conn:
                self._refuse_late(line, "the service is overloaded")
                batch = line.take(
                    most_orders=self._limits.batch_orders, most_vouchers=self._limits.batch_vouchers, now=self._clock()
                )
                for waiting in batch:
                    waiting.again = False
                if batch:
                    self._batch_size(len(batch))
                    await self._place_batch(conn, batch, line)
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

    def _expire(self, line: lines.Line) -> None:
        """Refuse who waited too long while a transaction of the writer runs; look again when the next one might."""
        line.expiry = None
        self._refuse_late(line, "the service is overloaded")
        self._await_expiry(line)

    def _await_expiry(self, line: lines.Line) -> None:
        if line.expiry is None and line:
            left = min(waiting.arrived for waiting in line) + self._limits.patience_seconds - self._clock()
            pause = max(0.0, left) + ROUND_PAUSE_SECONDS
            line.expiry = asyncio.get_running_loop().call_later(pause, self._expire, line)

    def _refuse_late(self, line: lines.Line, why: str) -> None:
        for waiting in line.drop(self._is_late):
            _fail(waiting, model.Unavailable(why))

    def _is_late(self, waiting: lines.Waiting) -> bool:
        return self._clock() - waiting.arrived >= self._limits.patience_seconds

    async def _place_batch(self, conn: pool.Connection, batch: Sequence[lines.Waiting], line: lines.Line) -> None:
        try:
            answers = await self._carry_out(conn, [waiting.item for waiting in batch], line)
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
                    await self._place_batch(conn, [waiting], line)
        else:
            for waiting, answer in zip(batch, answers, strict=True):
                self._tell(waiting, answer)

    async def _carry_out(
        self, conn: pool.Connection, items: Sequence[model.Draft | endings.Settlement], line: lines.Line
    ) -> Sequence[place.Answer | endings.Answer]:
        drafts = [item for item in items if isinstance(item, model.Draft)]
        if not drafts:
            settlements = [item for item in items if not isinstance(item, model.Draft)]
            return await settle.settle_orders(conn, settlements, keys=self._keys, now=self._now())
        if self._clock() >= line.skips_until:
            try:
                return await place.place_orders(conn, drafts, keys=self._keys, now=self._now())
            except asyncpg.LockNotAvailableError:
                # Somebody holds one of the wallets: for a while the others are placed without waiting for it.
                line.skips_until = self._clock() + SKIP_SECONDS
        return await place.place_orders(conn, drafts, keys=self._keys, now=self._now(), skip_locked=True)

    def _tell(self, waiting: lines.Waiting, answer: place.Answer | endings.Answer) -> None:
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
            case place.Busy():
                self._ask_again(waiting)
            case decide.Again():
                waiting.rounds += 1
                if waiting.rounds > MAX_ROUNDS:
                    _fail(
                        waiting,
                        model.Unavailable("the codes in stock are being sold by other orders just now"),
                    )
                else:
                    self._ask_again(waiting)

    def _ask_again(self, waiting: lines.Waiting) -> None:
        waiting.again = True
        asyncio.get_running_loop().call_later(ROUND_PAUSE_SECONDS, self._line_up, waiting)

    def _line_up(self, waiting: lines.Waiting) -> None:
        line = self._line_of(waiting.item.partner_id)
        line.append(waiting)
        if line.task is None:
            line.task = asyncio.create_task(self._work(line))
        self._await_expiry(line)

    async def _look_again(self, batch: Sequence[lines.Waiting]) -> None:
        """The connection broke, perhaps in COMMIT: answer what stands in the database, 503 for the rest."""
        drafts = {id(waiting): waiting.item for waiting in batch if isinstance(waiting.item, model.Draft)}
        if not drafts:
            for waiting in batch:  # who settles looks at the order and tries again
                _fail(waiting, model.Unavailable(_LOST, outcome_unknown=True))
            return
        references = [(draft.partner_id, draft.reference_id) for draft in drafts.values()]
        found: dict[tuple[str, str], decide.Known] = {}
        orders: dict[str, model.Order] = {}
        try:
            async with (
                asyncio.timeout(LOOK_AGAIN_SECONDS),
                self._database.read.acquire(timeout_seconds=LOOK_AGAIN_SECONDS) as conn,
            ):
                found = await store.list_known(conn, references=references)
                for partner_id in {draft.partner_id for draft in drafts.values()}:
                    order_ids = [known.order_id for (owner, _), known in found.items() if owner == partner_id]
                    orders |= await read.read_orders(
                        conn, partner_id=partner_id, order_ids=order_ids, ring=self._keys.ring
                    )
        except Exception as error:
            _log.warning("the references could not be read again", error=repr(error))
        for waiting in batch:
            draft = drafts[id(waiting)]
            known = found.get((draft.partner_id, draft.reference_id))
            if known is None or known.order_id not in orders:
                _fail(waiting, model.Unavailable(_LOST, outcome_unknown=True))
            elif known.fingerprint != draft.fingerprint:
                _fail(waiting, model.ReferenceConflict(reference_id=draft.reference_id, order_id=known.order_id))
            elif not waiting.answer.done():
                replayed = known.order_id != draft.order_id
                waiting.answer.set_result(model.Receipt(orders[known.order_id], replayed=replayed))


def _fail(waiting: lines.Waiting, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
