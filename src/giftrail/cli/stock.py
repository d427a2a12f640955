"""Stock: codes that were bought elsewhere and are sold here."""

import io
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from giftrail import keys as installation_keys
from giftrail.calls import shelve
from giftrail.catalog import edit
from giftrail.catalog import model as catalog
from giftrail.cli import desk, provider
from giftrail.kit import money
from giftrail.providers import importing, store

stocks = typer.Typer(help="Stock: imported codes, each sold once.", no_args_is_help=True)


@stocks.command("import")
def import_(
    brand_id: Annotated[str, typer.Argument(metavar="BRAND", help="The brand whose codes these are.")],
    file: Annotated[Path, typer.Argument(help="A CSV: denomination, cardNumber, cardPin, validTill.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Import codes: all of the file, or none and a list of the bad lines.

    Example: giftrail stock import quill-and-banyan codes.csv
    """
    try:
        size = file.stat().st_size
        raw = file.open("rb")
    except OSError as error:
        raise desk.CommandFailed(f"{file} cannot be read: {error.strerror}") from None

    async def deed(at: desk.Desk) -> int:
        brand = await edit.read_brand(at.conn, brand_id=brand_id)
        fixed = brand.denomination_type is catalog.DenominationType.FIXED
        shape = importing.Shape(
            brand_id=brand_id,
            currency=brand.currency,
            shows_number=brand.card_type.shows_number,
            shows_pin=brand.card_type.shows_pin,
            denominations_minor=brand.denominations_minor if fixed else None,
        )
        keys = installation_keys.code_keys(installation_keys.with_keys(at.settings))
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=desk.err, transient=True, disable=not desk.err.is_terminal) as progress:
            task = progress.add_task("Importing", total=size)
            async with at.act("stock.import", subject=brand_id, file=str(file)):
                return await importing.import_stock(
                    at.conn,
                    io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""),
                    shape=shape,
                    keys=keys,
                    now=at.now,
                    tell=lambda _: progress.update(task, completed=raw.tell()),
                )

    with raw:
        try:
            count = desk.run(deed, data_dir=data_dir)
        except importing.StockRefused as refused:
            for problem in refused.problems:
                desk.err.print(problem, markup=False, soft_wrap=True)
            raise desk.CommandFailed(str(refused)) from None
        except asyncpg.UniqueViolationError:
            raise desk.CommandFailed("another import has just put some of these codes into the stock") from None
    desk.tell(f"Imported {count} codes for {brand_id}.", {"id": brand_id, "imported": count}, as_json=as_json)


@stocks.command("levels")
def levels(
    brand_id: Annotated[str | None, typer.Argument(metavar="[BRAND]", help="Only this brand.")] = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Show how many codes are unsold, expired and sold.

    Example: giftrail stock levels quill-and-banyan
    """

    async def deed(at: desk.Desk) -> list[dict[str, Any]]:
        if brand_id is not None:
            await edit.read_brand(at.conn, brand_id=brand_id)
        rows = []
        for level in await store.list_levels(at.conn, brand_id=brand_id, today=at.now.date()):
            brand = await edit.read_brand(at.conn, brand_id=level["brand_id"])
            rows.append(
                {
                    "id": level["brand_id"],
                    "denomination": money.to_major(level["denomination_minor"], currency=brand.currency),
                    "unsold": level["unsold"],
                    "expired": level["expired"],
                    "sold": level["sold"],
                }
            )
        return rows

    desk.show_rows(desk.run(deed, data_dir=data_dir), as_json=as_json, empty="There is no stock yet.")


@stocks.command("aside")
def aside(
    brand_id: Annotated[str | None, typer.Argument(metavar="[BRAND]", help="Only this brand.")] = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """List codes that providers delivered too late, or for orders that failed; they were paid for and are nobody's.

    Example: giftrail stock aside quill-and-banyan
    """

    async def deed(at: desk.Desk) -> list[dict[str, Any]]:
        return await provider.list_aside(at, brand_id)

    desk.show_rows(desk.run(deed, data_dir=data_dir), as_json=as_json, empty="No code is set aside.")


@stocks.command("shelve")
def shelve_(
    name: Annotated[str, typer.Argument(metavar="PROVIDER", help="The provider that delivered it.")],
    voucher: Annotated[str, typer.Argument(metavar="VOUCHER", help="The provider's voucher id, from stock aside.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Put a code that was set aside into the stock of its brand, to be sold.

    Example: giftrail stock shelve megacards 0193a5c2…-1-1-0
    """

    async def deed(at: desk.Desk) -> str:
        keys = installation_keys.code_keys(installation_keys.with_keys(at.settings))
        async with at.act("stock.shelve", subject=name, voucher=voucher):
            return await shelve.shelve(at.conn, provider=name, provider_voucher_id=voucher, keys=keys, now=at.now)

    brand_id = desk.run(deed, data_dir=data_dir)
    members = {"provider": name, "voucher": voucher, "id": brand_id}
    desk.tell(f"The code is in the stock of {brand_id}.", members, as_json=as_json)
