"""Pictures of brands, kept here so that the voucher page asks no other host for them."""

from datetime import datetime

from giftrail.db import pool
from giftrail.delivery import store

MAX_BYTES = 300_000
# How files of each kind begin; nothing else, and no SVG, which can hold a program, is shown.
_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/webp": (b"RIFF",),
}


class PictureRefused(ValueError):
    """Bytes that are no picture the page could show; the message says why."""


def read_media_type(content: bytes) -> str:
    """The media type of a picture. Raises PictureRefused."""
    if len(content) > MAX_BYTES:
        raise PictureRefused(f"it has {len(content)} bytes, more than {MAX_BYTES}")
    for media_type, signatures in _SIGNATURES.items():
        if content.startswith(signatures) and (media_type != "image/webp" or content[8:12] == b"WEBP"):
            return media_type
    raise PictureRefused("it is neither PNG nor JPEG nor WebP")


async def keep_picture(conn: pool.Connection, *, brand_id: str, media_type: str, content: bytes, now: datetime) -> None:
    """Keep the brand's picture, instead of the one before, inside the caller's transaction."""
    await store.upsert_picture(conn, brand_id=brand_id, media_type=media_type, content=content, now=now)
