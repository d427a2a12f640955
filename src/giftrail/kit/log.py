"""Logs: one JSON object a line on standard error, with secrets scrubbed."""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec
import structlog

# A member of these names, in whatever spelling, never reaches a log.
SECRET_NAMES = frozenset(
    {
        "authorization", "cardnumber", "cardpin", "clientsecret", "code", "databaseurl", "key", "password", "pin",
        "secret", "signingsecret", "token",
    }
)  # fmt: skip
_SCRUBBED = "[scrubbed]"
_encode = msgspec.json.Encoder(enc_hook=str).encode


def configure(*, level: str) -> None:
    """Send structlog's and the standard library's records of `level` and above to standard error as JSON."""
    threshold = logging.getLevelNamesMapping()[level]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        scrub,
    ]
    structlog.configure(
        processors=[*shared, _render],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)


def scrub(_: Any, __: str, record: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace every value that stands under a secret's name, at any depth."""
    return {
        name: _SCRUBBED if str(name).replace("_", "").lower() in SECRET_NAMES else _scrubbed(value)
        for name, value in record.items()
    }


def _scrubbed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return scrub(None, "", dict(value))
    if isinstance(value, list | tuple | set | frozenset):
        return [_scrubbed(item) for item in value]
    return value


def _render(_: Any, __: str, record: MutableMapping[str, Any]) -> str:
    return _encode(record).decode()
