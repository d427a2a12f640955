"""Logs: one JSON object a line on standard error, with secrets scrubbed."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

# A member of these names never reaches a log, wherever it came from.
SECRET_NAMES = frozenset(
    {
        "authorization", "cardnumber", "cardpin", "card_number", "card_pin", "clientsecret", "client_secret",
        "code", "database_url", "key", "password", "pin", "secret", "signing_secret", "token",
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
    for name, value in record.items():
        if name.lower() in SECRET_NAMES:
            record[name] = _SCRUBBED
        elif isinstance(value, dict):
            record[name] = scrub(None, "", dict(value))
    return record


def _render(_: Any, __: str, record: MutableMapping[str, Any]) -> str:
    return _encode(record).decode()
