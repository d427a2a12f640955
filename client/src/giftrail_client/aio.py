"""The async client. Its twin is `sync`: the same methods over the same flows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

import httpx

from giftrail_client import bodies, errors, flows, lists, models, transport
from giftrail_client.tokens import MemoryTokenStore, TokenStore

T = TypeVar("T")


class AsyncGiftrail:
    """A partner's client; safe to share between the tasks of one loop. Close it, or use it in an async with statement.

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
        http: httpx.AsyncClient | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.clock = clock
        self._config = flows.Config(client_id, client_secret, clock)
        self._tokens = MemoryTokenStore() if token_store is None else token_store
        self._logging_in = asyncio.Lock()
        self._sleep = sleep
        self._own = http is None
        self._base_url = base_url.rstrip("/")
        self._http = httpx.AsyncClient(**transport.options(self._base_url, timeout_seconds)) if http is None else http
        self.brands = Brands(self)
        self.orders = Orders(self)
        self.vouchers = Vouchers(self)
        self.wallet = Wallet(self)

    async def __aenter__(self) -> AsyncGiftrail:  # noqa: PYI034 — Self is not in Python 3.10
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._own:
            await self._http.aclose()

    async def run(self, flow: flows.Flow[T]) -> T:
        """Run a flow to its end."""
        try:
            effect = next(flow)
            while True:
                try:
                    came = await self._perform(effect)
                except errors.GiftrailError as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(came)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, flows.GetToken):
            return await self._token(effect.stale)
        if isinstance(effect, flows.Pause):
            return await self._sleep(effect.seconds)
        send: flows.Send = effect
        try:
            made = transport.request(send)
            made["url"] = self._base_url + made["url"]
            return transport.reply(await self._http.request(**made))
        except transport.FAILURES as error:
            raise transport.unreachable(error, send) from error

    async def _token(self, stale: str | None) -> str:
        token = self._tokens.load()
        if token is None or token.text == stale or not token.is_fresh(self._config.clock()):
            async with self._logging_in:  # one logs in, the others find its token
                token = self._tokens.load()
                if token is None or token.text == stale or not token.is_fresh(self._config.clock()):
                    token = await self.run(flows.log_in(self._config))
                    self._tokens.save(token)
        return token.text


class Brands:
    """The catalogue."""

    def __init__(self, client: AsyncGiftrail) -> None:
        self._client = client

    async def list(self, *, page_no: int = 1, limit: int = 100, **filters: Any) -> models.Page[models.Brand]:
        """A page of brands. Filters as the service has them: q, category, tag, status and more."""
        return await self._client.run(lists.brands(page_no=page_no, limit=limit, filters=filters))

    async def iterate(self, *, limit: int = 100, **filters: Any) -> AsyncIterator[models.Brand]:
        """All brands, page by page."""
        page_no: int | None = 1
        while page_no is not None:
            page = await self.list(page_no=page_no, limit=limit, **filters)
            for brand in page.data:
                yield brand
            page_no = page.next_cursor

    async def get(self, brand_id: str) -> models.Brand:
        """One brand. Raises NotFound."""
        return await self._client.run(lists.brand(brand_id))


class Orders:
    """Orders: placed once, polled, retried with a new reference."""

    def __init__(self, client: AsyncGiftrail) -> None:
        self._client = client

    async def place(
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
        order = await self._client.run(flows.place(body, wait_seconds=wait_seconds))
        return lists.unless_failed(order, raise_failed=raise_failed)

    async def get(self, order_id: str) -> models.Order:
        """One order. Raises NotFound."""
        return await self._client.run(lists.order(order_id))

    async def by_reference(self, reference_id: str) -> models.Order:
        """The order of a reference. Raises NotFound: then it was not created."""
        return await self._client.run(flows.get(flows.by_reference_path(reference_id), models.order))

    async def list(
        self,
        *,
        status: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> models.Page[models.Order]:
        """A page of orders, newest first, without vouchers."""
        return await self._client.run(
            lists.orders(status=status, created_from=created_from, created_to=created_to, limit=limit, cursor=cursor)
        )

    async def wait(
        self, order: models.Order, *, schedule: tuple[float, ...] = flows.POLL_AFTER_SECONDS, raise_failed: bool = False
    ) -> models.Order:
        """Poll until the order is terminal: first after a minute, about five times, until it is 15 minutes old.

        Raises OrderTimedOut, OrderStillProcessing, OrderFailed (with `raise_failed`).
        """
        ended = await self._client.run(flows.wait(order, schedule=schedule, clock=self._client.clock))
        return lists.unless_failed(ended, raise_failed=raise_failed)

    async def retry(self, order: models.Order, **more: Any) -> models.Order:
        """Place a FAILED order anew: its brand read again, a new reference. Raises ValueError when it did not fail."""
        body = await self._client.run(lists.body_of_retry(order, more))
        return await self._client.run(flows.place(body))

    async def cancel(self, order_id: str) -> models.Order:
        """Cancel a PROCESSING order that no provider was asked for. Raises WrongOrderState, NotFound."""
        return await self._client.run(lists.cancel(order_id))

    async def reverse(self, order_id: str, *, reason: str | None = None) -> models.Order:
        """Take a SUCCESS order back; it may be `reversal_pending` at first. Raises WrongOrderState, NotFound."""
        return await self._client.run(lists.reverse(order_id, reason=reason))


class Vouchers:
    """Vouchers."""

    def __init__(self, client: AsyncGiftrail) -> None:
        self._client = client

    async def get(self, voucher_id: str) -> models.Voucher:
        """One voucher. Raises NotFound, also when its order was reversed."""
        return await self._client.run(lists.voucher(voucher_id))


class Wallet:
    """The prepaid wallet."""

    def __init__(self, client: AsyncGiftrail) -> None:
        self._client = client

    async def balance(self) -> models.Balance:
        """What can be spent, what is held."""
        return await self._client.run(flows.get("/wallet/balance", models.balance))

    async def transactions(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
    ) -> models.Page[models.Transaction]:
        """A page of the statement, newest first."""
        return await self._client.run(
            lists.transactions(limit=limit, cursor=cursor, created_from=created_from, created_to=created_to)
        )
