"""Orders as the operator sees them, and the audit of everything."""

from typing import Annotated, Any

import typer

from giftrail.cli import desk
from giftrail.kit import money
from giftrail.orders import audit as auditor
from giftrail.orders import failures, store
from giftrail.partners import store as partner_store

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


def audit(data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Check that money, orders and codes add up; exit status 1 when anything does not.

    Example: giftrail audit
    """

    async def deed(at: desk.Desk) -> list[str]:
        with desk.err.status("Reading everything…"):
            return await auditor.list_findings(at.conn)

    findings = desk.run(deed, data_dir=data_dir)
    if not as_json:
        for finding in findings:
            desk.out.print(finding, markup=False, soft_wrap=True)
    sentence = f"{len(findings)} findings." if findings else "Everything adds up."
    desk.tell(sentence, {"findings": findings}, as_json=as_json)
    if findings:
        raise typer.Exit(1)
