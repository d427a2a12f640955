"""Events of partners."""

from typing import Annotated, Any

import msgspec
import typer

from giftrail.attempts import again
from giftrail.cli import desk
from giftrail.events import store
from giftrail.partners import manage

events = typer.Typer(help="Events: what partners are told.", no_args_is_help=True)

Partner = Annotated[str, typer.Argument(help="The partner's name or id.")]


@events.command("list")
def list_events(
    partner: Partner,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many, from the first after --after.")] = 50,
    after: Annotated[int, typer.Option(min=0, help="From behind this sequence.")] = 0,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """List a partner's events by their sequence.

    Example: giftrail event list "Acme Rewards" --limit 20
    """

    async def deed(at: desk.Desk) -> list[dict[str, Any]]:
        found = await manage.read_partner(at.conn, name_or_id=partner)
        rows = await store.list_feed(at.conn, partner_id=found.partner_id, after_sequence=after, limit=limit)
        return [{"sequence": row["sequence"], **msgspec.json.decode(row["rendered"])} for row in rows]

    found = desk.run(deed, data_dir=data_dir)
    if not as_json:
        common = ("sequence", "eventId", "eventType", "occurredAt")
        found = [
            {name: row[name] for name in common}
            | {"body": ", ".join(f"{name} {value}" for name, value in row.items() if name not in common)}
            for row in found
        ]
    desk.show_rows(found, as_json=as_json, empty=f"{partner} was told nothing yet.")


@events.command("redeliver")
def redeliver(
    partner: Partner,
    event_id: Annotated[str, typer.Argument(metavar="EVENT", help="The event's id.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Send one event to every enabled endpoint that wants it, once more.

    Example: giftrail event redeliver "Acme Rewards" evt_0193…
    """

    async def deed(at: desk.Desk) -> int:
        found = await manage.read_partner(at.conn, name_or_id=partner)
        async with at.act("event.redeliver", subject=event_id):
            return await again.redeliver(at.conn, partner_id=found.partner_id, event_id=event_id, now=at.now)

    count = desk.run(deed, data_dir=data_dir)
    desk.tell(f"{event_id} is on its way to {count} endpoints again.", {"endpoints": count}, as_json=as_json)
