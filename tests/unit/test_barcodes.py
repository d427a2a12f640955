"""What a till reads of a barcode is the code, whatever it begins with."""

import pytest
import zxingcpp
from hypothesis import example, given
from hypothesis import strategies as st

from giftrail.voucher_page import barcodes

QUIET_MODULES, ROWS, SCALE = 12, 40, 3


def read(code: str) -> str:
    """The code as a reader finds it in its bars, each module three points wide."""
    [modules] = barcodes.Bars(code).build()
    quiet = "0" * QUIET_MODULES
    row = bytes(0 if one == "1" else 255 for one in quiet + modules + quiet for _ in range(SCALE))
    image = memoryview(row * ROWS).cast("B", (ROWS, len(row)))
    [found] = zxingcpp.read_barcodes(image)
    return found.text


@given(code=st.one_of(st.from_regex(r"[0-9]{8,24}", fullmatch=True), st.from_regex(r"[0-9A-Z]{8,24}", fullmatch=True)))
@example("9909H79TANJF0XN1")
@example("9999999999999999999")
@example("99A99B99")
def test_a_code_is_read_as_it_is(code: str) -> None:
    assert read(code) == code


@pytest.mark.parametrize("text", ["ü", "a\nb", "x" * 49])
def test_what_no_barcode_holds_has_none(text: str) -> None:
    assert barcodes.code128(text) is None
