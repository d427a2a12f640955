"""Spending limits of partners."""

from typing import Annotated, Any

import typer

from giftrail.catalog import edit
from giftrail.cli import desk
from giftrail.kit import money
from giftrail.orders import limit as deeds
from giftrail.partners import manage
from giftrail.spending import model, store

limits = typer.Typer(
    help="Spending limits: how much a partner may order per hour, day and month.", no_args_is_help=True
)

Partner = Annotated[str, typer.Argument(help="The partner's name or id.")]
Period = Annotated[model.Period, typer.Option("--per", case_sensitive=False, help="UTC calendar window.")]
Brand = Annotated[str, typer.Option(metavar="BRAND", help="Only orders of this brand.", show_default="all brands")]


@limits.command("set")
def set_(
    partner: Partner,
    per: Period,
    amount: Annotated[str | None, typer.Option(help="Face value of all orders.")] = None,
    orders: Annotated[int | None, typer.Option(min=0, help="Number of orders.")] = None,
    brand: Brand = model.ALL_BRANDS,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Set a limit, or set it anew; what was ordered in the running window counts. Beyond it orders are refused (E013).

    Example: giftrail limit set "Acme Rewards" --per day --amount 50000
    """

    async def deed(at: desk.Desk) -> None:
        found = await manage.read_partner(at.conn, name_or_id=partner)
        if brand:
            await edit.read_brand(at.conn, brand_id=brand)
        minor = desk.minor(amount, currency=found.currency) if amount is not None else None
        wanted = model.SpendingLimit(found.partner_id, brand, per, minor, orders, set_at=at.now)
        async with at.act("limit.set", subject=found.name, per=per, amount=amount, orders=orders, brand=brand):
            await deeds.set_limit(at.conn, wanted, now=at.now)

    desk.run(deed, data_dir=data_dir)
    members = {"partner": partner, "per": per.value, "amount": amount, "orders": orders, "brand": brand or None}
    desk.tell(f"{partner} is limited per {per.lower()}.", members, as_json=as_json)


@limits.command("list")
def list_(partner: Partner, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """List a partner's limits and what is spent in the running windows.

    Example: giftrail limit list "Acme Rewards"
    """

    async def deed(at: desk.Desk) -> list[dict[str, Any]]:
        found = await manage.read_partner(at.conn, name_or_id=partner)
        rows = []
        for one in await store.list_limits(at.conn, partner_id=found.partner_id):
            key = (one.brand_id, one.period, one.period.window_start(at.now))
            spent = (await store.list_spent(at.conn, partner_id=found.partner_id, keys=[key])).get(key, model.Spent())
            limit = one.max_amount_minor
            rows.append(
                {
                    "brand": one.brand_id or None,
                    "per": one.period.value,
                    "amount": None if limit is None else money.to_major(limit, currency=found.currency),
                    "spent": money.to_major(spent.amount_minor, currency=found.currency),
                    "orders": one.max_orders,
                    "placed": spent.orders,
                    "ends": one.period.window_end(at.now),
                }
            )
        return rows

    desk.show_rows(desk.run(deed, data_dir=data_dir), as_json=as_json, empty=f"{partner} has no spending limit.")


@limits.command("lift")
def lift(
    partner: Partner,
    per: Period,
    brand: Brand = model.ALL_BRANDS,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Lift a limit.

    Example: giftrail limit lift "Acme Rewards" --per day
    """

    async def deed(at: desk.Desk) -> bool:
        found = await manage.read_partner(at.conn, name_or_id=partner)
        async with at.act("limit.lift", subject=found.name, per=per, brand=brand):
            return await deeds.lift_limit(at.conn, partner_id=found.partner_id, brand_id=brand, period=per, now=at.now)

    lifted = desk.run(deed, data_dir=data_dir)
    if not lifted:
        raise desk.CommandFailed(f"{partner} has no such limit")
    members = {"partner": partner, "per": per.value, "brand": brand or None, "lifted": True}
    desk.tell(f"{partner} is no longer limited per {per.lower()}.", members, as_json=as_json)
