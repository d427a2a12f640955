"""Placement: a batch of orders of one wallet in one transaction (engines, placement in batches).

Locks: the wallet's row first, which puts the partner's orders in line across all processes, then stock. A replay takes
nothing. Commits; answers are made only from what was committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import repeat

from giftrail.db import pool
from giftrail.kit import ids
from giftrail.orders import decide, model, read, states, store
from giftrail.providers import generator, protocol, stock
from giftrail.vouchers import model as vouchers
from giftrail.vouchers import store as voucher_store
from giftrail.wallet import ledger

Answer = model.Receipt | model.ReferenceConflict | decide.Again


async def place_orders(
    conn: pool.Connection, drafts: Sequence[model.Draft], *, keys: protocol.Keys, now: datetime
) -> list[Answer]:
    """One answer for each draft, in their order, once their transaction is committed. All are of one partner.

    Raises what the database raises; unless that was the COMMIT, nothing was stored.
    """
    made = {draft.order_id: _generate(draft, keys=keys) for draft in drafts if _wants_generator(draft)}
    partner_id = drafts[0].partner_id
    async with conn.transaction():
        wallet = await ledger.open_wallet(conn, partner_id=partner_id)
        # Behind the lock: a statement begun now sees every order that was placed before.
        known = await store.list_known(
            conn, partner_id=partner_id, reference_ids=[draft.reference_id for draft in drafts]
        )
        shelves = await _pick_stock(conn, drafts, known=known, keys=keys, now=now)
        decisions = decide.decide(
            drafts, known=known, available_minor=wallet.available_minor, shelves=shelves, made=made
        )
        placed = {
            draft.order_id: _carry_out(draft, decision, wallet, now=now)
            for draft, decision in zip(drafts, decisions, strict=True)
            if isinstance(decision, decide.Serve | decide.Fail)
        }
        await _write(conn, [draft for draft in drafts if draft.order_id in placed], placed, wallet, keys=keys, now=now)
        replayed = {decision.order_id for decision in decisions if isinstance(decision, decide.Replay)} - placed.keys()
        stored = await read.read_orders(conn, partner_id=partner_id, order_ids=list(replayed), ring=keys.ring)
    return [
        _answer(draft, decision, placed=placed, stored=stored)
        for draft, decision in zip(drafts, decisions, strict=True)
    ]


def _wants_generator(draft: model.Draft) -> bool:
    return draft.refusal is None and protocol.GENERATOR in draft.brand.providers


def _generate(draft: model.Draft, *, keys: protocol.Keys) -> list[protocol.Code]:
    brand = draft.brand
    valid_till = _add_months(draft.placed_at.date(), brand.voucher_expiry_months)
    return [
        generator.issue(
            shows_number=brand.card_type.shows_number,
            shows_pin=brand.card_type.shows_pin,
            valid_till=valid_till,
            keys=keys,
        )
        for _ in range(draft.vouchers_count)
    ]


async def _pick_stock(
    conn: pool.Connection,
    drafts: Sequence[model.Draft],
    *,
    known: Mapping[str, decide.Known],
    keys: protocol.Keys,
    now: datetime,
) -> decide.Shelves:
    demanded: dict[tuple[str, int], int] = {}
    for draft in drafts:
        if draft.reference_id not in known and decide.wants_stock(draft):
            for denomination, quantity in draft.lines.items():
                place = (draft.brand.brand_id, denomination)
                demanded[place] = demanded.get(place, 0) + quantity
    if not demanded:
        return {}
    demands = [protocol.Demand(brand_id, denomination, n) for (brand_id, denomination), n in demanded.items()]
    return await stock.pick(conn, demands=demands, keys=keys, now=now)


def _carry_out(
    draft: model.Draft, decision: decide.Serve | decide.Fail, wallet: ledger.OpenWallet, *, now: datetime
) -> model.Order:
    served = isinstance(decision, decide.Serve)
    if served and draft.brand.currency != wallet.wallet.currency:
        raise AssertionError(f"brand {draft.brand.brand_id} of another currency is enabled for {draft.partner_id}")
    order = model.Order(
        order_id=draft.order_id,
        partner_id=draft.partner_id,
        reference_id=draft.reference_id,
        fingerprint=draft.fingerprint,
        brand_id=draft.brand.brand_id,
        status=states.Status.SUCCESS if served else states.Status.FAILED,
        failure_code=None if isinstance(decision, decide.Serve) else str(decision.code),
        currency=wallet.wallet.currency,
        amount_minor=draft.amount_minor,
        discount_percentage=draft.discount_percentage,
        debit_minor=draft.debit_minor if served else 0,
        created_at=draft.placed_at,
        updated_at=draft.placed_at,
    )
    if isinstance(decision, decide.Fail):
        return order
    wallet.debit(draft.debit_minor, order_id=draft.order_id, reference_id=draft.reference_id, now=now)
    amounts = [amount for denomination, n in draft.lines.items() for amount in repeat(denomination, n)]
    return replace(
        order,
        vouchers=tuple(
            vouchers.Voucher(
                partner_id=draft.partner_id,
                voucher_id=ids.new("vch", now=now),
                order_id=draft.order_id,
                position=position,
                card_type=draft.brand.card_type.value,
                amount_minor=amount,
                currency=draft.brand.currency,
                provider=decision.provider,
                code=code,
            )
            for position, (amount, code) in enumerate(zip(amounts, decision.codes, strict=True))
        ),
    )


async def _write(
    conn: pool.Connection,
    drafts: Sequence[model.Draft],
    placed: Mapping[str, model.Order],
    wallet: ledger.OpenWallet,
    *,
    keys: protocol.Keys,
    now: datetime,
) -> None:
    if not drafts:
        return
    partner_id = wallet.wallet.partner_id
    orders = [placed[draft.order_id] for draft in drafts]
    await store.append_orders(conn, partner_id=partner_id, drafts=drafts, orders=orders)
    issued = [voucher for order in orders for voucher in order.vouchers]
    if not issued:
        return
    await voucher_store.append_vouchers(conn, partner_id=partner_id, vouchers=issued, ring=keys.ring)
    generated = [voucher for voucher in issued if voucher.code.stock_id is None]
    if generated:
        await voucher_store.append_issued_codes(
            conn, source=protocol.GENERATOR, partner_id=partner_id, vouchers=generated
        )
    from_stock = [
        (order.brand_id, voucher.code.stock_id, voucher.voucher_id)
        for order in orders
        for voucher in order.vouchers
        if voucher.code.stock_id is not None
    ]
    if from_stock:
        await stock.mark_sold(conn, sold=from_stock, partner_id=partner_id, now=now)
    await ledger.close_wallet(conn, wallet, now=now)


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
        case decide.Conflict(order_id):
            return model.ReferenceConflict(reference_id=draft.reference_id, order_id=order_id)
        case decide.Replay(order_id):
            return model.Receipt(placed.get(order_id) or stored[order_id], replayed=True)
        case decide.Serve() | decide.Fail():
            return model.Receipt(placed[draft.order_id], replayed=False)


def _add_months(day: date, months: int | None) -> date | None:
    """The same day so many months later, or the last day of that month."""
    if months is None:
        return None
    year, month = divmod(day.month - 1 + months, 12)
    for last in (day.day, 30, 29, 28):
        try:
            return date(day.year + year, month + 1, min(day.day, last))
        except ValueError:
            continue
    raise AssertionError("every month has 28 days")
