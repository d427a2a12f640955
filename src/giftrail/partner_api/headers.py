"""A request's headers, read as they are asked for."""

from collections.abc import Sequence


class Headers:
    """Headers by lower-case name; the values of one that stands more than once are joined by a comma."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._values = dict(pairs)
        if len(self._values) < len(pairs):
            for name in self._values:
                self._values[name] = b",".join(value for other, value in pairs if other == name)

    def get(self, name: str) -> str | None:
        """The value, None when the header is not there."""
        value = self._values.get(name.encode())
        return None if value is None else value.decode("latin-1")
