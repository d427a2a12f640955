"""Webhooks of partners, as the operator helps with them."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from giftrail import keys as installation_keys
from giftrail.attempts import again
from giftrail.attempts import store as attempts
from giftrail.cli import desk
from giftrail.kit import seal
from giftrail.partners import manage as partner_manage
from giftrail.webhooks import manage, model, store

webhooks = typer.Typer(help="Webhooks: where partners are called.", no_args_is_help=True)

Partner = Annotated[str, typer.Argument(help="The partner's name or id.")]
EndpointId = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The endpoint's id.")]
Secret = Annotated[bool, typer.Option("--own-secret", help="Ask for a secret of the partner's own.")]


@webhooks.command("add")
def add(
    partner: Partner,
    url: Annotated[str, typer.Argument(help="Where to call: https.")],
    event: Annotated[list[str] | None, typer.Option(help="Only these kinds; repeatable.")] = None,
    description: Annotated[str | None, typer.Option(help="A note.")] = None,
    own_secret: Secret = False,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Register an endpoint; its signing secret is shown once.

    Example: giftrail webhook add "Acme Rewards" https://acme.example/hooks/giftrail
    """
    brought = typer.prompt("Secret", hide_input=True) if own_secret else None

    async def deed(at: desk.Desk) -> model.Endpoint:
        found = await partner_manage.read_partner(at.conn, name_or_id=partner)
        async with at.act("webhook.add", subject=found.name, url=url):
            return await manage.create_endpoint(
                at.conn,
                partner_id=found.partner_id,
                url=url,
                kinds=event or None,
                description=description,
                secret=brought,
                allowlist=at.settings.webhook_networks,
                ring=_ring(at),
                now=at.now,
            )

    made = desk.run(deed, data_dir=data_dir)
    desk.show_one(_members(made) | {"secret": made.secret}, as_json=as_json)


@webhooks.command("list")
def list_(partner: Partner, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """List a partner's endpoints.

    Example: giftrail webhook list "Acme Rewards"
    """

    async def deed(at: desk.Desk) -> list[model.Endpoint]:
        found = await partner_manage.read_partner(at.conn, name_or_id=partner)
        return await store.list_endpoints(at.conn, partner_id=found.partner_id, ring=_ring(at))

    rows = [_members(endpoint) for endpoint in desk.run(deed, data_dir=data_dir)]
    desk.show_rows(rows, as_json=as_json, empty=f"{partner} is not called anywhere.")


@webhooks.command("show")
def show(
    partner: Partner,
    endpoint_id: EndpointId,
    limit: Annotated[int, typer.Option(min=1, max=200, help="So many deliveries.")] = 10,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Show an endpoint and its last deliveries.

    Example: giftrail webhook show "Acme Rewards" whk_0193…
    """

    async def deed(at: desk.Desk) -> tuple[model.Endpoint, list[dict[str, Any]]]:
        endpoint = await _find(at, partner, endpoint_id)
        rows = await attempts.list_deliveries(
            at.conn, partner_id=endpoint.partner_id, endpoint_id=endpoint_id, state=None, before_id=None, limit=limit
        )
        return endpoint, [_delivery(row) for row in rows]

    endpoint, deliveries = desk.run(deed, data_dir=data_dir)
    if as_json:
        desk.print_json(_members(endpoint) | {"deliveries": deliveries})
        return
    desk.show_one(_members(endpoint), as_json=False)
    desk.show_rows(deliveries, as_json=False, empty="Nothing was sent there yet.")


@webhooks.command("test")
def send_test(
    partner: Partner, endpoint_id: EndpointId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False
) -> None:
    """Send a test event; `webhook show` tells how it went.

    Example: giftrail webhook test "Acme Rewards" whk_0193…
    """

    async def deed(at: desk.Desk) -> str:
        endpoint = await _find(at, partner, endpoint_id)
        async with at.act("webhook.test", subject=endpoint_id):
            return (await again.send_test(at.conn, endpoint, now=at.now)).event_id

    event_id = desk.run(deed, data_dir=data_dir)
    desk.tell(f"Event {event_id} is on its way.", {"eventId": event_id}, as_json=as_json)


@webhooks.command("rotate")
def rotate(
    partner: Partner,
    endpoint_id: EndpointId,
    own_secret: Secret = False,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """First step of a rotation: stage a second secret, shown once; webhook-signature carries both.

    Example: giftrail webhook rotate "Acme Rewards" whk_0193…
    """
    brought = typer.prompt("Secret", hide_input=True) if own_secret else None

    async def deed(at: desk.Desk) -> model.Endpoint:
        endpoint = await _find(at, partner, endpoint_id)
        async with at.act("webhook.rotate", subject=endpoint_id):
            return await manage.stage_secret(at.conn, endpoint, secret=brought, ring=_ring(at), now=at.now)

    staged = desk.run(deed, data_dir=data_dir).staged_secret
    desk.tell(
        f"Staged {staged}. Promote it when the partner has it.", {"id": endpoint_id, "secret": staged}, as_json=as_json
    )


@webhooks.command("promote")
def promote(
    partner: Partner, endpoint_id: EndpointId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False
) -> None:
    """Second step: the staged secret is in force, the old one signs beside it for a day.

    Example: giftrail webhook promote "Acme Rewards" whk_0193…
    """

    async def deed(at: desk.Desk) -> None:
        endpoint = await _find(at, partner, endpoint_id)
        async with at.act("webhook.promote", subject=endpoint_id):
            await manage.promote_secret(at.conn, endpoint, ring=_ring(at), now=at.now)

    desk.run(deed, data_dir=data_dir)
    desk.tell(f"The staged secret of {endpoint_id} is in force.", {"id": endpoint_id}, as_json=as_json)


@webhooks.command("rate")
def rate(
    partner: Partner,
    endpoint_id: EndpointId,
    per_second: Annotated[int, typer.Argument(min=0, metavar="PER_SECOND", help="Events a second; 0 is no limit.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Send an endpoint no more than so many events a second from each worker.

    Example: giftrail webhook rate "Acme Rewards" whk_0193… 5
    """

    async def deed(at: desk.Desk) -> None:
        endpoint = await _find(at, partner, endpoint_id)
        async with at.act("webhook.rate", subject=endpoint_id, per_second=per_second):
            await manage.change_endpoint(
                at.conn,
                endpoint,
                rate_per_second=per_second,
                allowlist=at.settings.webhook_networks,
                ring=_ring(at),
                now=at.now,
            )

    desk.run(deed, data_dir=data_dir)
    members = {"id": endpoint_id, "perSecond": per_second or None}
    desk.tell(f"{endpoint_id} gets {per_second or 'any number of'} events a second at most.", members, as_json=as_json)


@webhooks.command("replay")
def replay(
    partner: Partner,
    endpoint_id: EndpointId,
    since: Annotated[datetime, typer.Option("--from", help="UTC, from this moment.")],
    until: Annotated[datetime | None, typer.Option("--to", help="UTC, up to this moment; now when absent.")] = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Send what happened in a range again; held and exhausted events too.

    Example: giftrail webhook replay "Acme Rewards" whk_0193… --from 2026-01-31T09:00:00
    """

    async def deed(at: desk.Desk) -> int:
        endpoint = await _find(at, partner, endpoint_id)
        occurred_to = at.now if until is None else until.replace(tzinfo=UTC)
        async with at.act("webhook.replay", subject=endpoint_id, since=since, until=occurred_to):
            return await again.replay(
                at.conn, endpoint, occurred_from=since.replace(tzinfo=UTC), occurred_to=occurred_to, now=at.now
            )

    count = desk.run(deed, data_dir=data_dir)
    desk.tell(f"{count} events are on their way again.", {"events": count}, as_json=as_json)


@webhooks.command("disable")
def disable(
    partner: Partner, endpoint_id: EndpointId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False
) -> None:
    """Call an endpoint no more; its events are held and can be replayed.

    Example: giftrail webhook disable "Acme Rewards" whk_0193…
    """

    async def deed(at: desk.Desk) -> None:
        endpoint = await _find(at, partner, endpoint_id)
        async with at.act("webhook.disable", subject=endpoint_id):
            await manage.disable_endpoint(at.conn, endpoint, why="by the operator", ring=_ring(at), now=at.now)

    desk.run(deed, data_dir=data_dir)
    desk.tell(f"{endpoint_id} is called no more.", {"id": endpoint_id, "status": "DISABLED"}, as_json=as_json)


@webhooks.command("enable")
def enable(
    partner: Partner, endpoint_id: EndpointId, data_dir: desk.DataDir = None, as_json: desk.AsJson = False
) -> None:
    """Call an endpoint again from now on; `webhook replay` sends what was held.

    Example: giftrail webhook enable "Acme Rewards" whk_0193…
    """

    async def deed(at: desk.Desk) -> None:
        endpoint = await _find(at, partner, endpoint_id)
        async with at.act("webhook.enable", subject=endpoint_id):
            await manage.enable_endpoint(at.conn, endpoint, ring=_ring(at), now=at.now)

    desk.run(deed, data_dir=data_dir)
    desk.tell(f"{endpoint_id} is called again.", {"id": endpoint_id, "status": "ENABLED"}, as_json=as_json)


def _ring(at: desk.Desk) -> seal.KeyRing:
    return installation_keys.code_keys(installation_keys.with_keys(at.settings)).ring


async def _find(at: desk.Desk, partner: str, endpoint_id: str) -> model.Endpoint:
    found = await partner_manage.read_partner(at.conn, name_or_id=partner)
    return await manage.read_endpoint(at.conn, partner_id=found.partner_id, endpoint_id=endpoint_id, ring=_ring(at))


def _members(endpoint: model.Endpoint) -> dict[str, Any]:
    return {
        "id": endpoint.endpoint_id,
        "url": endpoint.url,
        "events": list(endpoint.kinds),
        "status": "ENABLED" if endpoint.disabled_at is None else "DISABLED",
        "reason": endpoint.disabled_why,
        "description": endpoint.description,
        "createdAt": endpoint.created_at,
    }


def _delivery(row: Any) -> dict[str, Any]:
    tries = msgspec.json.decode(row["attempts"])
    last = tries[-1] if tries else {}
    return {
        "eventId": row["event_id"],
        "eventType": row["kind"],
        "status": row["state"],
        "attempts": row["tries"],
        "last": last.get("status") or last.get("error"),
        "latencyMs": last.get("latencyMs"),
        "next": row["next_at"] if row["state"] == "DUE" else None,
    }
