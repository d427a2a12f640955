"""What a till can read of a code, as pictures inside the page."""

import base64

import barcode
import barcode.writer
import segno

# Code 128 holds printable ASCII; anything else has a QR code alone.
_MAX_CODE128_CHARACTERS = 48


class Bars(barcode.Code128):  # type: ignore[misc]  # the library has no types
    """The library's, but for its last step, which takes 99 in front of a code for a switch and drops it."""

    def _try_to_optimize(self, encoded: list[int]) -> list[int]:
        return encoded


def qr(text: str) -> str:
    """A QR code as a data: address."""
    uri: str = segno.make_qr(text, error="m").svg_data_uri(scale=6, border=4, dark="#000", light="#fff")
    return uri


def code128(text: str) -> str | None:
    """A Code 128 barcode as a data: address, or None when the text does not fit one."""
    if not text.isascii() or not text.isprintable() or len(text) > _MAX_CODE128_CHARACTERS:
        return None
    made = Bars(text, writer=barcode.writer.SVGWriter())
    svg: bytes = made.render({"write_text": False, "module_height": 18.0, "module_width": 0.33, "quiet_zone": 4.0})
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
