"""A CSV of codes into the stock: streamed in bounded memory, every bad line told, all of it or nothing.

A bad line is told by its number and never by a value: columns that were swapped would tell codes.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TextIO

from giftrail.db import pool
from giftrail.kit import ids, money
from giftrail.providers import protocol, stock, store

COLUMNS = ("denomination", "cardNumber", "cardPin", "validTill")
MAX_CODE_CHARACTERS = 100
# Lines sealed and copied at once; also how often progress is told.
LINES_AT_ONCE = 5_000
# Bad lines told by number; the rest are counted.
MAX_PROBLEMS_TOLD = 100
# Where the reader puts the values that have no column.
_BEHIND = "(behind the last column)"


class StockRefused(Exception):
    """The file was refused whole. `problems` are sentences with line numbers, never a code."""

    def __init__(self, problems: list[str], *, more: int) -> None:
        self.problems = problems
        self.more = more
        super().__init__(f"{len(problems) + more} lines were refused and nothing was imported")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the brand asks of its codes."""

    brand_id: str
    currency: str
    shows_number: bool
    shows_pin: bool
    denominations_minor: tuple[int, ...] | None  # None: any amount


async def import_stock(
    conn: pool.Connection,
    lines: TextIO,
    *,
    shape: Shape,
    keys: protocol.Keys,
    now: datetime,
    tell: Callable[[int], None] = lambda _: None,
) -> int:
    """Put all codes of the file into the brand's stock inside the caller's transaction; returns how many.

    `tell` is given the number of lines read, every LINES_AT_ONCE. Raises StockRefused.
    """
    problems = _Problems()
    await store.stage(conn)
    count = 0
    for chunk in _chunks(_rows(lines, shape=shape, problems=problems, keys=keys, now=now)):
        if not problems:
            await store.copy_staged(conn, chunk)
        count += len(chunk)
        tell(int(str(chunk[-1][0])))
    if not problems:
        repeated, total = await store.list_repeated_lines(conn, limit=MAX_PROBLEMS_TOLD)
        problems.add_all([(line, f"the same code as on line {earlier}") for line, earlier in repeated], total=total)
        known, total = await store.list_known_lines(conn, brand_id=shape.brand_id, limit=MAX_PROBLEMS_TOLD)
        problems.add_all(
            [(line, "the code is or was in the stock of this brand already") for line in known], total=total
        )
    if not problems and count == 0:
        problems.add(1, "there is no code in the file")
    if problems:
        raise StockRefused(problems.told, more=problems.count - len(problems.told))
    await store.shelve_staged(conn, brand_id=shape.brand_id, now=now)
    return count


class _Problems:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.count = 0

    def add(self, line: int, message: str) -> None:
        self.count += 1
        if len(self.told) < MAX_PROBLEMS_TOLD:
            self.told.append(f"line {line}: {message}")

    def add_all(self, first: list[tuple[int, str]], *, total: int) -> None:
        for line, message in first:
            self.add(line, message)
        self.count += total - len(first)

    def __bool__(self) -> bool:
        return self.count > 0


def _rows(
    lines: TextIO, *, shape: Shape, problems: _Problems, keys: protocol.Keys, now: datetime
) -> Iterator[tuple[object, ...]]:
    reader = csv.DictReader(lines, restkey=_BEHIND)
    source = stock.source_of(shape.brand_id)
    try:
        if "denomination" not in (reader.fieldnames or ()) or set(reader.fieldnames or ()) - set(COLUMNS):
            problems.add(1, f"the columns are {', '.join(COLUMNS)}, and the first line names others")
            return
        for row in reader:
            try:
                denomination = _denomination(row["denomination"], shape)
                number = _code("cardNumber", row.get("cardNumber"), wanted=shape.shows_number)
                pin = _code("cardPin", row.get("cardPin"), wanted=shape.shows_pin)
                valid_till = _valid_till(row.get("validTill"), now.date())
                _check_end(row)
            except _BadLine as bad:
                problems.add(reader.line_num, str(bad))
                continue
            stock_id = ids.new("stk", now=now)
            sealed = stock.seal_code(
                card_number=number, card_pin=pin, brand_id=shape.brand_id, stock_id=stock_id, keys=keys
            )
            digest = keys.digest(source=source, card_number=number, card_pin=pin)
            yield reader.line_num, stock_id, denomination, sealed, digest, valid_till
    except (csv.Error, UnicodeDecodeError) as error:
        problems.add(reader.line_num + 1, f"the file is no CSV in UTF-8 from here on ({type(error).__name__})")


def _chunks(rows: Iterable[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    chunk: list[tuple[object, ...]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == LINES_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class _BadLine(Exception):
    pass


def _check_end(row: Mapping[str | None, object]) -> None:
    if _BEHIND in row:
        raise _BadLine("there are more values than columns")


def _denomination(text: str | None, shape: Shape) -> int:
    try:
        minor = money.to_minor(Decimal(text or ""), currency=shape.currency)
    except InvalidOperation:
        raise _BadLine("denomination is not a number") from None
    except money.AmountRefused as refused:
        raise _BadLine(f"denomination {refused}") from None
    if minor <= 0:
        raise _BadLine("denomination is not more than 0")
    if shape.denominations_minor is not None and minor not in shape.denominations_minor:
        raise _BadLine("denomination is not one of the brand's")
    return minor


def _code(column: str, text: str | None, *, wanted: bool) -> str | None:
    value = (text or "").strip()
    if not wanted:
        if value:
            raise _BadLine(f"{column} is given, but the brand's card type does not show it")
        return None
    if not value:
        raise _BadLine(f"{column} is missing")
    if len(value) > MAX_CODE_CHARACTERS or not value.isprintable():
        raise _BadLine(f"{column} is longer than {MAX_CODE_CHARACTERS} characters or not printable")
    return value


def _valid_till(text: str | None, today: date) -> date:
    if not (text or "").strip():
        return date.max  # PostgreSQL's infinity
    try:
        valid_till = date.fromisoformat((text or "").strip())
    except ValueError:
        raise _BadLine("validTill is not a date (YYYY-MM-DD)") from None
    if valid_till < today:
        raise _BadLine("validTill is past")
    return valid_till
