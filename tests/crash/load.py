"""Customers who go on buying while things die, each recovering as the specification has a client do."""

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from crash.estate import GENERATED, MONEY, STOCKED, VENDED, Estate, recover
from house import PartnerProgram

BRANDS = (GENERATED, STOCKED, VENDED)
CUSTOMERS = 4
PAUSE_SECONDS = 0.05


@dataclass
class Customer:
    """Buys on and on, through a partner's program; the first answers and the bodies are kept."""

    program: PartnerProgram
    choice: random.Random
    bodies: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict)
    unavailable: int = 0
    failed: list[BaseException] = field(default_factory=list)

    def buy_until(self, stop: threading.Event) -> None:
        """Place orders; none waits for the one before to end."""
        try:
            while not stop.is_set():
                self.buy(self.program.order_body(self.choice.choice(BRANDS), {100: self.choice.randint(1, 3)}))
                time.sleep(PAUSE_SECONDS)
        except BaseException as error:
            self.failed.append(error)

    def buy(self, body: dict[str, Any]) -> None:
        """Place an order and keep its answer, if there is one."""
        self.bodies.append(body)
        try:
            answer = self.program.place(body)
        except httpx.TimeoutException:  # a request that hangs is no dead process
            raise
        except httpx.TransportError:
            return
        if answer.status_code == 503:
            assert int(answer.headers["Retry-After"]) >= 1
            self.unavailable += 1
        else:
            assert answer.status_code == 200, answer.text
            self.acknowledged[body["referenceId"]] = answer.json()


@contextlib.contextmanager
def customers(house: Estate, *, seed: int) -> Iterator[list[Customer]]:
    """Customers of two partners, buying until the end of the block; then every order of theirs is settled up."""
    programs = [house.buyer() for _ in range(2)]
    made = []
    for number in range(CUSTOMERS):
        known = programs[number % len(programs)]
        program = PartnerProgram(
            house, known.partner, known.client_id, known.client_secret, house.client(), known.token
        )
        made.append(Customer(program, random.Random(f"{seed}/{number}")))
    stop = threading.Event()
    threads = [threading.Thread(target=customer.buy_until, args=[stop]) for customer in made]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [failed for customer in made for failed in customer.failed] == []
    settle_up(house, made)


def settle_up(house: Estate, made: list[Customer]) -> None:
    """Every order is found and has ended; what was acknowledged is as it was; money, codes and books agree."""
    house.end_leases()
    ended: dict[str, list[dict[str, Any]]] = {}
    for customer in made:
        for body in customer.bodies:
            order = recover(customer.program, body, meanwhile=house.pass_time)
            assert order["status"] == "SUCCESS", order
            known = customer.acknowledged.get(body["referenceId"], order)
            assert known["id"] == order["id"]
            assert known["status"] == "PROCESSING" or known == order
            ended.setdefault(customer.program.client_id, []).append(order)
    for client_id, orders in ended.items():
        program = next(customer.program for customer in made if customer.program.client_id == client_id)
        assert len({order["id"] for order in orders}) == len(orders)
        wallet = program.get("/wallet/balance").json()
        assert (wallet["balance"], wallet["held"]) == (MONEY - sum(order["debit"] for order in orders), 0)
    everything = [order for orders in ended.values() for order in orders]
    numbers = [voucher["cardNumber"] for order in everything for voucher in order["vouchers"]]
    assert len(numbers) == len(set(numbers))
    vended = [order for order in everything if order["productId"] == VENDED]
    assert len(house.shop.issued) == len(vended)
    for order in vended:
        assert house.shop.numbers(order) == sorted(voucher["cardNumber"] for voucher in order["vouchers"])
    heard = sum(len(customer.acknowledged) for customer in made)
    turned_away = sum(customer.unavailable for customer in made)
    print(f"{len(everything)} orders, {heard} acknowledged at once, {turned_away} answered 503 first")
