"""Orders as the operator sees them, and what he may do with them."""

from typing import Annotated, Any

import typer

from giftrail import keys as installation_keys
from giftrail.cli import desk
from giftrail.kit import money
from giftrail.orders import endings, failures, model, settle, store, undo
from giftrail.partners import store as partner_store
from giftrail.reversals import store as reversal_store
from giftrail.wallet import ledger

orders = typer.Typer(help="Orders.", no_args_is_help=True)


@orders.command("show")
def show(
    order: Annotated[str, typer.Argument(help="An order id, or a referenceId with --partner.")],
    partner: Annotated[str | None, typer.Option(help="The partner whose referenceId it is.")] = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Show an order; never a code.

    Example: giftrail order show ord_0193…
    """

    async def deed(at: desk.Desk) -> dict[str, Any]:
        if partner is None:
            found = await store.find_order_of_anyone(at.conn, order_id=order)
        else:
            owner = await partner_store.find_partner(at.conn, name_or_id=partner)
            partner_id = owner.partner_id if owner else ""
            found = await store.find_order_by_reference(at.conn, partner_id=partner_id, reference_id=order)
        if found is None:
            raise desk.CommandFailed(f"there is no order {order!r}" + (f" of {partner}" if partner else ""))
        return {
            "id": found.order_id,
            "partnerId": found.partner_id,
            "referenceId": found.reference_id,
            "status": found.status.value,
            "failureCode": found.failure_code,
            "failureReason": failures.REASONS[found.failure_code].value if found.failure_code else None,
            "productId": found.brand_id,
            "amount": money.to_major(found.amount_minor, currency=found.currency),
            "discountPercentage": money.plain(found.discount_percentage),
            "debit": money.to_major(found.debit_minor, currency=found.currency),
            "currency": found.currency,
            "createdAt": found.created_at,
            "updatedAt": found.updated_at,
        }

    desk.show_one(desk.run(deed, data_dir=data_dir), as_json=as_json)


OrderId = Annotated[str, typer.Argument(metavar="ORDER", help="The order's id.")]


@orders.command("cancel")
def cancel(order_id: OrderId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Cancel a PROCESSING order that no provider was asked for yet.

    Example: giftrail order cancel ord_0193…
    """

    async def deed(at: desk.Desk) -> model.Order:
        found = await _find(at, order_id)
        async with at.act("order.cancel", subject=order_id):
            return await _settle(at, endings.Cancel(found.partner_id, order_id))

    _tell(desk.run(deed, data_dir=data_dir), as_json=as_json)


@orders.command("reverse")
def reverse(
    order_id: OrderId,
    reason: Annotated[str | None, typer.Option(help="Why, for the audit trail.")] = None,
    issuer_voided: Annotated[
        bool, typer.Option("--issuer-voided", help="You know that the issuer voided its vouchers; refund at once.")
    ] = False,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Take a SUCCESS order back: its provider voids the vouchers, then the wallet is refunded.

    Orders from stock, and those outside their brand's policy, need --issuer-voided.

    Example: giftrail order reverse ord_0193… --reason "ordered by mistake"
    """

    async def deed(at: desk.Desk) -> model.Order:
        found = await _find(at, order_id)
        async with at.act("order.reverse", subject=order_id, reason=reason, issuer_voided=issuer_voided):
            await ledger.open_wallet(at.conn, partner_id=found.partner_id)  # locks go wallet, then order
            asked = await undo.request_reversal(
                at.conn, partner_id=found.partner_id, order_id=order_id, reason=reason, confirmed=issuer_voided,
                now=at.now,
            )  # fmt: skip
            if issuer_voided and asked.reversal_pending:
                return await _settle(at, endings.Reverse(found.partner_id, order_id))
        return asked

    _tell(desk.run(deed, data_dir=data_dir), as_json=as_json)


@orders.command("unknown")
def unknown(data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """List reversals that stopped half way: ask the provider, then order reverse --issuer-voided.

    Example: giftrail order unknown
    """

    async def deed(at: desk.Desk) -> list[dict[str, Any]]:
        return [
            {"id": row["order_id"], "partnerId": row["partner_id"], "askedAt": row["requested_at"], "why": row["why"]}
            for row in await reversal_store.list_unknown(at.conn)
        ]

    desk.show_rows(desk.run(deed, data_dir=data_dir), as_json=as_json, empty="Every reversal has ended.")


async def _find(at: desk.Desk, order_id: str) -> model.Order:
    found = await store.find_order_of_anyone(at.conn, order_id=order_id)
    if found is None:
        raise desk.CommandFailed(f"there is no order {order_id!r}")
    return found


async def _settle(at: desk.Desk, wanted: endings.Settlement) -> model.Order:
    keys = installation_keys.code_keys(installation_keys.with_keys(at.settings))
    (answer,) = await settle.settle_orders(at.conn, [wanted], keys=keys, now=at.now)
    if isinstance(answer, Exception):
        raise answer
    if not isinstance(answer, model.Order):
        raise desk.CommandFailed("the order is being worked on just now; try again")
    return answer


def _tell(order: model.Order, *, as_json: bool) -> None:
    pending = ", its provider is asked" if order.reversal_pending else ""
    members = {"id": order.order_id, "status": order.status.value, "reversalPending": order.reversal_pending}
    desk.tell(f"Order {order.order_id} is {order.status}{pending}.", members, as_json=as_json)
