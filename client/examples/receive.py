"""Webhooks in FastAPI, and a catalogue kept fresh by them: `uvicorn receive:app`."""

import os

from fastapi import FastAPI

from giftrail_client import AsyncCatalogMirror, AsyncGiftrail, Event, SqliteInbox, WebhookRouter
from giftrail_client.adapters import fastapi

giftrail = AsyncGiftrail(
    os.environ["GIFTRAIL_BASE_URL"], os.environ["GIFTRAIL_CLIENT_ID"], os.environ["GIFTRAIL_CLIENT_SECRET"]
)
# Two secrets while one is rotated: "old,new".
router = WebhookRouter(
    os.environ["GIFTRAIL_WEBHOOK_SECRETS"].split(","), inbox=SqliteInbox(os.environ.get("INBOX", "inbox.db"))
)
catalogue = AsyncCatalogMirror(giftrail)
catalogue.attach(router)  # Brand Updated, Brand Discount Update
app = FastAPI()
app.include_router(fastapi.routes(router, "/hooks/giftrail"))


@router.on("ORDER_TERMINAL_STATE")
async def order_ended(event: Event) -> None:
    """The order with its vouchers; it may run again, so what it does is done by the order's id."""
    order = await giftrail.orders.get(event.order_id or "")
    print("order", order.reference_id, order.status, len(order.vouchers), flush=True)


@router.on("WALLET_LOW_BALANCE")
def top_up(event: Event) -> None:
    """Before orders fail with E300."""
    print("only", event.body["balance"], "left", flush=True)


@app.get("/brands")
async def brands() -> list[str]:
    """What may be offered."""
    return [brand.title for brand in await catalogue.list()]
