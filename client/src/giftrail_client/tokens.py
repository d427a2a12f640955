"""The access token: cached until it is 80 % of its life old, shared by whoever shares its store."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

# The specification: refresh at about 80 percent of the lifetime.
REFRESH_AT = 0.8


@dataclass(frozen=True)
class Token:
    """A token; times in seconds since the epoch. Its text is not in its repr."""

    text: str
    obtained_at: float
    lifetime_seconds: float

    def is_fresh(self, now: float) -> bool:
        """Whether to use it rather than to log in again."""
        return self.obtained_at <= now + 1 and now < self.obtained_at + REFRESH_AT * self.lifetime_seconds

    def __repr__(self) -> str:
        """Nothing that could be used."""
        return f"Token(…, obtained_at={self.obtained_at}, lifetime_seconds={self.lifetime_seconds})"


class TokenStore(Protocol):
    """Where the token is kept. One that several processes share saves logins; it is never asked for anything else."""

    def load(self) -> Token | None:
        """The token kept, if there is one."""
        ...

    def save(self, token: Token) -> None:
        """Keep the token instead of the one before."""
        ...


class MemoryTokenStore:
    """Keeps the token in this process."""

    def __init__(self) -> None:
        self._token: Token | None = None

    def load(self) -> Token | None:
        """The token kept, if there is one."""
        return self._token

    def save(self, token: Token) -> None:
        """Keep the token instead of the one before."""
        self._token = token


class FileTokenStore:
    """Keeps the token in a file of mode 0600 that the processes of one user share."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def load(self) -> Token | None:
        """The token in the file; None when there is no file, or something else in it."""
        try:
            return Token(**json.loads(self._path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def save(self, token: Token) -> None:
        """Write the file whole or not at all. Raises OSError."""
        descriptor, half_made = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(token), file)
        Path(half_made).replace(self._path)
