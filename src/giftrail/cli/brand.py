"""Brands: import, activate, enable, discount."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from giftrail import app
from giftrail.catalog import edit, importing, model, snapshot, store
from giftrail.cli import desk
from giftrail.delivery import pictures
from giftrail.kit import money
from giftrail.partner_api import wire
from giftrail.partners import manage

brands = typer.Typer(help="Brands: what can be ordered, by whom, at what discount.", no_args_is_help=True)

BrandId = Annotated[str, typer.Argument(metavar="BRAND", help="The brand's id.")]
BrandIds = Annotated[list[str] | None, typer.Argument(metavar="BRAND…", help="Brand ids.")]
All = Annotated[bool, typer.Option("--all", help="All brands of the partner's currency.")]


@brands.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A JSON array or a CSV with a header.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Insert or replace the brands of a file: all of them, or none and a list of the bad rows.

    Columns: id, title, status, brandDescription, category, tags, denominationType, denominations, minVoucherAmount,
    maxVoucherAmount, minOrderAmount, maxOrderAmount, maxVouchersPerOrder, maxVouchersPerDenomination,
    maxDenominationsPerOrder, redemptionType, cardType, currency, providers, thumbnailUrl, iconImageUrl, logoUrl,
    tncUrl, termsAndConditions, howToUseInstructions, voucherExpiryInMonths,
    reversible, reversalWindowHours. In CSV, | separates the items of a list.

    Example: giftrail brand import brands.csv
    """
    found, problems = importing.read_brands(file, known_providers=app.provider_names(desk.load_settings(data_dir)))
    if problems:
        for problem in problems:
            desk.err.print(str(problem), markup=False, soft_wrap=True)
        raise desk.CommandFailed(f"{len(problems)} problems in {file}, nothing was imported")

    async def deed(at: desk.Desk) -> int:
        async with at.act("brand.import", subject=str(file), brands=len(found)):
            return await edit.upsert_brands(at.conn, found, now=at.now)

    new = desk.run(deed, data_dir=data_dir) if found else 0
    members = {"imported": len(found), "new": new, "replaced": len(found) - new}
    desk.tell(f"Imported {len(found)} brands: {new} new, {len(found) - new} replaced.", members, as_json=as_json)


@brands.command("list")
def list_(data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """List all brands.

    Example: giftrail brand list
    """

    async def deed(at: desk.Desk) -> list[model.Brand]:
        return await store.list_brands(at.conn)

    rows = [
        {
            "id": brand.brand_id,
            "title": brand.title,
            "status": brand.status.value,
            "denominationType": brand.denomination_type.value,
            "cardType": brand.card_type.value,
            "currency": brand.currency,
            "providers": list(brand.providers),
        }
        for brand in desk.run(deed, data_dir=data_dir)
    ]
    desk.show_rows(rows, as_json=as_json, empty="There is no brand yet: giftrail brand import")


@brands.command("show")
def show(brand_id: BrandId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Show a brand and the partners for whom it is enabled.

    Example: giftrail brand show chai-verandah
    """

    async def deed(at: desk.Desk) -> tuple[model.Brand, list[str]]:
        brand = await edit.read_brand(at.conn, brand_id=brand_id)
        enabled = await store.list_enabled_partners(at.conn, brand_ids=[brand_id])
        return brand, [partner_id for _, partner_id in enabled]

    brand, enabled = desk.run(deed, data_dir=data_dir)
    seen = wire.brand(snapshot.Offer(brand, Decimal(0), brand.updated_at))
    members = msgspec.to_builtins(seen, builtin_types=(Decimal, datetime))
    del members["discountPercentage"]  # it is a partner's
    members |= {"providers": list(brand.providers), "enabledFor": enabled}
    desk.show_one(members, as_json=as_json)


@brands.command("activate")
def activate(brand_id: BrandId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Let vouchers of a brand be ordered again.

    Example: giftrail brand activate chai-verandah
    """
    _set_status(brand_id, model.Status.ACTIVE, data_dir, as_json=as_json)


@brands.command("deactivate")
def deactivate(brand_id: BrandId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Refuse orders of a brand (E102) within a second, in every process.

    Example: giftrail brand deactivate chai-verandah
    """
    _set_status(brand_id, model.Status.INACTIVE, data_dir, as_json=as_json)


@brands.command("picture")
def picture(
    brand_id: BrandId,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="PNG, JPEG or WebP.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Keep a picture of the brand for the voucher page, which asks no other host for one.

    Example: giftrail brand picture chai-verandah chai.png
    """
    content = file.read_bytes()
    try:
        media_type = pictures.read_media_type(content)
    except pictures.PictureRefused as refused:
        raise desk.CommandFailed(f"{file}: {refused}") from None

    async def deed(at: desk.Desk) -> None:
        await edit.read_brand(at.conn, brand_id=brand_id)
        async with at.act("brand.picture", subject=brand_id, bytes=len(content)):
            await pictures.keep_picture(at.conn, brand_id=brand_id, media_type=media_type, content=content, now=at.now)

    desk.run(deed, data_dir=data_dir)
    members = {"id": brand_id, "mediaType": media_type, "bytes": len(content)}
    desk.tell(f"The voucher page shows this picture for {brand_id}.", members, as_json=as_json)


def _set_status(brand_id: str, status: model.Status, data_dir: Path | None, *, as_json: bool) -> None:
    async def deed(at: desk.Desk) -> bool:
        async with at.act("brand.status", subject=brand_id, status=status):
            return await edit.set_status(at.conn, brand_id=brand_id, status=status, now=at.now)

    changed = desk.run(deed, data_dir=data_dir)
    sentence = f"{brand_id} is {status.value}{' now' if changed else ' already'}."
    desk.tell(sentence, {"id": brand_id, "status": status.value, "changed": changed}, as_json=as_json)


@brands.command("enable")
def enable(
    partner: Annotated[str, typer.Argument(help="The partner's name or id.")],
    brand_ids: BrandIds = None,
    everything: All = False,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Let a partner see and order brands.

    Example: giftrail brand enable "Acme Rewards" chai-verandah monsoon-threads
    """
    _set_enabled(partner, brand_ids, data_dir, everything=everything, enabled=True, as_json=as_json)


@brands.command("disable")
def disable(
    partner: Annotated[str, typer.Argument(help="The partner's name or id.")],
    brand_ids: BrandIds = None,
    everything: All = False,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Hide brands from a partner and refuse its orders of them (E101).

    Example: giftrail brand disable "Acme Rewards" chai-verandah
    """
    _set_enabled(partner, brand_ids, data_dir, everything=everything, enabled=False, as_json=as_json)


def _set_enabled(
    name: str, brand_ids: list[str] | None, data_dir: Path | None, *, everything: bool, enabled: bool, as_json: bool
) -> None:
    if bool(brand_ids) == everything:
        raise desk.CommandFailed("name the brands, or say --all")

    async def deed(at: desk.Desk) -> list[str]:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        asked = brand_ids or [
            brand.brand_id for brand in await store.list_brands(at.conn) if brand.currency == partner.currency
        ]
        async with at.act("brand.enable" if enabled else "brand.disable", subject=partner.name, brands=asked):
            await edit.set_enabled(at.conn, partner=partner, brand_ids=asked, enabled=enabled, now=at.now)
        return asked

    done = desk.run(deed, data_dir=data_dir)
    verb = "Enabled" if enabled else "Disabled"
    desk.tell(f"{verb} {len(done)} brands for {name}.", {"brands": done, "enabled": enabled}, as_json=as_json)


@brands.command("discount")
def discount(
    partner: Annotated[str, typer.Argument(help="The partner's name or id.")],
    brand_id: BrandId,
    percentage: Annotated[str, typer.Argument(help="0 to 100, at most 4 decimals.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Set a partner's discount for a brand; the partner is told.

    Example: giftrail brand discount "Acme Rewards" chai-verandah 2.5
    """
    wanted = desk.amount(percentage)

    async def deed(at: desk.Desk) -> None:
        found = await manage.read_partner(at.conn, name_or_id=partner)
        async with at.act("brand.discount", subject=found.name, brand=brand_id, percentage=wanted):
            await edit.set_discount(at.conn, partner=found, brand_id=brand_id, percentage=wanted, now=at.now)

    desk.run(deed, data_dir=data_dir)
    members = {"id": brand_id, "discountPercentage": money.plain(wanted)}
    desk.tell(f"{partner} pays {percentage} % less for {brand_id}.", members, as_json=as_json)
