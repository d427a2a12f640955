"""Every kind of bad input: a clear answer, never a 5xx, and nothing stored (wire contract §1, §2, §3)."""

import gzip
import json
import re
import select
import socket
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from house import House, PartnerProgram

MONEY = 100_000
BODY_LIMIT = 256 * 1024
TEXTS = [
    "customerDetails.name",
    "customerDetails.phoneNumber",
    "customerDetails.email",
    "deliveryDetails.recipientName",
    "deliveryDetails.recipientType",
    "deliveryDetails.recipientPhoneNumber",
    "deliveryDetails.recipientEmail",
    "deliveryDetails.senderName",
    "deliveryDetails.wishMessage",
]
MANY_DIGITS = "9" * 10_000


class Raw:
    """A body written by hand: members as JSON texts, so that anything can be sent."""

    def __init__(self) -> None:
        self.reference_id = f"bad-{uuid.uuid4().hex}"

    def write(self, **members: str | None) -> str:
        """A sound order with members replaced, added, or (None) left out."""
        texts = {
            "productId": '"fixed"',
            "referenceId": json.dumps(self.reference_id),
            "amount": "100",
            "denominationDetails": '[{"denomination":100,"quantity":1}]',
        } | members
        return "{" + ",".join(f'"{name}":{text}' for name, text in texts.items() if text is not None) + "}"


def fields_of(answer: httpx.Response) -> list[str]:
    return [error["fieldName"] for error in answer.json()["subErrors"]]


def assert_refused(answer: httpx.Response, *, status: int = 400, error_id: str = "E001") -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()
    assert error["id"] == error_id
    assert error["message"]
    assert uuid.UUID(error["requestId"])
    assert len(answer.content) < 100_000
    assert not re.search(r"Traceback|asyncpg|msgspec|\.py\b|decimal\.", answer.text)


def assert_nothing_stored(partner: PartnerProgram, reference_id: str) -> None:
    assert partner.get(f"/orders/by-reference/{reference_id}").status_code == 404
    assert partner.get("/orders").json()["data"] == []
    assert partner.balance() == MONEY


def refuse(house: House, raw: Raw, content: str | bytes) -> httpx.Response:
    """Send it as a new partner: it is refused with 400 and nothing is stored."""
    partner = house.partner()
    answer = partner.post("/orders", content=content)
    assert_refused(answer)
    assert_nothing_stored(partner, raw.reference_id)
    return answer


def tell(number: str) -> str:
    """A number as a message may spell it, whatever its letters and signs."""
    return number.lower().replace("+", "")[:30]


NOT_AMOUNTS = [
    "-0", "0", "0.0", "0e5", "-100", "-0.01", "0.001", "100.001", "1e-9", "9223372036854775808", "1e400", "-1e400",
    "1e-400", "1e999999999", "1e-999999999", "-1e999999999", MANY_DIGITS, "0." + "0" * 9_999 + "1", "100." + "3" * 5000,
    "1e15", "1e18", "18446744073709551616",
]  # fmt: skip
TOO_LONG_EXPONENTS = ["1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999", "1e" + "9" * 9_999]
NOT_NUMBERS = ['"100"', '"12,50"', '""', "true", "false", "null", "[]", "[100]", "{}", '{"value":100}']
NOT_JSON = [
    "NaN",
    "Infinity",
    "-Infinity",
    "+100",
    "0100",
    ".5",
    "1.",
    "1e",
    "0x64",
    "1_000",
    "\u0661\u0660\u0660",
    "nan",
    "100 100",
]
NOT_QUANTITIES = [
    "0", "-0", "-1", "1.5", "0.999", "1001", "1e9", "1e400", "1e999999999", "1e-999999999", "-1e999999999",
    "9223372036854775808", "4294967297", MANY_DIGITS, "1." + "0" * 5000 + "1",
]  # fmt: skip


def short(value: object) -> str:
    return str(value)[:30]


@pytest.mark.parametrize("member", ["amount", "denominationDetails[0].denomination"])
@pytest.mark.parametrize("number", NOT_AMOUNTS, ids=short)
def test_a_number_that_is_no_amount(house: House, member: str, number: str) -> None:
    raw = Raw()
    line = f'[{{"denomination":{number},"quantity":1}}]'
    answer = refuse(house, raw, raw.write(amount=number) if member == "amount" else raw.write(denominationDetails=line))
    assert fields_of(answer) == [member]
    if not number.startswith("0.000"):  # as a decimal text or as 1E-10000
        assert tell(number)[:20] in tell_message(answer)


def tell_message(answer: httpx.Response) -> str:
    return str(answer.json()["message"]).lower().replace("+", "")


@pytest.mark.parametrize("number", NOT_QUANTITIES, ids=short)
def test_a_number_that_is_no_quantity(house: House, number: str) -> None:
    raw = Raw()
    answer = refuse(house, raw, raw.write(denominationDetails=f'[{{"denomination":100,"quantity":{number}}}]'))
    assert fields_of(answer) == ["denominationDetails[0].quantity"]
    assert tell(number) in tell_message(answer)


NUMBERS = {
    "amount": {"amount": "%s"},
    "denominationDetails[0].denomination": {"denominationDetails": '[{"denomination":%s,"quantity":1}]'},
    "denominationDetails[0].quantity": {"denominationDetails": '[{"denomination":100,"quantity":%s}]'},
}


@pytest.mark.parametrize("member", NUMBERS)
@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_a_value_that_is_no_number(house: House, member: str, value: str) -> None:
    raw = Raw()
    answer = refuse(house, raw, raw.write(**{name: text % value for name, text in NUMBERS[member].items()}))
    assert fields_of(answer) == [member]


@pytest.mark.parametrize("member", NUMBERS)
@pytest.mark.parametrize("value", ['"12,50"', '"abc"', "true"])
def test_the_message_names_the_offending_value_of_a_wrong_type(house: House, member: str, value: str) -> None:
    raw = Raw()
    answer = refuse(house, raw, raw.write(**{name: text % value for name, text in NUMBERS[member].items()}))
    assert value.strip('"') in answer.json()["message"]


@pytest.mark.parametrize("member", NUMBERS)
@pytest.mark.parametrize("text", NOT_JSON)
def test_a_number_that_is_no_json(house: House, member: str, text: str) -> None:
    raw = Raw()
    refuse(house, raw, raw.write(**{name: form % text for name, form in NUMBERS[member].items()}))


@pytest.mark.parametrize("member", [*NUMBERS, "ignored"])
@pytest.mark.parametrize("number", TOO_LONG_EXPONENTS, ids=short)
def test_an_exponent_beyond_all_bounds(house: House, member: str, number: str) -> None:
    raw = Raw()
    partner = house.partner()
    forms = NUMBERS.get(member, {"ignored": "%s"})
    answer = partner.post("/orders", content=raw.write(**{name: form % number for name, form in forms.items()}))
    if member != "ignored" or answer.status_code != 200:  # what is ignored may be refused or not
        assert_refused(answer)
        assert_nothing_stored(partner, raw.reference_id)


NOT_STRINGS = ["null", "1", "true", "[]", "{}", '["x"]']
NOT_OBJECTS = ["1", "true", '"x"', '""', "[]", "[{}]"]
WRONG_TYPES: list[tuple[str, dict[str, str], list[str]]] = [
    ("productId", {"productId": "%s"}, NOT_STRINGS),
    ("referenceId", {"referenceId": "%s"}, NOT_STRINGS),
    ("denominationDetails", {"denominationDetails": "%s"}, ["null", "1", "true", '"x"', "{}", '{"denomination":100}']),
    ("denominationDetails[0]", {"denominationDetails": "[%s]"}, ["null", "1", "true", '"x"', "[]"]),
    (
        "denominationDetails[1]",
        {"denominationDetails": '[{"denomination":100,"quantity":1},%s]'},
        ["null", "1", "true", '"x"', "[]"],
    ),
    ("customerDetails", {"customerDetails": "%s"}, NOT_OBJECTS),
    ("deliveryDetails", {"deliveryDetails": "%s"}, NOT_OBJECTS),
    *(
        (member, {member.split(".")[0]: f'{{"{member.split(".")[1]}":%s}}'}, [t for t in NOT_STRINGS if t != "null"])
        for member in TEXTS
    ),
]


@pytest.mark.parametrize(
    ("member", "forms", "value"), [(member, forms, value) for member, forms, values in WRONG_TYPES for value in values]
)
def test_a_value_of_the_wrong_type(house: House, member: str, forms: Mapping[str, str], value: str) -> None:
    raw = Raw()
    answer = refuse(house, raw, raw.write(**{name: form % value for name, form in forms.items()}))
    assert fields_of(answer) == [member]


@pytest.mark.parametrize(
    "content",
    ["", " ", "null", "1", "true", '"x"', "[]", "[{}]", "{", "}", '{"a"}', "{'a':1}", '{"a":1,}', "{}{}", '{"a":1}x',
     "undefined", "<order/>", "a=1&b=2", "// c\n{}", '{"a":"\n"}', '{"a":"\\x41"}', '{"a":"\\ud8"}', "\ufeff{}"],
)  # fmt: skip
def test_a_body_that_is_no_json_object(house: House, content: str) -> None:
    refuse(house, Raw(), content.encode())


REQUIRED = ["productId", "referenceId", "amount", "denominationDetails"]


@pytest.mark.parametrize("member", REQUIRED)
def test_a_missing_member(house: House, member: str) -> None:
    raw = Raw()
    assert fields_of(refuse(house, raw, raw.write(**{member: None}))) == [member]


@pytest.mark.parametrize("member", ["denomination", "quantity"])
def test_a_missing_member_of_a_line(house: House, member: str) -> None:
    raw = Raw()
    other = {"denomination": "quantity", "quantity": "denomination"}[member]
    lines = f'[{{"denomination":100,"quantity":1}},{{"{other}":1}}]'
    assert fields_of(refuse(house, raw, raw.write(denominationDetails=lines))) == [f"denominationDetails[1].{member}"]


def test_an_empty_product_id(house: House) -> None:
    partner = house.partner()
    raw = Raw()
    assert partner.post("/orders", content=raw.write(productId='""')).status_code in {400, 404}
    assert_nothing_stored(partner, raw.reference_id)


@pytest.mark.parametrize("lines", [0, 101, 5_000])
def test_no_line_or_too_many(house: House, lines: int) -> None:
    raw = Raw()
    line = '{"denomination":100,"quantity":1}'
    content = raw.write(amount=str(100 * (lines or 1)), denominationDetails=f"[{','.join([line] * lines)}]")
    assert len(content) < BODY_LIMIT
    assert fields_of(refuse(house, raw, content)) == ["denominationDetails"]


def test_ten_thousand_lines(house: House) -> None:
    partner, raw = house.partner(), Raw()
    line = '{"denomination":100,"quantity":1}'
    answer = partner.post(
        "/orders", content=raw.write(amount="1000000", denominationDetails=f"[{','.join([line] * 10_000)}]")
    )
    assert_refused(answer, status=413, error_id="E006")  # 340 KB, above the body's limit
    lean = '{"denomination":1,"quantity":1}'.replace("denomination", "d")
    answer = partner.post("/orders", content=raw.write(denominationDetails=f"[{','.join([lean] * 10_000)}]"))
    assert_refused(answer)
    assert fields_of(answer) == ["denominationDetails"]
    assert_nothing_stored(partner, raw.reference_id)


SEVERAL: dict[str, tuple[dict[str, str | None], list[str]]] = {
    "everything missing": (dict.fromkeys(REQUIRED), REQUIRED),
    "wrong types everywhere": (
        {
            "productId": "1",
            "referenceId": "null",
            "amount": '"1"',
            "denominationDetails": '[{"denomination":"1","quantity":true},null]',
            "customerDetails": '{"name":1,"email":[]}',
            "deliveryDetails": '"x"',
        },
        [
            "productId", "referenceId", "amount", "denominationDetails[0].denomination",
            "denominationDetails[0].quantity", "denominationDetails[1]", "customerDetails.name",
            "customerDetails.email", "deliveryDetails",
        ],
    ),
    "wrong values everywhere": (
        {
            "amount": "0",
            "denominationDetails": '[{"denomination":0.001,"quantity":0},{"denomination":-1,"quantity":1.5}]',
        },
        [
            "amount", "denominationDetails[0].denomination", "denominationDetails[0].quantity",
            "denominationDetails[1].denomination", "denominationDetails[1].quantity",
        ],
    ),
    "texts too long and the reference refused": (
        {
            "referenceId": '".."',
            "customerDetails": json.dumps({"name": "x" * 101, "phoneNumber": "x" * 21, "email": "x" * 255}),
            "deliveryDetails": json.dumps({"recipientType": "BOTH", "wishMessage": "x" * 501}),
        },
        [
            "referenceId", "customerDetails.name", "customerDetails.phoneNumber", "customerDetails.email",
            "deliveryDetails.recipientType", "deliveryDetails.wishMessage",
        ],
    ),
    "a missing member beside a wrong value": (
        {
            "productId": None,
            "denominationDetails": '[{"denomination":100,"quantity":1},{"denomination":1,"quantity":1.5}]',
        },
        ["productId", "denominationDetails[1].quantity"],
    ),
    "a wrong type beside a wrong value": (
        {"amount": "0", "denominationDetails": '[{"denomination":"100","quantity":0}]'},
        ["amount", "denominationDetails[0].denomination", "denominationDetails[0].quantity"],
    ),
    "a text too long beside a wrong value": (
        {"amount": "100.001", "customerDetails": json.dumps({"name": "x" * 101})},
        ["amount", "customerDetails.name"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("members", "fields"), SEVERAL.values(), ids=SEVERAL)
def test_all_violations_are_listed_at_once(house: House, members: dict[str, str | None], fields: list[str]) -> None:
    raw = Raw()
    answer = refuse(house, raw, raw.write(**members))
    assert sorted(fields_of(answer)) == sorted(fields)
    assert all(error["message"] for error in answer.json()["subErrors"])


@pytest.mark.parametrize(
    ("members", "fields"),
    [
        ({"amount": "0"}, ["amount", "customerDetails"]),
        ({"productId": None}, ["customerDetails", "productId"]),
        ({"amount": '"1"', "customerDetails": '{"phoneNumber":"1"}'}, ["amount", "customerDetails.name"]),
    ],
    ids=str,
)
def test_a_missing_customer_is_listed_with_the_other_violations(
    house: House, members: dict[str, str | None], fields: list[str]
) -> None:
    partner, raw = house.partner(kind="B2C"), Raw()
    answer = partner.post("/orders", content=raw.write(**members))
    assert_refused(answer)
    assert sorted(fields_of(answer)) == fields


def test_e151_exactly(house: House) -> None:
    partner, raw = house.partner(), Raw()
    answer = partner.post(
        "/orders", content=raw.write(amount="900", denominationDetails='[{"denomination":500,"quantity":2}]')
    )
    message = "amount is 900 but the denominations add up to 1000"
    assert answer.status_code == 400
    assert answer.json() == {
        "id": "E151",
        "code": "ORDER_AMOUNT_MISMATCH",
        "message": message,
        "requestId": answer.request.headers["X-REQUEST-ID"],
        "subErrors": [{"fieldName": "amount", "message": message}],
    }
    assert_nothing_stored(partner, raw.reference_id)


UNSTORABLE = ["\\u0000", "a\\u0000b", "\\ud800", "\\udfff", "\\udc00\\ud800", "a\\ud83d", "\\udf81b"]


@pytest.mark.parametrize("text", UNSTORABLE)
@pytest.mark.parametrize("member", ["productId", "referenceId", *TEXTS])
def test_nul_and_half_surrogates_in_a_text(house: House, member: str, text: str) -> None:
    partner, raw = house.partner(), Raw()
    holder, _, name = member.partition(".")
    form = f'{{"{name}":"{text}"}}' if name else f'"{text}"'
    answer = partner.post("/orders", content=raw.write(**{holder: form}))
    assert_refused(answer)
    assert fields_of(answer) == [member]
    assert_nothing_stored(partner, raw.reference_id)


@pytest.mark.parametrize("text", UNSTORABLE)
def test_nul_and_half_surrogates_where_nobody_looks(house: House, text: str) -> None:
    partner = house.partner()
    for ignored in (f'"{text}"', f'{{"{text}":["{text}"]}}'):
        answer = partner.post("/orders", content=Raw().write(ignored=ignored))
        assert answer.status_code in {200, 400}, answer.text


def test_a_whole_surrogate_pair_is_a_character(house: House) -> None:
    answer = house.partner().post("/orders", content=Raw().write(customerDetails='{"name":"\\ud83c\\udf81"}'))
    assert answer.json()["status"] == "SUCCESS"


@pytest.mark.parametrize(
    "value", ["%00", "a%00b", "%ff", "%ed%a0%80", "%c0%80", "%", "%zz", "x" * 10_000, "%F0%9F%8E%81", "%0a", " "]
)
@pytest.mark.parametrize(
    "path", ["/orders/{}", "/orders/by-reference/{}", "/orders/vouchers/{}", "/products/{}"]
)  # fmt: skip
def test_an_id_in_the_path_that_cannot_exist(house: House, path: str, value: str) -> None:
    partner = house.partner()
    headers = partner.headers()
    answer = raw_get(house, f"/v1/partners{path.format(value)}".replace(" ", "%20"), headers)
    assert answer in {400, 404, 414}


def raw_get(house: House, target: str, headers: Mapping[str, str]) -> int:
    """GET with the path exactly as given; no client in between tidies it."""
    with connect(house) as sock:
        lines = [f"GET {target} HTTP/1.1", "Host: test", "Connection: close"]
        sock.sendall("\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode())
        return read_status(sock)


def connect(house: House) -> socket.socket:
    url = httpx.URL(house.base_url)
    sock = socket.create_connection((url.host, url.port), timeout=10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_status(sock: socket.socket) -> int:
    """The status of the answer that comes; AssertionError when there is none."""
    got = b""
    while b"\r\n" not in got:
        more = sock.recv(65536)
        assert more, f"the connection was closed without an answer: {got!r}"
        got += more
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", got)
    assert found, got
    return int(found[1])


REPEATED = {
    "at the top": lambda raw: raw.write()[:-1] + ',"amount":100}',
    "with another value": lambda raw: raw.write()[:-1] + ',"amount":200}',
    "the reference": lambda raw: raw.write()[:-1] + ',"referenceId":"other"}',
    "spelt with an escape": lambda raw: raw.write()[:-1] + ',"\\u0061mount":100}',
    "in a line": lambda raw: raw.write(denominationDetails='[{"denomination":100,"quantity":1,"quantity":1}]'),
    "in customerDetails": lambda raw: raw.write(customerDetails='{"name":"a","name":"b"}'),
    "in deliveryDetails": lambda raw: raw.write(deliveryDetails='{"recipientType":"SELF","recipientType":"SELF"}'),
    "in what is ignored": lambda raw: raw.write(ignored='[{"deep":{"x":1,"x":1}}]'),
    "a half surrogate": lambda raw: raw.write(ignored='{"\\ud800":1,"\\ud800":1}'),
    "an empty name": lambda raw: raw.write(ignored='{"":1,"":1}'),
    "ten thousand times": lambda raw: raw.write(ignored="{" + ",".join(['"x":1'] * 10_000) + "}"),
    "one of ten thousand": lambda raw: raw.write(
        ignored="{" + ",".join([*(f'"{n}":1' for n in range(10_000)), '"9999":1']) + "}"
    ),
}


@pytest.mark.parametrize("where", REPEATED)
def test_a_repeated_key(house: House, where: str) -> None:
    raw = Raw()
    refuse(house, raw, REPEATED[where](raw))


@pytest.mark.parametrize("depth", [1_000, 20_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_json_that_is_nested_deeply(house: House, opening: str, closing: str, depth: int) -> None:
    raw = Raw()
    deep = opening * depth + "1" + closing * depth
    assert len(deep) < BODY_LIMIT
    partner = house.partner()
    for content in (raw.write(amount=deep), raw.write(denominationDetails=deep), raw.write(customerDetails=deep)):
        if opening == "[" or "customerDetails" not in content:
            assert_refused(partner.post("/orders", content=content))
    assert_refused(partner.post("/orders", content=f"[{deep}]"))
    assert_refused(partner.post("/orders", content=opening * depth))
    assert_nothing_stored(partner, raw.reference_id)
    assert partner.post("/orders", content=Raw().write(ignored=deep)).status_code in {200, 400}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp037"])
def test_a_body_in_another_encoding(house: House, encoding: str) -> None:
    raw = Raw()
    refuse(house, raw, raw.write().encode(encoding))


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"\x00", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", "ü".encode("latin-1"), b"\xf0\x9f\x8e"],
)
@pytest.mark.parametrize("where", ["text", "name", "alone"])
def test_bytes_that_are_no_utf8(house: House, content: bytes, where: str) -> None:
    raw = Raw()
    if where == "alone":
        body = content
    elif where == "text":
        body = raw.write(customerDetails='{"name":"@"}').encode().replace(b"@", content)
    else:
        body = raw.write(ignored='{"@":1}').encode().replace(b"@", content)
    refuse(house, raw, body)


def test_a_compressed_body_is_not_read_as_json(house: House) -> None:
    partner, raw = house.partner(), Raw()
    content = gzip.compress(raw.write().encode())
    answer = partner.post("/orders", content=content, headers={"Content-Encoding": "gzip"})
    assert answer.status_code in {400, 415}
    assert_nothing_stored(partner, raw.reference_id)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (None, 415),
        ("", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonp", 415),
        ("text/json", 415),
        ("application/xml; a=application/json", 415),
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON;charset=UTF-8", 200),
    ],
)
def test_the_content_type(house: House, content_type: str | None, status: int) -> None:
    partner, raw = house.partner(), Raw()
    answer = partner.post("/orders", content=raw.write().encode(), headers={"Content-Type": content_type})
    if status == 200:
        assert answer.status_code == 200, answer.text
    else:
        assert_refused(answer, status=415, error_id="E007")
        assert_nothing_stored(partner, raw.reference_id)


@pytest.mark.parametrize(
    ("header", "value", "status", "error_id"),
    [
        ("X-REQUEST-ID", None, 400, "E001"),
        ("X-REQUEST-ID", "", 400, "E001"),
        ("X-REQUEST-ID", "1234", 400, "E001"),
        ("X-REQUEST-ID", "g" * 32, 400, "E001"),
        ("X-REQUEST-ID", "x" * 5000, 400, "E001"),
        ("Authorization", None, 401, "E002"),
        ("Authorization", "", 401, "E002"),
        ("Authorization", "Bearer", 401, "E002"),
        ("Authorization", "Bearer x.y.z", 401, "E002"),
        ("Authorization", "Basic YTpi", 401, "E002"),
    ],
)
def test_a_bad_header(house: House, header: str, value: str | None, status: int, error_id: str) -> None:
    partner, raw = house.partner(), Raw()
    answer = partner.post("/orders", content=raw.write(), headers={header: value})
    assert_refused(answer, status=status, error_id=error_id)
    assert_nothing_stored(partner, raw.reference_id)


def test_a_body_at_the_limit_is_read_and_a_byte_more_is_413(house: House) -> None:
    partner, raw = house.partner(), Raw()
    content = raw.write()
    more = partner.post("/orders", content=content + " " * (BODY_LIMIT + 1 - len(content)))
    assert_refused(more, status=413, error_id="E006")
    assert_nothing_stored(partner, raw.reference_id)
    assert partner.post("/orders", content=content + " " * (BODY_LIMIT - len(content))).status_code == 200


def head(partner: PartnerProgram, *lines: str) -> bytes:
    """The head of a POST of an order, by hand."""
    headers = partner.headers({"Content-Type": "application/json", "Host": "test"})
    return "\r\n".join(
        ["POST /v1/partners/orders HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), *lines, "", ""]
    ).encode()


@pytest.mark.parametrize("length", [10**9, 10**18, BODY_LIMIT + 1])
def test_a_body_that_declares_too_much_is_refused_at_once(house: House, length: int) -> None:
    partner, raw = house.partner(), Raw()
    with connect(house) as sock:
        sock.sendall(head(partner, f"Content-Length: {length}") + raw.write().encode())
        assert read_status(sock) == 413
    assert_nothing_stored(partner, raw.reference_id)


@pytest.mark.parametrize("length", ["-1", "abc", "1e3", "10, 20", ""])
def test_a_content_length_that_is_none(house: House, length: str) -> None:
    partner, raw = house.partner(), Raw()
    with connect(house) as sock:
        sock.sendall(head(partner, f"Content-Length: {length}") + raw.write().encode())
        assert read_status(sock) in {400, 413}
    assert_nothing_stored(partner, raw.reference_id)


def test_a_gigabyte_in_chunks_is_refused_early(house: House) -> None:
    partner, raw = house.partner(), Raw()
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with connect(house) as sock:
        sock.sendall(head(partner, "Transfer-Encoding: chunked"))
        sent = 0
        while sent < 10**9 and not select.select([sock], [], [], 0.005)[0]:
            sock.sendall(chunk)
            sent += len(chunk)
        assert sent < 10**8
        assert read_status(sock) == 413
    assert_nothing_stored(partner, raw.reference_id)


@pytest.mark.parametrize("size", [1_000, 60_000, 66_000, 100_000, 130_000, 200_000, 250_000, BODY_LIMIT])
def test_a_large_body_sent_in_one_piece_is_answered(house: House, size: int) -> None:
    partner, raw = house.partner(), Raw()
    content = raw.write().ljust(size).encode()
    with connect(house) as sock:
        sock.sendall(head(partner, f"Content-Length: {size}") + content)
        assert read_status(sock) == 200
    assert partner.get(f"/orders/by-reference/{raw.reference_id}").json()["status"] == "SUCCESS"


def test_five_megabytes_in_chunks_is_413(house: House) -> None:
    partner, raw = house.partner(), Raw()

    def chunks() -> Iterator[bytes]:
        yield raw.write().encode()
        for _ in range(80):
            yield b" " * 65536

    assert_refused(partner.post("/orders", content=chunks()), status=413, error_id="E006")
    assert_nothing_stored(partner, raw.reference_id)


def test_the_service_still_serves_after_all_that(house: House) -> None:
    assert house.partner().place().json()["status"] == "SUCCESS"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{}", b'{"clientId":1,"clientSecret":2}', b'{"clientId":null,"clientSecret":"x"}',
     b'{"clientId":"\\u0000","clientSecret":"x"}', b'{"clientId":"\\ud800","clientSecret":"\\ud800"}',
     b'{"clientId":"a","clientId":"b","clientSecret":"x"}', b'{"clientId":"a"}', b"\xff",
     b'{"a":1e99999999999999999999}'],
)  # fmt: skip
def test_a_login_of_the_wrong_shape(house: House, body: bytes) -> None:
    answer = house.client().post("/v1/partners/auth/login", content=body, headers={"Content-Type": "application/json"})
    assert_refused(answer)


def test_a_secret_is_never_repeated(house: House) -> None:
    secret: dict[str, Any] = {"clientId": 7, "clientSecret": "hush-" + "x" * 300}
    answer = house.client().post("/v1/partners/auth/login", json=secret)
    assert_refused(answer)
    assert "hush" not in answer.text
