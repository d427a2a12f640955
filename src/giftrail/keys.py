"""The keys of this installation: drawn at random, kept in the data directory, or set in the environment."""

import base64
import contextlib
import os
import secrets
from pathlib import Path

import msgspec
from pydantic import SecretStr

from giftrail.kit import seal
from giftrail.providers import protocol
from giftrail.settings import Environment, Settings, read_index_key, read_keys

KEYS_FILE = "keys.json"


def draw_keys() -> dict[str, str]:
    """New random keys, by the names of their settings."""

    def key() -> str:
        return base64.b64encode(secrets.token_bytes(seal.KEY_BYTES)).decode()

    return {"token_keys": f"k1:{key()}", "vault_keys": f"k1:{key()}", "code_index_key": key()}


def with_keys(settings: Settings) -> Settings:
    """The settings, with the keys of the data directory where none are set; drawn there at the first time.

    Raises OSError. Production never comes here without keys: its settings demand them.
    """
    missing = [name for name in ("token_keys", "vault_keys", "code_index_key") if getattr(settings, name) is None]
    if not missing or settings.environment is Environment.PRODUCTION:
        return settings
    path = settings.data_dir / KEYS_FILE
    with contextlib.suppress(FileExistsError):
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        half_made = Path(f"{path}.{os.getpid()}")
        descriptor = os.open(half_made, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(draw_keys())))
        try:
            os.link(half_made, path)  # whole or not at all, and never over keys that are there
        finally:
            half_made.unlink()
    kept = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    return settings.model_copy(update={name: SecretStr(kept[name]) for name in missing})


def code_keys(settings: Settings) -> protocol.Keys:
    """The keys of the codes."""
    if settings.vault_keys is None or settings.code_index_key is None:
        raise AssertionError("keys are set before they are used")
    return protocol.Keys(
        ring=seal.KeyRing(read_keys(settings.vault_keys)), index_key=read_index_key(settings.code_index_key)
    )
