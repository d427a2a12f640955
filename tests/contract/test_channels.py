"""What every channel promises, over real sockets: sent, refused for good, not now; and what each of them writes."""

import asyncio
import base64
import json
import re
import socket
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd import smtp
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from giftrail.delivery import email as mail_channel
from giftrail.delivery import file, message, protocol, recipients, sms
from post import DROP, HANG, SENDER, Gateway, MailServer, gateway, mail_server, part_of, read_mail

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
TIMEOUT_SECONDS = 0.5
PATIENCE_SECONDS = 20.0
TWILIO_NUMBER_ERRORS = (21211, 21614, 21610)
HINDI = "Asha ने आपको Chai Verandah का गिफ़्ट वाउचर भेजा है"


def now() -> datetime:
    return AT


MAIL = protocol.Parcel(
    parcel_id="dlv_0123456789",
    address="meera@example.com",
    from_name="Acme Rewards",
    reply_to="help@acme.example",
    message=message.Message(
        subject="Asha sent you a gift voucher",
        text="Hello Meera,\n\n.a line with a dot\nनमस्ते " + "x" * 2000,
        html="<p>Hello Meera, नमस्ते</p>" + "<br>" * 600,
    ),
)
TEXT = replace(MAIL, address="+919820000001", message=message.Message("", 'Asha said "hi" \\ नमस्ते: https://x', ""))


@dataclass
class Station:
    """A channel and how the other side is told what to do."""

    channel: protocol.Channel
    parcel: protocol.Parcel
    taken: Callable[[], int]
    tell: Callable[[str], None]
    elsewhere: Callable[[int], protocol.Channel]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def mail_to(port: int, **members: Any) -> mail_channel.Email:
    server = mail_channel.Server(
        host="127.0.0.1",
        port=port,
        security="none",
        user=None,
        password=None,
        sender=SENDER,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    return mail_channel.Email(replace(server, **members), now=now)


_opened: list[sms.Sms] = []


@pytest.fixture(autouse=True)
async def _close_them() -> AsyncIterator[None]:
    yield
    while _opened:
        await _opened.pop().close()


def twilio_at(url: str) -> sms.Sms:
    return opened(sms.Twilio("AC1", "a token", "+15005550006", url))


def gateway_at(url: str) -> sms.Sms:
    body = '{"to": "$to", "from": "$from", "text": "$text", "id": "$id"}'
    return opened(sms.Gateway(f"{url}/send", body, {"X-Key": "a key"}, "GIFTS"))


def opened(way: sms.Gateway | sms.Twilio) -> sms.Sms:
    _opened.append(sms.Sms(way, timeout_seconds=TIMEOUT_SECONDS))
    return _opened[-1]


@pytest.fixture
def post_office() -> Iterator[MailServer]:
    with mail_server() as made:
        yield made


@pytest.fixture
def phones() -> Iterator[Gateway]:
    with gateway() as made:
        yield made


@pytest.fixture(params=["email", "twilio", "gateway"])
def station(request: pytest.FixtureRequest, post_office: MailServer, phones: Gateway) -> Station:
    if request.param == "email":
        said: dict[str, tuple[str, str]] = {
            "refuse": ("DATA", "554 no"),
            "bounce": ("RCPT", "550 no such user"),
            "not now": ("RCPT", "451 later"),
            DROP: ("DATA", DROP),
            HANG: ("DATA", HANG),
        }

        def tell_mail(what: str) -> None:
            verb, answer = said[what]
            post_office.answers[verb].append(answer)

        made = Station(mail_to(post_office.port), MAIL, lambda: len(post_office.taken), tell_mail, mail_to)
    else:
        answers: dict[str, tuple[int, bytes] | str] = {
            "refuse": (400, b'{"code": 21602, "message": "no text"}'),
            "bounce": (400, b'{"code": 21211, "message": "no such number"}'),
            "not now": (503, b"<h1>busy</h1>"),
            DROP: DROP,
            HANG: HANG,
        }
        at = twilio_at if request.param == "twilio" else gateway_at
        made = Station(
            at(phones.url),
            TEXT,
            lambda: len(phones.requests),
            lambda what: phones.answers.append(answers[what]),
            lambda port: at(f"http://127.0.0.1:{port}"),
        )
    return made


async def send(channel: protocol.Channel, parcel: protocol.Parcel) -> protocol.Result:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await channel.send(parcel)


async def test_it_is_sent(station: Station) -> None:
    assert await send(station.channel, station.parcel) == protocol.Sent()
    assert await send(station.channel, station.parcel) == protocol.Sent()
    assert station.taken() == 2


async def test_it_is_refused_for_good_with_the_reason(station: Station) -> None:
    station.tell("refuse")
    result = await send(station.channel, station.parcel)
    assert isinstance(result, protocol.Refused)
    assert (result.bounced, result.reason[0] in "45") == (False, True)


async def test_it_bounces_when_the_address_is_why(station: Station) -> None:
    station.tell("bounce")
    result = await send(station.channel, station.parcel)
    assert isinstance(result, protocol.Refused)
    assert result.bounced
    assert "no such" in result.reason


@pytest.mark.parametrize("deed", ["not now", DROP, HANG])
async def test_it_did_not_go_or_nobody_knows_and_then_it_goes(station: Station, deed: str) -> None:
    station.tell(deed)
    result = await send(station.channel, station.parcel)
    assert isinstance(result, protocol.NotNow)
    assert result.reason.strip(": ")
    assert await send(station.channel, station.parcel) == protocol.Sent()


async def test_nobody_listens(station: Station) -> None:
    channel = station.elsewhere(free_port())
    assert isinstance(await send(channel, station.parcel), protocol.NotNow)


async def test_somebody_listens_and_says_nothing(station: Station) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        channel = station.elsewhere(silent.getsockname()[1])
        assert isinstance(await send(channel, station.parcel), protocol.NotNow)


async def test_somebody_listens_and_speaks_another_language(station: Station) -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\xff\x16\x03 what?\r\n" * 3)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        channel = station.elsewhere(server.sockets[0].getsockname()[1])
        assert isinstance(await send(channel, station.parcel), protocol.NotNow)


async def test_a_reason_is_one_line(station: Station, phones: Gateway, post_office: MailServer) -> None:
    phones.answers = [(400, b'{"code": 1,\r\n "message": "two\nlines\x00"}')]
    post_office.answers["RCPT"] = ["550-one\r\n550 two"]
    result = await send(station.channel, station.parcel)
    assert isinstance(result, protocol.Refused)
    assert result.reason.isprintable()


# E-mail.


async def sent_mail(post_office: MailServer, parcel: protocol.Parcel = MAIL) -> bytes:
    assert await send(mail_to(post_office.port), parcel) == protocol.Sent()
    return post_office.taken[-1][1]


async def test_a_mail_has_a_text_and_an_html_of_seven_bits(post_office: MailServer) -> None:
    content = await sent_mail(post_office)
    assert content.isascii()
    assert max(map(len, content.split(b"\r\n"))) <= 998
    mail = read_mail(content)
    assert mail.get_content_type() == "multipart/alternative"
    parts = list(mail.iter_parts())
    assert [part.get_content_type() for part in parts] == ["text/plain", "text/html"]
    assert {part["Content-Transfer-Encoding"] for part in parts} == {"quoted-printable"}
    assert part_of(mail, "plain").splitlines() == MAIL.message.text.splitlines()
    assert part_of(mail, "html").strip() == MAIL.message.html
    assert (mail["To"], mail["Reply-To"], mail["Subject"]) == (
        "meera@example.com", "help@acme.example", "Asha sent you a gift voucher",
    )  # fmt: skip
    [sender] = mail["From"].addresses
    assert (sender.display_name, sender.addr_spec) == ("Acme Rewards", SENDER)
    assert mail["Date"].datetime == AT
    assert mail["Auto-Submitted"] == "auto-generated"
    assert read_mail(await sent_mail(post_office, replace(MAIL, reply_to=None)))["Reply-To"] is None


async def test_the_message_id_is_the_same_at_each_try_and_of_no_other(post_office: MailServer) -> None:
    once, again = await sent_mail(post_office), await sent_mail(post_office)
    other = await sent_mail(post_office, replace(MAIL, parcel_id="dlv_other"))
    ids = [read_mail(content)["Message-ID"] for content in (once, again, other)]
    assert ids[0] == ids[1] == "<dlv_0123456789@giftrail.example>"
    assert ids[2] != ids[0]


@pytest.mark.parametrize(
    "text",
    [
        HINDI,
        "आशा का उपहार " * 12,
        "Café " * 30,
        "a" * 300,
    ],
    ids=["hindi", "long hindi", "accents", "long word"],
)
async def test_a_subject_arrives_as_it_was_written(post_office: MailServer, text: str) -> None:
    text = message.one_line(text)
    content = await sent_mail(post_office, replace(MAIL, message=replace(MAIL.message, subject=text)))
    assert content.isascii()
    # Read by RFC 2047 itself, and not by the writer's own parser.
    raw = re.search(rb"^Subject: (.*?)\r\n(?![ \t])", content, re.DOTALL | re.MULTILINE)
    assert raw
    assert str(make_header(decode_header(raw[1].decode()))) == text


@pytest.mark.parametrize(
    "name", ["आशा का बहुत लंबा नाम वाला कार्यक्रम यहाँ है", 'Acme "the best" <x@evil.example>, Rewards', "A, B; C"]
)
async def test_a_name_stays_a_name(post_office: MailServer, name: str) -> None:
    content = await sent_mail(post_office, replace(MAIL, from_name=name))
    [sender] = read_mail(content)["From"].addresses
    assert sender.addr_spec == SENDER
    raw = re.search(rb"^From:\s+(.*?)\s+<vouchers@giftrail.example>\r\n", content, re.DOTALL | re.MULTILINE)
    assert raw
    written = str(make_header(decode_header(raw[1].decode()))).replace("\r\n", "")
    assert written.strip('"').replace("\\", "") == name


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\x0b", "\x85", "\u2028", "\x00"])
async def test_no_text_can_begin_a_header(post_office: MailServer, end: str) -> None:
    smuggled = f"Asha{end}Bcc: thief@evil.example{end}{end}<h1>"
    parcel = replace(MAIL, from_name=smuggled, message=replace(MAIL.message, subject=message.one_line(smuggled)))
    mail = read_mail(await sent_mail(post_office, parcel))
    assert "Bcc" not in mail
    assert mail["Subject"] == "Asha Bcc: thief@evil.example <h1>"
    assert [address for address, _ in post_office.taken] == ["meera@example.com"]
    for nasty in (
        replace(MAIL, message=replace(MAIL.message, subject=smuggled)),
        replace(MAIL, address=smuggled),
        replace(MAIL, reply_to=smuggled),
    ):
        # One that was not made one line before is either refused or harmless.
        await send(mail_to(post_office.port), nasty)
        assert all("Bcc" not in read_mail(content) for _, content in post_office.taken)
        assert {address for address, _ in post_office.taken} <= {"meera@example.com", smuggled}


@pytest.mark.parametrize(
    ("address", "written"), [("asha@münchen.example", "asha@xn--mnchen-3ya.example")], ids=["international domain"]
)
async def test_an_international_domain_is_written_in_ascii(post_office: MailServer, address: str, written: str) -> None:
    """A server that does not know SMTPUTF8 takes it all the same."""
    content = await sent_mail(post_office, replace(MAIL, address=recipients.read_email(address)))
    assert [recipient for recipient, _ in post_office.taken] == [written]
    assert f"To: {written}\r\n".encode() in content


async def test_an_address_that_no_server_takes_without_smtputf8_is_refused(post_office: MailServer) -> None:
    result = await send(mail_to(post_office.port), replace(MAIL, address="आशा@example.com"))
    assert isinstance(result, protocol.Refused), result


@pytest.mark.parametrize(
    ("verb", "answer", "expected"),
    [
        ("MAIL", "451 later", protocol.NotNow("451 later")),
        ("MAIL", "553 who are you", protocol.Refused("553 who are you")),
        ("RCPT", "450 busy", protocol.NotNow("450 busy")),
        ("RCPT", "550 no such user", protocol.Refused("550 no such user", bounced=True)),
        ("RCPT", "552 mailbox full", protocol.Refused("552 mailbox full", bounced=True)),
        ("RCPT", "530 no", protocol.Refused("530 no")),
        ("DATA", "451 greylisted", protocol.NotNow("451 greylisted")),
        ("DATA", "552 too large", protocol.Refused("552 too large")),
        ("DATA", "421 closing", protocol.NotNow("421 closing")),
    ],
)
async def test_what_a_mail_server_says(
    post_office: MailServer, verb: str, answer: str, expected: protocol.Result
) -> None:
    post_office.answers[verb] = [answer]
    assert await send(mail_to(post_office.port), MAIL) == expected
    assert post_office.taken == []


@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA"])
async def test_a_mail_server_hangs_up_at_any_point(post_office: MailServer, verb: str) -> None:
    post_office.answers[verb] = [DROP]
    assert isinstance(await send(mail_to(post_office.port), MAIL), protocol.NotNow)


async def test_a_mail_that_was_taken_is_sent_even_if_the_server_hangs_up_then() -> None:
    """Sent again it would arrive twice."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example\r\n")
        answers = {b"EHLO": b"250 mail.example\r\n", b"DATA": b"354 go on\r\n"}
        while line := await reader.readline():
            verb = line[:4].upper()
            if verb == b"QUIT":
                break
            writer.write(answers.get(verb, b"250 OK\r\n"))
            if verb == b"DATA":
                await reader.readuntil(b"\r\n.\r\n")
                writer.write(b"250 taken\r\n")
        writer.close()

    async with await asyncio.start_server(converse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await send(mail_to(port), MAIL) == protocol.Sent()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of 127.0.0.1 with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail.example")])
    today = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("certificate") / "mail.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


def context_of(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_mail_goes_over_tls_to_a_server_that_is_known_and_to_no_other(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, security: str
) -> None:
    context = context_of(certificate)
    options = (
        {"tls_context": context, "require_starttls": True} if security == "starttls" else {"tls_from_start": context}
    )
    with mail_server(**options) as server:
        stranger = await send(mail_to(server.port, security=security, host="localhost"), MAIL)
        assert isinstance(stranger, protocol.NotNow)
        assert "certificate" in stranger.reason.lower()
        assert server.seen == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await send(mail_to(server.port, security=security, host="localhost"), MAIL) == protocol.Sent()
        # The right certificate of another name is a stranger's.
        assert isinstance(await send(mail_to(server.port, security=security), MAIL), protocol.NotNow)
        assert len(server.taken) == 1


async def test_a_password_is_never_told_without_tls(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    heard: list[bytes] = []

    def authenticate(*arguments: Any) -> smtp.AuthResult:
        heard.append(arguments[-1].password)
        return smtp.AuthResult(success=True)

    with mail_server(authenticator=authenticate, auth_require_tls=False) as server:
        channel = mail_to(server.port, security="starttls", host="localhost", user="us", password="secret")
        assert isinstance(await send(channel, MAIL), protocol.NotNow)
        assert (heard, server.seen) == ([], [])


async def test_a_user_who_is_known_sends_and_one_who_is_not_waits(
    monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    def authenticate(*arguments: Any) -> smtp.AuthResult:
        data = arguments[-1]
        return smtp.AuthResult(success=(data.login, data.password) == (b"us", b"secret"), handled=False)

    with mail_server(
        authenticator=authenticate, auth_required=True, tls_context=context_of(certificate), require_starttls=True
    ) as server:
        here: dict[str, Any] = {"security": "starttls", "host": "localhost"}
        assert await send(mail_to(server.port, user="us", password="secret", **here), MAIL) == protocol.Sent()
        wrong = await send(mail_to(server.port, user="us", password="wr0ng", **here), MAIL)
        assert isinstance(wrong, protocol.NotNow)
        assert "535" in wrong.reason
        assert "wr0ng" not in wrong.reason
        assert base64.b64encode(b"wr0ng").decode() not in wrong.reason
        # Our own fault, and none of the recipient's: it waits until somebody has set the user.
        nobody = await send(mail_to(server.port, **here), MAIL)
        assert isinstance(nobody, protocol.NotNow), nobody
    assert "secret" not in repr(mail_channel.Server("h", 1, "tls", "us", "secret", SENDER, 1))


# Text messages.


async def test_twilio_is_asked_as_its_reference_says(phones: Gateway) -> None:
    channel = twilio_at(phones.url)
    assert await send(channel, TEXT) == protocol.Sent()
    [(path, headers, body)] = phones.requests
    assert path == "/2010-04-01/Accounts/AC1/Messages.json"
    assert headers["authorization"] == "Basic " + base64.b64encode(b"AC1:a token").decode()
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert dict(urllib.parse.parse_qsl(body.decode())) == {
        "To": "+919820000001", "From": "+15005550006", "Body": TEXT.message.text,
    }  # fmt: skip
    assert "a token" not in repr(sms.Twilio("AC1", "a token", "+1"))


@pytest.mark.parametrize("code", TWILIO_NUMBER_ERRORS)
async def test_twilio_names_a_number_that_takes_nothing(phones: Gateway, code: int) -> None:
    phones.answers = [(400, json.dumps({"code": code, "message": "the number"}).encode())]
    channel = twilio_at(phones.url)
    result = await send(channel, TEXT)
    assert isinstance(result, protocol.Refused)
    assert result.bounced


@pytest.mark.parametrize(
    "text", ['"}, "to": "+1", "x": "', "$to $$ ${id} {{7*7}}", "line\nline\t\x00\x1f", "नमस्ते 🎁", "\\", "</script>"]
)
async def test_a_gateway_gets_every_text_as_it_is(phones: Gateway, text: str) -> None:
    channel = gateway_at(phones.url)
    assert await send(channel, replace(TEXT, message=message.Message("", text, ""))) == protocol.Sent()
    [(path, headers, body)] = phones.requests
    assert (path, headers["content-type"], headers["x-key"]) == ("/send", "application/json", "a key")
    assert headers["idempotency-key"] == TEXT.parcel_id
    assert json.loads(body) == {"to": TEXT.address, "from": "GIFTS", "text": text, "id": TEXT.parcel_id}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, protocol.Sent),
        (201, protocol.Sent),
        (202, protocol.Sent),
        (302, protocol.NotNow),
        (400, protocol.Refused),
        (401, protocol.NotNow),
        (403, protocol.NotNow),
        (408, protocol.NotNow),
        (422, protocol.Refused),
        (429, protocol.NotNow),
        (500, protocol.NotNow),
        (503, protocol.NotNow),
    ],
)
@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[1]", b"{" * 100_000], ids=["none", "bytes", "list", "long"])
async def test_what_a_gateway_says(phones: Gateway, status: int, kind: type[protocol.Result], body: bytes) -> None:
    phones.answers = [(status, body)]
    channel = gateway_at(phones.url)
    result = await send(channel, TEXT)
    assert isinstance(result, kind)
    assert len(phones.requests) == 1, "no redirect is followed"


@pytest.mark.parametrize("rest", [b"", b"half an ans"])
async def test_a_text_that_was_taken_is_sent_even_if_the_answer_breaks_off(phones: Gateway, rest: bytes) -> None:
    """Sent again it would arrive twice."""
    phones.cut_after = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n" + rest
    phones.answers = [DROP]
    assert await send(gateway_at(phones.url), TEXT) == protocol.Sent()


async def test_a_gateways_headers_and_secrets_are_in_no_repr() -> None:
    assert "a key" not in repr(sms.Gateway("https://x", "{}", {"X-Key": "a key"}, "GIFTS"))


# Files, for development.


async def test_a_folder_takes_mails_and_texts(tmp_path: Path) -> None:
    channel = file.Folder(tmp_path / "new" / "folder", now=now)
    for _ in range(2):
        assert await send(channel, MAIL) == protocol.Sent()
        assert await send(channel, replace(TEXT, parcel_id="dlv_text")) == protocol.Sent()
    written = {one.name: one for one in (tmp_path / "new" / "folder").iterdir()}
    assert set(written) == {"dlv_0123456789.eml", "dlv_text.txt"}
    mail = read_mail(written["dlv_0123456789.eml"].read_bytes())
    assert part_of(mail, "plain").splitlines() == MAIL.message.text.splitlines()
    assert TEXT.message.text in written["dlv_text.txt"].read_text("utf-8")
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o077 == 0
    await channel.close()


async def test_a_folder_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("by a file")
    channel = file.Folder(tmp_path / "taken", now=now)
    assert isinstance(await send(channel, MAIL), protocol.NotNow)


def test_mails_are_written_with_the_ends_of_line_of_smtp() -> None:
    written = bytes(mail_channel.compose(MAIL, sender=SENDER, at=AT))
    assert b"\n" not in written.replace(b"\r\n", b"")
