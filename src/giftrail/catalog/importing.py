"""Brands from a file: JSON or CSV, every row checked, every problem told with its line.

The columns are the specification's names (`id`, `title`, `denominationType`, …), with the members of
`amountRestrictions` either inside it or beside the others, and Giftrail's own `cardType`, `providers`, `currency`.
In CSV a list is written with `|` between its items.
"""

import csv
import io
import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from decimal import Decimal
from pathlib import Path
from typing import Any

from giftrail.catalog import model, rows

LIST_SEPARATOR = "|"
_LISTS = {"category", "tags", "denominations", "termsAndConditions", "providers"}


class FileUnreadable(Exception):
    """The file is no JSON array of objects and no CSV with a header; the message says where."""


def read_brands(path: Path, *, known_providers: AbstractSet[str]) -> tuple[list[model.Brand], list[rows.Problem]]:
    """All brands of the file, and all problems; brands are complete only when there are none.

    Raises FileUnreadable.
    """
    brands, problems = [], []
    lines: dict[str, int] = {}
    for line, raw in _rows(path):
        row = rows.Row(line, raw)
        brand = row.brand(known_providers)
        if brand.brand_id in lines:
            row.complain("id", f"{brand.brand_id!r} stands on line {lines[brand.brand_id]} already")
        lines.setdefault(brand.brand_id, line)
        problems += row.problems
        brands.append(brand)
    return brands, problems


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FileUnreadable(f"{path} cannot be read: {error}") from None
    if path.suffix.lower() == ".csv":
        return _csv_rows(path, text)
    return _json_rows(path, text)


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey=rows.BEHIND_THE_LAST)
    try:
        yield from _read_csv(path, reader)
    except csv.Error as error:
        raise FileUnreadable(f"{path}, line {reader.line_num + 1}: {error}") from None


def _read_csv(path: Path, reader: "csv.DictReader[str]") -> Iterator[tuple[int, dict[str, Any]]]:
    if "id" not in (reader.fieldnames or ()):
        raise FileUnreadable(f"{path} has no column 'id' in its first line")
    for row in reader:
        values: dict[str, Any] = {name: value for name, value in row.items() if value}
        for name in _LISTS & values.keys():
            values[name] = [item.strip() for item in values[name].split(LIST_SEPARATOR) if item.strip()]
        yield reader.line_num, values


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse_constant)
    position = _skip(text, 0)
    if text[position : position + 1] != "[":
        raise FileUnreadable(f"{path} is no JSON array")
    position = _skip(text, position + 1)
    after_comma = False
    while after_comma or text[position : position + 1] != "]":
        line = text.count("\n", 0, position) + 1
        try:
            row, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise FileUnreadable(f"{path}, line {line}: {error}") from None
        if not isinstance(row, dict):
            raise FileUnreadable(f"{path}, line {line}: an object was expected")
        restrictions = row.get("amountRestrictions")
        yield line, (restrictions if isinstance(restrictions, dict) else {}) | row
        position = _skip(text, position)
        after_comma = text[position : position + 1] == ","
        if after_comma:
            position = _skip(text, position + 1)
        elif text[position : position + 1] != "]":
            raise FileUnreadable(f"{path}, line {line}: a comma or ] was expected behind the object")
    if _skip(text, position + 1) != len(text):
        raise FileUnreadable(f"{path}: something stands behind the end of the array")


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _skip(text: str, position: int) -> int:
    while text[position : position + 1] in {" ", "\t", "\r", "\n"}:
        position += 1
    return position
