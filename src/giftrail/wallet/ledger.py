"""The ledger: the only place where money moves.

A wallet is opened (its row locked), moved any number of times in memory, and closed (everything written at once),
all inside one transaction of the caller. Lock order everywhere: wallet, order, work row, stock.
"""

import dataclasses
from datetime import datetime
from decimal import Decimal

from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids, money
from giftrail.wallet import model, store

MAX_NOTE_CHARACTERS = 200
# No wallet holds more than this, so that sums stay far from PostgreSQL's largest bigint.
MAX_BALANCE_MINOR = 10 * money.MAX_AMOUNT_MINOR


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
        self._move(model.Kind.DEBIT, -amount_minor, model.Account.SALES, order_id, reference_id, None, now)

    def top_up(self, amount_minor: int, *, note: str | None, now: datetime) -> None:
        """Money came in. Raises AmountInvalid."""
        if amount_minor <= 0:
            raise AmountInvalid("a top-up is more than 0")
        self._move(model.Kind.TOP_UP, amount_minor, model.Account.FUNDING, None, None, note, now)

    def adjust(self, amount_minor: int, *, note: str, now: datetime) -> None:
        """Correct the balance by a positive or negative amount. Raises AmountInvalid, InsufficientBalance."""
        if amount_minor == 0:
            raise AmountInvalid("an adjustment of 0 changes nothing")
        if self.available_minor + amount_minor < 0:
            raise InsufficientBalance
        self._move(model.Kind.ADJUSTMENT, amount_minor, model.Account.CORRECTIONS, None, None, note, now)

    def set_threshold(self, threshold_minor: int | None) -> None:
        """Alert below this balance; raising it above the balance alerts nobody. Raises AmountInvalid."""
        if threshold_minor is not None and threshold_minor < 0:
            raise AmountInvalid("a threshold is not negative")
        self.wallet = dataclasses.replace(
            self.wallet,
            low_threshold_minor=threshold_minor,
            low_alerted=threshold_minor is not None and self.available_minor < threshold_minor,
        )

    def _move(  # noqa: PLR0917 — private, called three times just above
        self, kind: model.Kind, available_minor: int, against: model.Account, order_id: str | None,
        reference_id: str | None, note: str | None, now: datetime,
    ) -> None:  # fmt: skip
        before = self.wallet
        after = before.available_minor + available_minor
        if available_minor > 0 and after > MAX_BALANCE_MINOR:
            raise AmountInvalid("the wallet would hold more than it can")
        version = before.version + 1
        threshold = before.low_threshold_minor
        is_low = threshold is not None and after < threshold
        if is_low and threshold is not None and not before.low_alerted:
            self.alerts.append((after, threshold))
        self.wallet = dataclasses.replace(
            before, posted_minor=before.posted_minor + available_minor, version=version, low_alerted=is_low
        )
        self.transfers.append(
            model.Transfer(
                partner_id=before.partner_id,
                wallet_version=version,
                kind=kind,
                amount_minor=available_minor,
                available_after_minor=after,
                held_after_minor=before.held_minor,
                order_id=order_id,
                reference_id=reference_id,
                note=note,
                created_at=now,
            )
        )
        self.entries.append(model.Entry(version, model.Account.AVAILABLE, available_minor, after))
        self.entries.append(model.Entry(version, against, -available_minor, None))


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


async def close_wallet(conn: pool.Connection, opened: OpenWallet, *, now: datetime) -> None:
    """Write the transfers, their entries, the alerts and the wallet, inside the caller's transaction."""
    wallet = opened.wallet
    if opened.transfers:
        await store.append_transfers(
            conn, partner_id=wallet.partner_id, transfers=opened.transfers, entries=opened.entries
        )
    await store.update_wallet(conn, wallet)

    def major(minor: int) -> int | Decimal:
        return money.to_major(minor, currency=wallet.currency)

    await outbox.append_events(
        conn,
        [
            events.Event(
                partner_id=wallet.partner_id,
                event_id=ids.new("evt", now=now),
                kind=events.Kind.WALLET_LOW_BALANCE,
                body=events.wallet_low_balance(balance=major(balance), threshold=major(threshold)),
                occurred_at=now,
            )
            for balance, threshold in opened.alerts
        ],
    )


def check_note(note: str | None) -> str | None:
    """The note as it can be stored. Raises AmountInvalid."""
    if note is not None and (len(note) > MAX_NOTE_CHARACTERS or not note.isprintable()):
        raise AmountInvalid(f"the note is longer than {MAX_NOTE_CHARACTERS} characters or not printable")
    return note
