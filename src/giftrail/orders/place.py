"""Placement: a batch of orders in one transaction, of one wallet or of several (engines, placement in batches).

Locks: the wallets' rows first, in the order of their ids, which puts each partner's orders in line across all
processes, then stock. A replay takes nothing. Commits; answers are made only from what was committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat

from giftrail.db import pool
from giftrail.delivery import begin
from giftrail.orders import decide, issue, model, read, states, store
from giftrail.providers import protocol, stock
from giftrail.spending import book
from giftrail.spending import model as spending
from giftrail.vouchers import model as voucher_model
from giftrail.wallet import ledger


@dataclass(frozen=True, slots=True)
class Busy:
    """Another transaction holds the order's wallet: ask again, nothing was stored."""


Answer = model.Receipt | model.ReferenceConflict | spending.SpendingLimitExceeded | decide.Again | Busy


async def place_orders(
    conn: pool.Connection,
    drafts: Sequence[model.Draft],
    *,
    keys: protocol.Keys,
    now: datetime,
    skip_locked: bool = False,
) -> list[Answer]:
    """One answer for each draft, in their order, once their transaction is committed.

    With `skip_locked`, orders of wallets that another transaction holds are answered Busy; without it,
    asyncpg.LockNotAvailableError is raised when one of them is held for long. Raises what the database raises;
    unless that was the COMMIT, nothing was stored.
    """
    made = {
        draft.order_id: issue.generate(
            draft.brand, quantity=draft.vouchers_count, placed_on=draft.placed_at.date(), keys=keys
        )
        for draft in drafts
        if _wants_generator(draft)
    }
    of_partner: dict[str, list[model.Draft]] = {}
    for draft in drafts:
        of_partner.setdefault(draft.partner_id, []).append(draft)
    decisions: dict[str, decide.Decision] = {}
    placed: dict[str, model.Order] = {}
    stored: dict[str, model.Order] = {}
    async with conn.transaction():
        wallets = await ledger.open_wallets(conn, partner_ids=list(of_partner), skip_locked=skip_locked)
        held = [draft for draft in drafts if draft.partner_id in wallets]
        # Behind the locks: a statement begun now sees every order that was placed before.
        known = await store.list_known(conn, references=[(draft.partner_id, draft.reference_id) for draft in held])
        shelves = await _pick_stock(conn, held, known=known, keys=keys, now=now)
        for partner_id, wallet in wallets.items():
            own = of_partner[partner_id]
            decided = await _decide(conn, own, wallet, known=known, shelves=shelves, made=made)
            shelves = decide.unsold(shelves, decided)
            for draft, decision in zip(own, decided, strict=True):
                decisions[draft.order_id] = decision
                if isinstance(decision, decide.Serve | decide.Hold | decide.Fail):
                    placed[draft.order_id] = _carry_out(draft, decision, wallet, now=now)
            replayed = {one.order_id for one in decided if isinstance(one, decide.Replay)} - placed.keys()
            stored |= await read.read_orders(conn, partner_id=partner_id, order_ids=list(replayed), ring=keys.ring)
        new = [draft for draft in held if draft.order_id in placed]
        if new:
            await _write(conn, new, placed, wallets, keys=keys, now=now)
    return [
        _answer(draft, decisions[draft.order_id], placed=placed, stored=stored)
        if draft.order_id in decisions
        else Busy()
        for draft in drafts
    ]


_STATUSES = {
    decide.Serve: states.Status.SUCCESS,
    decide.Hold: states.Status.PROCESSING,
    decide.Fail: states.Status.FAILED,
}


def _wants_generator(draft: model.Draft) -> bool:
    return draft.refusal is None and protocol.GENERATOR in draft.brand.providers


async def _decide(
    conn: pool.Connection,
    drafts: Sequence[model.Draft],
    wallet: ledger.OpenWallet,
    *,
    known: Mapping[tuple[str, str], decide.Known],
    shelves: decide.Shelves,
    made: decide.Made,
) -> list[decide.Decision]:
    """The decisions for one partner's drafts; what they spend is written to its limits."""
    partner_id = wallet.wallet.partner_id
    limits = await book.open_book(
        conn,
        partner_id=partner_id,
        limited=wallet.wallet.limited,
        moments=[draft.placed_at for draft in drafts],
        currency=wallet.wallet.currency,
    )
    decided = decide.decide(
        drafts,
        known={
            draft.reference_id: known[partner_id, draft.reference_id]
            for draft in drafts
            if (partner_id, draft.reference_id) in known
        },
        available_minor=wallet.available_minor,
        shelves=shelves,
        made=made,
        limits=limits,
    )
    await book.close_book(conn, limits, partner_id=partner_id)
    return decided


async def _pick_stock(
    conn: pool.Connection,
    drafts: Sequence[model.Draft],
    *,
    known: Mapping[tuple[str, str], decide.Known],
    keys: protocol.Keys,
    now: datetime,
) -> decide.Shelves:
    demanded: dict[tuple[str, int], int] = {}
    for draft in drafts:
        if (draft.partner_id, draft.reference_id) not in known and decide.wants_stock(draft):
            for denomination, quantity in draft.lines.items():
                place = (draft.brand.brand_id, denomination)
                demanded[place] = demanded.get(place, 0) + quantity
    if not demanded:
        return {}
    demands = [protocol.Demand(brand_id, denomination, n) for (brand_id, denomination), n in demanded.items()]
    return await stock.pick(conn, demands=demands, keys=keys, now=now)


def _carry_out(
    draft: model.Draft,
    decision: decide.Serve | decide.Hold | decide.Fail,
    wallet: ledger.OpenWallet,
    *,
    now: datetime,
) -> model.Order:
    paid = not isinstance(decision, decide.Fail)
    if paid and draft.brand.currency != wallet.wallet.currency:
        raise AssertionError(f"brand {draft.brand.brand_id} of another currency is enabled for {draft.partner_id}")
    vouchers: tuple[voucher_model.Voucher, ...] = ()
    if isinstance(decision, decide.Hold):
        wallet.hold(draft.debit_minor, order_id=draft.order_id, reference_id=draft.reference_id, now=now)
    if isinstance(decision, decide.Serve):
        wallet.debit(draft.debit_minor, order_id=draft.order_id, reference_id=draft.reference_id, now=now)
        amounts = [amount for denomination, n in draft.lines.items() for amount in repeat(denomination, n)]
        codes = [
            issue.Issue(amount, decision.provider, code) for amount, code in zip(amounts, decision.codes, strict=True)
        ]
        vouchers = issue.make_vouchers(
            codes, partner_id=draft.partner_id, order_id=draft.order_id, brand=draft.brand, now=now
        )
    return model.Order(
        order_id=draft.order_id,
        partner_id=draft.partner_id,
        reference_id=draft.reference_id,
        fingerprint=draft.fingerprint,
        brand_id=draft.brand.brand_id,
        status=_STATUSES[type(decision)],
        failure_code=str(decision.code) if isinstance(decision, decide.Fail) else None,
        currency=wallet.wallet.currency,
        amount_minor=draft.amount_minor,
        discount_percentage=draft.discount_percentage,
        debit_minor=draft.debit_minor if paid else 0,
        created_at=draft.placed_at,
        updated_at=draft.placed_at,
        vouchers=vouchers,
        recipients=draft.recipients if paid else (),
        deliveries=begin.make(
            draft.recipients if vouchers else (), partner_id=draft.partner_id, order_id=draft.order_id, now=now
        ),
    )


async def _write(
    conn: pool.Connection,
    drafts: Sequence[model.Draft],
    placed: Mapping[str, model.Order],
    wallets: Mapping[str, ledger.OpenWallet],
    *,
    keys: protocol.Keys,
    now: datetime,
) -> None:
    orders = [placed[draft.order_id] for draft in drafts]
    await store.append_orders(conn, drafts=drafts, orders=orders)
    asked = [
        (draft.partner_id, draft.order_id, draft.part_vouchers)
        for draft in drafts
        if placed[draft.order_id].status is states.Status.PROCESSING
    ]
    if asked:
        await store.append_fulfilments(conn, orders=asked, now=now)
    await issue.append_vouchers(conn, orders, keys=keys, now=now)
    await begin.begin(conn, [delivery for order in orders for delivery in order.deliveries])
    moved = [wallet for wallet in wallets.values() if wallet.transfers]
    if moved:
        await ledger.close_wallets(conn, moved, now=now)


def _answer(
    draft: model.Draft,
    decision: decide.Decision,
    *,
    placed: Mapping[str, model.Order],
    stored: Mapping[str, model.Order],
) -> Answer:
    match decision:
        case decide.Again():
            return decision
        case decide.Limited(exceeded):
            return exceeded
        case decide.Conflict(order_id):
            return model.ReferenceConflict(reference_id=draft.reference_id, order_id=order_id)
        case decide.Replay(order_id):
            return model.Receipt(placed.get(order_id) or stored[order_id], replayed=True)
        case decide.Serve() | decide.Hold() | decide.Fail():
            return model.Receipt(placed[draft.order_id], replayed=False)
