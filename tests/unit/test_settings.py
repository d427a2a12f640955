import base64
import ipaddress
import os
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from giftrail import settings
from giftrail.cli import desk
from giftrail.settings import Environment, Settings

KEY_NAMES = ("token_keys", "vault_keys", "code_index_key")


def drawn(length: int = 32) -> str:
    return base64.b64encode(os.urandom(length)).decode()


def sound(**changes: str | None) -> dict[str, Any]:
    keys = {"token_keys": f"k1:{drawn()}", "vault_keys": f"k1:{drawn()}", "code_index_key": drawn()}
    return {"environment": "production"} | {name: value for name, value in (keys | changes).items() if value}


@pytest.fixture(autouse=True)
def _no_settings_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("GIFTRAIL_"):
            monkeypatch.delenv(name)


def refused(**values: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Settings(**values)
    return str(caught.value)


def test_staging_needs_nothing() -> None:
    made = Settings()
    assert made.environment is Environment.STAGING
    assert made.database_url is None
    assert (made.rate_per_second, made.rate_burst, made.failed_logins_per_minute) == (50, 100, 10)
    assert made.trusted_proxies == ()


def test_production_takes_sound_keys_and_shows_them_to_nobody() -> None:
    values = sound()
    made = Settings(**values)
    for name in KEY_NAMES:
        secret = values[name].rpartition(":")[2]
        assert secret not in repr(made) + str(made.model_dump()) + made.model_dump_json()


@pytest.mark.parametrize("name", KEY_NAMES)
def test_production_refuses_a_missing_key_by_its_name(name: str) -> None:
    assert f"GIFTRAIL_{name.upper()} must be set in production" in refused(**sound(**{name: None}))


@pytest.mark.parametrize("environment", ["production", "staging"])
@pytest.mark.parametrize("name", KEY_NAMES)
@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        (base64.b64encode(b"\0" * 32).decode(), "weak"),
        (base64.b64encode(b"secretsecretsecretsecretsecretse").decode(), "weak"),
        (base64.b64encode(bytes(range(15)) + bytes(17)).decode(), "weak"),
        (base64.b64encode(bytes(range(31))).decode(), "31 bytes"),
        (base64.b64encode(bytes(range(33))).decode(), "33 bytes"),
        (base64.b64encode(b"short").decode(), "5 bytes"),
        ("not-base64-at-all!", "Base64"),
        ("QUJD*UVG", "Base64"),
    ],
)
def test_a_weak_short_or_broken_key_is_refused_without_being_told(
    environment: str, name: str, encoded: str, why: str
) -> None:
    value = encoded if name == "code_index_key" else f"k7:{encoded}"
    message = refused(**sound(**{name: value}) | {"environment": environment})
    assert why in message
    assert f"GIFTRAIL_{name.upper()}" in message
    assert encoded not in message


@pytest.mark.parametrize("name", ["token_keys", "vault_keys"])
@pytest.mark.parametrize(
    "written",
    [drawn(), f":{drawn()}", f"{'x' * 33}:{drawn()}", f"k1:{drawn()},", f"k1:{drawn()},k1:{drawn()}", ","],
    ids=["no id", "empty id", "long id", "comma at the end", "one id twice", "only a comma"],
)
def test_a_key_list_of_another_form_is_refused_by_its_name_without_being_told(name: str, written: str) -> None:
    message = refused(**sound(**{name: written}))
    assert f"GIFTRAIL_{name.upper()}" in message
    for part in written.split(","):
        secret = part.rpartition(":")[2]
        assert not secret or secret not in message


def test_two_keys_are_read_in_their_order() -> None:
    first, second = os.urandom(32), os.urandom(32)
    written = f"new:{base64.b64encode(first).decode()}, old:{base64.b64encode(second).decode()}"
    assert settings.read_keys(SecretStr(written)) == (("new", first), ("old", second))


def test_the_command_line_tells_a_bad_key_in_one_sentence_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    weak = base64.b64encode(b"a" * 32).decode()
    for name, value in sound(vault_keys=f"k1:{weak}").items():
        monkeypatch.setenv(f"GIFTRAIL_{name.upper()}", value)
    with pytest.raises(desk.CommandFailed) as caught:
        desk.load_settings(None)
    message = str(caught.value)
    assert "GIFTRAIL_VAULT_KEYS" in message
    assert "weak" in message
    assert weak not in message
    assert "\n" not in message


def test_networks_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIFTRAIL_TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.7 ,2001:db8::/32,,")
    monkeypatch.setenv("GIFTRAIL_METRICS_NETWORKS", "")
    monkeypatch.setenv("GIFTRAIL_EGRESS_ADDRESSES", "198.51.100.1,198.51.100.2")
    made = Settings()
    expected = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32")))
    assert made.trusted_proxies == expected
    assert made.metrics_networks == ()
    assert made.egress_addresses == ("198.51.100.1", "198.51.100.2")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRUSTED_PROXIES", "10.0.0.1/8"),
        ("TRUSTED_PROXIES", "10.0.0.0/33"),
        ("TRUSTED_PROXIES", "proxy.example"),
        ("METRICS_NETWORKS", "10.0.0.0/8,everyone"),
        ("ENVIRONMENT", "prod"),
        ("ENVIRONMENT", "PRODUCTION"),
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", "http"),
        ("PROCESSES", "0"),
        ("RATE_PER_SECOND", "-1"),
        ("RATE_PER_SECOND", "1.5"),
        ("RATE_BURST", "0"),
        ("POLL_SECONDS", "0"),
        ("POLL_SECONDS", "1.1"),
        ("POLL_SECONDS", "nan"),
        ("STALE_AFTER_SECONDS", "nan"),
        ("PLACEMENT_PATIENCE_SECONDS", "0"),
        ("PLACEMENT_PATIENCE_SECONDS", "nan"),
        ("BATCH_ORDERS", "0"),
        ("BATCH_VOUCHERS", "999"),
        ("TOKEN_LIFETIME_SECONDS", "59"),
        ("LOG_LEVEL", "LOUD"),
        ("ACCESS_LOG", "some"),
        ("WRITE_CONNECTIONS", "0"),
    ],
)
def test_a_bad_value_is_refused_by_the_setting_s_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"GIFTRAIL_{name}", value)
    with pytest.raises(desk.CommandFailed) as caught:
        desk.load_settings(None)
    assert f"GIFTRAIL_{name}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_database_address_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIFTRAIL_DATABASE_URL", "")
    assert Settings().database_url is None


def test_a_setting_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(Settings(), "port", 1)  # noqa: B010 — mypy knows that it cannot be set
