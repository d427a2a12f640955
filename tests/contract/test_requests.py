import asyncio
import base64
import contextlib
import json
import re
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import jwt
import pytest

from giftrail import app
from giftrail.catalog import edit
from giftrail.catalog import model as catalog
from giftrail.db import pool
from giftrail.partners import login, manage
from giftrail.partners import model as partners
from giftrail.settings import read_keys
from house import KEYS, House, PartnerProgram, execute, serving

LOGIN = "/v1/partners/auth/login"
LIMIT = 256 * 1024
NEVER = "never-existed"
PROXY, CLIENT, STRANGER = "127.0.0.9", "127.0.0.1", "127.0.0.2"
CODES = {
    "E001": (400, "INVALID_REQUEST"),
    "E002": (401, "UNAUTHORIZED"),
    "E003": (403, "ADDRESS_NOT_ALLOWED"),
    "E004": (404, "NOT_FOUND"),
    "E005": (405, "METHOD_NOT_ALLOWED"),
    "E006": (413, "BODY_TOO_LARGE"),
    "E007": (415, "UNSUPPORTED_MEDIA_TYPE"),
    "E010": (429, "RATE_LIMITED"),
    "E011": (503, "UNAVAILABLE"),
}
EVERY_CALL = [
    ("GET", "/products"),
    ("GET", "/products/fixed"),
    ("POST", "/orders"),
    ("GET", "/orders"),
    ("GET", "/orders/ord_x"),
    ("GET", "/orders/by-reference/ref"),
    ("GET", "/orders/vouchers/vou_x"),
    ("GET", "/wallet/balance"),
    ("GET", "/wallet/transactions"),
]
every_call = pytest.mark.parametrize(("method", "path"), EVERY_CALL)
every_post = pytest.mark.parametrize("path", ["/auth/login", "/orders"])


def assert_error(answer: httpx.Response, error_id: str, *fields: str) -> dict[str, Any]:
    """The answer is the error, in the shape of §2; `fields` are exactly its sub-errors, when given."""
    status, code = CODES[error_id]
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].partition(";")[0] == "application/json"
    body: dict[str, Any] = answer.json()
    assert body.keys() == {"id", "code", "message", "requestId", "subErrors"}
    assert (body["id"], body["code"]) == (error_id, code)
    assert isinstance(body["message"], str)
    assert body["message"]
    assert body["requestId"] == answer.headers["x-request-id"]
    assert uuid.UUID(body["requestId"])
    for sub_error in body["subErrors"]:
        assert sub_error.keys() == {"fieldName", "message"}
        assert sub_error["message"]
    if fields:
        assert sorted(sub_error["fieldName"] for sub_error in body["subErrors"]) == sorted(fields)
    return body


def call(partner: PartnerProgram, method: str, path: str, **headers: str | None) -> httpx.Response:
    """One of EVERY_CALL; a POST carries a sound order. Header names with _ for -."""
    made = {name.replace("_", "-"): value for name, value in headers.items()}
    if method == "POST":
        return partner.post(path, partner.order_body(), headers=made)
    return partner.http.request(method, f"/v1/partners{path}", headers=partner.headers(made))


def tokens(*, environment: str = "staging", key: bytes | None = None) -> login.Tokens:
    """A signer of tokens with the service's keys, or with another."""
    keys = read_keys(KEYS["token_keys"])
    return login.Tokens([(keys[0][0], key or keys[0][1])], environment=environment, lifetime_seconds=3600)


def token_for(partner: PartnerProgram, *, hours_ago: float = 0, **how: Any) -> str:
    """A token for a partner, signed so many hours ago."""
    return tokens(**how).sign(
        partner_id=partner.partner.partner_id,
        credential_id=partner.client_id,
        now=app.now() - timedelta(hours=hours_ago),
    )


def unsigned(token: str) -> str:
    """The token's claims under the algorithm "none"."""
    head = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT","kid":"k1"}').decode().rstrip("=")
    return f"{head}.{token.split('.')[1]}."


def log_in_with(client: httpx.Client, body: Any, **headers: str) -> httpx.Response:
    return client.post(LOGIN, json=body, headers=headers)


def revoke(house: House, partner: PartnerProgram, *, settle: bool = True) -> None:
    async def deed(conn: pool.Connection) -> None:
        await manage.revoke_credential(conn, client_id=partner.client_id, now=app.now())

    house.do(deed, settle=settle)


def suspend(house: House, partner: PartnerProgram, *, settle: bool = True) -> None:
    async def deed(conn: pool.Connection) -> None:
        await manage.suspend_partner(conn, partner_id=partner.partner.partner_id, now=app.now())

    house.do(deed, settle=settle)


def resume(house: House, partner: PartnerProgram, *, settle: bool = True) -> None:
    async def deed(conn: pool.Connection) -> None:
        await manage.resume_partner(conn, partner_id=partner.partner.partner_id, now=app.now())

    house.do(deed, settle=settle)


def allow(house: House, partner: PartnerProgram, *networks: str, settle: bool = True) -> None:
    async def deed(conn: pool.Connection) -> None:
        for network in networks:
            await manage.allow_network(conn, partner_id=partner.partner.partner_id, network=network, now=app.now())

    house.do(deed, settle=settle)


@contextlib.contextmanager
def calling_from(house: House, address: str) -> Iterator[httpx.Client]:
    """A client whose socket has the (loopback) address."""
    transport = httpx.HTTPTransport(local_address=address)
    with httpx.Client(base_url=house.base_url, transport=transport, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def partner(_session_house: House) -> PartnerProgram:
    """A partner whom no test changes."""
    return _session_house.partner()


@pytest.fixture(scope="module")
def other_database(server_url: str) -> Callable[[], str]:
    """Makes databases for services that several tests of this file share."""

    def make() -> str:
        name = f"test_{uuid.uuid4().hex[:12]}"
        execute(server_url, f"CREATE DATABASE {name} TEMPLATE giftrail_template")
        return server_url.replace("/giftrail?", f"/{name}?")

    return make


@pytest.fixture(scope="module")
def production(other_database: Callable[[], str]) -> Iterator[House]:
    """A production service behind a trusted proxy at PROXY."""
    with serving(other_database(), environment="production", trusted_proxies=f"{PROXY}/32") as house:
        yield house


@pytest.fixture(scope="module")
def limited(other_database: Callable[[], str]) -> Iterator[House]:
    """A service in which a partner may make 1 request a second and 3 at once, and 3 failed logins a minute."""
    with serving(other_database(), rate_per_second=1, rate_burst=3, failed_logins_per_minute=3) as house:
        yield house


@pytest.fixture(scope="module")
def impatient(other_database: Callable[[], str]) -> Iterator[House]:
    """A service that waits one second for headers, and one for a body."""
    with serving(other_database(), body_timeout_seconds=1, header_timeout_seconds=1) as house:
        yield house


# ---- Authorization ----

BAD_TOKENS: dict[str, Callable[[PartnerProgram], str | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: "",
    "scheme only": lambda _: "Bearer",
    "scheme and comma": lambda _: "Bearer ,",
    "no scheme": token_for,
    "other scheme": lambda p: f"Basic {token_for(p)}",
    "two tokens": lambda p: f"Bearer {token_for(p)} {token_for(p)}",
    "comma": lambda p: f"Bearer {token_for(p)},{token_for(p)}",
    "no JWT": lambda _: "Bearer abc",
    "three parts of nothing": lambda _: "Bearer a.b.c",
    "cut short": lambda p: f"Bearer {token_for(p)[:-3]}",
    "signature of another token": lambda p: (
        f"Bearer {token_for(p).rpartition('.')[0]}.{token_for(p, hours_ago=0.5).rpartition('.')[2]}"
    ),
    "signed with another key": lambda p: f"Bearer {token_for(p, key=b'0123456789abcdef0123456789abcdef')}",
    "not signed": lambda p: f"Bearer {unsigned(token_for(p))}",
    "expired long ago": lambda p: f"Bearer {token_for(p, hours_ago=48)}",
    "expired just now": lambda p: f"Bearer {token_for(p, hours_ago=1.0003)}",
    "of production": lambda p: f"Bearer {token_for(p, environment='production')}",
    "of another door": lambda p: f"Bearer {token_for(p, environment='operators')}",
    "of nobody": lambda _: f"Bearer {tokens().sign(partner_id='prt_x', credential_id='crd_x', now=app.now())}",
    "of no credential": lambda p: (
        "Bearer " + tokens().sign(partner_id=p.partner.partner_id, credential_id="crd_x", now=app.now())
    ),
}


@pytest.mark.parametrize("kind", BAD_TOKENS)
def test_a_bad_authorization_is_401(partner: PartnerProgram, kind: str) -> None:
    authorization = BAD_TOKENS[kind](partner)
    answer = partner.get("/products", headers={"Authorization": authorization})
    body = assert_error(answer, "E002")
    if authorization and len(authorization) > 20:
        assert authorization[-20:] not in body["message"]


@pytest.mark.parametrize("kind", ["missing", "expired just now", "of production", "signed with another key"])
@every_call
def test_every_call_asks_for_a_sound_token(partner: PartnerProgram, method: str, path: str, kind: str) -> None:
    assert_error(call(partner, method, path, Authorization=BAD_TOKENS[kind](partner)), "E002")


def test_a_token_made_with_the_service_s_keys_is_sound(partner: PartnerProgram) -> None:
    headers = {"Authorization": f"Bearer {token_for(partner, hours_ago=0.99)}"}
    assert partner.get("/products", headers=headers).status_code == 200


@pytest.mark.parametrize("undo", [revoke, suspend])
def test_revocation_and_suspension_refuse_tokens_and_logins(
    house: House, undo: Callable[[House, PartnerProgram], None]
) -> None:
    partner = house.partner()
    assert partner.get("/products").status_code == 200
    undo(house, partner)
    for method, path in EVERY_CALL:
        assert_error(call(partner, method, path), "E002")
    assert_error(partner.log_in(), "E002")


def test_a_second_credential_survives_the_revocation_of_the_first(house: House) -> None:
    partner = house.partner()
    partner.log_in()

    async def deed(conn: pool.Connection) -> manage.NewCredential:
        return await manage.create_credential(
            conn, partner_id=partner.partner.partner_id, environment="staging", now=app.now()
        )

    second = house.do(deed)
    revoke(house, partner)
    assert_error(partner.get("/products"), "E002")
    partner.client_id, partner.client_secret = second.client_id, second.client_secret
    assert partner.log_in().status_code == 200
    assert partner.get("/products").status_code == 200


# ---- X-REQUEST-ID ----


@every_call
def test_a_missing_request_id_is_400(partner: PartnerProgram, method: str, path: str) -> None:
    assert_error(call(partner, method, path, X_REQUEST_ID=None), "E001", "X-REQUEST-ID")


@pytest.mark.parametrize(
    "request_id",
    [
        "", "abc", "1", "9f1c2f0e-0000-4000-8000-00000000000", "9f1c2f0e-0000-4000-8000-0000000000000",
        "zf1c2f0e-0000-4000-8000-000000000000", "x" * 5000,
    ],
)  # fmt: skip
def test_a_request_id_that_is_no_uuid_is_400(partner: PartnerProgram, request_id: str) -> None:
    body = assert_error(partner.get("/products", headers={"X-REQUEST-ID": request_id}), "E001", "X-REQUEST-ID")
    assert len(body["message"]) < 1000


@pytest.mark.parametrize("mode", list(partners.RequestIdMode))
@pytest.mark.parametrize("request_id", ["9f1c2f0e-aaaa-4000-8000-00000000000b", "9F1C2F0E-AAAA-4000-8000-00000000000B"])
def test_a_request_id_is_echoed_as_it_was_sent(house: House, mode: partners.RequestIdMode, request_id: str) -> None:
    partner = house.partner(request_id_mode=mode)
    headers = {"X-REQUEST-ID": request_id}
    assert partner.get("/products", headers=headers).headers["x-request-id"] == request_id
    assert assert_error(partner.get(f"/orders/{NEVER}", headers=headers), "E004")["requestId"] == request_id


def test_a_partner_switched_to_generate_may_leave_the_request_id_out(house: House) -> None:
    partner = house.partner(request_id_mode=partners.RequestIdMode.GENERATE)
    made = [partner.get("/products", headers={"X-REQUEST-ID": None}) for _ in range(2)]
    assert [answer.status_code for answer in made] == [200, 200]
    assert len({uuid.UUID(answer.headers["x-request-id"]) for answer in made}) == 2


def test_switching_an_existing_partner_to_generate_binds(house: House) -> None:
    partner = house.partner()
    assert_error(partner.get("/products", headers={"X-REQUEST-ID": None}), "E001")

    async def deed(conn: pool.Connection) -> None:
        await manage.set_partner(
            conn,
            partner_id=partner.partner.partner_id,
            values={"request_id_mode": partners.RequestIdMode.GENERATE},
            now=app.now(),
        )

    house.do(deed)
    assert partner.get("/products", headers={"X-REQUEST-ID": None}).status_code == 200


def test_login_makes_a_request_id_when_none_is_sent_and_echoes_one_that_is(partner: PartnerProgram) -> None:
    answer = partner.log_in()
    assert answer.status_code == 200
    assert uuid.UUID(answer.headers["x-request-id"])
    sent = str(uuid.uuid4())
    body = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
    assert log_in_with(partner.http, body, **{"X-REQUEST-ID": sent}).headers["x-request-id"] == sent
    refused = log_in_with(partner.http, body | {"clientSecret": "x"}, **{"X-REQUEST-ID": sent})
    assert assert_error(refused, "E002")["requestId"] == sent


@pytest.mark.parametrize(
    ("status", "method", "path", "headers"),
    [
        (200, "GET", "/products", {}),
        (400, "GET", "/products?limit=0", {}),
        (401, "GET", "/products", {"Authorization": "Bearer x"}),
        (404, "GET", f"/orders/{NEVER}", {}),
        (404, "GET", "/no/such/path", {}),
        (405, "DELETE", "/products", {}),
        (415, "POST", "/orders", {"Content-Type": "text/plain"}),
    ],
)
def test_the_request_id_is_echoed_with_every_status(
    partner: PartnerProgram, status: int, method: str, path: str, headers: dict[str, str]
) -> None:
    sent = str(uuid.uuid4())
    made = partner.headers({"X-REQUEST-ID": sent, **headers})
    answer = partner.http.request(method, f"/v1/partners{path}", headers=made)
    assert answer.status_code == status
    assert answer.headers["x-request-id"] == sent
    if status != 200:
        assert answer.json()["requestId"] == sent


# ---- Content-Type, method, path ----


@pytest.mark.parametrize(
    "content_type",
    [
        None, "", "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
        "application/jsonp", "application/json-patch+json", "application/vnd.api+json", "application/*", "*/*",
        "application/xml",
    ],
)  # fmt: skip
@every_post
def test_a_body_that_is_not_declared_as_json_is_415(
    partner: PartnerProgram, path: str, content_type: str | None
) -> None:
    answer = partner.post(path, headers={"Content-Type": content_type}, content=b"{}")
    assert_error(answer, "E007")


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON"],
)
def test_json_with_parameters_is_accepted(partner: PartnerProgram, content_type: str) -> None:
    body = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
    assert log_in_with(partner.http, body, **{"Content-Type": content_type}).status_code == 200
    assert partner.post("/orders", partner.order_body(), headers={"Content-Type": content_type}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1", "/v1/partners", "/v1/partners/", "/v1/partners/nothing", "/v2/partners/products",
        "/V1/partners/products", "/v1/partners/Products", "/v1/partners/products/", "/v1/partners/products/a/b",
        "/v1/partners/orders/a/b/c", "/v1/partners/orders/vouchers/a/b",
        "/v1/partners/wallet", "/v1/partners/wallet/balance/",
        "/v1/partners/auth/login/", "/v1/partners/auth", "//v1/partners/products", "/favicon.ico", "/docs/../livez",
        "/docs/none.js",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_404(partner: PartnerProgram, method: str, path: str) -> None:
    if path == "/docs/../livez":
        path = "/docs/%2e%2e/livez"
    answer = partner.http.request(method, partner.house.base_url + path, headers=partner.headers(), json={})
    assert_error(answer, "E004")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/auth/login", {"POST"}),
        ("/products", {"GET"}),
        ("/products/fixed", {"GET"}),
        ("/orders", {"GET", "POST"}),
        ("/orders/ord_x", {"GET"}),
        ("/orders/by-reference/ref", {"GET"}),
        ("/orders/vouchers/vou_x", {"GET"}),
        ("/wallet/balance", {"GET"}),
        ("/wallet/transactions", {"GET"}),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_a_wrong_method_is_405_with_allow(partner: PartnerProgram, method: str, path: str, allowed: set[str]) -> None:
    if method in allowed:
        return
    answer = partner.http.request(method, f"/v1/partners{path}", headers=partner.headers())
    assert_error(answer, "E005")
    assert {name.strip() for name in answer.headers["allow"].split(",")} - {"HEAD", "OPTIONS"} == allowed


@pytest.mark.parametrize("path", [path for method, path in EVERY_CALL if method == "GET"])
def test_head_is_get_without_the_body(partner: PartnerProgram, path: str) -> None:
    get, head = partner.get(path), call(partner, "HEAD", path)
    assert head.status_code == get.status_code
    assert head.content == b""
    assert head.headers["content-type"] == get.headers["content-type"]
    assert head.headers.get("content-length") == get.headers.get("content-length")
    assert head.headers.get("etag") == get.headers.get("etag")


# ---- bodies ----


def padded(size: int, body: dict[str, Any]) -> bytes:
    """The body as JSON of exactly so many bytes, by a member that is ignored."""
    bare = json.dumps(body | {"pad": ""}).encode()
    return json.dumps(body | {"pad": "x" * (size - len(bare))}).encode()


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
@every_post
def test_a_body_may_have_256_kib_and_no_more(partner: PartnerProgram, path: str, chunked: bool) -> None:  # noqa: FBT001
    sound = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
    body = sound if path == "/auth/login" else partner.order_body()

    def send(content: bytes) -> httpx.Response:
        pieces = (content[start : start + 8192] for start in range(0, len(content), 8192))
        return partner.post(path, content=pieces if chunked else content)

    assert send(padded(LIMIT, body)).status_code == 200
    assert_error(send(padded(LIMIT + 1, body)), "E006")


@pytest.mark.parametrize("declared", [LIMIT + 1, 10**12])
@every_post
def test_a_body_declared_too_large_is_413_before_it_is_sent(partner: PartnerProgram, path: str, declared: int) -> None:
    answer = speak(
        partner.house,
        request_head(partner, "POST", path, {"Content-Type": "application/json", "Content-Length": str(declared)}),
    )
    assert b" 413 " in answer.splitlines()[0]
    assert b"BODY_TOO_LARGE" in answer


@pytest.mark.parametrize("size", [60_000, 100_000, LIMIT - 10_000])
def test_a_large_body_that_arrives_in_one_piece_is_answered(partner: PartnerProgram, size: int) -> None:
    body = padded(size, {"clientId": partner.client_id, "clientSecret": partner.client_secret})
    headers = {"Content-Type": "application/json", "Content-Length": str(size)}
    whole = request_head(partner, "POST", "/auth/login", headers) + body
    # Several at a time, so that some have arrived as a whole when the service comes to read them.
    with ThreadPoolExecutor(8) as threads:
        answers = Counter(answer[:12] for answer in threads.map(lambda _: speak(partner.house, whole), range(200)))
    assert answers == {b"HTTP/1.1 200": 200}


def test_an_endless_chunked_body_is_413(partner: PartnerProgram) -> None:
    head = request_head(
        partner, "POST", "/orders", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    )
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    answer = speak(partner.house, head, *[chunk] * 5)
    assert b" 413 " in answer.splitlines()[0]


BAD_JSON = {
    "empty": b"",
    "blank": b"  ",
    "cut short": b'{"clientId": "a", ',
    "no quotes": b"{clientId: 1}",
    "single quotes": b"{'clientId': 'a'}",
    "comma at the end": b'{"clientId": "a",}',
    "comment": b'{"clientId": "a" /* b */}',
    "two values": b'{"clientId": "a"} {"clientId": "b"}',
    "garbage behind": b'{"clientId": "a"}x',
    "no UTF-8": b'{"clientId": "\xff\xfe"}',
    "UTF-16": '{"clientId": "a"}'.encode("utf-16"),
    "control character": b'{"clientId": "a\nb"}',
    "leading zero": b'{"amount": 01}',
    "hexadecimal": b'{"amount": 0x10}',
    "array": b"[]",
    "array of an object": b'[{"clientId": "a"}]',
    "string": b'"clientId"',
    "number": b"1",
    "true": b"true",
    "null": b"null",
    "deep": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "deep arrays": b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
}
NOT_FINITE = ["NaN", "-NaN", "Infinity", "-Infinity", "+Infinity", "nan", "inf"]


@pytest.mark.parametrize("kind", BAD_JSON)
@every_post
def test_a_body_that_is_no_json_object_is_400(partner: PartnerProgram, path: str, kind: str) -> None:
    assert_error(partner.post(path, content=BAD_JSON[kind]), "E001")


def spoil(partner: PartnerProgram, path: str, addition: str) -> bytes:
    """A body that is sound but for an addition before its end."""
    sound = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
    body = sound if path == "/auth/login" else partner.order_body()
    return json.dumps(body)[:-1].encode() + b"," + addition.encode() + b"}"


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize("shape", ['"extra": %s', '"extra": [1, {"a": %s}]'], ids=["member", "nested"])
@every_post
def test_nan_and_infinity_are_400_even_where_members_are_ignored(
    partner: PartnerProgram, path: str, shape: str, number: str
) -> None:
    assert_error(partner.post(path, content=spoil(partner, path, shape % number)), "E001")


@pytest.mark.parametrize(
    "addition",
    [
        '"clientId": "a", "clientId": "a"', '"amount": 100, "amount": 100', '"extra": 1, "extra": 2',
        '"extra": {"a": 1, "a": 1}', '"extra": [{"a": 1, "b": 2, "a": 3}]', '"extra": 1, "\\u0065xtra": 1',
    ],
    ids=["clientId", "amount", "ignored", "nested", "in an array", "escaped"],
)  # fmt: skip
@every_post
def test_a_repeated_key_is_400(partner: PartnerProgram, path: str, addition: str) -> None:
    assert_error(partner.post(path, content=spoil(partner, path, addition)), "E001")


EXPENSIVE = {
    "a key repeated behind many others": ",".join(f'"{number:x}":0' for number in range(24_000)) + ',"5dbf":0',
    "many digits": '"amount": ' + "9" * 250_000,
    "many decimals": '"amount": 0.' + "1" * 250_000,
    "a large exponent": '"extra": {"amount": 1e999999999}, "extra": 0',
    "many members": ",".join(f'"{number:x}":[]' for number in range(20_000)) + ',"amount":1,"amount":1',
    "a long key twice": f'"{"k" * 120_000}":0,"{"k" * 120_000}":0',
}


@pytest.mark.parametrize("kind", EXPENSIVE)
@every_post
def test_no_body_keeps_the_service_busy(partner: PartnerProgram, path: str, kind: str) -> None:
    answer = partner.post(path, content=b"{" + EXPENSIVE[kind].encode() + b"}")
    body = assert_error(answer, "E001")
    assert len(body["message"]) < 1000


@pytest.mark.parametrize("number", ["1e999999999", "-1e999999999", "1e-999999999", "1E+400", "1e99999999999999999999"])
@pytest.mark.parametrize("member", ["amount", "denomination", "quantity"])
def test_numbers_beyond_all_bounds_are_400_at_once(partner: PartnerProgram, member: str, number: str) -> None:
    body = partner.order_body()
    if member == "amount":
        body["amount"] = "THE NUMBER"
    else:
        body["denominationDetails"][0][member] = "THE NUMBER"
    assert_error(partner.post("/orders", content=json.dumps(body).replace('"THE NUMBER"', number)), "E001")


@pytest.mark.parametrize(
    "addition", ['"discountAmount": 12.5', '"extra": null', '"extra": {"a": [1, 2, {}]}', '"\\u00e9": "\\ud83d\\ude00"']
)
@every_post
def test_unknown_members_are_ignored(partner: PartnerProgram, path: str, addition: str) -> None:
    assert partner.post(path, content=spoil(partner, path, addition)).status_code == 200


# ---- login ----


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["clientId", "clientSecret"]),
        ({"clientId": "a"}, ["clientSecret"]),
        ({"clientSecret": "a"}, ["clientId"]),
        ({"clientId": None, "clientSecret": None}, ["clientId", "clientSecret"]),
        ({"clientId": 1, "clientSecret": "a"}, ["clientId"]),
        ({"clientId": "a", "clientSecret": ["a"]}, ["clientSecret"]),
        ({"clientId": {}, "clientSecret": True}, ["clientId", "clientSecret"]),
        ({"clientId": "", "clientSecret": ""}, ["clientId", "clientSecret"]),
        ({"clientid": "a", "client_secret": "b"}, ["clientId", "clientSecret"]),
    ],
)
def test_login_names_every_field_that_is_missing_or_malformed(
    partner: PartnerProgram, body: dict[str, Any], fields: list[str]
) -> None:
    assert_error(log_in_with(partner.http, body), "E001", *fields)


def test_login_gives_a_token_for_as_long_as_it_says(partner: PartnerProgram) -> None:
    answer = partner.log_in()
    assert answer.status_code == 200
    body = answer.json()
    assert body.keys() == {"token", "expiresInSecs"}
    assert type(body["expiresInSecs"]) is int
    claims = jwt.decode(body["token"], options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == body["expiresInSecs"] == 3600


WRONG: dict[str, Callable[[PartnerProgram, PartnerProgram], tuple[str, str]]] = {
    "unknown clientId": lambda one, _: ("crd_unknown", one.client_secret),
    "wrong secret": lambda one, _: (one.client_id, "gts_x"),
    "secret of another": lambda one, other: (one.client_id, other.client_secret),
    "secret in another case": lambda one, _: (one.client_id, one.client_secret.swapcase()),
    "blank behind": lambda one, _: (one.client_id, one.client_secret + " "),
    "clientId of the partner": lambda one, _: (one.partner.partner_id, one.client_secret),
    "name of the partner": lambda one, _: (one.partner.name, one.client_secret),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_credentials_all_give_the_same_401(house: House, kind: str) -> None:
    unknown = log_in_with(house.client(), {"clientId": "crd_nobody", "clientSecret": "gts_y"})
    client_id, client_secret = WRONG[kind](house.partner(), house.partner())
    answer = log_in_with(house.client(), {"clientId": client_id, "clientSecret": client_secret})
    body, expected = assert_error(answer, "E002"), assert_error(unknown, "E002")
    assert body | {"requestId": ""} == expected | {"requestId": ""}
    assert answer.headers.keys() == unknown.headers.keys()


def test_credentials_of_another_environment_give_the_answer_of_unknown_ones(house: House) -> None:
    expected = assert_error(log_in_with(house.client(), {"clientId": "crd_nobody", "clientSecret": "y"}), "E002")
    answer = house.partner(environment="production").log_in()
    assert assert_error(answer, "E002") | {"requestId": ""} == expected | {"requestId": ""}


def test_revoked_and_suspended_credentials_give_the_answer_of_unknown_ones(house: House) -> None:
    expected = assert_error(log_in_with(house.client(), {"clientId": "crd_nobody", "clientSecret": "y"}), "E002")
    for undo in (revoke, suspend):
        partner = house.partner()
        undo(house, partner)
        assert assert_error(partner.log_in(), "E002") | {"requestId": ""} == expected | {"requestId": ""}


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "é" * 50, "'; DROP TABLE partner; --"])
@pytest.mark.parametrize("field", ["clientId", "clientSecret"])
def test_strange_texts_at_login_are_refused_and_no_failure(partner: PartnerProgram, field: str, text: str) -> None:
    body = {"clientId": partner.client_id, "clientSecret": partner.client_secret} | {field: text}
    answer = partner.http.post(LOGIN, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 401}, answer.text
    assert partner.client_secret not in answer.text


# ---- secrets and other partners ----


def test_answers_with_a_token_or_a_voucher_are_stored_by_nobody(partner: PartnerProgram) -> None:
    placed = partner.place()
    order = placed.json()
    answers = [
        partner.log_in(),
        placed,
        partner.get(f"/orders/{order['id']}"),
        partner.get(f"/orders/by-reference/{order['referenceId']}"),
        partner.get(f"/orders/vouchers/{order['vouchers'][0]['id']}"),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert "no-store" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "path", ["/products/{brand}", "/orders/{order}", "/orders/by-reference/{reference}", "/orders/vouchers/{voucher}"]
)
def test_another_partner_s_ids_are_answered_as_ids_that_never_existed(house: House, path: str) -> None:
    owner, stranger = house.partner(), house.partner(brands=[])
    order = owner.place().json()
    ids = {
        "brand": house.fixed_brand,
        "order": order["id"],
        "reference": order["referenceId"],
        "voucher": order["vouchers"][0]["id"],
    }
    assert owner.get(path.format(**ids)).status_code == 200
    foreign = stranger.get(path.format(**ids))
    never = stranger.get(path.format(**dict.fromkeys(ids, NEVER)))
    assert assert_error(foreign, "E004") | {"requestId": ""} == assert_error(never, "E004") | {"requestId": ""}
    changing = {"x-request-id", "date"}
    assert {n: v for n, v in foreign.headers.items() if n not in changing} == {
        n: v for n, v in never.headers.items() if n not in changing
    }


def test_another_partner_s_order_is_in_no_list(house: House) -> None:
    owner, stranger = house.partner(), house.partner()
    owner.place()
    assert stranger.get("/orders").json()["data"] == []
    assert [row["kind"] for row in stranger.get("/wallet/transactions").json()["data"]] == ["TOP_UP"]


@pytest.mark.parametrize("kind", ["/orders/", "/orders/vouchers/", "/orders/by-reference/", "/products/"])
@pytest.mark.parametrize(
    "value", ["%00", "a%00b", "%FF", "%ED%A0%80", "x" * 3000, "%F0%9F%98%80", "..%2F..", "%20", "'", "%25"]
)
def test_strange_ids_are_404(partner: PartnerProgram, kind: str, value: str) -> None:
    undecodable = kind == "/orders/by-reference/" and value in {"%FF", "%ED%A0%80"}
    assert_error(partner.get(kind + value), "E001" if undecodable else "E004")


# ---- rate limits ----


def test_more_requests_than_the_burst_are_429(limited: House) -> None:
    partner = limited.partner()
    partner.log_in()
    answers = [partner.get("/products") for _ in range(5)]
    statuses = [answer.status_code for answer in answers]
    assert statuses[:3] == [200, 200, 200]
    assert 429 in statuses[3:]
    for answer in answers:
        assert "ratelimit" in answer.headers
        assert "ratelimit-policy" in answer.headers
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert_error(refused, "E010")
    wait = int(refused.headers["retry-after"])
    assert 1 <= wait <= 2
    time.sleep(wait)
    assert partner.get("/products").status_code == 200


def test_the_limit_is_each_partner_s_own(limited: House) -> None:
    greedy, modest = limited.partner(), limited.partner()
    assert 429 in {greedy.get("/products").status_code for _ in range(5)}
    assert modest.get("/products").status_code == 200


@pytest.mark.parametrize(
    ("status", "path"),
    [(200, "/wallet/balance"), (400, "/products?limit=0"), (404, f"/orders/{NEVER}"), (404, f"/products/{NEVER}")],
)
def test_rate_headers_are_on_answers_of_every_kind(limited: House, status: int, path: str) -> None:
    answer = limited.partner().get(path)
    assert answer.status_code == status
    assert "ratelimit" in answer.headers
    assert "ratelimit-policy" in answer.headers


@pytest.mark.parametrize(("per_second", "burst", "refused"), [(0, None, False), (1000, 1000, False), (1, 1, True)])
def test_a_partner_s_own_limit_counts_and_0_is_off(
    limited: House,
    per_second: int,
    burst: int | None,
    refused: bool,  # noqa: FBT001
) -> None:
    partner = limited.partner(rate_per_second=per_second, rate_burst=burst)
    statuses = {partner.get("/wallet/balance").status_code for _ in range(12)}
    assert statuses == ({200, 429} if refused else {200})


def test_a_partner_may_have_a_limit_where_others_have_none(house: House) -> None:
    partner = house.partner(rate_per_second=1, rate_burst=1)
    assert {partner.get("/wallet/balance").status_code for _ in range(3)} == {200, 429}


def test_without_a_limit_there_is_no_429(partner: PartnerProgram) -> None:
    assert {partner.get("/wallet/balance").status_code for _ in range(150)} == {200}


def test_a_changed_limit_binds(limited: House) -> None:
    partner = limited.partner()
    assert 429 in {partner.get("/wallet/balance").status_code for _ in range(5)}

    async def deed(conn: pool.Connection) -> None:
        await manage.set_partner(
            conn, partner_id=partner.partner.partner_id, values={"rate_per_second": 0}, now=app.now()
        )

    limited.do(deed)
    assert {partner.get("/wallet/balance").status_code for _ in range(5)} == {200}


def test_failed_logins_are_429_beyond_the_limit(limited: House) -> None:
    partner, other = limited.partner(), limited.partner()
    wrong = {"clientId": partner.client_id, "clientSecret": "wrong"}
    assert [log_in_with(partner.http, wrong).status_code for _ in range(3)] == [401] * 3
    refused = log_in_with(partner.http, wrong)
    assert_error(refused, "E010")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "ratelimit" in refused.headers
    assert "ratelimit-policy" in refused.headers
    assert other.log_in().status_code == 200, "another clientId of the same address"
    with calling_from(limited, STRANGER) as elsewhere:
        sound = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
        assert log_in_with(elsewhere, sound).status_code == 200, "the same clientId from another address"


def test_failed_logins_of_a_clientid_that_never_existed_are_429_too(limited: House) -> None:
    wrong = {"clientId": f"crd_{uuid.uuid4().hex}", "clientSecret": "wrong"}
    assert [log_in_with(limited.client(), wrong).status_code for _ in range(4)] == [401, 401, 401, 429]


def test_logins_that_succeed_are_not_counted(limited: House) -> None:
    partner = limited.partner()
    assert {partner.log_in().status_code for _ in range(8)} == {200}


def test_logins_that_are_malformed_are_400_however_many(limited: House) -> None:
    assert {log_in_with(limited.client(), {"clientId": "a"}).status_code for _ in range(6)} == {400}


def test_0_turns_the_limit_of_failed_logins_off(partner: PartnerProgram) -> None:
    wrong = {"clientId": partner.client_id, "clientSecret": "wrong"}
    assert {log_in_with(partner.http, wrong).status_code for _ in range(15)} == {401}


# ---- order of checks ----


def test_429_comes_before_400_and_401_before_429(limited: House) -> None:
    partner = limited.partner(rate_per_second=1, rate_burst=1)
    partner.get("/wallet/balance")
    no_id = {"X-REQUEST-ID": None}
    assert_error(partner.get("/products?limit=0", headers=no_id), "E010")
    assert_error(partner.post("/orders", headers={**no_id, "Content-Type": "text/plain"}, content=b"x"), "E010")
    assert_error(partner.get("/products", headers={**no_id, "Authorization": "Bearer x"}), "E002")


def test_401_comes_before_400(partner: PartnerProgram) -> None:
    headers = {"Authorization": None, "X-REQUEST-ID": "x"}
    assert_error(partner.get("/products?limit=0", headers=headers), "E002")
    assert_error(partner.post("/orders", headers=headers, content=b"x"), "E002")
    assert_error(partner.post("/orders", headers=headers, content=b" " * (LIMIT + 1)), "E002")
    assert_error(partner.post("/orders", headers={**headers, "Content-Type": "text/plain"}, content=b"x"), "E002")


def test_401_comes_before_403_comes_before_429_and_400(production: House) -> None:
    partner = production.partner(rate_per_second=1, rate_burst=1)
    allow(production, partner, CLIENT)
    partner.log_in()
    assert {partner.get("/wallet/balance").status_code for _ in range(3)} == {200, 429}
    with calling_from(production, STRANGER) as stranger:
        partner.http = stranger
        for _ in range(3):
            assert_error(partner.get("/products?limit=0", headers={"X-REQUEST-ID": None}), "E003")
        assert_error(partner.get("/products", headers={"Authorization": "Bearer x"}), "E002")


def test_login_checks_shape_then_credentials_then_address(production: House) -> None:
    partner = production.partner()
    sound = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
    assert_error(log_in_with(partner.http, {"clientId": partner.client_id}), "E001", "clientSecret")
    assert_error(log_in_with(partner.http, sound | {"clientSecret": "wrong"}), "E002")
    assert_error(log_in_with(partner.http, sound | {"clientId": "crd_unknown"}), "E002")
    assert_error(log_in_with(partner.http, sound), "E003")


# ---- production ----


@pytest.mark.parametrize(
    ("networks", "status"),
    [
        ([], 403),
        (["10.0.0.0/8"], 403),
        ([STRANGER], 403),
        (["::1"], 403),
        (["0.0.0.0/32"], 403),
        ([CLIENT], 200),
        (["127.0.0.1/32"], 200),
        (["127.0.0.0/30"], 200),
        (["0.0.0.0/0"], 200),
        (["10.0.0.0/8", "127.0.0.0/8"], 200),
    ],
)
def test_in_production_only_networks_of_the_list_are_served(
    production: House, networks: list[str], status: int
) -> None:
    partner = production.partner()
    allow(production, partner, *networks)
    answer = partner.log_in()
    assert answer.status_code == status
    if status == 403:
        assert_error(answer, "E003")
    partner.token = token_for(partner, environment="production")
    assert partner.get("/products").status_code == status


@every_call
def test_in_production_every_call_from_a_foreign_address_is_403(production: House, method: str, path: str) -> None:
    partner = production.partner()
    partner.token = token_for(partner, environment="production")
    assert_error(call(partner, method, path), "E003")


def test_a_network_allowed_or_removed_binds_within_a_second(production: House) -> None:
    partner = production.partner()
    partner.token = token_for(partner, environment="production")
    assert_error(partner.get("/products"), "E003")
    allow(production, partner, CLIENT, settle=False)
    soon(lambda: partner.get("/products").status_code == 200)

    async def deed(conn: pool.Connection) -> None:
        await manage.remove_network(conn, partner_id=partner.partner.partner_id, network=CLIENT, now=app.now())

    production.do(deed, settle=False)
    soon(lambda: partner.get("/products").status_code == 403)


def test_in_staging_every_address_is_served(house: House) -> None:
    partner = house.partner()
    with calling_from(house, STRANGER) as stranger:
        partner.http = stranger
        assert partner.log_in().status_code == 200
        assert partner.get("/products").status_code == 200


@pytest.mark.parametrize(
    ("peer", "forwarded", "status"),
    [
        (PROXY, None, 403),
        (PROXY, "203.0.113.7", 200),
        (PROXY, "198.51.100.1, 203.0.113.7", 200),
        (PROXY, "203.0.113.7, 198.51.100.1", 403),
        (PROXY, f"203.0.113.7, {PROXY}", 200),
        (PROXY, f"203.0.113.7, 198.51.100.1, {PROXY}", 403),
        (PROXY, "198.51.100.1", 403),
        (PROXY, "nonsense", 403),
        (PROXY, "203.0.113.7, nonsense", 403),
        (PROXY, "::ffff:203.0.113.7", 200),
        (PROXY, "2001:db8::1", 200),
        (STRANGER, "203.0.113.7", 403),
        (CLIENT, "203.0.113.7", 403),
        (CLIENT, f"203.0.113.7, {PROXY}", 403),
    ],
)
def test_x_forwarded_for_is_believed_from_trusted_proxies_only(
    production: House, peer: str, forwarded: str | None, status: int
) -> None:
    partner = production.partner()
    allow(production, partner, "203.0.113.0/24", "2001:db8::/64")
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    sound = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
    partner.token = token_for(partner, environment="production")
    with calling_from(production, peer) as client:
        partner.http = client
        assert log_in_with(client, sound, **headers).status_code == status
        assert partner.get("/products", headers=headers).status_code == status


def test_two_x_forwarded_for_headers_are_one_list(production: House) -> None:
    partner = production.partner()
    allow(production, partner, "203.0.113.0/24")
    partner.token = token_for(partner, environment="production")
    with calling_from(production, PROXY) as client:
        for hops, status in (("203.0.113.7", "198.51.100.1"), 403), (("198.51.100.1", "203.0.113.7"), 200):
            headers = [*partner.headers().items(), *(("X-Forwarded-For", hop) for hop in hops)]
            assert client.get("/v1/partners/products", headers=headers).status_code == status


def test_staging_tokens_and_credentials_are_401_in_production(production: House) -> None:
    partner = production.partner(environment="staging")
    allow(production, partner, CLIENT)
    assert_error(partner.log_in(), "E002")
    for environment, status in (("staging", 401), ("production", 401)):
        partner.token = token_for(partner, environment=environment)
        if environment == "staging":
            assert partner.get("/products").status_code == status
    live = production.partner()
    allow(production, live, CLIENT)
    live.token = token_for(live, environment="staging")
    assert_error(live.get("/products"), "E002")
    assert live.log_in().status_code == 200
    assert live.get("/products").status_code == 200


# ---- changes bind ----


def soon(holds: Callable[[], bool]) -> None:
    """The condition comes to hold; a second is promised, a loaded machine is given ten."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def usual(other_database: Callable[[], str]) -> Iterator[House]:
    """A service that looks for changes as often as it does unless it is told."""
    with serving(other_database(), poll_seconds=0.25) as house:
        yield house


def test_revocation_suspension_and_resumption_bind_within_a_second(usual: House) -> None:
    partner = usual.partner()

    def status(wanted: int) -> Callable[[], bool]:
        return lambda: partner.get("/wallet/balance").status_code == wanted

    assert status(200)()
    suspend(usual, partner, settle=False)
    soon(status(401))
    resume(usual, partner, settle=False)
    soon(status(200))
    assert partner.log_in().status_code == 200
    revoke(usual, partner, settle=False)
    soon(status(401))


def test_catalogue_and_entitlement_changes_bind_within_a_second(usual: House) -> None:
    partner, brand = usual.partner(brands=[]), usual.brand()

    def enabling(*, enabled: bool) -> None:
        async def deed(conn: pool.Connection) -> None:
            await edit.set_enabled(conn, partner=partner.partner, brand_ids=[brand], enabled=enabled, now=app.now())

        usual.do(deed, settle=False)

    async def deactivate(conn: pool.Connection) -> None:
        await edit.set_status(conn, brand_id=brand, status=catalog.Status.INACTIVE, now=app.now())

    assert partner.get(f"/products/{brand}").status_code == 404
    enabling(enabled=True)
    soon(lambda: partner.get(f"/products/{brand}").status_code == 200)
    usual.do(deactivate, settle=False)
    soon(lambda: partner.get(f"/products/{brand}").json()["status"] == "INACTIVE")
    enabling(enabled=False)
    soon(lambda: partner.get(f"/products/{brand}").status_code == 404)
    soon(lambda: partner.get("/products").json()["data"] == [])


def test_a_process_that_could_not_look_for_changes_answers_503(database_url: str) -> None:
    with serving(database_url, stale_after_seconds=0.5) as house:
        partner = house.partner()
        assert partner.get("/products").status_code == 200

        async def hold() -> list[httpx.Response]:
            async with pool.connect(database_url) as conn, conn.transaction():
                await conn.execute("LOCK TABLE change IN ACCESS EXCLUSIVE MODE")
                await asyncio.sleep(1)
                return [await asyncio.to_thread(partner.get, path) for path in ("/products", "/wallet/balance")]

        for answer in asyncio.run(hold()):
            assert_error(answer, "E011")
            assert int(answer.headers["retry-after"]) >= 1
        soon(lambda: partner.get("/products").status_code == 200)


# ---- slow clients ----


def request_head(partner: PartnerProgram, method: str, path: str, headers: dict[str, str]) -> bytes:
    """The head of a request, for a socket."""
    made = {"Host": "localhost", **partner.headers(), **headers}
    lines = [f"{method} /v1/partners{path} HTTP/1.1", *(f"{name}: {value}" for name, value in made.items()), "", ""]
    return "\r\n".join(lines).encode()


@contextlib.contextmanager
def connected(house: House, *, timeout: float = 10) -> Iterator[socket.socket]:
    url = httpx.URL(house.base_url)
    with socket.create_connection((url.host, url.port or 80), timeout=timeout) as line:
        yield line


def read_all(line: socket.socket) -> bytes:
    """What arrives until the first answer is whole, or the service hangs up."""
    received = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while piece := line.recv(65536):
            received += piece
            head, blank, body = received.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            if blank and length and len(body) >= int(length[1]):
                break
    return received


def speak(house: House, *pieces: bytes) -> bytes:
    """Send the pieces and read the answer."""
    with connected(house) as line:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for piece in pieces:
                line.sendall(piece)
        return read_all(line)


def drip(line: socket.socket, text: bytes) -> bytes:
    """Send a byte every 0.4 s until the service answers or hangs up; what it said."""
    line.settimeout(0.4)
    for byte in text:
        try:
            line.sendall(bytes([byte]))
            return line.recv(65536)
        except TimeoutError:
            continue
        except OSError:
            return b""
    raise AssertionError("the service listened to the end")


@every_post
def test_a_body_that_drips_is_cut_off(impatient: House, path: str) -> None:
    partner = impatient.partner()
    with connected(impatient) as line:
        line.sendall(
            request_head(partner, "POST", path, {"Content-Type": "application/json", "Content-Length": "5000"})
        )
        said = drip(line, b"{" + b" " * 99)
        assert re.match(rb"HTTP/1.1 4\d\d ", said), said
        assert partner.get("/products").status_code == 200


def test_a_body_that_never_comes_is_cut_off(impatient: House) -> None:
    partner = impatient.partner()
    headers = {"Content-Type": "application/json", "Content-Length": "50"}
    answer = speak(impatient, request_head(partner, "POST", "/orders", headers))
    assert re.match(rb"HTTP/1.1 4\d\d ", answer), answer
    assert partner.get("/orders").json()["data"] == []


@pytest.mark.parametrize("beginning", [b"", b"GET /v1/partners/products HTTP/1.1\r\nHost: x\r\nX-Drip: "])
def test_headers_that_drip_are_cut_off(impatient: House, beginning: bytes) -> None:
    with connected(impatient) as line:
        line.sendall(beginning)
        assert drip(line, (b"GET /v1/partners/products?" if not beginning else b"") + b"a" * 50) == b""


def test_a_connection_that_says_nothing_is_cut_off(impatient: House) -> None:
    with connected(impatient, timeout=20) as line, contextlib.suppress(ConnectionResetError):
        assert line.recv(1) == b""


def test_headers_that_drip_on_a_connection_that_was_used_are_cut_off(impatient: House) -> None:
    partner = impatient.partner()
    with connected(impatient) as line:
        line.sendall(request_head(partner, "GET", "/products", {}))
        assert b" 200 " in read_all(line).splitlines()[0]
        assert drip(line, b"GET /v1/partners/products?" + b"a" * 50) == b""


def test_a_client_that_hangs_up_in_its_body_places_nothing(impatient: House) -> None:
    partner = impatient.partner()
    body = json.dumps(partner.order_body()).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    with connected(impatient) as line:
        line.sendall(request_head(partner, "POST", "/orders", headers) + body[:-1])
    time.sleep(0.2)
    assert partner.get("/orders").json()["data"] == []
