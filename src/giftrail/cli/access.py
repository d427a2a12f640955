"""How a partner gets in: its credentials, and the networks it calls from."""

from typing import Annotated

import typer

from giftrail.cli import desk
from giftrail.cli.partner import Name
from giftrail.partners import manage, model

credentials = typer.Typer(help="Credentials: how a partner logs in.", no_args_is_help=True)
networks = typer.Typer(help="Networks from which a partner may call in production.", no_args_is_help=True)


@credentials.command("create")
def create_credential(name: Name, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Give a partner a clientId and a clientSecret of this environment; the secret is shown once.

    Example: giftrail credential create "Acme Rewards"
    """

    async def deed(at: desk.Desk) -> manage.NewCredential:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        async with at.act("credential.create", subject=partner.name):
            return await manage.create_credential(
                at.conn, partner_id=partner.partner_id, environment=at.settings.environment, now=at.now
            )

    made = desk.run(deed, data_dir=data_dir)
    sentence = f"clientId      {made.client_id}\nclientSecret  {made.client_secret}\nThe secret is not shown again."
    desk.tell(sentence, {"clientId": made.client_id, "clientSecret": made.client_secret}, as_json=as_json)


@credentials.command("revoke")
def revoke_credential(
    client_id: Annotated[str, typer.Argument(metavar="CLIENTID")],
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Refuse a credential and every token it was given, within a second.

    Example: giftrail credential revoke crd_0193…
    """

    async def deed(at: desk.Desk) -> str:
        async with at.act("credential.revoke", subject=client_id):
            return await manage.revoke_credential(at.conn, client_id=client_id, now=at.now)

    partner_id = desk.run(deed, data_dir=data_dir)
    desk.tell(f"Revoked {client_id}.", {"partnerId": partner_id, "clientId": client_id}, as_json=as_json)


@networks.command("allow")
def allow_network(name: Name, network: str, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Allow an address or a network; in production nobody else may call.

    Example: giftrail network allow "Acme Rewards" 198.51.100.0/24
    """

    async def deed(at: desk.Desk) -> model.Network:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        async with at.act("network.allow", subject=partner.name, network=network):
            return await manage.allow_network(at.conn, partner_id=partner.partner_id, network=network, now=at.now)

    allowed = desk.run(deed, data_dir=data_dir)
    desk.tell(f"Allowed {allowed} for {name}.", {"network": str(allowed)}, as_json=as_json)


@networks.command("list")
def list_networks(name: Name, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """List the networks from which a partner may call in production.

    Example: giftrail network list "Acme Rewards"
    """

    async def deed(at: desk.Desk) -> model.Partner:
        return await manage.read_partner(at.conn, name_or_id=name)

    rows = [{"network": str(network)} for network in desk.run(deed, data_dir=data_dir).networks]
    desk.show_rows(rows, as_json=as_json, empty="The list is empty: in production nobody may call.")


@networks.command("remove")
def remove_network(name: Name, network: str, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Take a network from the list.

    Example: giftrail network remove "Acme Rewards" 198.51.100.0/24
    """

    async def deed(at: desk.Desk) -> None:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        async with at.act("network.remove", subject=partner.name, network=network):
            await manage.remove_network(at.conn, partner_id=partner.partner_id, network=network, now=at.now)

    desk.run(deed, data_dir=data_dir)
    desk.tell(f"Removed {network} from {name}.", {"network": network}, as_json=as_json)
