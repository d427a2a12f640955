"""A partner's day, told as it happens: every line stands for real requests, made through the partner's SDK."""

import asyncio
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

import giftrail_client as sdk
from giftrail.demo.furnish import DemoPartner

# Polled sooner than the specification's minute: this is a tale, and the sandbox is quick.
_POLLS_SECONDS = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


_DELIVERY_LOOKS, _DELIVERY_PAUSE_SECONDS = 50, 0.1
_LINK = re.compile(r"https?://\S+/v/[\w-]+")


class TaleFailed(Exception):
    """The service did not do what the tale tells; the message says what."""


class _LosesAnswers(httpx.AsyncBaseTransport):
    """A network that loses the answer of the next placement, after the service has done its work."""

    def __init__(self) -> None:
        self._real = httpx.AsyncHTTPTransport()
        self.loses_next = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._real.handle_async_request(request)
        if self.loses_next and request.method == "POST":
            self.loses_next = False
            await response.aread()
            raise httpx.ReadTimeout("the answer was lost", request=request)
        return response

    async def aclose(self) -> None:
        await self._real.aclose()


class _Teller:
    """A partner's program that tells what it does."""

    def __init__(self, client: sdk.AsyncGiftrail, console: Console) -> None:
        self.client = client
        self._console = console

    def say(self, call: str, happened: str) -> None:
        self._console.print(f"  [bold cyan]{call:<36}[/] {happened}", soft_wrap=True)

    def show(self, voucher: sdk.Voucher) -> None:
        fields = ", ".join(f"{name} {value}" for name, value in voucher.display().items())
        self.say("", f"[green]{voucher.amount}[/]  {voucher.card_type}: {fields}, till {voucher.valid_till}")

    async def place(self, status: str, product_id: str, lines: Mapping[Any, int], **more: Any) -> sdk.Order:
        customer = {"name": "Asha Rao", "email": "asha@example.com"}
        order = await self.client.orders.place(product_id, lines, customer=customer, **more)
        if order.status != status:
            raise TaleFailed(f"an order of {product_id} is {order.status} instead of {status}: {order}")
        return order

    async def fail(self, product_id: str, lines: Mapping[Any, int]) -> None:
        order = await self.place("FAILED", product_id, lines)
        self.say("orders.place", f"{product_id}: FAILED, {order.failure_reason} ({order.failure_code})")


async def tell(base_url: str, partners: Sequence[DemoPartner], *, messages: Path, console: Console) -> None:
    """Play the day of both partners; `messages` is where what goes to recipients is written.

    Raises TaleFailed, giftrail_client.GiftrailError.
    """
    rich, poor = partners
    network = _LosesAnswers()
    async with (
        httpx.AsyncClient(transport=network, trust_env=False) as http,
        sdk.AsyncGiftrail(base_url, rich.client_id, rich.client_secret, http=http) as acme,
        sdk.AsyncGiftrail(base_url, poor.client_id, poor.client_secret, http=http) as bazaar,
    ):
        console.print(f"\n[bold]{rich.name}[/] ({rich.kind}) reads the catalogue and orders")
        await _orders(_Teller(acme, console))
        console.print("\n[bold]Some orders take time[/], and can be taken back")
        await _slow_orders(_Teller(acme, console))
        console.print("\n[bold]A gift goes to its recipient[/], who opens it on a page")
        await _gift(_Teller(acme, console), messages)
        console.print("\n[bold]Things go wrong[/], and nothing is paid for")
        await _failures(_Teller(acme, console), _Teller(bazaar, console))
        console.print("\n[bold]The network fails[/], and nothing is ordered twice")
        await _retries(_Teller(acme, console), network)


async def _orders(teller: _Teller) -> None:
    page = await teller.client.brands.list(limit=5)
    teller.say("brands.list", f"{', '.join(brand.title for brand in page.data)} … {page.total} brands in all")

    order = await teller.place("SUCCESS", "quill-and-banyan", {500: 2})
    teller.say("orders.place", f"2 × 500 of quill-and-banyan, served from stock: {order.status}")
    teller.show(order.vouchers[0])

    order = await teller.place("SUCCESS", "chai-verandah", {100: 1, 250: 1})
    teller.say("orders.place", f"100 + 250 of chai-verandah, generated: {order.status}, debit {order.debit}")
    voucher = await teller.client.vouchers.get(order.vouchers[0].id)
    teller.say("vouchers.get", "the voucher again, as its cardType shows it")
    teller.show(voucher)

    order = await teller.place("SUCCESS", "monsoon-threads", {"1234.5": 1})
    teller.say("orders.place", f"1234.5 of monsoon-threads (FLEXIBLE), 6 % off: debit {order.debit}")
    teller.show(order.vouchers[0])


async def _slow_orders(teller: _Teller) -> None:
    order = await teller.place("PROCESSING", "sandbox-after-5-seconds", {250: 1}, wait_seconds=0)
    balance = await teller.client.wallet.balance()
    teller.say("orders.place", f"sandbox-after-5-seconds: {order.status}, {balance.held} held in the wallet")
    order = await teller.client.orders.wait(order, schedule=_POLLS_SECONDS)
    teller.say("orders.wait", f"{order.status}, {len(order.vouchers)} voucher")

    order = await teller.place("PROCESSING", "sandbox-lost-answer", {100: 1}, wait_seconds=0)
    order = await teller.client.orders.wait(order, schedule=_POLLS_SECONDS)
    teller.say("orders.wait", f"sandbox-lost-answer: issued, timed out, found by looking it up: {order.status}")

    order = await teller.place("PROCESSING", "sandbox-away", {100: 1}, wait_seconds=0)
    order = await teller.client.orders.cancel(order.id)
    teller.say("orders.cancel", f"sandbox-away, whose provider cannot be reached: {order.status}, nothing is held")

    order = await teller.place("SUCCESS", "sandbox-reversible", {500: 1}, wait_seconds=5)
    order = await teller.client.orders.reverse(order.id, reason="ordered by mistake")
    teller.say("orders.reverse", f"sandbox-reversible: {order.status}, {order.debit} back in the wallet")


async def _gift(teller: _Teller, messages: Path) -> None:
    gift = {
        "recipientType": "OTHER", "recipientName": "Meera", "recipientEmail": "meera@example.com",
        "recipientPhoneNumber": "98200 00001", "senderName": "Asha", "wishMessage": "Happy birthday!",
    }  # fmt: skip
    order = await teller.place("SUCCESS", "chai-verandah", {500: 1}, delivery=gift)
    for _ in range(_DELIVERY_LOOKS):
        if all(one.state == "SENT" for one in order.deliveries):
            break
        await asyncio.sleep(_DELIVERY_PAUSE_SECONDS)
        order = await teller.client.orders.get(order.id)
    told = ", ".join(f"{one.channel} {one.state}" for one in order.deliveries)
    teller.say("orders.place", f"500 of chai-verandah for Meera: {order.status}; {told}")
    teller.say("the message", f"holds no code but a link: {await asyncio.to_thread(_read_link, messages)}")


def _read_link(messages: Path) -> str:
    links = [found[0] for path in messages.glob("*.txt") if (found := _LINK.search(path.read_text("utf-8")))]
    if not links:
        raise TaleFailed(f"no message was written into {messages}")
    return links[0]


async def _failures(teller: _Teller, poor: _Teller) -> None:
    before = (await teller.client.wallet.balance()).balance
    await teller.fail("lantern-lane", {250: 1})
    await teller.fail("chai-verandah", {123: 1})
    await teller.fail("sandbox-refused", {100: 1})
    await teller.fail("sandbox-e100", {100: 1})
    after = (await teller.client.wallet.balance()).balance
    if before != after:
        raise TaleFailed(f"failed orders changed the balance from {before} to {after}")
    teller.say("wallet.balance", f"{after}, as before")
    await poor.fail("chai-verandah", {1000: 6})


async def _retries(teller: _Teller, network: _LosesAnswers) -> None:
    reference_id = f"demo-{uuid.uuid4().hex[:12]}"
    first = await teller.place("SUCCESS", "chai-verandah", {500: 1}, reference_id=reference_id)
    again = await teller.place("SUCCESS", "chai-verandah", {500: 1}, reference_id=reference_id)
    if again.id != first.id or not again.replayed:
        raise TaleFailed("the same referenceId made two orders")
    teller.say("orders.place, twice", f"one referenceId, one order: {again.id}")

    network.loses_next = True
    order = await teller.place("SUCCESS", "chai-verandah", {250: 1})
    if network.loses_next:
        raise TaleFailed("no answer was lost")
    teller.say("orders.place", "the answer was lost on the way: was it ordered or not?")
    teller.say("", f"looked up by its reference: {order.status}, {len(order.vouchers)} voucher, one debit")

    teller.say("wallet.transactions", "the newest lines of the statement")
    for line in (await teller.client.wallet.transactions(limit=6)).data:
        amounts = f"{line.amount:>10}   balance {line.balance:>10}"
        teller.say("", f"{line.kind:<10} {amounts}   {line.reference_id or line.note}")


def introduce(base_url: str, partners: Sequence[DemoPartner], *, console: Console) -> None:
    """Addresses and credentials, to go on by hand."""
    console.print(f"\n[bold]Up at {base_url}[/]  ·  interactive API page {base_url}/docs  ·  Ctrl-C stops it")
    for partner in partners:
        console.print(
            f"  {partner.name} ({partner.kind})\n    clientId      {partner.client_id}\n"
            f"    clientSecret  {partner.client_secret}",
            soft_wrap=True,
        )
    first = partners[0]
    console.print(
        f"  curl -s {base_url}/v1/partners/auth/login -H 'Content-Type: application/json' \\\n"
        f'    -d \'{{"clientId":"{first.client_id}","clientSecret":"{first.client_secret}"}}\'',
        soft_wrap=True,
        markup=False,
    )
