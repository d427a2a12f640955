"""Providers: which there are, whether they are well, and what only the operator can find out."""

from typing import Annotated, Any

import typer

from giftrail import app
from giftrail.breakers import record
from giftrail.breakers import store as breaker_store
from giftrail.calls import shelve
from giftrail.calls import store as call_store
from giftrail.catalog import edit
from giftrail.cli import desk
from giftrail.kit import money

providers = typer.Typer(help="Providers: where codes come from.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="PROVIDER", help="The provider's name.")]
BrandId = Annotated[str, typer.Argument(metavar="BRAND", help="The brand's id.")]


@providers.command("list")
def list_(data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """List the providers that brands may name, and for which brands each is left alone.

    Example: giftrail provider list
    """

    async def deed(at: desk.Desk) -> list[dict[str, Any]]:
        breakers = await breaker_store.list_breakers(at.conn)
        return [
            {
                "name": name,
                "paused": [one.brand_id for one in breakers if one.provider == name and one.is_paused],
                "resting": [one.brand_id for one in breakers if one.provider == name and not one.is_paused],
            }
            for name in sorted(app.provider_names(at.settings))
        ]

    desk.show_rows(desk.run(deed, data_dir=data_dir), as_json=as_json, empty="There is no provider.")


@providers.command("pause")
def pause(name: Name, brand_id: BrandId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Leave a provider alone for a brand; orders that nobody else can serve are refused (E100).

    Example: giftrail provider pause megacards chai-verandah
    """

    async def deed(at: desk.Desk) -> None:
        await _check(at, name, brand_id)
        async with at.act("provider.pause", subject=name, brand=brand_id):
            await record.pause(at.conn, provider=name, brand_id=brand_id, now=at.now)

    desk.run(deed, data_dir=data_dir)
    members = {"name": name, "id": brand_id, "paused": True}
    desk.tell(f"{name} is not asked for {brand_id} until it is resumed.", members, as_json=as_json)


@providers.command("resume")
def resume(name: Name, brand_id: BrandId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Ask a provider for a brand again, whether it was paused or failed too often.

    Example: giftrail provider resume megacards chai-verandah
    """

    async def deed(at: desk.Desk) -> bool:
        await _check(at, name, brand_id)
        async with at.act("provider.resume", subject=name, brand=brand_id):
            return await record.resume(at.conn, provider=name, brand_id=brand_id)

    changed = desk.run(deed, data_dir=data_dir)
    members = {"name": name, "id": brand_id, "paused": False, "changed": changed}
    desk.tell(f"{name} is asked for {brand_id} again.", members, as_json=as_json)


@providers.command("unknown")
def unknown(data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """List calls of which nobody knows whether the provider created the vouchers. Ask it by the key, then resolve.

    Example: giftrail provider unknown
    """

    async def deed(at: desk.Desk) -> list[dict[str, Any]]:
        return [
            {
                "provider": row["provider"],
                "key": row["key"],
                "orderId": row["order_id"],
                "vouchers": row["quantity"],
                "asks": row["asks"],
                "askedAt": row["asked_at"],
                "reason": row["reason"],
            }
            for row in await call_store.list_unknown(at.conn)
        ]

    desk.show_rows(desk.run(deed, data_dir=data_dir), as_json=as_json, empty="The outcome of every call is known.")


@providers.command("resolve")
def resolve(
    name: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The call's key, as the provider knows it.")],
    created: Annotated[
        bool, typer.Option("--created/--not-created", help="Whether the provider created the vouchers.")
    ],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Say what you found out about a call. Created vouchers are yours: import them as stock.

    Example: giftrail provider resolve megacards 0193a5c2…-1-1 --not-created
    """

    async def deed(at: desk.Desk) -> None:
        async with at.act("provider.resolve", subject=name, key=key, created=created):
            await shelve.resolve(at.conn, provider=name, key=key, created=created, now=at.now)

    desk.run(deed, data_dir=data_dir)
    sentence = f"Call {key} of {name} was {'created' if created else 'not created'}."
    desk.tell(sentence, {"name": name, "key": key, "created": created}, as_json=as_json)


async def list_aside(at: desk.Desk, brand_id: str | None) -> list[dict[str, Any]]:
    """Codes that were delivered too late or in part, without what they are."""
    rows = []
    for row in await call_store.list_aside(at.conn, brand_id=brand_id):
        brand = await edit.read_brand(at.conn, brand_id=row["brand_id"])
        rows.append(
            {
                "provider": row["provider"],
                "voucher": row["provider_voucher_id"],
                "id": row["brand_id"],
                "denomination": money.to_major(row["denomination_minor"], currency=brand.currency),
                "validTill": row["valid_till"],
                "orderId": row["order_id"],
                "deliveredAt": row["delivered_at"],
            }
        )
    return rows


async def _check(at: desk.Desk, name: str, brand_id: str) -> None:
    known = app.provider_names(at.settings)
    if name not in known:
        raise desk.CommandFailed(f"{name!r} is not one of {', '.join(sorted(known))}")
    await edit.read_brand(at.conn, brand_id=brand_id)
