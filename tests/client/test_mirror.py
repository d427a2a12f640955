"""The mirror holds what may be ordered now: fresh by events and by ETag, served on while the service is away."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import httpx
import pytest

from giftrail_client import (
    AsyncCatalogMirror,
    Brand,
    CannotReach,
    CatalogMirror,
    GiftrailError,
    MemoryInbox,
    Unavailable,
    WebhookRouter,
    mirror,
    router,
    webhooks,
)
from giftrail_client.testing import UNAVAILABLE, FakeService, Transport

URL = "https://partner.example/hooks"
SECRET = "whsec_c2VjcmV0IG9mIHRoZSB3ZWJob29rcyBpbiB0ZXN0cyE="
PRODUCTS = "/v1/partners/products"
AT_ONCE, TWICE = "sandbox-at-once", "sandbox-twice"


class Wire(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A connection to the fake service that can break, and writes down what went over it."""

    def __init__(self, service: FakeService) -> None:
        self._to = Transport(service)
        self.is_away = False
        self.before: Callable[[httpx.Request], object] = lambda _: None
        self.seen: list[tuple[str, str | None, int]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.before(request)
        if self.is_away:
            raise httpx.ConnectError("nobody is there", request=request)
        response = self._to.handle_request(request)
        path = request.url.path + (f"?{request.url.query.decode()}" if request.url.query else "")
        self.seen.append((path, request.headers.get("if-none-match"), response.status_code))
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return self.handle_request(request)

    def take(self) -> list[tuple[str, int]]:
        """Paths and statuses of the catalogue's requests since it was asked last."""
        taken, self.seen = self.seen, []
        return [(path, status) for path, _, status in taken if path.startswith(PRODUCTS)]


class Copy:
    """Either mirror, seen alike; the async one lives on a loop in a thread of its own."""

    def __init__(self, service: FakeService, *, is_async: bool, max_age_seconds: float | None) -> None:
        self.wire = Wire(service)
        options: dict[str, Any] = {} if max_age_seconds is None else {"max_age_seconds": max_age_seconds}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.mirror: CatalogMirror | AsyncCatalogMirror
        if is_async:
            self.loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
            self._thread.start()
            client = service.async_client(http=httpx.AsyncClient(transport=self.wire))
            self.mirror = AsyncCatalogMirror(client, **options)
        else:
            self.mirror = CatalogMirror(service.client(http=httpx.Client(transport=self.wire)), **options)

    def _run(self, came: Any) -> Any:
        if self.loop is None:
            return came
        return asyncio.run_coroutine_threadsafe(came, self.loop).result(20)

    def listed(self) -> list[Brand]:
        return list(self._run(self.mirror.list()))

    def ids(self) -> list[str]:
        return [brand.id for brand in self.listed()]

    def get(self, brand_id: str) -> Brand | None:
        found: Brand | None = self._run(self.mirror.get(brand_id))
        return found

    def refresh(self) -> None:
        self._run(self.mirror.refresh())

    def tell(self, brand_id: str, kind: str = webhooks.BRAND_UPDATED) -> None:
        body = {"id": brand_id, "denominationType": "FIXED", "amountRestrictions": {}}
        self._run(self.mirror.on_event(webhooks.Event("evt", kind, None, body)))

    def close(self) -> None:
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(10)
            self.loop.close()


Make = Callable[..., Copy]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest, service: FakeService) -> Iterator[Make]:
    made: list[Copy] = []

    def make(max_age_seconds: float | None = None) -> Copy:
        made.append(Copy(service, is_async=request.param == "async", max_age_seconds=max_age_seconds))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def copy(make: Make) -> Copy:
    return make()


def orderable(service: FakeService) -> list[str]:
    """What the service would list, in its order."""
    brands = [one for one in service.brands.values() if one.enabled and one.status == "ACTIVE"]
    return [one.id for one in sorted(brands, key=lambda one: (one.title, one.id))]


def many(service: FakeService, count: int) -> None:
    for number in range(count):
        service.add_brand(f"brand-{number:04}", title=f"Brand {number:04}")


def test_only_active_brands_are_listed_in_the_order_of_the_service(service: FakeService, copy: Copy) -> None:
    assert copy.ids() == orderable(service)
    assert AT_ONCE in copy.ids()
    assert "sandbox-e102" not in copy.ids(), "it is INACTIVE"
    assert all(brand.is_active for brand in copy.listed())


def test_an_active_brand_is_found_and_others_are_none(copy: Copy) -> None:
    found = copy.get(AT_ONCE)
    assert found is not None
    assert (found.id, found.plan(500)) == (AT_ONCE, {Decimal(500): 1})
    assert copy.get("sandbox-e102") is None
    assert copy.get("unknown") is None


def test_what_was_read_is_not_asked_for_again_before_its_time(copy: Copy) -> None:
    for _ in range(5):
        copy.listed()
        copy.get(AT_ONCE)
    assert copy.wire.take() == [(f"{PRODUCTS}?pageNo=1&limit=500", 200)]


def test_the_lists_are_the_callers_own(copy: Copy) -> None:
    copy.listed().clear()
    assert AT_ONCE in copy.ids()


def test_a_brand_that_is_told_inactive_is_left_out_and_back_when_it_is_active_again(
    service: FakeService, copy: Copy
) -> None:
    before = copy.ids()
    copy.wire.take()
    service.change_brand(AT_ONCE, status="INACTIVE")
    copy.tell(AT_ONCE)
    assert copy.ids() == [one for one in before if one != AT_ONCE]
    assert copy.get(AT_ONCE) is None
    service.change_brand(AT_ONCE, status="ACTIVE")
    copy.tell(AT_ONCE)
    assert copy.ids() == before
    assert copy.wire.take() == [(f"{PRODUCTS}/{AT_ONCE}", 200)] * 2, "the brand alone was read"


def test_a_brand_that_is_no_longer_ours_is_gone(service: FakeService, copy: Copy) -> None:
    assert AT_ONCE in copy.ids()
    service.change_brand(AT_ONCE, enabled=False)
    copy.wire.take()
    copy.tell(AT_ONCE)
    copy.tell("never-known")
    assert AT_ONCE not in copy.ids()
    assert copy.wire.take() == [(f"{PRODUCTS}/{AT_ONCE}", 404), (f"{PRODUCTS}/never-known", 404)]


def test_a_new_brand_that_is_told_of_stands_where_the_service_lists_it(service: FakeService, copy: Copy) -> None:
    copy.listed()
    service.add_brand("new", title="A new brand")
    copy.tell("new")
    assert "new" in copy.ids()
    assert copy.ids() == orderable(service)


@pytest.mark.parametrize("kind", mirror.KINDS)
def test_a_new_discount_is_read(service: FakeService, copy: Copy, kind: str) -> None:
    before = copy.get(AT_ONCE)
    assert before is not None
    assert before.discount_percentage == 0
    service.change_brand(AT_ONCE, discount_percentage="7.5")
    copy.tell(AT_ONCE, kind)
    after = copy.get(AT_ONCE)
    assert after is not None
    assert after.discount_percentage == Decimal("7.5")


def test_new_restrictions_are_read(service: FakeService, copy: Copy) -> None:
    copy.listed()
    service.change_brand(AT_ONCE, denominations=(200, 300))
    copy.tell(AT_ONCE)
    found = copy.get(AT_ONCE)
    assert found is not None
    assert found.plan(500) == {Decimal(200): 1, Decimal(300): 1}


def test_an_event_before_anything_was_read_asks_for_nothing(service: FakeService, copy: Copy) -> None:
    service.change_brand(AT_ONCE, status="INACTIVE")
    copy.tell(AT_ONCE)
    assert copy.wire.take() == []
    assert AT_ONCE not in copy.ids()


def test_an_event_without_a_brand_does_no_harm(copy: Copy) -> None:
    copy.listed()
    copy.wire.take()
    copy._run(copy.mirror.on_event(webhooks.Event("evt", webhooks.BRAND_DISCOUNT_UPDATED, None, {})))
    assert copy.wire.take() == []


def test_an_event_whose_brand_cannot_be_read_raises_so_that_it_is_handled_again(
    service: FakeService, copy: Copy
) -> None:
    copy.listed()
    service.change_brand(AT_ONCE, status="INACTIVE")
    copy.wire.is_away = True
    with pytest.raises(CannotReach):
        copy.tell(AT_ONCE)
    copy.wire.is_away = False
    assert AT_ONCE in copy.ids()
    copy.tell(AT_ONCE)
    assert AT_ONCE not in copy.ids()


def test_a_refresh_asks_by_etag_and_nothing_is_sent_again(service: FakeService, copy: Copy) -> None:
    before = copy.listed()
    service.sent.clear()
    copy.wire.seen.clear()
    copy.refresh()
    ((path, etag, status),) = copy.wire.seen
    assert (path, status) == (f"{PRODUCTS}?pageNo=1&limit=500", 304)
    assert etag
    assert service.sent == [f"GET {PRODUCTS}"]
    assert copy.listed() == before


def test_a_refresh_reads_what_changed_without_a_word(service: FakeService, copy: Copy) -> None:
    copy.listed()
    service.change_brand(AT_ONCE, status="INACTIVE")
    service.add_brand("new", title="A new brand")
    copy.wire.take()
    copy.refresh()
    assert [status for _, status in copy.wire.take()] == [200]
    assert copy.ids() == orderable(service)
    copy.refresh()
    assert [status for _, status in copy.wire.take()] == [304]
    assert copy.ids() == orderable(service)


def test_a_refresh_after_an_event_keeps_what_the_event_told(service: FakeService, copy: Copy) -> None:
    copy.listed()
    service.change_brand(AT_ONCE, status="INACTIVE")
    copy.tell(AT_ONCE)
    for _ in range(2):
        copy.refresh()
        assert copy.ids() == orderable(service)


def test_more_brands_than_a_page_holds_are_all_read(service: FakeService, copy: Copy) -> None:
    many(service, 1010)
    assert copy.ids() == orderable(service)
    assert len(copy.ids()) > 1010
    assert copy.wire.take() == [(f"{PRODUCTS}?pageNo={number}&limit=500", 200) for number in (1, 2, 3)]
    service.change_brand("brand-0700", discount_percentage=3)
    copy.refresh()
    assert [status for _, status in copy.wire.take()] == [304, 200, 304]
    found = copy.get("brand-0700")
    assert found is not None
    assert found.discount_percentage == 3


def test_pages_that_are_no_longer_there_are_left_out(service: FakeService, copy: Copy) -> None:
    many(service, 1010)
    copy.listed()
    for number in range(900):
        service.change_brand(f"brand-{number:04}", enabled=False)
    copy.refresh()
    assert copy.ids() == orderable(service)


@pytest.mark.parametrize("kept_before", [False, True], ids=["at the first reading", "at a later one"])
def test_a_brand_that_moves_to_a_page_that_was_read_already_is_not_missed(
    service: FakeService, copy: Copy, *, kept_before: bool
) -> None:
    many(service, 1010)
    if kept_before:
        copy.listed()
        service.change_brand("brand-0600", discount_percentage=1)
    changed: list[str] = []

    def change(request: httpx.Request) -> None:
        if request.url.params.get("pageNo") == "2" and not changed:
            changed.append("brand-0003")
            service.change_brand("brand-0003", enabled=False)

    copy.wire.before = change
    copy.refresh()
    assert changed
    assert copy.ids() == orderable(service)


def test_a_catalogue_that_always_changes_is_read_a_few_times_and_then_taken(service: FakeService, copy: Copy) -> None:
    many(service, 1010)
    left = iter(range(1010))

    def change(request: httpx.Request) -> None:
        if request.url.params.get("pageNo") == "2":
            service.change_brand(f"brand-{next(left):04}", enabled=False)

    copy.wire.before = change
    listed = copy.ids()
    assert len(copy.wire.take()) == 3 * mirror.READINGS
    assert len(listed) > 990
    copy.wire.before = lambda _: None
    copy.refresh()
    assert copy.ids() == orderable(service)


def test_it_is_refreshed_when_it_is_too_old(service: FakeService, make: Make) -> None:
    copy = make(60)
    copy.listed()
    service.change_brand(AT_ONCE, status="INACTIVE")
    service.advance(59)
    assert AT_ONCE in copy.ids()
    copy.wire.take()
    service.advance(1)
    assert AT_ONCE not in copy.ids()
    assert len(copy.wire.take()) == 1
    service.advance(60)
    copy.get(AT_ONCE)
    assert [status for _, status in copy.wire.take()] == [304]


def test_the_default_age_is_an_hour(service: FakeService, copy: Copy) -> None:
    copy.listed()
    copy.wire.take()
    service.advance(mirror.MAX_AGE_SECONDS - 1)
    copy.listed()
    assert copy.wire.take() == []
    service.advance(1)
    copy.listed()
    assert len(copy.wire.take()) == 1


def test_the_first_reading_raises_when_the_service_is_away(copy: Copy) -> None:
    copy.wire.is_away = True
    for _ in range(2):
        with pytest.raises(CannotReach):
            copy.listed()
    with pytest.raises(CannotReach):
        copy.get(AT_ONCE)
    copy.wire.is_away = False
    assert AT_ONCE in copy.ids()


def test_what_is_known_is_served_on_while_the_service_is_away_and_a_line_tells_it(
    service: FakeService, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    copy = make(600)
    before = copy.listed()
    service.change_brand(AT_ONCE, status="INACTIVE")
    copy.wire.is_away = True
    service.advance(600)
    with caplog.at_level(logging.WARNING, "giftrail_client"):
        assert copy.listed() == before
        assert copy.listed() == before
    assert [record.getMessage().count("could not be refreshed") for record in caplog.records].count(1) == 1
    copy.wire.is_away = False
    assert copy.listed() == before, "it is not asked at every call"
    service.advance(mirror.RETRY_SECONDS)
    assert AT_ONCE not in copy.ids()


def test_a_refresh_that_is_asked_for_raises_and_what_was_known_stays(service: FakeService, copy: Copy) -> None:
    before = copy.listed()
    service.fail_next(UNAVAILABLE, times=50, method="GET", path="/products")
    with pytest.raises(Unavailable):
        copy.refresh()
    assert copy.listed() == before


def test_a_reading_that_breaks_off_in_the_middle_leaves_what_was_known(service: FakeService, copy: Copy) -> None:
    many(service, 1010)
    before = copy.listed()
    service.change_brand("brand-0001", status="INACTIVE")

    def leave(request: httpx.Request) -> None:
        copy.wire.is_away = request.url.params.get("pageNo") == "3"

    copy.wire.before = leave
    with pytest.raises(GiftrailError):
        copy.refresh()
    assert copy.listed() == before
    copy.wire.before, copy.wire.is_away = lambda _: None, False
    copy.refresh()
    assert copy.ids() == orderable(service)


def test_an_answer_that_is_none_of_the_contract_is_served_over(service: FakeService, make: Make) -> None:
    copy = make(60)
    before = copy.listed()
    service.fail_next("HALF_A_BODY", times=50, method="GET", path="/products")
    # Half of no body is no body: the catalogue has to differ.
    service.change_brand(AT_ONCE, status="INACTIVE")
    service.advance(60)
    assert copy.listed() == before


def test_many_who_ask_at_once_have_it_read_once(copy: Copy) -> None:
    begin = threading.Barrier(8)

    def ask(_: int) -> list[str]:
        begin.wait(10)
        return copy.ids()

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(ask, range(8)))
    assert all(AT_ONCE in one for one in told)
    assert len(copy.wire.take()) == 1


def test_what_is_known_is_served_at_once_while_another_reads(service: FakeService) -> None:
    copy = Copy(service, is_async=False, max_age_seconds=60)
    before = copy.ids()
    reading, go_on = threading.Event(), threading.Event()

    def hold(_: httpx.Request) -> None:
        reading.set()
        assert go_on.wait(10)

    copy.wire.before = hold
    with ThreadPoolExecutor(2) as pool:
        refreshing = pool.submit(copy.refresh)
        try:
            assert reading.wait(10)
            assert pool.submit(copy.ids).result(5) == before
        finally:
            go_on.set()
        refreshing.result(10)


def test_events_and_readers_from_many_threads_end_with_what_the_service_has(service: FakeService, copy: Copy) -> None:
    copy.listed()
    brand_ids = orderable(service)

    def turn(number: int) -> None:
        brand_id = brand_ids[number % 5]
        service.change_brand(brand_id, status="INACTIVE" if number % 2 else "ACTIVE")
        copy.tell(brand_id)
        assert TWICE in copy.ids()
        if number % 10 == 0:
            copy.refresh()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(turn, range(60)))
    assert copy.ids() == orderable(service)


@pytest.fixture
def hooks(service: FakeService, copy: Copy, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookRouter]:
    """A router that the service delivers to, with the mirror attached."""
    monkeypatch.setattr(router, "LOOK_EVERY_SECONDS", 0.02)
    made = WebhookRouter(SECRET, inbox=MemoryInbox(), clock=service.time)
    copy.mirror.attach(made)
    made.start(loop=copy.loop)
    service.listen(URL, made.answer)
    with service.client() as client:
        client.webhooks.create(URL, secret=SECRET)
    yield made
    made.stop()


def settled(hooks: WebhookRouter) -> bool:
    for _ in range(2000):
        if not hooks.inbox.undone():
            return True
        threading.Event().wait(0.005)
    return False


def test_what_the_service_tells_is_seen_in_the_mirror(service: FakeService, copy: Copy, hooks: WebhookRouter) -> None:
    assert AT_ONCE in copy.ids()
    copy.wire.take()
    service.change_brand(AT_ONCE, status="INACTIVE")
    assert settled(hooks)
    assert AT_ONCE not in copy.ids()
    service.change_brand(AT_ONCE, status="ACTIVE", discount_percentage="2.5")
    assert settled(hooks)
    found = copy.get(AT_ONCE)
    assert found is not None
    assert found.discount_percentage == Decimal("2.5")
    assert {path for path, _ in copy.wire.take()} == {f"{PRODUCTS}/{AT_ONCE}"}
    assert copy.ids() == orderable(service)


def test_an_event_that_came_while_the_service_was_away_is_handled_when_it_is_back(
    service: FakeService, copy: Copy, hooks: WebhookRouter, caplog: pytest.LogCaptureFixture
) -> None:
    copy.listed()
    copy.wire.is_away = True
    service.change_brand(AT_ONCE, status="INACTIVE")
    for _ in range(2000):
        if "was not handled" in caplog.text:
            break
        threading.Event().wait(0.005)
    assert len(hooks.inbox.undone()) == 1
    copy.wire.is_away = False
    for _ in range(2000):
        if not hooks.inbox.undone():
            break
        service.advance(0.4)
        threading.Event().wait(0.005)
    assert hooks.inbox.undone() == []
    assert AT_ONCE not in copy.ids()


def test_handlers_of_ones_own_run_beside_the_mirror(service: FakeService, copy: Copy, hooks: WebhookRouter) -> None:
    seen: list[tuple[str | None, bool]] = []
    copy.listed()

    @hooks.on(webhooks.BRAND_UPDATED)
    def after(event: webhooks.Event) -> None:
        seen.append((event.brand_id, AT_ONCE in copy.ids()))

    service.change_brand(AT_ONCE, status="INACTIVE")
    assert settled(hooks)
    assert seen == [(AT_ONCE, False)], "the mirror, attached first, was first"
