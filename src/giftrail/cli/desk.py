"""The operator's desk: one connection, who works at it, and the trail of what was done."""

import asyncio
import contextlib
import getpass
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from pydantic import SecretStr, ValidationError
from rich.console import Console
from rich.table import Table

from giftrail import app
from giftrail.cli import stopping
from giftrail.db import embedded, migrate, pool
from giftrail.kit import money
from giftrail.operators import trail
from giftrail.settings import Settings

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder of the embedded database and the keys.", envvar="GIFTRAIL_DATA_DIR", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

_Result = TypeVar("_Result")
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


class CommandFailed(Exception):
    """A command that cannot be done; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A connection for one command."""

    conn: pool.Connection
    settings: Settings
    operator: str
    now: datetime

    @contextlib.asynccontextmanager
    async def act(self, act: str, *, subject: str, **detail: Any) -> AsyncIterator[None]:
        """A transaction that holds the deed and its line in the audit trail."""
        async with self.conn.transaction():
            yield
            await trail.record(self.conn, operator=self.operator, act=act, subject=subject, detail=detail, now=self.now)


def load_settings(data_dir: Path | None, **overrides: Any) -> Settings:
    """The settings of the environment with what the command line says. Raises CommandFailed."""
    values = {name: value for name, value in overrides.items() if value is not None}
    if data_dir is not None:
        values["data_dir"] = data_dir.absolute()
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"GIFTRAIL_{str(part).upper()}: " for part in first["loc"][:1])
        raise CommandFailed(where + first["msg"].removeprefix("Value error, ")) from None


@contextlib.contextmanager
def database(settings: Settings) -> Iterator[Settings]:
    """The settings with the address of a database: the one they name, else the embedded one, running and current."""
    if settings.database_url is not None:
        yield settings
        return
    with embedded.running(settings.data_dir, postgres_user=settings.postgres_user) as url:
        stopping.run(migrate.migrate(url))
        yield settings.model_copy(update={"database_url": SecretStr(url)})


def check_schema(settings: Settings) -> None:
    """Raises migrate.SchemaDiffers or migrate.MigrationEdited unless the database is current."""

    async def check() -> None:
        async with pool.connect(app.database_url(settings)) as conn:
            await migrate.check(conn)

    asyncio.run(check())


def run(deed: Callable[[Desk], Awaitable[_Result]], *, data_dir: Path | None) -> _Result:
    """Do something at the desk and return what it returns."""
    with database(load_settings(data_dir)) as settings:
        return asyncio.run(_at_desk(deed, settings))


async def _at_desk(deed: Callable[[Desk], Awaitable[_Result]], settings: Settings) -> _Result:
    async with pool.connect(app.database_url(settings)) as conn:
        await migrate.check(conn)
        return await deed(Desk(conn=conn, settings=settings, operator=_operator(), now=app.now()))


def _operator() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def amount(text: str) -> Decimal:
    """An amount as typed. Raises CommandFailed."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise CommandFailed(f"{text!r} is not a number") from None


def minor(text: str, *, currency: str) -> int:
    """An amount as typed, in minor units. Raises CommandFailed."""
    try:
        return money.to_minor(amount(text), currency=currency)
    except money.AmountRefused as refused:
        raise CommandFailed(f"{text} {refused}") from None


def show_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool, empty: str) -> None:
    """A table for people, or a JSON array."""
    if as_json:
        print_json(rows)
        return
    if not rows:
        out.print(empty)
        return
    table = Table(*rows[0].keys(), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    out.print(table)


def show_one(members: Mapping[str, Any], *, as_json: bool) -> None:
    """Name and value on a line each, or a JSON object."""
    if as_json:
        print_json(members)
        return
    width = max(map(len, members))
    for name, value in members.items():
        out.print(f"[bold]{name:<{width}}[/]  {_cell(value)}", soft_wrap=True)


def tell(message: str, members: Mapping[str, Any], *, as_json: bool) -> None:
    """A sentence for people, or a JSON object."""
    if as_json:
        print_json(members)
    else:
        out.print(message, soft_wrap=True, markup=False)


def print_json(value: Any) -> None:
    """JSON on one line."""
    encoded = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode(value)
    sys.stdout.write(encoded.decode() + "\n")
    sys.stdout.flush()


def _cell(value: Any) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case list() | tuple() | frozenset():
            return ", ".join(map(str, value)) or "-"
        case _:
            return str(value).replace("[", r"\[")
