"""Who may wait, and who makes the next batch."""

import asyncio
from typing import Any, cast

import counter
from giftrail.orders import endings, line

MOST, CROWDED, BATCH = 100, 12, 10
BRAND = counter.brand("b")


class Clock:
    """Drives a line that takes a batch every 0.1 s."""

    def __init__(self) -> None:
        self.now = 0.0
        self.line = line.Line()

    def offer(self, partner_id: str, orders: int) -> int:
        """How many of them find room."""
        taken = 0
        for _ in range(orders):
            if self.line.has_room(partner_id, most=MOST, most_crowded=CROWDED, now=self.now):
                self.line.append(waiting(partner_id))
                taken += 1
        return taken

    def tick(self) -> list[str]:
        """Whose orders are placed next."""
        self.now += 0.1
        batch = self.line.take(most_orders=BATCH, most_vouchers=10_000, now=self.now)
        return [one.item.partner_id for one in batch]


def waiting(partner_id: str) -> line.Waiting:
    """An order that waits; nobody asks for its answer."""
    return line.Waiting(counter.draft(partner_id, BRAND), 0.0, cast("asyncio.Future[Any]", None))


def test_a_rush_that_is_soon_over_is_taken_whole() -> None:
    clock = Clock()
    assert clock.offer("a", 50) == 50
    for _ in range(4):
        assert len(clock.tick()) == BATCH
        assert clock.offer("a", 1) == 1


def test_never_more_wait_than_may() -> None:
    clock = Clock()
    assert clock.offer("a", MOST + 5) == MOST
    assert clock.offer("b", 1) == 1, "another wallet has room of its own"


def test_while_more_come_than_are_placed_few_wait() -> None:
    clock = Clock()
    waited = []
    for _ in range(100):
        clock.offer("a", 2 * BATCH)
        assert len(clock.tick()) == BATCH, "it goes on at its best"
        waited.append(clock.line.count("a"))
    assert max(waited) <= BATCH * (line.CROWDED_AFTER_SECONDS / 0.1 + 2)
    assert set(waited[-50:]) == {CROWDED - BATCH}


def test_a_wallet_in_a_rush_refuses_its_own_and_no_others() -> None:
    clock = Clock()
    for _ in range(30):
        clock.offer("rush", 5 * BATCH)
        clock.tick()
    for _ in range(30):
        clock.offer("rush", 5 * BATCH)
        assert clock.offer("calm", 1) == 1
        assert "calm" in clock.tick()


def test_it_is_calm_again_once_fewer_come() -> None:
    clock = Clock()
    for _ in range(20):
        clock.offer("a", 2 * BATCH)
        clock.tick()
    assert clock.offer("a", 50) < 50
    for _ in range(int(line.CALM_AFTER_SECONDS / 0.1) + 2):
        clock.tick()
    assert clock.offer("a", 50) == 50


def test_one_transaction_that_hangs_crowds_nothing() -> None:
    clock = Clock()
    clock.offer("a", 2 * BATCH)
    assert len(clock.tick()) == BATCH
    clock.now += 10 * line.CROWDED_AFTER_SECONDS
    assert clock.offer("a", MOST - BATCH) == MOST - BATCH


def test_those_left_behind_who_gave_up_crowd_nothing() -> None:
    clock = Clock()
    clock.offer("a", 2 * BATCH)
    clock.tick()
    assert len(clock.line.drop(lambda _: True)) == BATCH
    clock.now += 3600
    assert clock.offer("a", MOST) == MOST
    clock.tick()
    assert clock.offer("a", BATCH) == BATCH


def test_settlements_go_with_others_of_their_wallet_and_crowd_nothing() -> None:
    clock = Clock()
    for _ in range(20):
        clock.line.append(waiting("a"))
        clock.line.append(line.Waiting(endings.Cancel("a", "ord_1"), 0.0, cast("asyncio.Future[Any]", None)))
        clock.tick()
    assert clock.line.count("a") == 20
    assert clock.offer("b", 50) == 50
