"""JSON with exact numbers: Decimals in, Decimals out, never binary floating point in between."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def decode(body: bytes) -> Any:
    """The value; numbers with a point or an exponent are Decimals. Raises ValueError."""
    return json.loads(body, parse_float=Decimal)


def encode(value: Any) -> bytes:
    """The value as JSON; Decimals as JSON numbers. Raises TypeError, ValueError."""
    return "".join(_pieces(value)).encode()


def _pieces(value: Any) -> list[str]:
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a number that JSON has")
        return [format(value, "f")]
    if isinstance(value, dict):
        pieces = ["{"]
        for number, (name, item) in enumerate(value.items()):
            pieces += ["," if number else "", json.dumps(str(name)), ":", *_pieces(item)]
        return [*pieces, "}"]
    if isinstance(value, (list, tuple)):
        pieces = ["["]
        for number, item in enumerate(value):
            pieces += ["," if number else "", *_pieces(item)]
        return [*pieces, "]"]
    return [json.dumps(value, allow_nan=False)]


def amount(value: Any) -> Decimal:
    """An amount as given: int, str or Decimal; a float is taken as it is printed. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, str, float, Decimal)):
        raise ValueError(f"{value!r} is not an amount")  # noqa: TRY004 — one error for whatever is no amount
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        raise ValueError(f"{value!r} is not an amount") from None
    if not number.is_finite():
        raise ValueError(f"{value!r} is not an amount")
    return number
