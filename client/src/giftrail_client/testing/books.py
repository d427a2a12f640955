"""The fake's wallet and orders: debited, held, captured, released and refunded as the service does."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from giftrail_client import webhooks
from giftrail_client.testing import catalogue, reading, telling

CENT = Decimal("0.01")
REVERSAL_HOURS = 24
VALID_DAYS = 365


@dataclass
class FakeOrder:
    """An order; `ends_at` while it is PROCESSING."""

    id: str
    wanted: reading.Wanted
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
            "createdAt": self.made_at.isoformat(), "updatedAt": self.changed_at.isoformat(), "delivery": None,
            "reversalPending": False,
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

    def move(self, kind: str, amount: Decimal, *, order: FakeOrder | None = None, note: str | None = None) -> None:
        """Change what can be spent; tells when it falls below the threshold."""
        before = self.available
        self.available += amount
        self.transactions.append({
            "id": f"trf_{uuid.uuid4().hex}", "kind": kind, "amount": amount, "balance": self.available,
            "orderId": order.id if order else None, "referenceId": order.wanted.reference_id if order else None,
            "note": note, "createdAt": self._now().isoformat(),
        })  # fmt: skip
        if self.threshold is not None and before >= self.threshold > self.available:
            members = {"balance": self.available, "threshold": self.threshold}
            self._teller.append(webhooks.WALLET_LOW_BALANCE, members)

    def debit_of(self, wanted: reading.Wanted, brand: catalogue.FakeBrand) -> Decimal:
        """The amount less the discount, rounded half up."""
        return wanted.amount - (wanted.amount * brand.discount_percentage / 100).quantize(CENT, ROUND_HALF_UP)

    def list_refusals(self, wanted: reading.Wanted, brand: catalogue.FakeBrand) -> list[str]:
        """The codes with which the order fails, in the order in which they are told."""
        codes = list(brand.list_refusals(wanted.lines))
        return [*codes, "E300"] if self.debit_of(wanted, brand) > self.available else codes

    def place(self, wanted: reading.Wanted, brand: catalogue.FakeBrand) -> FakeOrder:
        """A new order; the caller has looked the reference up."""
        now = self._now()
        debit = self.debit_of(wanted, brand)
        order = FakeOrder(f"ord_{uuid.uuid4().hex}", wanted, brand, debit, now, now)
        self.orders[order.id] = self.by_reference[wanted.reference_id] = order
        refusals = self.list_refusals(wanted, brand)
        fate = brand.fate_of(wanted.lines)
        if refusals:
            self._fail(order, refusals[0])
        elif fate.after_seconds:
            order.ends_at, order.succeeds = now + timedelta(seconds=fate.after_seconds), fate.succeeds
            order.can_be_cancelled = fate.can_be_cancelled
            self.held += debit
            self.move("HOLD", -debit, order=order)
        elif fate.succeeds:
            self.move("DEBIT", -debit, order=order)
            self._succeed(order)
        else:
            self._fail(order, "E200")
        return order

    def settle(self) -> None:
        """End the orders whose time has come, and tell of it."""
        for order in list(self.orders.values()):
            if order.ends_at is not None and order.ends_at <= self._now():
                order.ends_at = None
                if order.succeeds:
                    self.held -= order.debit
                    self.move("CAPTURE", Decimal(0), order=order)
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
            raise reading.Refused("E009", f"order {order.id} {why} and cannot be cancelled")
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
            raise reading.Refused("E009", f"order {order.id} is {order.status} and cannot be reversed")
        self.move("REFUND", order.debit, order=order)
        order.status, order.changed_at = "REVERSED", self._now()
        self._tell(webhooks.ORDER_STATUS_CHANGED, order)
        return order

    def find(self, order_id: str) -> FakeOrder:
        """An order. Raises Refused."""
        if order_id not in self.orders:
            raise reading.not_found()
        return self.orders[order_id]

    def find_voucher(self, voucher_id: str) -> dict[str, Any]:
        """A voucher of an order that still stands. Raises Refused."""
        for order in self.orders.values():
            for voucher in order.vouchers if order.status == "SUCCESS" else ():
                if voucher["id"] == voucher_id:
                    return voucher
        raise reading.not_found()

    def _release(self, order: FakeOrder) -> None:
        self.held -= order.debit
        self.move("RELEASE", order.debit, order=order)

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
            "validTill": (self._now() + timedelta(days=VALID_DAYS)).date().isoformat(),
            "amount": amount,
        }


def reconcile(books: Books, members: Mapping[str, Any]) -> dict[str, Any]:
    """What differs between the partner's list and the books. Raises Refused."""
    lines = members.get("orders")
    if not isinstance(lines, list) or not 1 <= len(lines) <= reading.MAX_VOUCHERS:
        raise reading.invalid(("orders", f"is not a list of 1 to {reading.MAX_VOUCHERS} lines"))
    differences: list[dict[str, Any]] = []
    seen: set[str] = set()
    for place, line in enumerate(lines):
        path, sheet = f"orders[{place}].", reading.Sheet(line if isinstance(line, dict) else {})
        reference_id = sheet.text("referenceId", most=reading.MAX_REFERENCE_CHARACTERS, required=True, path=path) or ""
        status = sheet.text("status", most=20, required=True, path=path)
        amount = sheet.number("amount", path=path)
        if reference_id in seen:
            sheet.note(f"{path}referenceId", "stands in the list twice")
        sheet.check()
        seen.add(reference_id)
        differences += _differences(reference_id, status, amount, books.by_reference.get(reference_id))
    return {"matched": len(seen) - len({one["referenceId"] for one in differences}), "differences": differences}


def _differences(
    reference_id: str, status: str | None, amount: Decimal | None, order: FakeOrder | None
) -> list[dict[str, Any]]:
    if order is None:
        pairs: list[tuple[str, Any, Any]] = [("orderId", None, None)]
    else:
        pairs = [("status", status, order.status)] if status != order.status else []
        pairs += [("amount", str(amount), str(order.wanted.amount))] if amount != order.wanted.amount else []
    order_id = order.id if order else None
    return [
        {"referenceId": reference_id, "orderId": order_id, "member": member, "yours": yours, "ours": ours}
        for member, yours, ours in pairs
    ]
