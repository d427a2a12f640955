"""Partners' clients as the specification wants them, over API processes that die; each remembers what it was told.

On a time-out, a broken connection or 503 a client looks its order up by reference; after a 404 it sends the order again
with the same reference; a PROCESSING order is polled. It also cancels, reverses, replays and contradicts itself.
"""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
from benchmarks.told import Account, Book, Kept, Offer

from giftrail.orders.states import Status

TIMEOUT_SECONDS = 8.0
# A client in a hurry: the answer is lost while the service still works on the order.
HASTE_SECONDS = 0.03
HASTE = 0.04
BETWEEN_ORDERS_SECONDS = (0.0, 0.15)
BETWEEN_TRIES_SECONDS = (0.1, 0.6)
MAX_TRIES = 400
MAX_POLLS = 60
MAX_FOLLOWED = 12
REPLAY, CONFLICT, CANCEL, REVERSE = 0.06, 0.02, 0.5, 0.4


class Client:
    """One program of a partner: places one order after the other, follows those that take time."""

    def __init__(
        self, account: Account, ports: Sequence[int], offers: Sequence[Offer], book: Book, *, seed: str
    ) -> None:
        self._account = account
        self._ports = ports
        self._offers = offers
        self._book = book
        self._draw = random.Random(seed)
        self._seed = seed
        self._token = ""
        self._placed = 0
        self._closing = asyncio.Event()
        self._following: set[asyncio.Task[None]] = set()
        self._http: aiohttp.ClientSession | None = None
        self._port = self._draw.choice(ports)

    @property
    def partner_id(self) -> str:
        return self._account.partner_id

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """With connections of its own."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as self._http:
            yield

    async def run(self) -> None:
        """Place orders until closed; what was begun is brought to its end."""
        async with asyncio.TaskGroup() as group:
            while not self._closing.is_set():
                kept = self._new_order()
                self._book.orders.append(kept)
                if await self._place(kept):
                    task = group.create_task(self._follow(kept))
                    self._following.add(task)
                    task.add_done_callback(self._following.discard)
                if len(self._following) >= MAX_FOLLOWED:
                    await asyncio.wait(self._following, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(self._draw.uniform(*BETWEEN_ORDERS_SECONDS))

    def close(self) -> None:
        """No new orders, no more polls."""
        self._closing.set()

    async def read_again(self, kept: Kept) -> None:
        """Ask how the order stands."""
        for _ in range(MAX_TRIES):
            answer = await self._call("GET", f"/orders/{kept.order_id}", want={200})
            if answer is not None and answer[0] == 200:
                self._book.learn(kept, answer[1])
            if answer is not None and answer[0] != 503:
                return
            await self._pause()

    def _new_order(self) -> Kept:
        self._placed += 1
        offer = self._draw.choices(self._offers, [offer.weight for offer in self._offers])[0]
        denominations = self._draw.sample([100, 250, 500], self._draw.choice([1, 1, 2]))
        return Kept(
            partner_id=self._account.partner_id,
            reference_id=f"{self._seed}-{self._placed}",
            offer=offer,
            lines={denomination: self._draw.choice([1, 1, 2, 3]) for denomination in denominations},
        )

    async def _place(self, kept: Kept) -> bool:
        """Send the order until it is known what became of it."""
        body = kept.body()
        for _ in range(MAX_TRIES):
            begun = time.monotonic()
            seconds = HASTE_SECONDS if self._draw.random() < HASTE else TIMEOUT_SECONDS
            answer = await self._call("POST", "/orders", body, seconds=seconds, want={200})
            if answer is not None and answer[0] == 200:
                self._book.recover(begun)
                self._book.learn(kept, answer[1])
                return True
            if answer is not None and answer[0] != 503:
                return False
            found = await self._look_up(kept)
            if found is not None:
                self._book.learn(kept, found)
                return True
        kept.given_up = True
        return False

    async def _look_up(self, kept: Kept) -> dict[str, Any] | None:
        """The order of the reference; None when there is none."""
        for _ in range(MAX_TRIES):
            answer = await self._call("GET", f"/orders/by-reference/{kept.reference_id}", want={200, 404})
            if answer is not None and answer[0] in {200, 404}:
                return answer[1] if answer[0] == 200 else None
            await self._pause()
        return None

    async def _follow(self, kept: Kept) -> None:
        """Everything that is done with an order that was placed, one thing after the other."""
        draw = random.Random(kept.reference_id)
        if draw.random() < REPLAY:
            await self._replay(kept)
        if draw.random() < CONFLICT:
            await self._contradict(kept)
        if kept.status is Status.PROCESSING and kept.offer.cancels and draw.random() < CANCEL:
            await self._change(kept, "cancel")
        for _ in range(MAX_POLLS):
            if kept.status is not Status.PROCESSING or self._closing.is_set() or not kept.offer.ends:
                break
            await asyncio.sleep(draw.uniform(0.4, 1.6))
            await self.read_again(kept)
        if kept.status is Status.SUCCESS and kept.offer.reverses and draw.random() < REVERSE:
            await self._change(kept, "reverse")

    async def _replay(self, kept: Kept) -> None:
        for _ in range(MAX_TRIES):
            answer = await self._call("POST", "/orders", kept.body(), want={200})
            if answer is not None and answer[0] == 200:
                self._book.learn(kept, answer[1])
            if answer is not None and answer[0] != 503:
                return
            await self._pause()

    async def _contradict(self, kept: Kept) -> None:
        """The same reference with other content is refused, whatever has died meanwhile."""
        body = kept.body() | {"customerDetails": {"name": "Somebody else"}}
        for _ in range(MAX_TRIES):
            answer = await self._call("POST", "/orders", body, want={409})
            if answer is not None and answer[0] == 409 and answer[1].get("orderId") != kept.order_id:
                self._book.contradict(kept, f"a conflict names order {answer[1].get('orderId')}")
            if answer is not None and answer[0] != 503:
                return
            await self._pause()

    async def _change(self, kept: Kept, deed: str) -> None:
        """Cancel or reverse, until it is done or refused."""
        kept.cancel_asked |= deed == "cancel"
        kept.reversal_asked |= deed == "reverse"
        for _ in range(MAX_TRIES):
            answer = await self._call("POST", f"/orders/{kept.order_id}/{deed}", {}, want={200, 409})
            if answer is not None and answer[0] == 200:
                self._book.learn(kept, answer[1])
            if answer is not None and answer[0] != 503:
                return
            await self._pause()

    async def _call(
        self, method: str, path: str, body: Any = None, *, seconds: float = TIMEOUT_SECONDS, want: set[int]
    ) -> tuple[int, dict[str, Any]] | None:
        """Status and body of one request, or None when it timed out or the connection broke: then try another API."""
        headers = {"X-REQUEST-ID": str(uuid.UUID(int=self._draw.getrandbits(128)))}
        if not self._token and not await self._log_in():
            return None
        headers["Authorization"] = f"Bearer {self._token}"
        answer = await self._send(method, f"/v1/partners{path}", body, headers=headers, seconds=seconds)
        if answer is not None and answer[0] == 401:
            self._token = ""
        if answer is not None and answer[0] not in want | {503}:
            self._book.unexpected.append(f"{method} {path} {body or ''}: {answer[0]} {answer[1]}")
        return answer

    async def _log_in(self) -> bool:
        body = {"clientId": self._account.client_id, "clientSecret": self._account.client_secret}
        answer = await self._send("POST", "/v1/partners/auth/login", body, headers={}, seconds=TIMEOUT_SECONDS)
        if answer is not None and answer[0] == 200:
            self._token = answer[1]["token"]
        return bool(self._token)

    async def _send(
        self, method: str, path: str, body: Any, *, headers: dict[str, str], seconds: float
    ) -> tuple[int, dict[str, Any]] | None:
        if self._http is None:
            raise AssertionError("a client is connected before it calls")
        try:
            async with (
                asyncio.timeout(seconds),
                self._http.request(
                    method, f"http://127.0.0.1:{self._port}{path}", json=body, headers=headers
                ) as answer,
            ):
                status, decoded = answer.status, await answer.json()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._book.answers[type(error).__name__] += 1
            self._port = self._draw.choice(self._ports)
            return None
        self._book.answers[str(status)] += 1
        return status, decoded

    async def _pause(self) -> None:
        await asyncio.sleep(self._draw.uniform(*BETWEEN_TRIES_SECONDS))
