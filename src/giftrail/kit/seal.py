"""Sealing: AES-256-GCM under a ring of keys, bound to the place where the sealed bytes are kept."""

import hashlib
import hmac
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
# Layout: one byte of format, one byte of the key id's length, the key id, the nonce, the ciphertext with its tag.
_FORMAT = 1


class CannotOpen(Exception):
    """The bytes were not sealed by a key of this ring for this place."""


class KeyRing:
    """The keys that open; the first one seals.

    `keys` are (id, 32 bytes) pairs, the current one first. Raises ValueError on a key of another length.
    """

    def __init__(self, keys: Sequence[tuple[str, bytes]]) -> None:
        if not keys:
            raise ValueError("a key ring needs at least one key")
        for key_id, key in keys:
            if len(key) != KEY_BYTES:
                raise ValueError(f"key {key_id!r} has {len(key)} bytes instead of {KEY_BYTES}")
        self.current_id = keys[0][0]
        self._ciphers = {key_id.encode(): AESGCM(key) for key_id, key in keys}
        self._current = self._ciphers[self.current_id.encode()]
        self._head = bytes([_FORMAT, len(self.current_id.encode())]) + self.current_id.encode()

    def seal(self, plain: bytes, *, bound_to: str) -> bytes:
        """The sealed bytes; they open only with the same `bound_to`."""
        nonce = os.urandom(_NONCE_BYTES)
        return self._head + nonce + self._current.encrypt(nonce, plain, bound_to.encode())

    def open(self, sealed: bytes, *, bound_to: str) -> bytes:
        """The plain bytes. Raises CannotOpen."""
        key_end = 2 + sealed[1] if len(sealed) > 1 else 0
        cipher = self._ciphers.get(sealed[2:key_end])
        nonce, ciphertext = sealed[key_end : key_end + _NONCE_BYTES], sealed[key_end + _NONCE_BYTES :]
        if len(ciphertext) < _TAG_BYTES or sealed[0] != _FORMAT:
            raise CannotOpen("these bytes were not sealed here")
        if cipher is None:
            raise CannotOpen(f"no key {sealed[2:key_end]!r} in the ring")
        try:
            return cipher.decrypt(nonce, ciphertext, bound_to.encode())
        except InvalidTag:
            raise CannotOpen("the sealed bytes do not belong here or were changed") from None

    def sealed_by_current(self, sealed: bytes) -> bool:
        """Whether the current key sealed these bytes, so that a rotation may pass them over."""
        return sealed.startswith(self._head)


def digest(key: bytes, *parts: str) -> bytes:
    """HMAC-SHA256 over the parts, unambiguously joined: equal parts are found without being read."""
    joined = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
    return hmac.digest(key, joined, hashlib.sha256)
