"""One HTTP connection, byte by byte: what clients rarely do and the protocol allows."""

import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from house import House, PartnerProgram


@pytest.fixture
def program(house: House) -> PartnerProgram:
    return house.partner()


@pytest.fixture
def line(house: House) -> Iterator[socket.socket]:
    url = httpx.URL(house.base_url)
    with socket.create_connection((url.host, url.port or 80), timeout=20) as connected:
        yield connected


def head_of(program: PartnerProgram, method: str, path: str, **more: str) -> bytes:
    headers = program.headers({"Host": "x", **{name.replace("_", "-"): value for name, value in more.items()}})
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} /v1/partners{path} HTTP/1.1\r\n{text}\r\n".encode()


def receive_until(line: socket.socket, end: bytes) -> bytes:
    received = b""
    while not received.endswith(end):
        data = line.recv(65536)
        assert data, received
        received += data
    return received


def test_a_head_request_is_answered_with_a_head_only(program: PartnerProgram, line: socket.socket) -> None:
    line.sendall(head_of(program, "HEAD", "/wallet/balance"))
    first = receive_until(line, b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 ")
    # Nothing of a body stands between the two answers.
    line.sendall(head_of(program, "GET", "/wallet/balance"))
    assert receive_until(line, b"}").startswith(b"HTTP/1.1 200 ")


def test_what_has_not_changed_is_a_head_only(program: PartnerProgram, line: socket.socket) -> None:
    tag = program.get("/products").headers["ETag"]
    for _ in range(2):
        line.sendall(head_of(program, "GET", "/products", If_None_Match=tag))
        assert receive_until(line, b"\r\n\r\n").startswith(b"HTTP/1.1 304 ")


def test_requests_sent_together_are_answered_in_their_order(program: PartnerProgram, line: socket.socket) -> None:
    ids = [program.place().json()["id"] for _ in range(3)]
    line.sendall(b"".join(head_of(program, "GET", f"/orders/{order_id}", Connection="keep-alive") for order_id in ids))
    line.sendall(head_of(program, "GET", "/wallet/balance", Connection="close"))
    received = b""
    while data := line.recv(65536):
        received += data
    assert received.count(b"HTTP/1.1 200 ") == 4
    places = [received.index(order_id.encode()) for order_id in ids] + [received.index(b'"balance"')]
    assert places == sorted(places)


def test_who_waits_for_100_continue_is_told_to(program: PartnerProgram, line: socket.socket) -> None:
    body = json.dumps(program.order_body()).encode()
    length = str(len(body))
    more = {"Content_Type": "application/json", "Content_Length": length, "Expect": "100-continue"}
    line.sendall(head_of(program, "POST", "/orders", **more))
    assert receive_until(line, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    line.sendall(body)
    assert b'"status":"SUCCESS"' in receive_until(line, b"}")


def test_an_answer_leaves_whole(program: PartnerProgram, line: socket.socket) -> None:
    # Head and body were two segments once, and woke the client twice.
    line.sendall(head_of(program, "GET", "/wallet/balance"))
    assert line.recv(65536).endswith(b"}")


@pytest.mark.parametrize("pieces", [1, 7, 40])
def test_a_request_in_pieces_is_one_request(program: PartnerProgram, line: socket.socket, pieces: int) -> None:
    body = json.dumps(program.order_body()).encode()
    more = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    whole = head_of(program, "POST", "/orders", **more) + body
    for _ in range(2):  # the second is a replay, over the same connection
        for start in range(0, len(whole), size := len(whole) // pieces):
            line.sendall(whole[start : start + size])
        assert b'"status":"SUCCESS"' in receive_until(line, b"}")


@pytest.mark.parametrize("path", ["/products", "/products/nothing", "/wallet/balance", "/orders"])
def test_what_is_no_query_is_refused_everywhere(program: PartnerProgram, path: str) -> None:
    assert program.get(f"{path}?q=%ff").status_code == 400
