"""The fake's wallet and orders: debited, held, captured, released and refunded as the service does."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from giftrail_client import webhooks
from giftrail_client.testing import catalogue, money, problems, telling, writing
from giftrail_client.testing.wanted import Wanted

REVERSAL_HOURS = 24
VALID_DAYS = 365


@dataclass
class FakeOrder:
    """An order; `ends_at` while it is PROCESSING."""

    id: str
    wanted: Wanted
    brand: catalogue.FakeBrand
    debit: Decimal
    made_at: datetime
    changed_at: datetime
    status: str = "PROCESSING"
    failure_code: str | None = None
    ends_at: datetime | None = None
    succeeds: bool = True
    can_be_cancelled: bool = False
    vouchers: list[dict[str, Any]] = field(default_factory=list)

    def members(self, *, listed: bool = False) -> dict[str, Any]:
        """As the service writes it; without vouchers in a list."""
        told = {
            "id": self.id, "referenceId": self.wanted.reference_id, "status": self.status,
            "failureReason": catalogue.REASONS[self.failure_code] if self.failure_code else None,
            "productId": self.brand.id, "amount": self.wanted.amount, "failureCode": self.failure_code,
            "debit": self.debit if self.status in {"SUCCESS", "PROCESSING", "REVERSED"} else Decimal(0),
            "createdAt": self.made_at, "updatedAt": self.changed_at, "delivery": None, "reversalPending": False,
        }  # fmt: skip
        return told if listed else {**told, "vouchers": self.vouchers if self.status == "SUCCESS" else []}


class Books:
    """One partner's money and orders."""

    def __init__(self, now: Callable[[], datetime], teller: telling.Teller, *, balance: Decimal, currency: str) -> None:
        self._now = now
        self._teller = teller
        self.currency = currency
        self.available: Decimal = Decimal(0)
        self.held: Decimal = Decimal(0)
        self.threshold: Decimal | None = None
        self.transactions: list[dict[str, Any]] = []
        self.orders: dict[str, FakeOrder] = {}
        self.by_reference: dict[str, FakeOrder] = {}
        if balance:
            self.move("TOP_UP", balance)

    def move(
        self,
        kind: str,
        amount: Decimal,
        *,
        held: Decimal = Decimal(0),
        order: FakeOrder | None = None,
        note: str | None = None,
    ) -> None:
        """Change what can be spent, and what is held; tells when there is less than the threshold."""
        before = self.available
        self.available += amount
        self.held += held
        self.transactions.append({
            "id": f"trf_{len(self.transactions) + 1:012d}", "kind": kind,
            "amount": held if kind == "CAPTURE" else amount,  # of a capture, what left the money held
            "balance": self.available, "orderId": order.id if order else None,
            "referenceId": order.wanted.reference_id if order else None, "note": note, "createdAt": self._now(),
        })  # fmt: skip
        if self.threshold is not None and before >= self.threshold > self.available:
            members = {"balance": self.available, "threshold": self.threshold}
            self._teller.append(webhooks.WALLET_LOW_BALANCE, members)

    def debit_of(self, wanted: Wanted, brand: catalogue.FakeBrand) -> Decimal:
        """The amount less the discount."""
        return money.discounted(wanted.amount, brand.discount_percentage, self.currency)

    def list_refusals(self, wanted: Wanted, brand: catalogue.FakeBrand) -> list[str]:
        """All the codes with which the order would fail."""
        codes = list(brand.list_refusals(wanted.lines))
        if not brand.in_stock and "E150" not in codes:
            codes = sorted([*codes, "E150"], key=catalogue.ORDER.index)
        return [*codes, "E300"] if self.debit_of(wanted, brand) > self.available else codes

    def place(self, wanted: Wanted, brand: catalogue.FakeBrand) -> FakeOrder:
        """A new order; the caller has looked the reference up. Raises Refused."""
        refusal = self._refuse(wanted, brand)
        now, debit, fate = self._now(), self.debit_of(wanted, brand), brand.fate_of(wanted.lines)
        order = FakeOrder(writing.new_id("ord", now=now), wanted, brand, debit, now, now)
        self.orders[order.id] = self.by_reference[wanted.reference_id] = order
        if refusal is not None:
            self._fail(order, refusal)
        elif fate is None:
            self.move("DEBIT", -debit, order=order)
            self._succeed(order)
        else:
            order.ends_at, order.succeeds = now + timedelta(seconds=fate.after_seconds), fate.succeeds
            order.can_be_cancelled = fate.can_be_cancelled
            self.move("HOLD", -debit, held=debit, order=order)
        return order

    def settle(self) -> None:
        """End the orders whose time has come, and tell of it."""
        for order in list(self.orders.values()):
            if order.ends_at is not None and order.ends_at <= self._now():
                order.ends_at = None
                if order.succeeds:
                    self.move("CAPTURE", Decimal(0), held=-order.debit, order=order)
                    self._succeed(order)
                else:
                    self._release(order)
                    self._fail(order, "E200")
                self._tell(webhooks.ORDER_TERMINAL_STATE, order)

    def next_at(self) -> datetime | None:
        """When the next order ends."""
        return min((order.ends_at for order in self.orders.values() if order.ends_at is not None), default=None)

    def cancel(self, order_id: str) -> FakeOrder:
        """Cancel an order that no provider was asked for. Raises Refused."""
        order = self.find(order_id)
        if order.status == "CANCELLED":
            return order
        if order.status != "PROCESSING" or not order.can_be_cancelled:
            why = "is " + order.status if order.status != "PROCESSING" else "was asked of a provider"
            raise problems.Refused("E009", f"order {order.id} {why} and cannot be cancelled")
        order.ends_at = None
        self._release(order)
        order.status, order.changed_at = "CANCELLED", self._now()
        self._tell(webhooks.ORDER_STATUS_CHANGED, order)
        return order

    def reverse(self, order_id: str) -> FakeOrder:
        """Take a delivered order back. Raises Refused."""
        order = self.find(order_id)
        if order.status == "REVERSED":
            return order
        window = order.made_at + timedelta(hours=REVERSAL_HOURS)
        if order.status != "SUCCESS" or not order.brand.reversible or self._now() >= window or not order.brand.voids:
            raise problems.Refused("E009", f"order {order.id} is {order.status} and cannot be reversed")
        self.move("REFUND", order.debit, order=order)
        order.status, order.changed_at = "REVERSED", self._now()
        self._tell(webhooks.ORDER_STATUS_CHANGED, order)
        return order

    def find(self, order_id: str) -> FakeOrder:
        """An order. Raises Refused."""
        if order_id not in self.orders:
            raise problems.not_found()
        return self.orders[order_id]

    def find_voucher(self, voucher_id: str) -> dict[str, Any]:
        """A voucher of an order that still stands. Raises Refused."""
        for order in self.orders.values():
            for voucher in order.vouchers if order.status == "SUCCESS" else ():
                if voucher["id"] == voucher_id:
                    return voucher
        raise problems.not_found()

    def _refuse(self, wanted: Wanted, brand: catalogue.FakeBrand) -> str | None:
        """The code with which an order fails; an empty shelf is told before an amount out of bounds."""
        codes = list(brand.list_refusals(wanted.lines))
        if not codes and brand.orders_limited:
            raise problems.Refused("E013", f"brand {brand.id} may be ordered 0 times in a day, until midnight UTC")
        if not brand.in_stock and codes in ([], ["E152"]):
            return "E150"
        if codes:
            return codes[0]
        return "E300" if self.debit_of(wanted, brand) > self.available else None

    def _release(self, order: FakeOrder) -> None:
        self.move("RELEASE", order.debit, held=-order.debit, order=order)

    def _succeed(self, order: FakeOrder) -> None:
        order.status, order.changed_at = "SUCCESS", self._now()
        order.vouchers = [
            self._voucher(order, place, denomination)
            for place, denomination in enumerate(one for one, count in order.wanted.lines.items() for _ in range(count))
        ]

    def _fail(self, order: FakeOrder, code: str) -> None:
        order.status, order.failure_code, order.changed_at = "FAILED", code, self._now()

    def _tell(self, kind: str, order: FakeOrder) -> None:
        members = telling.order_members(order.id, order.wanted.reference_id, order.status)
        self._teller.append(kind, members, fault=order.brand.webhook_fault)

    def _voucher(self, order: FakeOrder, place: int, amount: Decimal) -> dict[str, Any]:
        number = int.from_bytes(hashlib.sha256(f"{order.id}/{place}".encode()).digest(), "big")
        kind = order.brand.card_type
        return {
            "id": f"vch_{uuid.uuid5(uuid.NAMESPACE_OID, f'{order.id}/{place}').hex}",
            "cardType": kind,
            "cardPin": None if kind == "CARD_NUMBER_SECURED" else f"{number // 10**16 % 10**6:06}",
            "cardNumber": None if kind == "PIN_NO_SECURED" else f"{number % 10**16:016}",
            "validTill": order.made_at.date() + timedelta(days=VALID_DAYS) if order.brand.fate else None,
            "amount": amount,
        }
