"""For development: writes what would be sent into a folder, an .eml or a .txt for each message."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from giftrail.delivery import email, protocol

SENDER = "vouchers@giftrail.example"


class Folder:
    """Takes messages of every channel."""

    def __init__(self, folder: Path, *, now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._now = now

    async def send(self, parcel: protocol.Parcel) -> protocol.Result:
        """Write the message; written again it replaces itself."""
        try:
            await asyncio.to_thread(self._write, parcel)
        except OSError as error:
            return protocol.NotNow(str(error))
        return protocol.Sent()

    async def close(self) -> None:
        """Nothing is held open."""

    def _write(self, parcel: protocol.Parcel) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if parcel.message.html:
            mail = email.compose(parcel, sender=SENDER, at=self._now())
            (self._folder / f"{parcel.parcel_id}.eml").write_bytes(bytes(mail))
        else:
            text = f"To: {parcel.address}\n\n{parcel.message.text}\n"
            (self._folder / f"{parcel.parcel_id}.txt").write_text(text, "utf-8")
