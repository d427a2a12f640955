"""Wallets: money in, corrections, the low-balance threshold, the statement."""

from typing import Annotated, Any

import typer

from giftrail.cli import desk
from giftrail.kit import money
from giftrail.partners import manage
from giftrail.wallet import ledger, store

wallets = typer.Typer(help="Wallets: the partners' prepaid money.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="PARTNER", help="The partner's name or id.")]
DEFAULT_LINES = 50


@wallets.command("top-up")
def top_up(
    name: Name,
    amount: Annotated[str, typer.Argument(help="In the wallet's currency.")],
    note: Annotated[str | None, typer.Option(help="Shown in the statement.")] = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Record money that a partner has paid in.

    Example: giftrail wallet top-up "Acme Rewards" 50000 --note "UTR 4711"
    """
    _move(name, amount, note, data_dir, kind="top-up", as_json=as_json)


@wallets.command("adjust", context_settings={"ignore_unknown_options": True})
def adjust(
    name: Name,
    amount: Annotated[str, typer.Argument(help="Positive or negative, in the wallet's currency.")],
    note: Annotated[str, typer.Option(help="Why; shown in the statement.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Correct a balance; never below zero.

    Example: giftrail wallet adjust "Acme Rewards" -120.50 --note "paid twice"
    """
    _move(name, amount, note, data_dir, kind="adjust", as_json=as_json)


def _move(name: str, text: str, note: str | None, data_dir: desk.DataDir, *, kind: str, as_json: bool) -> None:
    wanted = desk.amount(text)

    async def deed(at: desk.Desk) -> dict[str, Any]:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        minor = desk.minor(text, currency=partner.currency)
        async with at.act(f"wallet.{kind}", subject=partner.name, amount=wanted, note=note):
            opened = await ledger.open_wallet(at.conn, partner_id=partner.partner_id)
            if kind == "top-up":
                opened.top_up(minor, note=ledger.check_note(note), now=at.now)
            else:
                opened.adjust(minor, note=ledger.check_note(note) or "", now=at.now)
            await ledger.close_wallet(at.conn, opened, now=at.now)
        balance = money.to_major(opened.available_minor, currency=partner.currency)
        return {"partnerId": partner.partner_id, "balance": balance, "currency": partner.currency}

    members = desk.run(deed, data_dir=data_dir)
    desk.tell(f"{name} has {members['currency']} {members['balance']} now.", members, as_json=as_json)


@wallets.command("threshold")
def threshold(
    name: Name,
    amount: Annotated[str | None, typer.Argument(help="In the wallet's currency.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Alert no more.")] = False,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Tell the partner (Wallet Low Balance) when the balance falls below an amount.

    Example: giftrail wallet threshold "Acme Rewards" 10000
    """
    if (amount is None) != off:
        raise desk.CommandFailed("give an amount, or --off")
    wanted = None if amount is None else desk.amount(amount)

    async def deed(at: desk.Desk) -> str:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        minor = None if amount is None else desk.minor(amount, currency=partner.currency)
        async with at.act("wallet.threshold", subject=partner.name, threshold=wanted):
            opened = await ledger.open_wallet(at.conn, partner_id=partner.partner_id)
            opened.set_threshold(minor)
            await ledger.close_wallet(at.conn, opened, now=at.now)
        return partner.partner_id

    partner_id = desk.run(deed, data_dir=data_dir)
    sentence = f"{name} is told when its balance falls below {amount}." if amount else f"{name} is told no more."
    desk.tell(sentence, {"partnerId": partner_id, "threshold": wanted}, as_json=as_json)


@wallets.command("statement")
def statement(
    name: Name,
    lines: Annotated[int, typer.Option(min=1, help="The newest so many.")] = DEFAULT_LINES,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Show the movements of a wallet, newest first.

    Example: giftrail wallet statement "Acme Rewards" --lines 10
    """

    async def deed(at: desk.Desk) -> list[dict[str, Any]]:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        return [
            {
                "id": transfer.transfer_id,
                "at": transfer.created_at,
                "kind": transfer.kind.value,
                "amount": money.to_major(transfer.amount_minor, currency=partner.currency),
                "balance": money.to_major(transfer.available_after_minor, currency=partner.currency),
                "referenceId": transfer.reference_id,
                "orderId": transfer.order_id,
                "note": transfer.note,
            }
            for transfer in await store.list_transfers(at.conn, partner_id=partner.partner_id, limit=lines)
        ]

    desk.show_rows(desk.run(deed, data_dir=data_dir), as_json=as_json, empty="Nothing has moved yet.")
