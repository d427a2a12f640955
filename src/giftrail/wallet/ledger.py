"""The ledger: the only place where money moves.

A wallet is opened (its row locked), moved any number of times in memory, and closed (everything written at once),
all inside one transaction of the caller. Lock order everywhere: wallet, order, work row, stock.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

import msgspec

from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids, money
from giftrail.wallet import model, store

MAX_NOTE_CHARACTERS = 200
# How long a transaction that places or settles orders waits for a lock: a dozen processes may line up for one wallet.
LOCK_PATIENCE_SECONDS = 0.5
# No wallet holds more than this, so that sums stay far from PostgreSQL's largest bigint.
MAX_BALANCE_MINOR = 10 * money.MAX_AMOUNT_MINOR


Held = model.Transfer


class WalletUnknown(Exception):
    """The partner has no wallet."""


class InsufficientBalance(Exception):
    """The wallet's available balance is less than the amount (specification, E300)."""


class AmountInvalid(ValueError):
    """An amount, threshold or note that a wallet cannot take; the message names it."""


class OpenWallet:
    """A locked wallet and what was done to it since. Made by `open_wallet`, written by `close_wallet`."""

    def __init__(self, wallet: model.Wallet) -> None:
        self.wallet = wallet
        self.transfers: list[model.Transfer] = []
        self.entries: list[model.Entry] = []
        self.alerts: list[tuple[int, int]] = []  # balance and threshold of each downward crossing

    @property
    def available_minor(self) -> int:
        """What can still be spent."""
        return self.wallet.available_minor

    def debit(self, amount_minor: int, *, order_id: str, reference_id: str, now: datetime) -> None:
        """Pay for an order that is finished at once. Raises InsufficientBalance."""
        if amount_minor > self.available_minor:
            raise InsufficientBalance
        self._move(
            model.Kind.DEBIT, {model.Account.AVAILABLE: -amount_minor, model.Account.SALES: amount_minor},
            order_id=order_id, reference_id=reference_id, now=now,
        )  # fmt: skip

    def hold(self, amount_minor: int, *, order_id: str, reference_id: str, now: datetime) -> None:
        """Set money aside for an order that a provider is still asked for. Raises InsufficientBalance."""
        if amount_minor > self.available_minor:
            raise InsufficientBalance
        self._move(
            model.Kind.HOLD, {model.Account.AVAILABLE: -amount_minor, model.Account.HELD: amount_minor},
            order_id=order_id, reference_id=reference_id, now=now,
        )  # fmt: skip

    def capture(self, held: Held, *, now: datetime) -> None:
        """Pay with what was held. The database refuses a hold that was captured or released before."""
        self._resolve(model.Kind.CAPTURE, held, model.Account.SALES, now=now)

    def release(self, held: Held, *, now: datetime) -> None:
        """Give back what was held. The database refuses a hold that was captured or released before."""
        self._resolve(model.Kind.RELEASE, held, model.Account.AVAILABLE, now=now)

    def refund(self, amount_minor: int, *, order_id: str, reference_id: str, now: datetime) -> None:
        """Give back what was paid for an order that is reversed."""
        self._move(
            model.Kind.REFUND, {model.Account.AVAILABLE: amount_minor, model.Account.SALES: -amount_minor},
            order_id=order_id, reference_id=reference_id, now=now,
        )  # fmt: skip

    def top_up(self, amount_minor: int, *, note: str | None, now: datetime) -> None:
        """Money came in. Raises AmountInvalid."""
        if amount_minor <= 0:
            raise AmountInvalid("a top-up is more than 0")
        self._check_room(amount_minor)
        self._move(
            model.Kind.TOP_UP, {model.Account.AVAILABLE: amount_minor, model.Account.FUNDING: -amount_minor},
            note=note, now=now,
        )  # fmt: skip

    def adjust(self, amount_minor: int, *, note: str, now: datetime) -> None:
        """Correct the balance by a positive or negative amount. Raises AmountInvalid, InsufficientBalance."""
        if amount_minor == 0:
            raise AmountInvalid("an adjustment of 0 changes nothing")
        if self.available_minor + amount_minor < 0:
            raise InsufficientBalance
        self._check_room(amount_minor)
        self._move(
            model.Kind.ADJUSTMENT, {model.Account.AVAILABLE: amount_minor, model.Account.CORRECTIONS: -amount_minor},
            note=note, now=now,
        )  # fmt: skip

    def set_threshold(self, threshold_minor: int | None) -> None:
        """Alert below this balance; raising it above the balance alerts nobody. Raises AmountInvalid."""
        if threshold_minor is not None and threshold_minor < 0:
            raise AmountInvalid("a threshold is not negative")
        self.wallet = msgspec.structs.replace(
            self.wallet,
            low_threshold_minor=threshold_minor,
            low_alerted=threshold_minor is not None and self.available_minor < threshold_minor,
        )

    def set_limited(self, limited: bool) -> None:  # noqa: FBT001 — it sets exactly this
        """Say whether placements must look at spending limits."""
        self.wallet = msgspec.structs.replace(self.wallet, limited=limited)

    def _check_room(self, amount_minor: int) -> None:
        if amount_minor > 0 and self.wallet.posted_minor + amount_minor > MAX_BALANCE_MINOR:
            raise AmountInvalid("the wallet would hold more than it can")

    def _resolve(self, kind: model.Kind, held: Held, to: model.Account, *, now: datetime) -> None:
        amount_minor = -held.amount_minor
        self._move(
            kind, {model.Account.HELD: -amount_minor, to: amount_minor},
            order_id=held.order_id, reference_id=held.reference_id, resolves=held.wallet_version, now=now,
        )  # fmt: skip

    def _move(
        self,
        kind: model.Kind,
        sides: Mapping[model.Account, int],
        *,
        order_id: str | None = None,
        reference_id: str | None = None,
        resolves: int | None = None,
        note: str | None = None,
        now: datetime,
    ) -> None:
        """One transfer; `sides` are its entries, which add to zero."""
        before = self.wallet
        available_minor = sides.get(model.Account.AVAILABLE, 0)
        held_minor = sides.get(model.Account.HELD, 0)
        version = before.version + 1
        # Clocks of processes differ; in one wallet time does not go back.
        moved_at = now if before.moved_at is None else max(now, before.moved_at)
        self.wallet = msgspec.structs.replace(
            before,
            posted_minor=before.posted_minor + available_minor + held_minor,
            held_minor=before.held_minor + held_minor,
            version=version,
            moved_at=moved_at,
        )
        self._alert_when_low()
        self.transfers.append(
            model.Transfer(
                partner_id=before.partner_id,
                wallet_version=version,
                kind=kind,
                # What the partner's balance changed by; of a capture, what left the money held.
                amount_minor=held_minor if kind is model.Kind.CAPTURE else available_minor,
                available_after_minor=self.wallet.available_minor,
                held_after_minor=self.wallet.held_minor,
                order_id=order_id,
                reference_id=reference_id,
                note=note,
                created_at=moved_at,
                resolves_version=resolves,
            )
        )
        after = {
            model.Account.AVAILABLE: self.wallet.available_minor,
            model.Account.HELD: self.wallet.held_minor,
        }
        self.entries += [
            model.Entry(before.partner_id, version, account, amount, after.get(account))
            for account, amount in sides.items()
        ]

    def _alert_when_low(self) -> None:
        threshold, available = self.wallet.low_threshold_minor, self.wallet.available_minor
        is_low = threshold is not None and available < threshold
        if is_low and threshold is not None and not self.wallet.low_alerted:
            self.alerts.append((available, threshold))
        if is_low != self.wallet.low_alerted:
            self.wallet = msgspec.structs.replace(self.wallet, low_alerted=is_low)


async def read_wallet(conn: pool.Connection | pool.Pool, *, partner_id: str) -> model.Wallet:
    """The wallet as committed. Raises WalletUnknown."""
    wallet = await store.find_wallet(conn, partner_id=partner_id)
    if wallet is None:
        raise WalletUnknown(f"partner {partner_id!r} has no wallet")
    return wallet


async def open_wallet(conn: pool.Connection, *, partner_id: str) -> OpenWallet:
    """The wallet, locked until the transaction ends. Raises WalletUnknown."""
    wallet = await store.lock_wallet(conn, partner_id=partner_id)
    if wallet is None:
        raise WalletUnknown(f"partner {partner_id!r} has no wallet")
    return OpenWallet(wallet)


async def open_wallets(
    conn: pool.Connection, *, partner_ids: Sequence[str], skip_locked: bool = False
) -> dict[str, OpenWallet]:
    """By partner, the wallets, locked until the transaction ends; `skip_locked` leaves out those that others hold.

    No lock of the transaction is waited for longer than LOCK_PATIENCE_SECONDS: then asyncpg.LockNotAvailableError, so
    that a wallet that is held does not hold up what waits behind it. Raises WalletUnknown.
    """
    await store.limit_lock_waits(conn, seconds=LOCK_PATIENCE_SECONDS)
    wallets = await store.lock_wallets(conn, partner_ids=partner_ids, skip_locked=skip_locked)
    missing = next((partner_id for partner_id in partner_ids if partner_id not in wallets), None)
    if missing is not None and not skip_locked:
        raise WalletUnknown(f"partner {missing!r} has no wallet")
    return {partner_id: OpenWallet(wallet) for partner_id, wallet in wallets.items()}


async def list_holds(conn: pool.Connection, *, partner_id: str, order_ids: Sequence[str]) -> Mapping[str, Held]:
    """By order, the hold that each of the orders began with, to be captured or released."""
    return await store.list_holds(conn, partner_id=partner_id, order_ids=order_ids)


async def close_wallet(conn: pool.Connection, opened: OpenWallet, *, now: datetime) -> None:
    """Write the transfers, their entries, the alerts and the wallet, inside the caller's transaction."""
    await close_wallets(conn, [opened], now=now)


async def close_wallets(conn: pool.Connection, opened: Sequence[OpenWallet], *, now: datetime) -> None:
    """Write the transfers, their entries, the alerts and the wallets, inside the caller's transaction."""
    transfers = [transfer for wallet in opened for transfer in wallet.transfers]
    if transfers:
        entries = [entry for wallet in opened for entry in wallet.entries]
        await store.append_transfers(conn, transfers=transfers, entries=entries)
    await store.update_wallets(conn, [wallet.wallet for wallet in opened])
    await outbox.append_events(conn, [alert for wallet in opened for alert in _alerts(wallet, now=now)])


def _alerts(opened: OpenWallet, *, now: datetime) -> list[events.Event]:
    def major(minor: int) -> int | Decimal:
        return money.to_major(minor, currency=opened.wallet.currency)

    return [
        events.Event(
            partner_id=opened.wallet.partner_id,
            event_id=ids.new("evt", now=now),
            kind=events.Kind.WALLET_LOW_BALANCE,
            body=events.wallet_low_balance(balance=major(balance), threshold=major(threshold)),
            occurred_at=now,
        )
        for balance, threshold in opened.alerts
    ]


def check_note(note: str | None) -> str | None:
    """The note as it can be stored. Raises AmountInvalid."""
    if note is not None and (len(note) > MAX_NOTE_CHARACTERS or not note.isprintable()):
        raise AmountInvalid(f"the note is longer than {MAX_NOTE_CHARACTERS} characters or not printable")
    return note
