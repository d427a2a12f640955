import json
import subprocess
import sys
from typing import Any

import pytest

from giftrail.kit import log

SECRET = "6006491727270001"


def scrubbed(record: dict[str, Any]) -> str:
    return json.dumps(log.scrub(None, "", record), default=str)


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "Authorization", "cardNumber", "cardPin", "card_number", "card_pin", "clientSecret",
        "client_secret", "code", "database_url", "key", "password", "pin", "secret", "signing_secret", "signingSecret",
        "token", "Token", "TOKEN",
    ],
)  # fmt: skip
def test_a_secret_s_name_hides_its_value(name: str) -> None:
    assert SECRET not in scrubbed({"event": "x", name: SECRET})


@pytest.mark.parametrize(
    "record",
    [
        {"headers": {"authorization": SECRET}},
        {"a": {"b": {"c": {"d": {"cardPin": SECRET}}}}},
        {"vouchers": [{"id": "vch_1", "cardNumber": SECRET}]},
        {"vouchers": ({"cardNumber": SECRET},)},
        {"order": {"vouchers": [[{"cardNumber": SECRET}]]}},
        {"code": {"number": SECRET}},
        {"code": [SECRET]},
        {"lines": {100: {"pin": SECRET}}},
    ],
    ids=["one deep", "deep", "in a list", "in a tuple", "in a list in a list", "an object", "a list", "under a number"],
)
def test_secrets_are_scrubbed_at_any_depth(record: dict[str, Any]) -> None:
    assert SECRET not in scrubbed(record)


def test_what_is_no_secret_stays_and_the_caller_s_objects_too() -> None:
    inner = {"token": SECRET, "partner": "prt_1"}
    record = {"event": "login", "status": 200, "body": inner, "lines": {"100": 2}, "keys": ["a"]}
    found = log.scrub(None, "", dict(record))
    assert found == record | {"body": {"token": "[scrubbed]", "partner": "prt_1"}}
    assert inner["token"] == SECRET


def test_a_record_with_numbers_for_names_is_logged() -> None:
    assert scrubbed({"event": "x", "lines": {100: 2}}) == '{"event": "x", "lines": {"100": 2}}'


PROGRAM = f"""
import logging, structlog
from giftrail.kit import log
log.configure(level="INFO")
own = structlog.get_logger()
own.info("told", partner="prt_1", body={{"cardPin": "{SECRET}"}})
own.debug("too quiet")
logging.getLogger("asyncio").warning("from a library", extra={{"password": "{SECRET}"}})
try:
    raise RuntimeError("broken")
except RuntimeError:
    own.exception("failed", when=RuntimeError("odd value"))
"""


def test_a_log_is_one_json_object_a_line_on_standard_error() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert SECRET not in done.stderr
    told, library, failed = (json.loads(line) for line in done.stderr.splitlines())
    assert told | {"timestamp": ""} == {
        "event": "told", "partner": "prt_1", "body": {"cardPin": "[scrubbed]"}, "level": "info", "timestamp": "",
    }  # fmt: skip
    assert (library["event"], library["level"]) == ("from a library", "warning")
    assert "RuntimeError: broken" in failed["exception"]
