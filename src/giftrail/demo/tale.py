"""A partner's day, told as it happens: every line stands for a real request."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from rich.console import Console

from giftrail.demo.furnish import DemoPartner

_PAUSE_SECONDS = 10.0
# Long enough to send a request, too short for any answer: the time-out of a careless client.
_IMPATIENT_SECONDS = 0.0001


class TaleFailed(Exception):
    """The service did not do what the tale tells; the message says what."""


class _Partner:
    """A partner's program, as small as can be."""

    def __init__(self, http: httpx.AsyncClient, console: Console) -> None:
        self._http = http
        self._console = console
        self._token = ""

    async def log_in(self, partner: DemoPartner) -> None:
        body = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
        answer = (await self._http.post("/v1/partners/auth/login", json=body)).raise_for_status().json()
        self._token = answer["token"]
        self.say("POST /auth/login", f"a token for {answer['expiresInSecs']} seconds")

    async def get(self, path: str, *, expect: int = 200) -> Any:
        answer = await self._http.get(f"/v1/partners{path}", headers=self._headers())
        if answer.status_code != expect:
            raise TaleFailed(f"GET {path} answered {answer.status_code} instead of {expect}: {answer.text}")
        return answer.json()

    async def place(
        self, product_id: str, lines: Mapping[Any, int], *, reference_id: str | None = None, **more: Any
    ) -> dict[str, Any]:
        body = {
            "productId": product_id,
            "referenceId": reference_id or f"demo-{uuid.uuid4().hex[:12]}",
            "amount": sum(denomination * quantity for denomination, quantity in lines.items()),
            "denominationDetails": [{"denomination": d, "quantity": q} for d, q in lines.items()],
            "customerDetails": {"name": "Asha Rao", "email": "asha@example.com"},
        }
        answer = await self._http.post("/v1/partners/orders", json=body, headers=self._headers(), **more)
        order: dict[str, Any] = answer.raise_for_status().json()
        order["replayed"] = answer.headers.get("Idempotent-Replayed") == "true"
        return order

    async def place_expecting(self, status: str, product_id: str, lines: Mapping[Any, int], **more: Any) -> Any:
        order = await self.place(product_id, lines, **more)
        if order["status"] != status:
            raise TaleFailed(f"an order of {product_id} is {order['status']} instead of {status}: {order}")
        return order

    def say(self, request: str, happened: str) -> None:
        self._console.print(f"  [bold cyan]{request:<36}[/] {happened}", soft_wrap=True)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "X-REQUEST-ID": str(uuid.uuid4())}


async def tell(base_url: str, partners: Sequence[DemoPartner], *, console: Console) -> None:
    """Play the day of both partners. Raises TaleFailed, httpx.HTTPError."""
    rich, poor = partners
    async with httpx.AsyncClient(base_url=base_url, timeout=_PAUSE_SECONDS, trust_env=False) as http:
        console.print(f"\n[bold]{rich.name}[/] ({rich.kind}) reads the catalogue and orders")
        await _orders(_Partner(http, console), rich)
        console.print("\n[bold]Things go wrong[/], and nothing is paid for")
        await _failures(_Partner(http, console), rich, poor)
        console.print("\n[bold]The network fails[/], and nothing is ordered twice")
        await _retries(_Partner(http, console), rich)


async def _orders(client: _Partner, partner: DemoPartner) -> None:
    await client.log_in(partner)
    page = await client.get("/products?limit=5")
    titles = ", ".join(brand["title"] for brand in page["data"])
    client.say("GET /products?limit=5", f"{titles} … {page['total']} brands in all")

    order = await client.place_expecting("SUCCESS", "quill-and-banyan", {500: 2})
    client.say("POST /orders", f"2 × 500 of quill-and-banyan, served from stock: {order['status']}")
    _show(client, order["vouchers"][0])

    order = await client.place_expecting("SUCCESS", "chai-verandah", {100: 1, 250: 1})
    client.say("POST /orders", f"100 + 250 of chai-verandah, generated: {order['status']}, debit {order['debit']}")
    voucher = await client.get(f"/orders/vouchers/{order['vouchers'][0]['id']}")
    client.say("GET /orders/vouchers/:id", "the voucher again, as its cardType shows it")
    _show(client, voucher)

    order = await client.place_expecting("SUCCESS", "monsoon-threads", {1234.5: 1})
    client.say("POST /orders", f"1234.5 of monsoon-threads (FLEXIBLE), 6 % off: debit {order['debit']}")
    _show(client, order["vouchers"][0])


async def _failures(client: _Partner, rich: DemoPartner, poor: DemoPartner) -> None:
    await client.log_in(rich)
    before = (await client.get("/wallet/balance"))["balance"]
    for product_id, lines in (("lantern-lane", {250: 1}), ("chai-verandah", {123: 1})):
        order = await client.place_expecting("FAILED", product_id, lines)
        _tell_failure(client, product_id, order)
    after = (await client.get("/wallet/balance"))["balance"]
    if before != after:
        raise TaleFailed(f"failed orders changed the balance from {before} to {after}")
    client.say("GET /wallet/balance", f"{after}, as before")

    await client.log_in(poor)
    order = await client.place_expecting("FAILED", "chai-verandah", {1000: 6})
    _tell_failure(client, "chai-verandah", order)


async def _retries(client: _Partner, partner: DemoPartner) -> None:
    await client.log_in(partner)
    reference_id = f"demo-{uuid.uuid4().hex[:12]}"
    first = await client.place_expecting("SUCCESS", "chai-verandah", {500: 1}, reference_id=reference_id)
    again = await client.place_expecting("SUCCESS", "chai-verandah", {500: 1}, reference_id=reference_id)
    if again["id"] != first["id"] or not again["replayed"]:
        raise TaleFailed("the same referenceId made two orders")
    client.say("POST /orders, twice", f"one referenceId, one order: {again['id']}")

    reference_id = f"demo-{uuid.uuid4().hex[:12]}"
    impatient = httpx.Timeout(_PAUSE_SECONDS, read=_IMPATIENT_SECONDS)
    try:
        await client.place("chai-verandah", {250: 1}, reference_id=reference_id, timeout=impatient)
    except httpx.ReadTimeout:
        client.say("POST /orders", "no answer in time: was it ordered or not?")
    order = await _recover(client, reference_id)
    client.say("GET /orders/by-reference/:ref", f"{order['status']}, {len(order['vouchers'])} voucher, one debit")

    lines = (await client.get("/wallet/transactions?limit=6"))["data"]
    client.say("GET /wallet/transactions", "the newest lines of the statement")
    for line in lines:
        amounts = f"{line['amount']:>10}   balance {line['balance']:>10}"
        client.say("", f"{line['kind']:<10} {amounts}   {line['referenceId'] or line['note']}")


async def _recover(client: _Partner, reference_id: str) -> Any:
    """What the specification asks after a time-out: look up, and on 404 send the same reference again."""
    try:
        return await client.get(f"/orders/by-reference/{reference_id}")
    except TaleFailed:
        client.say("GET /orders/by-reference/:ref", "404: not ordered, so it is safe to send it again")
        await client.place_expecting("SUCCESS", "chai-verandah", {250: 1}, reference_id=reference_id)
        return await client.get(f"/orders/by-reference/{reference_id}")


def _tell_failure(client: _Partner, product_id: str, order: dict[str, Any]) -> None:
    client.say("POST /orders", f"{product_id}: FAILED, {order['failureReason']} ({order['failureCode']})")


def _show(client: _Partner, voucher: dict[str, Any]) -> None:
    fields = [f"{name} {voucher[name]}" for name in ("cardNumber", "cardPin") if voucher[name] is not None]
    client.say(
        "", f"[green]{voucher['amount']}[/]  {voucher['cardType']}: {', '.join(fields)}, till {voucher['validTill']}"
    )


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
