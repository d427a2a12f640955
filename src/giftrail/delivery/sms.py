"""Text messages over HTTP: Twilio's API, or a gateway that the operator describes."""

import base64
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
import msgspec

from giftrail.delivery import message, protocol

MAX_ANSWER_BYTES = 4096
# Twilio: the number does not exist, cannot be reached, is no mobile one, or wants nothing from us.
TWILIO_NUMBER_ERRORS = frozenset({21211, 21214, 21217, 21407, 21408, 21610, 21612, 21614})
TWILIO_URL = "https://api.twilio.com"
_TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class Gateway:
    """A POST for each message. In `body` (a JSON text) $to, $text, $from and $id stand for what is sent."""

    url: str
    body: str
    headers: Mapping[str, str] = field(repr=False)
    sender: str


@dataclass(frozen=True, slots=True)
class Twilio:
    """An account of Twilio's."""

    account_sid: str
    token: str = field(repr=False)
    sender: str
    base_url: str = TWILIO_URL


class Sms:
    """Sends through one of them."""

    def __init__(self, way: Gateway | Twilio, *, timeout_seconds: float) -> None:
        self._way = way
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, parcel: protocol.Parcel) -> protocol.Result:
        """Hand the message in."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, trust_env=False)
        try:
            async with self._post(self._session, parcel) as answer:
                if answer.ok and answer.status < 300:
                    return protocol.Sent()  # whatever becomes of the rest of the answer
                return _judge(answer.status, await answer.content.read(MAX_ANSWER_BYTES))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return protocol.NotNow(f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _post(self, session: aiohttp.ClientSession, parcel: protocol.Parcel) -> "aiohttp.client._RequestContextManager":
        way, text = self._way, parcel.message.text
        if isinstance(way, Twilio):
            url = f"{way.base_url}/2010-04-01/Accounts/{way.account_sid}/Messages.json"
            form = {"To": parcel.address, "From": way.sender, "Body": text}
            account = base64.b64encode(f"{way.account_sid}:{way.token}".encode()).decode()
            return session.post(url, data=form, headers={"Authorization": f"Basic {account}"}, allow_redirects=False)
        values = {"to": parcel.address, "text": text, "from": way.sender, "id": parcel.parcel_id}
        # Each value is written as JSON writes it inside a string, so that nothing in it ends the string.
        inside = {name: msgspec.json.encode(value).decode()[1:-1] for name, value in values.items()}
        body = string.Template(way.body).substitute(inside)
        headers = {"Content-Type": "application/json", "Idempotency-Key": parcel.parcel_id, **way.headers}
        return session.post(way.url, data=body.encode(), headers=headers, allow_redirects=False)


def _judge(status: int, body: bytes) -> protocol.Result:
    reason = message.one_line(f"{status} {body.decode('utf-8', 'replace')}")
    if 400 <= status < 500 and status not in {401, 403, 408, _TOO_MANY}:
        return protocol.Refused(reason, bounced=_code(body) in TWILIO_NUMBER_ERRORS)
    return protocol.NotNow(reason)


def _code(body: bytes) -> object:
    try:
        members = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    return members.get("code") if isinstance(members, dict) else None
