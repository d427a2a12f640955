"""Migrations: numbered SQL files, each applied once, in order, under a lock; edited ones are refused."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from giftrail.db import pool

FOLDER = Path(__file__).parent / "migrations"
# One number for every Giftrail database: whoever migrates waits for whoever migrates already.
_ADVISORY_LOCK = 0x67696674


class SchemaDiffers(Exception):
    """The database's schema is not the one this program needs; the message says what to do."""


class MigrationEdited(Exception):
    """A migration that was applied has changed since; the message names it."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number, its name and its SQL."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """SHA-256 of the SQL, hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def list_migrations(folder: Path = FOLDER) -> list[Migration]:
    """The files of the folder in order. Raises ValueError when a number is missing or taken twice."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        match = re.fullmatch(r"(\d{4})_([a-z0-9_]+)", path.stem)
        if match is None:
            raise ValueError(f"{path.name} is not named NNNN_name.sql")
        found.append(Migration(number=int(match[1]), name=match[2], sql=path.read_text()))
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the numbers in {folder} have a gap or repeat")
    return found


async def migrate(
    url: str, *, folder: Path = FOLDER, tell: Callable[[Migration], None] = lambda _: None
) -> list[Migration]:
    """Bring the database to the current schema and return what was applied; nothing when it was current.

    Each file is its own transaction. Raises MigrationEdited, and SchemaDiffers when the database is newer.
    """
    migrations = list_migrations(folder)
    async with pool.connect(url) as conn:
        await conn.execute("SELECT pg_advisory_lock($1)", _ADVISORY_LOCK)
        await conn.execute(
            "CREATE TABLE IF NOT EXISTS schema_migration (number int PRIMARY KEY, name text NOT NULL,"
            " digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        applied = {
            row["number"]: row["digest"] for row in await conn.fetch("SELECT number, digest FROM schema_migration")
        }
        _refuse_what_differs(applied, migrations)
        pending = [migration for migration in migrations if migration.number not in applied]
        for migration in pending:
            tell(migration)
            async with conn.transaction():
                await conn.execute(migration.sql)
                await conn.execute(
                    "INSERT INTO schema_migration (number, name, digest) VALUES ($1, $2, $3)",
                    migration.number, migration.name, migration.digest,
                )  # fmt: skip
    return pending


async def check(conn: pool.Connection, *, folder: Path = FOLDER) -> None:
    """Raises SchemaDiffers or MigrationEdited unless the database has exactly the schema of this program."""
    migrations = list_migrations(folder)
    try:
        rows = await conn.fetch("SELECT number, digest FROM schema_migration")
    except asyncpg.UndefinedTableError:
        raise SchemaDiffers("the database is empty; run: giftrail migrate") from None
    applied = {row["number"]: row["digest"] for row in rows}
    _refuse_what_differs(applied, migrations)
    if len(applied) < len(migrations):
        raise SchemaDiffers(
            f"the database has schema {max(applied, default=0)}, this program needs {len(migrations)};"
            " run: giftrail migrate"
        )


def _refuse_what_differs(applied: dict[int, str], migrations: list[Migration]) -> None:
    if max(applied, default=0) > len(migrations):
        raise SchemaDiffers(
            f"the database has schema {max(applied)}, this program knows only {len(migrations)};"
            " install the newer Giftrail"
        )
    for migration in migrations:
        if applied.get(migration.number, migration.digest) != migration.digest:
            raise MigrationEdited(
                f"migration {migration.number:04} ({migration.name}) was changed after it was applied;"
                " restore the file and write a new migration"
            )
