"""E-mail by SMTP: over TLS, text and HTML, refused for good on 5xx, tried again on 4xx and on broken connections."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email import charset, policy
from email.header import Header
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from email.utils import format_datetime, formataddr

import aiosmtplib

from giftrail.delivery import message, protocol

PERMANENT = 500
_POLICY = policy.compat32.clone(linesep="\r\n")
_TEXT = charset.Charset("utf-8")
_TEXT.body_encoding = charset.QP
# The operator's settings are wrong, not the message: it waits for them.
OUR_FAULT_STATUSES = frozenset({530, 534, 535, 538})
MAILBOX_STATUSES = frozenset({550, 551, 552, 553, 554})


@dataclass(frozen=True, slots=True)
class Server:
    """Where mail is handed in. `security` is "tls" from the first byte, "starttls", or "none" on a trusted network."""

    host: str
    port: int
    security: str
    user: str | None
    password: str | None
    sender: str
    timeout_seconds: float

    def __repr__(self) -> str:
        """Without the password."""
        return f"Server({self.host}:{self.port}, {self.security})"


class Email:
    """A connection for each message: a mail server is asked seldom, and a connection that waits is cut off."""

    def __init__(self, server: Server, *, now: Callable[[], datetime]) -> None:
        self._server = server
        self._now = now
        self._tls = ssl.create_default_context()

    async def send(self, parcel: protocol.Parcel) -> protocol.Result:
        """Hand the message in."""
        server = self._server
        if message.one_line(parcel.address) != parcel.address:
            return protocol.Refused("the address holds characters that no address has")
        try:
            mail = compose(parcel, sender=server.sender, at=self._now())
            async with aiosmtplib.SMTP(
                hostname=server.host,
                port=server.port,
                use_tls=server.security == "tls",
                start_tls=server.security == "starttls",
                username=server.user,
                password=server.password,
                timeout=server.timeout_seconds,
                tls_context=self._tls if server.security != "none" else None,
            ) as smtp:
                await smtp.send_message(mail, sender=server.sender, recipients=[parcel.address])
        except aiosmtplib.SMTPRecipientsRefused as refused:
            return _judge(refused.recipients[0].code, refused.recipients[0].message, at_recipient=True)
        except aiosmtplib.SMTPAuthenticationError as error:
            return protocol.NotNow(f"the mail server does not know us: {error.code} {error.message}")
        except aiosmtplib.SMTPResponseException as error:
            return _judge(error.code, error.message, at_recipient=False)
        except aiosmtplib.SMTPNotSupported as error:
            return protocol.Refused(f"the mail server does not take this address: {error}")
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            return protocol.NotNow(f"{type(error).__name__}: {error}")
        except ValueError as error:
            return protocol.Refused(f"the message cannot be written: {error}")
        return protocol.Sent()

    async def close(self) -> None:
        """Nothing is held open."""


def compose(parcel: protocol.Parcel, *, sender: str, at: datetime) -> MIMEMultipart:
    """The mail: text and HTML, in bytes that every mail server passes."""
    mail = MIMEMultipart("alternative", policy=_POLICY)
    mail["From"] = formataddr((message.one_line(parcel.from_name), sender))
    mail["To"] = message.one_line(parcel.address)
    # Written by `Header`: the newer policy of Python 3.11 loses spaces between the words of a long subject.
    subject = Header(message.one_line(parcel.message.subject), "utf-8", header_name="Subject")
    mail["Subject"] = subject.encode()
    if parcel.reply_to:
        mail["Reply-To"] = message.one_line(parcel.reply_to)
    mail["Date"] = format_datetime(at)
    # The same at each try, so that a mail that arrived twice can be told by its reader's program.
    mail["Message-ID"] = f"<{parcel.parcel_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.attach(_part(parcel.message.text, "plain"))
    mail.attach(_part(parcel.message.html, "html"))
    return mail


def _part(text: str, subtype: str) -> MIMENonMultipart:
    part = MIMENonMultipart("text", subtype, policy=_POLICY)
    part.set_payload(text, _TEXT)
    return part


def _judge(code: int, text: str, *, at_recipient: bool) -> protocol.Result:
    reason = f"{code} {message.one_line(text)}"
    if code >= PERMANENT and (at_recipient or code not in OUR_FAULT_STATUSES):
        return protocol.Refused(reason, bounced=at_recipient and code in MAILBOX_STATUSES)
    return protocol.NotNow(reason)
