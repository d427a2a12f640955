"""Deliveries to recipients, as the operator sees them: never a code."""

from typing import Annotated, Any

import typer

from giftrail.cli import desk
from giftrail.delivery import model, store
from giftrail.orders import model as orders
from giftrail.orders import resend as deeds
from giftrail.orders import store as order_store

deliveries = typer.Typer(help="Deliveries of vouchers to recipients.", no_args_is_help=True)

MAX_LISTED = 500
OrderId = Annotated[str, typer.Argument(metavar="ORDER", help="An order id.")]


@deliveries.command("list")
def list_(
    state: Annotated[model.Outcome | None, typer.Option(case_sensitive=False, help="Only those.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LISTED, help="How many.")] = 50,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """List the last deliveries, newest first.

    Example: giftrail delivery list --state failed
    """

    async def deed(at: desk.Desk) -> list[model.Delivery]:
        return await store.list_recent(at.conn, outcome=state.value if state else None, limit=limit)

    rows = [_row(one) for one in desk.run(deed, data_dir=data_dir)]
    desk.show_rows(rows, as_json=as_json, empty="There is no such delivery.")


@deliveries.command("show")
def show(order: OrderId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Show an order's deliveries, and when its codes were looked at on the voucher page.

    Example: giftrail delivery show ord_0193…
    """

    async def deed(at: desk.Desk) -> dict[str, Any]:
        found = await _find(at, order)
        sent = await store.list_deliveries(at.conn, partner_id=found.partner_id, order_ids=[order])
        seen = await store.list_reveals(at.conn, partner_id=found.partner_id, order_id=order)
        return {
            "orderId": order,
            "status": found.status.value,
            "deliveries": [_row(one) for one in sent],
            "reveals": [{"at": one.at, "address": one.address} for one in seen],
        }

    desk.show_one(desk.run(deed, data_dir=data_dir), as_json=as_json)


@deliveries.command("resend")
def resend(
    order: OrderId,
    channel: Annotated[
        list[model.Channel] | None, typer.Option(case_sensitive=False, help="By this one alone.")
    ] = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Deliver an order's vouchers once more, by every channel it has unless told otherwise; no cooldown.

    Example: giftrail delivery resend ord_0193… --channel email
    """

    async def deed(at: desk.Desk) -> list[model.Delivery]:
        found = await _find(at, order)
        async with at.act("delivery.resend", subject=order, channels=channel):
            return await deeds.resend(
                at.conn,
                partner_id=found.partner_id,
                order_id=order,
                channels=set(channel) if channel else None,
                cooldown_seconds=0,
                most_a_day=MAX_LISTED,
                now=at.now,
            )

    made = desk.run(deed, data_dir=data_dir)
    members = {"orderId": order, "deliveries": [_row(one) for one in made]}
    names = " and ".join(one.channel.value for one in made)
    desk.tell(f"The vouchers of {order} are on their way again by {names}.", members, as_json=as_json)


async def _find(at: desk.Desk, order_id: str) -> orders.Order:
    found = await order_store.find_order_of_anyone(at.conn, order_id=order_id)
    if found is None:
        raise desk.CommandFailed(f"there is no order {order_id!r}")
    return found


def _row(one: model.Delivery) -> dict[str, Any]:
    return {
        "deliveryId": one.delivery_id,
        "orderId": one.order_id,
        "channel": one.channel.value,
        "address": one.address,
        "state": one.outcome.value,
        "attempts": one.tries,
        "reason": one.reason,
        "createdAt": one.created_at,
        "sentAt": one.sent_at,
    }
