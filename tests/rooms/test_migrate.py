import asyncio
import shutil
from pathlib import Path

import asyncpg
import pytest

from giftrail.db import migrate, pool

ALL = migrate.list_migrations()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the migrations, to be changed."""
    return Path(shutil.copytree(migrate.FOLDER, tmp_path / "migrations"))


def older(folder: Path, *, keep: int) -> Path:
    for path in sorted(folder.glob("*.sql"))[keep:]:
        path.unlink()
    return folder


async def check(url: str, folder: Path = migrate.FOLDER) -> None:
    async with pool.connect(url) as conn:
        await migrate.check(conn, folder=folder)


async def tables(url: str) -> set[str]:
    async with pool.connect(url) as conn:
        return {row[0] for row in await conn.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


async def test_an_empty_database_becomes_current_and_stays_so(empty_database: str) -> None:
    told: list[int] = []
    applied = await migrate.migrate(empty_database, tell=lambda one: told.append(one.number))
    assert [one.number for one in applied] == told == list(range(1, len(ALL) + 1))
    await check(empty_database)
    assert await migrate.migrate(empty_database) == []


async def test_several_at_once_apply_each_migration_once(empty_database: str) -> None:
    applied = await asyncio.gather(*(migrate.migrate(empty_database) for _ in range(4)))
    assert sorted(one.number for each in applied for one in each) == list(range(1, len(ALL) + 1))
    assert sorted(map(len, applied)) == [0, 0, 0, len(ALL)]
    await check(empty_database)


async def test_an_empty_database_is_refused_with_what_to_do(empty_database: str) -> None:
    with pytest.raises(migrate.SchemaDiffers, match="empty; run: giftrail migrate"):
        await check(empty_database)


async def test_an_older_database_is_refused_with_what_to_do_and_then_brought_up(
    empty_database: str, folder: Path
) -> None:
    await migrate.migrate(empty_database, folder=older(folder, keep=3))
    with pytest.raises(migrate.SchemaDiffers, match=rf"schema 3, .* needs {len(ALL)}; run: giftrail migrate"):
        await check(empty_database)
    applied = await migrate.migrate(empty_database)
    assert [one.number for one in applied] == list(range(4, len(ALL) + 1))
    await check(empty_database)


async def test_a_newer_database_is_refused_by_both_with_what_to_do(empty_database: str, folder: Path) -> None:
    await migrate.migrate(empty_database)
    for attempt in (check, migrate.migrate):
        with pytest.raises(migrate.SchemaDiffers, match="install the newer Giftrail"):
            await attempt(empty_database, folder=older(folder, keep=5))


async def test_an_edited_migration_is_refused_by_both_by_its_name(empty_database: str, folder: Path) -> None:
    await migrate.migrate(empty_database, folder=folder)
    edited = folder / "0003_wallet.sql"
    edited.write_text(edited.read_text() + "-- one more word\n")
    for attempt in (check, migrate.migrate):
        with pytest.raises(migrate.MigrationEdited, match=r"0003 \(wallet\)"):
            await attempt(empty_database, folder=folder)


async def test_a_migration_that_fails_leaves_those_before_it_and_nothing_of_itself(
    empty_database: str, folder: Path
) -> None:
    broken = older(folder, keep=2) / "0003_broken.sql"
    broken.write_text("CREATE TABLE half_made (x int);\nSELECT nonsense;\n")
    with pytest.raises(asyncpg.UndefinedColumnError):
        await migrate.migrate(empty_database, folder=folder)
    found = await tables(empty_database)
    assert "brand" in found
    assert "half_made" not in found
    broken.write_text("CREATE TABLE whole (x int);\n")
    assert [one.name for one in await migrate.migrate(empty_database, folder=folder)] == ["broken"]
    assert "whole" in await tables(empty_database)


@pytest.mark.parametrize("name", ["0099_gap.sql", "0001_twice.sql", "8_short.sql", "0008-Dash.sql"])
def test_a_file_out_of_line_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text("SELECT 1;")
    with pytest.raises(ValueError, match=r"gap or repeat|not named"):
        migrate.list_migrations(folder)
