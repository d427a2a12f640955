"""What waits to be placed or settled by one writer: each wallet's in the order of its arrival, the wallets in turn."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from giftrail.orders import endings, model


@dataclass(slots=True, eq=False)
class Waiting:
    """A draft that waits to be placed, or a settlement; `arrived` is of the clock."""

    item: model.Draft | endings.Settlement
    arrived: float
    answer: asyncio.Future[Any]
    rounds: int = 0
    again: bool = False  # lined up again, or about to be

    @property
    def vouchers_count(self) -> int:
        """How much of a batch it takes."""
        return self.item.vouchers_count if isinstance(self.item, model.Draft) else 1


# A line is crowded when every batch for so long was full and left orders behind; and so long after the last of them, or
# after it last refused an order.
CROWDED_AFTER_SECONDS = 0.5
CALM_AFTER_SECONDS = 1.0


@dataclass(slots=True)
class Line:
    """The orders that wait on the wallets of one writer, and the task that places them.

    `expiry` looks for those that wait too long; until `skips_until` (of the clock) held wallets are passed over.
    """

    task: asyncio.Task[None] | None = None
    expiry: asyncio.TimerHandle | None = None
    skips_until: float = 0.0
    _wallets: dict[str, deque[Waiting]] = field(default_factory=dict)
    _full_since: float | None = None
    _crowded_until: float = float("-inf")

    def __bool__(self) -> bool:
        """Whether somebody waits."""
        return bool(self._wallets)

    def __iter__(self) -> Iterator[Waiting]:
        """All who wait."""
        return (waiting for queue in self._wallets.values() for waiting in queue)

    def count(self, partner_id: str) -> int:
        """How many wait on a wallet."""
        return len(self._wallets.get(partner_id, ()))

    def has_room(self, partner_id: str, *, most: int, most_crowded: int, now: float) -> bool:
        """Whether one more may wait on the wallet; `now` is of the clock.

        At most `most`. Of a crowded line the wallets that wait share `most_crowded`: more would come no sooner, and
        only wait longer. A rush that is over within CROWDED_AFTER_SECONDS crowds nothing.
        """
        waiting = self.count(partner_id)
        if now < self._crowded_until and waiting >= max(1, most_crowded // max(1, len(self._wallets))):
            self._crowded_until = now + CALM_AFTER_SECONDS
            return False
        return waiting < most

    def append(self, waiting: Waiting) -> None:
        """Line up behind those of the same wallet."""
        if not self._wallets:
            self._full_since = None  # those left behind are gone
        self._wallets.setdefault(waiting.item.partner_id, deque()).append(waiting)

    def take(self, *, most_orders: int, most_vouchers: int, now: float) -> list[Waiting]:
        """The next batch: one order of each wallet, and again, until it is full; `now` is of the clock.

        Placements of many wallets go together; settlements go with others of their wallet alone. An order that is
        larger than a batch goes alone.
        """
        batch: list[Waiting] = []
        vouchers = 0
        took, full = True, False
        while took:
            took = False
            for partner_id, queue in list(self._wallets.items()):
                head = queue[0]
                fits = len(batch) < most_orders and vouchers + head.vouchers_count <= most_vouchers
                if batch and not (fits and _go_together(batch[0], head)):
                    full |= not fits
                    continue
                batch.append(queue.popleft())
                vouchers += head.vouchers_count
                took = True
                del self._wallets[partner_id]  # behind the others
                if queue:
                    self._wallets[partner_id] = queue
        if not full:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        elif now - self._full_since >= CROWDED_AFTER_SECONDS:
            self._crowded_until = now + CALM_AFTER_SECONDS
        return batch

    def drop(self, is_late: Callable[[Waiting], bool]) -> list[Waiting]:
        """Take out those that are late."""
        late = [waiting for waiting in self if is_late(waiting)]
        for waiting in late:
            partner_id = waiting.item.partner_id
            self._wallets[partner_id].remove(waiting)
            if not self._wallets[partner_id]:
                del self._wallets[partner_id]
        return late


def _go_together(one: Waiting, other: Waiting) -> bool:
    if isinstance(one.item, model.Draft) or isinstance(other.item, model.Draft):
        return isinstance(one.item, model.Draft) and isinstance(other.item, model.Draft)
    return one.item.partner_id == other.item.partner_id
