"""Every setting, read from `GIFTRAIL_…` in the environment; units stand in the names."""

import base64
import binascii
import ipaddress
import os
import string
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from giftrail.kit import seal

# A key with fewer different bytes than this was typed, not drawn; a random one of 32 bytes has about 30.
MIN_DISTINCT_KEY_BYTES = 16

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Environment(StrEnum):
    """Where the service runs; credentials and tokens of one environment are refused in the other."""

    STAGING = "staging"
    PRODUCTION = "production"


def default_data_dir() -> Path:
    """Where `giftrail up` keeps its database and keys when it is not told."""
    if os.geteuid() == 0:
        return Path("/var/lib/giftrail")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "giftrail"


class Settings(BaseSettings):
    """The service's settings. A wrong value raises pydantic's ValidationError, which names the setting."""

    model_config = SettingsConfigDict(env_prefix="GIFTRAIL_", frozen=True, extra="ignore", hide_input_in_errors=True)

    environment: Environment = Environment.STAGING
    database_url: SecretStr | None = Field(None, description="PostgreSQL 14 or newer; without it the embedded one")
    data_dir: Path = Field(default_factory=default_data_dir, description="the embedded database and the keys")
    postgres_user: str = Field("", description="as whom PostgreSQL runs when we are root; default postgres or nobody")

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    processes: int = Field(1, ge=1, le=256, description="API processes; rate limits are divided by it")
    trusted_proxies: Annotated[tuple[Network, ...], NoDecode] = Field(
        (), description="whose X-Forwarded-For is believed"
    )
    metrics_networks: Annotated[tuple[Network, ...], NoDecode] = Field(
        tuple(map(ipaddress.ip_network, ("127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))),
        description="who may read /metrics",
    )
    egress_addresses: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="shown to partners for their allowlists"
    )

    token_keys: SecretStr | None = Field(None, description="id:Base64 of 32 bytes, comma separated; the first signs")
    vault_keys: SecretStr | None = Field(None, description="id:Base64 of 32 bytes, comma separated; the first seals")
    code_index_key: SecretStr | None = Field(None, description="Base64 of 32 bytes; finds a code without opening it")
    token_lifetime_seconds: int = Field(3600, ge=60, le=86400)

    rate_per_second: int = Field(50, ge=0, description="requests a partner may make; 0 is off")
    rate_burst: int = Field(100, ge=1)
    failed_logins_per_minute: int = Field(10, ge=0, description="per address and clientId; 0 is off")

    read_connections: int = Field(8, ge=1, le=500, description="per process")
    write_connections: int = Field(4, ge=1, le=500, description="per process")
    batch_orders: int = Field(128, ge=1, le=1000, description="orders of one wallet in one transaction")
    batch_vouchers: int = Field(2000, ge=1000, le=20000, description="vouchers in one transaction")
    waiting_orders: int = Field(1024, ge=1, description="callers waiting on one wallet before 503")
    crowded_orders: int = Field(
        48, ge=1, description="the same, of all wallets of a writer, while more orders come than it can place"
    )
    placement_patience_seconds: float = Field(2.0, gt=0, description="a placement not begun by then is refused")
    statement_timeout_seconds: float = Field(10.0, gt=0)

    providers: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description='remote providers as JSON: {"name": {"kind": "upstream", …}}', repr=False
    )
    synchronous_seconds: float = Field(2.0, ge=0, le=30, description="how long Place Order waits for remote providers")
    deadline_seconds: float = Field(780.0, ge=1, le=780, description="an order still PROCESSING then is ended")
    work_in_flight: int = Field(100, ge=1, description="orders a worker takes further at once")
    work_poll_seconds: float = Field(0.25, gt=0, le=5, description="how often a worker looks for due work")
    work_lease_seconds: float = Field(90.0, gt=0, description="until work of a worker that died is taken over")
    work_renew_seconds: float = Field(15.0, gt=0, description="how often a worker renews its leases")
    work_stop_seconds: float = Field(10.0, ge=0, description="how long a stopping worker lets its work end")

    webhook_networks: Annotated[tuple[Network, ...], NoDecode] = Field(
        (), description="private networks that webhooks may call, over plain http too; none but for development"
    )
    webhook_in_flight: int = Field(500, ge=1, description="webhooks a worker sends at once")
    webhook_per_endpoint: int = Field(20, ge=1, description="webhooks sent to one endpoint at once")
    webhook_lease_seconds: float = Field(60.0, ge=45, description="until a webhook of a worker that died is sent again")
    public_url: str = Field("http://127.0.0.1:8080", description="where recipients open the voucher page")
    delivery_folder: Path | None = Field(None, description="development: messages to recipients are written here")
    smtp_host: str = Field("", description="the mail server; without it there is no e-mail to recipients")
    smtp_port: int = Field(587, ge=1, le=65535)
    smtp_security: Literal["tls", "starttls", "none"] = "starttls"
    smtp_user: str = ""
    smtp_password: SecretStr | None = None
    mail_from: str = Field("", description="the sender's address of e-mails")
    sms_url: str = Field("", description="an SMS gateway: a POST for each message; with Twilio, where its API is")
    sms_body: str = Field(
        '{"to": "$to", "from": "$from", "text": "$text"}', description="its JSON, with $to, $from, $text and $id"
    )
    sms_headers: dict[str, SecretStr] = Field(default_factory=dict, description="its headers as JSON, secrets too")
    sms_from: str = Field("", description="the sender's number or name of text messages")
    twilio_account: str = Field("", description="text messages by Twilio: the account's SID")
    twilio_token: SecretStr | None = Field(None, description="its token")
    emails_per_second: float = Field(10.0, gt=0, description="per worker process")
    sms_per_second: float = Field(5.0, gt=0, description="per worker process")
    delivery_timeout_seconds: float = Field(30.0, gt=0, le=35, description="of each step with a mail server or gateway")
    resend_cooldown_seconds: float = Field(3600.0, ge=0, description="between two deliveries of an order by a channel")
    resends_per_day: int = Field(3, ge=0, description="deliveries of an order by a channel that are asked for again")
    reveals_per_hour: int = Field(30, ge=1, description="how often an order's codes are shown on the voucher page")
    event_days: int = Field(90, ge=1, description="how long events and their deliveries are kept")
    attempt_days: int = Field(30, ge=1, description="how long attempts are kept")
    worker_metrics_port: int = Field(0, ge=0, le=65535, description="/metrics of `giftrail work`; 0 is off")

    poll_seconds: float = Field(0.25, gt=0, le=1, description="how often a process looks for changed rules")
    stale_after_seconds: float = Field(5.0, gt=0, description="a process that could not look answers 503")
    body_timeout_seconds: float = Field(10.0, gt=0)
    header_timeout_seconds: float = Field(10.0, gt=0)
    keep_alive_seconds: int = Field(75, ge=1)
    audit_every_seconds: float = Field(3600.0, ge=0, description="the periodic audit of a worker; 0 is off")
    low_stock_codes: int = Field(100, ge=0, description="fewer unsold codes of a denomination raise an alert")

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    access_log: Literal["all", "errors", "off"] = "all"

    @field_validator("trusted_proxies", "metrics_networks", "egress_addresses", "webhook_networks", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("database_url", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return value or None

    @model_validator(mode="after")
    def _delivery_is_whole(self) -> "Settings":
        if self.smtp_host and "@" not in self.mail_from:
            raise ValueError("GIFTRAIL_MAIL_FROM must be an e-mail address when GIFTRAIL_SMTP_HOST is set")
        if self.twilio_account and (self.twilio_token is None or not self.sms_from):
            raise ValueError("GIFTRAIL_TWILIO_ACCOUNT needs GIFTRAIL_TWILIO_TOKEN and GIFTRAIL_SMS_FROM")
        try:
            string.Template(self.sms_body).substitute(dict.fromkeys(("to", "from", "text", "id"), ""))
        except (KeyError, ValueError) as error:
            raise ValueError(f"GIFTRAIL_SMS_BODY: {error} is none of $to, $from, $text and $id") from None
        has_channel = self.smtp_host or self.sms_url or self.twilio_account
        if has_channel and self.environment is Environment.PRODUCTION and not self.public_url.startswith("https://"):
            raise ValueError("GIFTRAIL_PUBLIC_URL must be an https address in production: vouchers are opened there")
        return self

    @model_validator(mode="after")
    def _keys_are_sound(self) -> "Settings":
        for name in ("token_keys", "vault_keys", "code_index_key"):
            secret: SecretStr | None = getattr(self, name)
            if secret is not None:
                try:
                    keys = read_keys(secret) if name != "code_index_key" else (("", read_index_key(secret)),)
                except ValueError as error:
                    raise ValueError(f"GIFTRAIL_{name.upper()}: {error}") from None
                for key_id, key in keys:
                    _check_strength(name, key_id, key)
            elif self.environment is Environment.PRODUCTION:
                raise ValueError(f"GIFTRAIL_{name.upper()} must be set in production")
        return self


def read_keys(secret: SecretStr) -> tuple[tuple[str, bytes], ...]:
    """The (id, key) pairs of `id:Base64,id:Base64`. Raises ValueError without telling a key."""
    pairs = []
    for part in secret.get_secret_value().split(","):
        key_id, colon, encoded = part.strip().partition(":")
        if not colon or not key_id or len(key_id) > 32:
            raise ValueError("a key is written id:Base64, with an id of 1 to 32 characters")
        pairs.append((key_id, _read_key(encoded)))
    if len({key_id for key_id, _ in pairs}) != len(pairs):
        raise ValueError("two keys have the same id")
    return tuple(pairs)


def read_index_key(secret: SecretStr) -> bytes:
    """The key that finds codes. Raises ValueError."""
    return _read_key(secret.get_secret_value())


def _read_key(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a key is not valid Base64") from None


def _check_strength(name: str, key_id: str, key: bytes) -> None:
    label = f"GIFTRAIL_{name.upper()}" + (f" key {key_id!r}" if key_id else "")
    if len(key) != seal.KEY_BYTES:
        raise ValueError(f"{label} has {len(key)} bytes; draw {seal.KEY_BYTES} random ones (giftrail keys)")
    if len(set(key)) < MIN_DISTINCT_KEY_BYTES:
        raise ValueError(f"{label} is weak: it was not drawn at random (giftrail keys draws one)")
