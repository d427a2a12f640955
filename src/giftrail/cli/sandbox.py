"""The sandbox of an installation that is not production."""

from typing import Annotated

import typer

from giftrail.cli import desk
from giftrail.demo import sandbox as furniture
from giftrail.partners import manage
from giftrail.settings import Environment


def sandbox(
    partner: Annotated[str, typer.Argument(help="The partner's name or id; its wallet must be in INR.")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Put the sandbox brands into the catalogue and enable them for a partner; docs/sandbox.md tells what each does.

    Example: giftrail sandbox "Acme Rewards"
    """

    async def deed(at: desk.Desk) -> list[str]:
        if at.settings.environment is Environment.PRODUCTION:
            raise desk.CommandFailed("there is no sandbox in production")
        found = await manage.read_partner(at.conn, name_or_id=partner)
        async with at.act("sandbox.furnish", subject=found.name):
            return await furniture.furnish_sandbox(at.conn, [found], now=at.now)

    brand_ids = desk.run(deed, data_dir=data_dir)
    desk.tell(f"{partner} can order {len(brand_ids)} sandbox brands.", {"brands": brand_ids}, as_json=as_json)
