"""Each adapter on a real server over a real socket: the raw body is verified, kept, answered, and then handled."""

import asyncio
import contextlib
import http.client
import json
import select
import socket
import socketserver
import threading
import time
import types
import wsgiref.simple_server
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import django.conf
import django.core.handlers.asgi
import django.core.handlers.wsgi
import django.test
import django.urls
import fastapi
import flask
import pytest
import uvicorn
import werkzeug.serving
from starlette.applications import Starlette
from starlette.routing import Mount

from giftrail_client import Event, Inbox, SqliteInbox, WebhookRouter, router, webhooks
from giftrail_client.adapters import asgi
from giftrail_client.adapters import django as for_django
from giftrail_client.adapters import fastapi as for_fastapi
from giftrail_client.adapters import flask as for_flask

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB3ZWJob29rcyBpbiB0ZXN0cyE="
PATH = "/hooks/giftrail"
BODY = json.dumps({"eventId": "evt_1", "eventType": "ORDER_TERMINAL_STATE", "orderId": "ord_1"}).encode()
SERVER = "the server"


@dataclass
class Site:
    """A server at work, and how to stop it."""

    port: int
    stop: Callable[[], None]


@contextmanager
def in_thread(port: int, run: Callable[[], object], stop: Callable[[], None]) -> Iterator[Site]:
    thread = threading.Thread(target=run, name=SERVER, daemon=True)

    def end() -> None:
        stop()
        thread.join(20)
        assert not thread.is_alive()

    thread.start()
    try:
        yield Site(port, end)
    finally:
        end()


@contextmanager
def under_uvicorn(application: Any, *, lifespan: Any = "on") -> Iterator[Site]:
    config = uvicorn.Config(application, log_config=None, lifespan=lifespan, ws="none", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        run = lambda: asyncio.run(server.serve(sockets=[listening]))  # noqa: E731 — the thread's whole work
        with in_thread(listening.getsockname()[1], run, lambda: setattr(server, "should_exit", True)) as site:
            assert until(lambda: server.started)
            yield site


@contextmanager
def asgi_alone(hooks: WebhookRouter) -> Iterator[Site]:
    with under_uvicorn(asgi.application(hooks)) as site:
        yield site


@contextmanager
def asgi_in_starlette(hooks: WebhookRouter) -> Iterator[Site]:
    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with asgi.running(hooks):
            yield

    with under_uvicorn(Starlette(routes=[Mount("/hooks", asgi.application(hooks))], lifespan=lifespan)) as site:
        yield site


@contextmanager
def in_fastapi(hooks: WebhookRouter) -> Iterator[Site]:
    application = fastapi.FastAPI()
    application.include_router(for_fastapi.routes(hooks, PATH))
    with under_uvicorn(application) as site:
        yield site


@contextmanager
def in_flask(hooks: WebhookRouter) -> Iterator[Site]:
    application = flask.Flask("site")
    application.register_blueprint(for_flask.blueprint(hooks, PATH))
    server = werkzeug.serving.make_server("127.0.0.1", 0, application, threaded=True)
    with in_thread(server.server_port, lambda: server.serve_forever(0.02), server.shutdown) as site:
        yield site
    server.server_close()


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — as its base has it
        pass


class Threaded(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


@contextmanager
def django_urls(hooks: WebhookRouter) -> Iterator[None]:
    if not django.conf.settings.configured:
        django.conf.settings.configure(
            ALLOWED_HOSTS=["127.0.0.1"],
            SECRET_KEY="for tests alone",
            MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
            LOGGING_CONFIG=None,
        )
        django.setup()
    urls = types.ModuleType("urls_of_a_test")
    urls.urlpatterns = [django.urls.path(PATH[1:], for_django.view(hooks))]  # type: ignore[attr-defined]
    with django.test.override_settings(ROOT_URLCONF=urls):
        yield


@contextmanager
def django_under_wsgi(hooks: WebhookRouter) -> Iterator[Site]:
    with django_urls(hooks):
        application = django.core.handlers.wsgi.WSGIHandler()
        server = wsgiref.simple_server.make_server("127.0.0.1", 0, application, Threaded, Quiet)
        with in_thread(server.server_port, lambda: server.serve_forever(0.02), server.shutdown) as site:
            yield site
        server.server_close()


@contextmanager
def django_under_asgi(hooks: WebhookRouter) -> Iterator[Site]:
    with django_urls(hooks), under_uvicorn(django.core.handlers.asgi.ASGIHandler(), lifespan="off") as site:
        yield site


Serve = Callable[[WebhookRouter], AbstractContextManager[Site]]
ON_THE_LOOP: list[Serve] = [asgi_alone, asgi_in_starlette, in_fastapi]
# What wsgiref hands on of a chunked body is nothing; the other servers take the chunks apart.
TAKE_CHUNKS: list[Serve] = [*ON_THE_LOOP, in_flask, django_under_asgi]
ALL: list[Serve] = [*TAKE_CHUNKS, django_under_wsgi]


def named(serve: Serve) -> str:
    return str(getattr(serve, "__name__"))  # noqa: B009 — callables need not have one


on_every_server = pytest.mark.parametrize("serve", ALL, ids=named)
on_servers_that_take_chunks = pytest.mark.parametrize("serve", TAKE_CHUNKS, ids=named)
on_servers_with_a_loop = pytest.mark.parametrize("serve", ON_THE_LOOP, ids=named)


def until(condition: Callable[[], object], *, seconds: float = 10.0) -> bool:
    """Whether something came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def signed(raw_body: bytes = BODY) -> dict[str, str]:
    return {"X-Verify": webhooks.sign(raw_body, SECRET), "Content-Type": "application/json"}


def ask(
    site: Site,
    raw_body: Any = BODY,
    headers: dict[str, str] | None = None,
    *,
    method: str = "POST",
    path: str = PATH,
    chunked: bool = False,
) -> http.client.HTTPResponse:
    """An answer, read to its end."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)) as connection:
        sent = signed() if headers is None else headers
        more = {"Transfer-Encoding": "chunked"} if chunked else {}
        connection.request(method, path, raw_body, sent | more, encode_chunked=chunked)
        response = connection.getresponse()
        response.text = response.read().decode()  # type: ignore[attr-defined]
        return response


def ask_at_length(site: Site, head: list[str], pieces: list[bytes]) -> bytes:
    """The first line of an answer, that may come before all was sent."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as connection:
        lines = [f"POST {PATH} HTTP/1.1", "Host: 127.0.0.1", *head, "", ""]
        connection.sendall("\r\n".join(lines).encode())
        with contextlib.suppress(ConnectionError):
            for number, piece in enumerate(pieces):
                if select.select([connection], [], [], 0 if number else 0.1)[0]:
                    break
                connection.sendall(piece)
        return connection.makefile("rb").readline()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "LOOK_EVERY_SECONDS", 0.02)


@pytest.fixture
def inbox(tmp_path: Path) -> SqliteInbox:
    return SqliteInbox(tmp_path / "inbox.sqlite3")


@pytest.fixture
def hooks(inbox: SqliteInbox) -> Iterator[WebhookRouter]:
    made = WebhookRouter(SECRET, inbox=inbox)
    yield made
    made.stop(timeout_seconds=2)


def handled(inbox: Inbox) -> bool:
    return until(lambda: not inbox.undone())


@on_every_server
def test_an_event_is_answered_before_its_handler_ends_and_then_done(serve: Serve, hooks: WebhookRouter) -> None:
    entered, go_on, seen = threading.Event(), threading.Event(), list[Event]()

    @hooks.on("ORDER_TERMINAL_STATE")
    def slow(event: Event) -> None:
        entered.set()
        assert go_on.wait(10)
        seen.append(event)

    with serve(hooks) as site:
        answer = ask(site)
        assert 200 <= answer.status < 300
        assert entered.wait(10)
        assert not seen
        assert [event.event_id for event in hooks.inbox.undone()] == ["evt_1"]
        assert 200 <= ask(site).status < 300, "a repeat is answered at once, too"
        go_on.set()
        assert handled(hooks.inbox)
        assert 200 <= ask(site).status < 300
        assert handled(hooks.inbox)
    assert [(event.id, event.order_id) for event in seen] == [("evt_1", "ord_1")]


@on_every_server
def test_the_bytes_are_verified_as_they_came(serve: Serve, hooks: WebhookRouter) -> None:
    seen: dict[str, Event] = {}
    hooks.on()(lambda event: seen.update({event.id: event}))
    bodies = [
        b'\r\n { "eventId" :\t"1" ,"amount":1.10,\n\n"b": 1e2 }\r\n\r\n ',
        '{"eventId":"2","title":"Caf\u00e9 \u2028 \U0001f381 \u0e01"}'.encode(),
        b'{"eventId":"3","title":"Caf\\u00E9","b":1,"b":2,"a":"\\/"}',
        b'{"eventId":"4","a":"+%20&b=c;--boundary\\r\\n"}',
    ]
    types_of_content = [
        "application/json",
        "application/json; charset=iso-8859-1",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=boundary",
        "text/plain",
        "",
    ]
    with serve(hooks) as site:
        for raw_body in bodies:
            for content_type in types_of_content:
                headers = {"x-vErIfY": webhooks.sign(raw_body, SECRET), "Content-Type": content_type}
                assert ask(site, raw_body, headers).status == 202, (raw_body, content_type)
        assert handled(hooks.inbox)
    assert str(seen["1"].body["amount"]) == "1.10"
    assert seen["2"].body["title"] == "Caf\u00e9 \u2028 \U0001f381 \u0e01"
    assert sorted(seen) == ["1", "2", "3", "4"]


@on_every_server
def test_the_signature_of_standard_webhooks_does_and_names_the_event(serve: Serve, hooks: WebhookRouter) -> None:
    seen: list[tuple[str, str]] = []
    hooks.on()(lambda event: seen.append((event.id, event.kind)))
    raw_body, at = b'{"orderId": "ord_1"}', int(time.time())
    headers = {
        "webhook-id": "evt_standard",
        "webhook-timestamp": str(at),
        "webhook-signature": webhooks.sign_standard(raw_body, SECRET, event_id="evt_standard", timestamp=at),
        "X-Event-Type": "SOMETHING_NEW",
    }
    with serve(hooks) as site:
        assert ask(site, raw_body, headers).status == 202
        assert ask(site, raw_body, headers | {"webhook-id": "evt_other"}).status == 400
        assert handled(hooks.inbox)
    assert seen == [("evt_standard", "SOMETHING_NEW")]


@on_every_server
def test_what_is_not_signed_is_answered_400_and_not_kept(serve: Serve, hooks: WebhookRouter) -> None:
    with serve(hooks) as site:
        statuses = [
            ask(site, BODY + b" ").status,
            ask(site, BODY, {}).status,
            ask(site, BODY, {"X-Verify": ""}).status,
            ask(site, BODY, {"X-Verify": "\u00e9\u00ff"}).status,
            ask(site, BODY, {"X-Verify": webhooks.sign(BODY, SECRET + "x")}).status,
            ask(site, b"").status,
            ask(site, b"{", signed(b"{")).status,
        ]
        assert statuses == [400] * len(statuses)
        assert hooks.inbox.undone() == []
        assert ask(site).status == 202, "the real one is still new"


@on_every_server
def test_only_post_is_taken(serve: Serve, hooks: WebhookRouter) -> None:
    with serve(hooks) as site:
        for method in ("GET", "PUT", "DELETE"):
            answer = ask(site, BODY, method=method)
            assert answer.status == 405
            assert "POST" in str(answer.getheader("Allow"))
        assert hooks.inbox.undone() == []


@on_every_server
def test_a_body_is_at_most_so_large(serve: Serve, hooks: WebhookRouter) -> None:
    most = BODY + b" " * (router.MAX_BODY_BYTES - len(BODY))
    more = most + b" "
    with serve(hooks) as site:
        head = [f"X-Verify: {webhooks.sign(more, SECRET)}", f"Content-Length: {len(more)}"]
        assert ask_at_length(site, head, [more]).split()[1] == b"413"
        assert hooks.inbox.undone() == []
        assert ask(site, most, signed(most)).status == 202
        assert handled(hooks.inbox)


@on_every_server
def test_a_body_of_many_megabytes_is_refused(serve: Serve, hooks: WebhookRouter) -> None:
    piece = b" " * (1 << 20)
    with serve(hooks) as site:
        assert ask_at_length(site, [f"Content-Length: {8 << 20}"], [piece] * 8).split()[1] == b"413"
        assert ask(site).status == 202, "the next one is taken"


@on_servers_that_take_chunks
def test_a_chunked_body_is_taken(serve: Serve, hooks: WebhookRouter) -> None:
    with serve(hooks) as site:
        assert ask(site, iter([BODY[:1], BODY[1:20], BODY[20:]]), chunked=True).status == 202
        assert handled(hooks.inbox)
        assert ask(site).status == 202


@on_servers_that_take_chunks
@pytest.mark.parametrize("over", [1, 1 << 20])
def test_a_chunked_body_is_at_most_as_large(serve: Serve, hooks: WebhookRouter, over: int) -> None:
    with serve(hooks) as site:
        left, pieces = router.MAX_BODY_BYTES + over, list[bytes]()
        while left:
            size = min(left, 1 << 16)
            pieces.append(b"%x\r\n%b\r\n" % (size, b" " * size))
            left -= size
        assert ask_at_length(site, ["Transfer-Encoding: chunked"], [*pieces, b"0\r\n\r\n"]).split()[1] == b"413"
        assert ask(site).status == 202


@on_every_server
def test_a_sender_that_goes_away_in_the_middle_leaves_nothing_behind(
    serve: Serve, hooks: WebhookRouter, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(hooks) as site:
        lines = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Verify: x\r\nContent-Length: {len(BODY)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", site.port), timeout=10) as connection:
            connection.sendall(lines.encode() + BODY[:10])
        time.sleep(0.05)
        assert ask(site).status == 202
        assert handled(hooks.inbox)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@on_every_server
def test_what_cannot_be_kept_is_answered_503(
    serve: Serve, hooks: WebhookRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise OSError("no space is left")

    with serve(hooks) as site:
        with monkeypatch.context() as patch:
            patch.setattr(hooks.inbox, "put", fail)
            assert ask(site).status == 503
        assert ask(site).status == 202
        assert handled(hooks.inbox)


@on_every_server
def test_events_undone_from_before_run_when_the_server_starts(serve: Serve, hooks: WebhookRouter) -> None:
    seen: list[str] = []
    hooks.on()(lambda event: seen.append(event.id))
    hooks.inbox.put("evt_1", "ORDER_TERMINAL_STATE", BODY, now=0)
    with serve(hooks) as site:
        assert handled(hooks.inbox)
        assert seen == ["evt_1"]
        assert ask(site).status == 202
        assert handled(hooks.inbox)
    assert seen == ["evt_1"], "it came again, and was not handled again"


@on_every_server
def test_async_handlers_are_handled_too(serve: Serve, hooks: WebhookRouter) -> None:
    threads: list[str] = []

    @hooks.on()
    async def handle(_: Event) -> None:
        await asyncio.sleep(0)
        threads.append(threading.current_thread().name)

    with serve(hooks) as site:
        assert ask(site).status == 202
        assert handled(hooks.inbox)
    assert (threads == [SERVER]) == (serve in ON_THE_LOOP)
    assert len(threads) == 1


@on_servers_with_a_loop
def test_a_waiting_async_handler_holds_up_neither_answers_nor_others(serve: Serve, hooks: WebhookRouter) -> None:
    go_on, seen = threading.Event(), list[str]()

    @hooks.on()
    async def handle(event: Event) -> None:
        while event.id == "evt_1" and not go_on.is_set():  # noqa: ASYNC110 — another thread sets it
            await asyncio.sleep(0.005)
        seen.append(event.id)

    other = b'{"eventId": "evt_2"}'
    with serve(hooks) as site:
        assert [ask(site).status, ask(site, other, signed(other)).status] == [202, 202]
        assert until(lambda: seen == ["evt_2"])
        go_on.set()
        assert handled(hooks.inbox)
    assert seen == ["evt_2", "evt_1"]


@on_servers_with_a_loop
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_server_that_stops_waits_for_the_handlers_that_run(
    serve: Serve, hooks: WebhookRouter, *, is_async: bool
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    @hooks.on()
    def wait(_: Event) -> Any:
        async def wait_on_the_loop() -> None:
            entered.set()
            while not go_on.is_set():  # noqa: ASYNC110 — another thread sets it
                await asyncio.sleep(0.005)

        if is_async:
            return wait_on_the_loop()
        entered.set()
        return go_on.wait(10) and None

    with serve(hooks) as site:
        assert ask(site).status == 202
        assert entered.wait(10)
        stopping = threading.Thread(target=site.stop)
        stopping.start()
        stopping.join(0.3)
        assert stopping.is_alive()
        assert len(hooks.inbox.undone()) == 1
        go_on.set()
        stopping.join(10)
        assert not stopping.is_alive()
        assert hooks.inbox.undone() == []
        hooks.inbox.put("later", "KIND", b"{}", now=0)
        time.sleep(0.06)
        assert len(hooks.inbox.undone()) == 1, "the router stopped with its server"


def test_mounted_without_a_lifespan_it_starts_with_the_first_request(hooks: WebhookRouter) -> None:
    threads: list[str] = []

    @hooks.on()
    async def handle(_: Event) -> None:
        await asyncio.sleep(0)
        threads.append(threading.current_thread().name)

    hooks.inbox.put("before", "KIND", b"{}", now=0)
    with under_uvicorn(Starlette(routes=[Mount("/hooks", asgi.application(hooks))])) as site:
        assert len(hooks.inbox.undone()) == 1
        assert ask(site).status == 202
        assert handled(hooks.inbox)
    assert threads == [SERVER, SERVER]


def test_an_unverified_request_does_not_make_the_router_look_into_its_inbox(
    hooks: WebhookRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims: list[int] = []

    def claim(**_: object) -> list[Any]:
        claims.append(1)
        return []

    monkeypatch.setattr(hooks.inbox, "claim", claim)
    monkeypatch.setattr(router, "LOOK_EVERY_SECONDS", 60.0)
    with asgi_in_starlette(hooks) as site:
        assert until(lambda: claims)
        time.sleep(0.05)
        before = len(claims)
        for _ in range(5):
            assert ask(site, BODY, {}).status == 400
            time.sleep(0.02)
        assert len(claims) == before


def test_the_route_keeps_the_lifespan_of_its_application_and_stays_out_of_its_document(hooks: WebhookRouter) -> None:
    lived: list[str] = []

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        lived.append("started")
        yield
        lived.append("stopped")

    application = fastapi.FastAPI(lifespan=lifespan)
    application.include_router(for_fastapi.routes(hooks, "/giftrail"), prefix="/hooks")
    with under_uvicorn(application) as site:
        assert ask(site).status == 202
        assert handled(hooks.inbox)
        assert "giftrail" not in ask(site, b"", {}, method="GET", path="/openapi.json").text  # type: ignore[attr-defined]
    assert lived == ["started", "stopped"]


def test_two_servers_of_one_router_file_handle_an_event_once(hooks: WebhookRouter, inbox: SqliteInbox) -> None:
    seen: list[str] = []
    other = WebhookRouter(SECRET, inbox=inbox)
    for one in (hooks, other):
        one.on()(lambda event: seen.append(event.id))
    with asgi_alone(hooks) as first, in_flask(other) as second:
        for number in range(10):
            raw_body = json.dumps({"eventId": f"evt_{number}"}).encode()
            assert [ask(site, raw_body, signed(raw_body)).status for site in (first, second)] == [202, 202]
        assert handled(inbox)
    other.stop()
    assert sorted(seen) == [f"evt_{number}" for number in range(10)]
