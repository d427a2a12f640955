"""Partners, their credentials and their networks."""

from typing import Annotated, Any

import msgspec
import typer

from giftrail.cli import desk
from giftrail.delivery import recipients, words
from giftrail.kit import money
from giftrail.partners import manage, model, store
from giftrail.wallet import ledger, onboard

partners = typer.Typer(help="Partners: who may call.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="PARTNER", help="The partner's name or id.")]
Rate = Annotated[int | None, typer.Option(min=0, help="Requests a second; 0 is off.", show_default="the service's")]
Burst = Annotated[int | None, typer.Option(min=1, help="Requests at once.", show_default="the service's")]


@partners.command("create")
def create(
    name: Annotated[str, typer.Argument(help="A name that no other partner has.")],
    kind: Annotated[model.Kind, typer.Option(help="B2C partners name the customer in each order.")] = model.Kind.B2B,
    currency: Annotated[str, typer.Option(help="Of the wallet, for good; ISO 4217.")] = "INR",
    region: Annotated[str, typer.Option(help="Where local phone numbers belong; ISO 3166.")] = "IN",
    request_id: Annotated[
        model.RequestIdMode, typer.Option(help="Whether X-REQUEST-ID must be sent or is made.")
    ] = model.RequestIdMode.REQUIRE,
    rate: Rate = None,
    burst: Burst = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Create a partner with an empty wallet.

    Example: giftrail partner create "Acme Rewards" --kind B2B --currency INR
    """

    async def deed(at: desk.Desk) -> model.Partner:
        async with at.act("partner.create", subject=name, kind=kind, currency=currency):
            return await onboard.create_partner(
                at.conn,
                name=name,
                kind=kind,
                currency=currency,
                region=region,
                request_id_mode=request_id,
                rate_per_second=rate,
                rate_burst=burst,
                now=at.now,
            )

    made = desk.run(deed, data_dir=data_dir)
    members = {"partnerId": made.partner_id, "name": made.name, "kind": made.kind, "currency": made.currency}
    sentence = f"Created {made.name} ({made.partner_id}). Next: giftrail credential create {made.name!r}"
    desk.tell(sentence, members, as_json=as_json)


@partners.command("set")
def set_(
    name: Name,
    kind: Annotated[model.Kind | None, typer.Option(help="B2B or B2C.")] = None,
    region: Annotated[str | None, typer.Option(help="ISO 3166.")] = None,
    request_id: Annotated[model.RequestIdMode | None, typer.Option(help="REQUIRE or GENERATE.")] = None,
    rate: Rate = None,
    burst: Burst = None,
    failed_logins: Annotated[int | None, typer.Option(min=0, help="A minute and address; 0 is off.")] = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Change a partner; the currency stays.

    Example: giftrail partner set "Acme Rewards" --rate 200 --burst 400
    """
    asked = {
        "kind": kind, "region": region, "request_id_mode": request_id, "rate_per_second": rate, "rate_burst": burst,
        "failed_logins_per_minute": failed_logins,
    }  # fmt: skip
    values: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    if not values:
        raise desk.CommandFailed("nothing to set; see giftrail partner set --help")

    async def deed(at: desk.Desk) -> str:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        async with at.act("partner.set", subject=partner.name, **values):
            await manage.set_partner(at.conn, partner_id=partner.partner_id, values=values, now=at.now)
        return partner.partner_id

    partner_id = desk.run(deed, data_dir=data_dir)
    desk.tell(f"Set {', '.join(values)} of {name}.", {"partnerId": partner_id, **values}, as_json=as_json)


@partners.command("deliver")
def deliver(
    name: Name,
    off: Annotated[bool, typer.Option("--off", help="Deliver no more.")] = False,
    language: Annotated[str | None, typer.Option(help="Of messages and of the voucher page.")] = None,
    colour: Annotated[str | None, typer.Option(help="Written #rrggbb.")] = None,
    logo_url: Annotated[str | None, typer.Option(help="An https address; in e-mails alone.")] = None,
    reply_to: Annotated[str | None, typer.Option(help="Where answers to e-mails go.")] = None,
    codes_in_messages: Annotated[
        bool | None, typer.Option("--codes-in-messages/--links-only", help="Whether messages hold the codes.")
    ] = None,
    data_dir: desk.DataDir = None,
    as_json: desk.AsJson = False,
) -> None:
    """Deliver vouchers to the partner's recipients by e-mail and text message; what is not named stays as it is.

    Example: giftrail partner deliver "Acme Rewards" --language hi --reply-to help@acme.example
    """
    asked = {
        "language": language, "colour": colour, "logo_url": logo_url, "reply_to": reply_to,
        "codes_in_messages": codes_in_messages,
    }  # fmt: skip
    values = {key: value for key, value in asked.items() if value is not None}
    if language is not None and language not in words.list_languages():
        raise desk.CommandFailed(f"there are no words in {language!r}, but in {', '.join(words.list_languages())}")
    if reply_to is not None:
        try:
            recipients.read_email(reply_to)
        except ValueError as error:
            raise desk.CommandFailed(str(error)) from None

    async def deed(at: desk.Desk) -> None:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        wanted = None if off else msgspec.structs.replace(partner.delivery or model.Delivery(), **values)
        async with at.act("partner.deliver", subject=partner.name, off=off, **values):
            await manage.set_delivery(at.conn, partner_id=partner.partner_id, delivery=wanted, now=at.now)

    desk.run(deed, data_dir=data_dir)
    sentence = f"Vouchers of {name} are {'not delivered any more' if off else 'delivered to recipients'}."
    desk.tell(sentence, {"partner": name, "delivers": not off, **values}, as_json=as_json)


@partners.command("list")
def list_(data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """List all partners.

    Example: giftrail partner list --json
    """

    async def deed(at: desk.Desk) -> list[model.Partner]:
        return await store.list_partners(at.conn)

    rows = [
        {
            "partnerId": partner.partner_id,
            "name": partner.name,
            "kind": partner.kind.value,
            "currency": partner.currency,
            "credentials": len(partner.credentials),
            "suspended": partner.suspended_at is not None,
        }
        for partner in desk.run(deed, data_dir=data_dir)
    ]
    desk.show_rows(rows, as_json=as_json, empty="There is no partner yet: giftrail partner create")


@partners.command("show")
def show(name: Name, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Show a partner, its credentials, networks and wallet, and the addresses our webhooks come from.

    Example: giftrail partner show "Acme Rewards"
    """

    async def deed(at: desk.Desk) -> dict[str, Any]:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        kept = await store.list_credentials(at.conn, partner_id=partner.partner_id)
        wallet = await ledger.read_wallet(at.conn, partner_id=partner.partner_id)
        return {
            "partnerId": partner.partner_id,
            "name": partner.name,
            "kind": partner.kind.value,
            "currency": partner.currency,
            "region": partner.region,
            "requestId": partner.request_id_mode.value,
            "ratePerSecond": partner.rate_per_second,
            "rateBurst": partner.rate_burst,
            "failedLoginsPerMinute": partner.failed_logins_per_minute,
            "suspendedAt": partner.suspended_at,
            "credentials": [row["credential_id"] for row in kept if row["revoked_at"] is None],
            "revokedCredentials": [row["credential_id"] for row in kept if row["revoked_at"] is not None],
            "networks": [str(network) for network in partner.networks],
            "delivery": msgspec.to_builtins(partner.delivery) if partner.delivery else None,
            "balance": money.to_major(wallet.available_minor, currency=wallet.currency),
            "egressAddresses": list(at.settings.egress_addresses),
            "createdAt": partner.created_at,
        }

    desk.show_one(desk.run(deed, data_dir=data_dir), as_json=as_json)


@partners.command("suspend")
def suspend(name: Name, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Refuse a partner's logins and tokens from now on.

    Example: giftrail partner suspend "Acme Rewards"
    """

    async def deed(at: desk.Desk) -> str:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        async with at.act("partner.suspend", subject=partner.name):
            await manage.suspend_partner(at.conn, partner_id=partner.partner_id, now=at.now)
        return partner.partner_id

    partner_id = desk.run(deed, data_dir=data_dir)
    desk.tell(f"Suspended {name}.", {"partnerId": partner_id, "suspended": True}, as_json=as_json)


@partners.command("resume")
def resume(name: Name, data_dir: desk.DataDir = None, as_json: desk.AsJson = False) -> None:
    """Undo a suspension.

    Example: giftrail partner resume "Acme Rewards"
    """

    async def deed(at: desk.Desk) -> str:
        partner = await manage.read_partner(at.conn, name_or_id=name)
        async with at.act("partner.resume", subject=partner.name):
            await manage.resume_partner(at.conn, partner_id=partner.partner_id, now=at.now)
        return partner.partner_id

    partner_id = desk.run(deed, data_dir=data_dir)
    desk.tell(f"Resumed {name}.", {"partnerId": partner_id, "suspended": False}, as_json=as_json)
