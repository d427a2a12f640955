"""Events forwarded to a program on a developer's own machine, where no webhook arrives."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import httpx
import typer

import giftrail_client as sdk
from giftrail import app
from giftrail.cli import desk, stopping
from giftrail_client import webhooks as signatures
from giftrail_client import wire

POLL_SECONDS = 1.0
FORWARD_SECONDS = 15.0
DEFAULT_SECRET = "whsec_Z2lmdHJhaWwgbGlzdGVuIHNpZ25zIHdpdGggdGhpcyE="  # noqa: S105 — printed, and for one's own machine


def listen(
    forward: Annotated[str, typer.Option(help="Your program's address; each event is posted there.")],
    base_url: Annotated[str, typer.Option(help="The service.", envvar="GIFTRAIL_BASE_URL")] = "http://127.0.0.1:8080",
    client_id: Annotated[str, typer.Option(help="Your clientId.", envvar="GIFTRAIL_CLIENT_ID")] = "",
    client_secret: Annotated[
        str, typer.Option(help="Your clientSecret; better in the environment.", envvar="GIFTRAIL_CLIENT_SECRET")
    ] = "",
    secret: Annotated[
        str, typer.Option(help="Sign with this secret.", envvar="GIFTRAIL_LISTEN_SECRET")
    ] = DEFAULT_SECRET,
    from_start: Annotated[bool, typer.Option("--from-start", help="Old events too, not only new ones.")] = False,
    as_json: desk.AsJson = False,
) -> None:
    """Follow your event feed and forward each event, signed, to a program on your machine, until Ctrl-C.

    Example: giftrail listen --forward http://localhost:3000/hook
    """
    if not client_id or not client_secret:
        raise desk.CommandFailed("set GIFTRAIL_CLIENT_ID and GIFTRAIL_CLIENT_SECRET, the credentials of the partner")
    with stopping.stopped_by_signals():
        stopping.run(
            _follow(forward, base_url, client_id, client_secret, secret, from_start=from_start, as_json=as_json)
        )


async def _follow(
    forward: str, base_url: str, client_id: str, client_secret: str, secret: str, *, from_start: bool, as_json: bool
) -> None:
    async with (
        sdk.AsyncGiftrail(base_url, client_id, client_secret) as giftrail,
        httpx.AsyncClient(timeout=FORWARD_SECONDS, trust_env=False) as local,
    ):
        if not as_json:
            desk.out.print(f"Forwarding the events of {base_url} to {forward}, signed with {secret}", soft_wrap=True)
        async for event in _new_events(giftrail, from_start=from_start):
            told = await _forward(local, forward, event, secret=secret)
            members = {"eventId": event.id, "eventType": event.kind, "sequence": event.sequence, "answer": told}
            sentence = f"{event.sequence:>6}  {event.kind:<24} {event.order_id or event.brand_id or '':<38} → {told}"
            desk.tell(sentence, members, as_json=as_json)


async def _new_events(giftrail: sdk.AsyncGiftrail, *, from_start: bool) -> AsyncIterator[sdk.Event]:
    after: str | None = None
    if not from_start:
        async for event in giftrail.events.iterate():
            after = event.id
    while True:
        try:
            async for event in giftrail.events.iterate(after=after):
                yield event
                after = event.id
        except (sdk.CannotReach, sdk.Unavailable, sdk.RateLimited) as error:
            desk.err.print(f"The service cannot be reached just now: {error}", markup=False, soft_wrap=True)
        await asyncio.sleep(POLL_SECONDS)


async def _forward(local: httpx.AsyncClient, forward: str, event: sdk.Event, *, secret: str) -> str:
    """Post the event as a webhook would be; returns what was answered, in a word."""
    body = wire.encode({name: value for name, value in event.body.items() if name != "sequence"})
    timestamp = int(app.now().timestamp())
    headers = {
        "Content-Type": "application/json",
        "X-Verify": signatures.sign(body, secret),
        "X-Event-Type": event.kind,
        "webhook-id": event.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signatures.sign_standard(body, secret, event_id=event.id, timestamp=timestamp),
    }
    try:
        answer = await local.post(forward, content=body, headers=headers)
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    return f"{answer.status_code} {answer.reason_phrase}"
