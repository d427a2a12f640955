"""The sync client. Its twin is `aio`: the same methods over the same flows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

import httpx

from giftrail_client import bodies, errors, flows, lists, models, transport
from giftrail_client import webhooks as signed
from giftrail_client.tokens import MemoryTokenStore, TokenStore

T = TypeVar("T")


class Giftrail:
    """A partner's client; safe to share between threads. Close it, or use it in a with statement.

    `token_store` may be one that several processes share. `http` is an httpx client of your own (proxies, TLS),
    which you close yourself. `clock` and `sleep` are for tests.
    """

    def __init__(
        self,
        base_url: str,
        client_id: str,
        client_secret: str,
        *,
        timeout_seconds: float | None = None,
        token_store: TokenStore | None = None,
        http: httpx.Client | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.clock = clock
        self._config = flows.Config(client_id, client_secret, clock)
        self._tokens = MemoryTokenStore() if token_store is None else token_store
        self._logging_in = threading.Lock()
        self._sleep = sleep
        self._own = http is None
        self._base_url = base_url.rstrip("/")
        self._http = httpx.Client(**transport.options(self._base_url, timeout_seconds)) if http is None else http
        self.brands: Brands = Brands(self)
        self.orders: Orders = Orders(self)
        self.vouchers: Vouchers = Vouchers(self)
        self.wallet: Wallet = Wallet(self)
        self.webhooks: Webhooks = Webhooks(self)
        self.events: Events = Events(self)

    def __enter__(self) -> Giftrail:  # noqa: PYI034 — Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._own:
            self._http.close()

    def run(self, flow: flows.Flow[T]) -> T:
        """Run a flow to its end."""
        try:
            effect = next(flow)
            while True:
                try:
                    came = self._perform(effect)
                except errors.GiftrailError as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(came)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _perform(self, effect: Any) -> Any:
        if isinstance(effect, flows.GetToken):
            return self._token(effect.stale)
        if isinstance(effect, flows.Pause):
            return self._sleep(effect.seconds)
        send: flows.Send = effect
        try:
            made = transport.request(send)
            made["url"] = self._base_url + made["url"]
            return transport.reply(self._http.request(**made))
        except transport.FAILURES as error:
            raise transport.unreachable(error, send) from error

    def _token(self, stale: str | None) -> str:
        token = self._tokens.load()
        if token is None or token.text == stale or not token.is_fresh(self._config.clock()):
            with self._logging_in:  # one logs in, the others find its token
                token = self._tokens.load()
                if token is None or token.text == stale or not token.is_fresh(self._config.clock()):
                    token = self.run(flows.log_in(self._config))
                    self._tokens.save(token)
        return token.text


class Brands:
    """The catalogue."""

    def __init__(self, client: Giftrail) -> None:
        self._client = client

    def list(self, *, page_no: int = 1, limit: int = 100, **filters: Any) -> models.Page[models.Brand]:
        """A page of brands. Filters as the service has them: q, category, tag, status and more."""
        return self._client.run(lists.brands(page_no=page_no, limit=limit, filters=filters))

    def iterate(self, *, limit: int = 100, **filters: Any) -> Iterator[models.Brand]:
        """All brands, page by page."""
        page_no: int | None = 1
        while page_no is not None:
            page = self.list(page_no=page_no, limit=limit, **filters)
            yield from page.data
            page_no = page.next_cursor

    def get(self, brand_id: str) -> models.Brand:
        """One brand. Raises NotFound."""
        return self._client.run(lists.brand(brand_id))


class Orders:
    """Orders: placed once, polled, retried with a new reference."""

    def __init__(self, client: Giftrail) -> None:
        self._client = client

    def place(
        self,
        product_id: str,
        denominations: bodies.Denominations,
        *,
        reference_id: str | None = None,
        customer: Mapping[str, Any] | None = None,
        delivery: Mapping[str, Any] | None = None,
        wait_seconds: int | None = None,
        raise_failed: bool = False,
    ) -> models.Order:
        """Place an order of `{amount: quantity}`; never two, whatever happens on the way.

        Keep a `reference_id` of your own to find the order again after a crash of your program; absent, one is made.
        A FAILED order is returned, or raised with `raise_failed`. Raises OutcomeUnknown, ServiceError, ValueError.
        """
        body = bodies.order(product_id, denominations, reference_id=reference_id, customer=customer, delivery=delivery)
        order = self._client.run(flows.place(body, clock=self._client.clock, wait_seconds=wait_seconds))
        return lists.unless_failed(order, raise_failed=raise_failed)

    def get(self, order_id: str) -> models.Order:
        """One order. Raises NotFound."""
        return self._client.run(lists.order(order_id))

    def by_reference(self, reference_id: str) -> models.Order:
        """The order of a reference. Raises NotFound: then it was not created."""
        return self._client.run(lists.order_by_reference(reference_id))

    def list(
        self,
        *,
        status: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> models.Page[models.Order]:
        """A page of orders, newest first, without vouchers."""
        return self._client.run(
            lists.orders(status=status, created_from=created_from, created_to=created_to, limit=limit, cursor=cursor)
        )

    def wait(
        self, order: models.Order, *, schedule: tuple[float, ...] = flows.POLL_AFTER_SECONDS, raise_failed: bool = False
    ) -> models.Order:
        """Poll until the order is terminal: first after a minute, about five times, until it is 15 minutes old.

        Raises OrderTimedOut, OrderStillProcessing, OrderFailed (with `raise_failed`).
        """
        ended = self._client.run(flows.wait(order, schedule=schedule, clock=self._client.clock))
        return lists.unless_failed(ended, raise_failed=raise_failed)

    def retry(
        self,
        order: models.Order,
        *,
        denominations: bodies.Denominations | None = None,
        reference_id: str | None = None,
        raise_failed: bool = False,
    ) -> models.Order:
        """Place a FAILED order anew: its brand read again and checked, under a new reference.

        An order that `place` returned knows what was asked for; for one that was read, give its `denominations`.
        Raises ValueError when it did not fail, or its brand does not allow it now.
        """
        body = self._client.run(lists.body_of_retry(order, denominations, reference_id))
        again = self._client.run(flows.place(body, clock=self._client.clock))
        return lists.unless_failed(again, raise_failed=raise_failed)

    def quote(
        self,
        product_id: str,
        denominations: bodies.Denominations,
        *,
        customer: Mapping[str, Any] | None = None,
        delivery: Mapping[str, Any] | None = None,
    ) -> models.Quote:
        """What an order would come to, and everything that stands against it. Raises ServiceError, ValueError."""
        body = bodies.order(product_id, denominations, reference_id=None, customer=customer, delivery=delivery)
        return self._client.run(lists.quote(body))

    def reconcile(self, orders: Iterable[models.Order | tuple[str, str, Any]]) -> models.Reconciliation:
        """Your books against the service's: orders, or (reference, status, amount) of each, at most 1,000."""
        return self._client.run(lists.reconcile(orders))

    def cancel(self, order_id: str) -> models.Order:
        """Cancel a PROCESSING order that no provider was asked for. Raises WrongOrderState, NotFound."""
        return self._client.run(lists.cancel(order_id))

    def reverse(self, order_id: str, *, reason: str | None = None) -> models.Order:
        """Take a SUCCESS order back; it may be `reversal_pending` at first. Raises WrongOrderState, NotFound."""
        return self._client.run(lists.reverse(order_id, reason=reason))

    def resend_delivery(self, order_id: str, *, channels: Sequence[str] | None = None) -> models.Order:
        """Have the service deliver the vouchers to the order's recipients again: EMAIL, SMS, or all that it has.

        Raises RateLimited when that is too soon, WrongOrderState, NotFound.
        """
        return self._client.run(lists.resend_delivery(order_id, channels=channels))


class Vouchers:
    """Vouchers."""

    def __init__(self, client: Giftrail) -> None:
        self._client = client

    def get(self, voucher_id: str) -> models.Voucher:
        """One voucher. Raises NotFound, also when its order was reversed."""
        return self._client.run(lists.voucher(voucher_id))


class Wallet:
    """The prepaid wallet."""

    def __init__(self, client: Giftrail) -> None:
        self._client = client

    def balance(self) -> models.Balance:
        """What can be spent, what is held."""
        return self._client.run(flows.get("/wallet/balance", models.balance))

    def transactions(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
    ) -> models.Page[models.Transaction]:
        """A page of the statement, newest first."""
        return self._client.run(
            lists.transactions(limit=limit, cursor=cursor, created_from=created_from, created_to=created_to)
        )


class Webhooks:
    """Where the service calls you."""

    def __init__(self, client: Giftrail) -> None:
        self._client = client

    def create(
        self,
        url: str,
        *,
        events: Sequence[str] | None = None,
        description: str | None = None,
        secret: str | None = None,
    ) -> models.Endpoint:
        """Register an endpoint. Keep its `secret`: it is told this once."""
        return self._client.run(lists.create_webhook(url, events=events, description=description, secret=secret))

    def list(self) -> tuple[models.Endpoint, ...]:
        """All endpoints."""
        return self._client.run(lists.webhooks())

    def get(self, endpoint_id: str) -> models.Endpoint:
        """One endpoint. Raises NotFound."""
        return self._client.run(lists.webhook(endpoint_id))

    def change(
        self,
        endpoint_id: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        description: str | None = None,
        status: str | None = None,
    ) -> models.Endpoint:
        """Change what is given; `status` is ENABLED or DISABLED."""
        return self._client.run(
            lists.change_webhook(endpoint_id, url=url, events=events, description=description, status=status)
        )

    def delete(self, endpoint_id: str) -> models.Endpoint:
        """Remove an endpoint."""
        return self._client.run(lists.delete_webhook(endpoint_id))

    def test(self, endpoint_id: str) -> str:
        """Have a test event sent; returns its id, to be looked for in `deliveries`."""
        return self._client.run(lists.test_webhook(endpoint_id))

    def rotate_secret(self, endpoint_id: str, *, secret: str | None = None) -> models.Endpoint:
        """Stage a second secret; keep it beside the old one, verify with both, then promote."""
        return self._client.run(lists.rotate_webhook(endpoint_id, secret=secret))

    def promote_secret(self, endpoint_id: str) -> models.Endpoint:
        """Put the staged secret in force."""
        return self._client.run(lists.promote_webhook(endpoint_id))

    def deliveries(
        self, endpoint_id: str, *, status: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> models.Page[models.Delivery]:
        """A page of what was sent there and how it went, newest event first."""
        return self._client.run(lists.deliveries(endpoint_id, status=status, limit=limit, cursor=cursor))

    def replay(self, endpoint_id: str, *, since: datetime, until: datetime | None = None) -> int:
        """Have the events of a range sent again; returns how many."""
        return self._client.run(lists.replay_webhook(endpoint_id, since=since, until=until))


class Events:
    """What happened, in the order of its numbers: to catch up without a push."""

    def __init__(self, client: Giftrail) -> None:
        self._client = client

    def list(self, *, after: str | None = None, limit: int = 200) -> models.Page[signed.Event]:
        """A page of events from behind the event `after`."""
        return self._client.run(lists.events(after=after, limit=limit))

    def iterate(self, *, after: str | None = None, limit: int = 200) -> Iterator[signed.Event]:
        """All events from behind the event `after`, up to now."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page.data
            after = page.next_cursor
            if after is None:
                return

    def redeliver(self, event_id: str) -> int:
        """Have one event sent again; returns to how many endpoints."""
        return self._client.run(lists.redeliver(event_id))
