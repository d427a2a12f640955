"""The command line: every deed of the operator, and the commands that run the service."""

import sys

import asyncpg
import typer

import giftrail_client as sdk
from giftrail import __version__
from giftrail.attempts import again
from giftrail.calls import shelve
from giftrail.catalog import edit, importing
from giftrail.cli import (
    access,
    audit,
    brand,
    delivery,
    desk,
    event,
    limit,
    listen,
    order,
    partner,
    provider,
    run,
    sandbox,
    stock,
    wallet,
    webhook,
)  # fmt: skip
from giftrail.db import embedded, migrate, pool
from giftrail.demo import tale
from giftrail.kit import money, seal
from giftrail.orders import limit as limits
from giftrail.orders import model as orders
from giftrail.partners import manage
from giftrail.providers import registry
from giftrail.wallet import ledger
from giftrail.webhooks import model as webhooks

# Refusals whose message is a sentence for the operator.
_TOLD = (
    desk.CommandFailed,
    edit.BrandUnknown, edit.CurrencyDiffers, edit.DiscountRefused, importing.FileUnreadable,
    embedded.EmbeddedFailed, migrate.SchemaDiffers, migrate.MigrationEdited,
    manage.PartnerUnknown, manage.PartnerExists, manage.PartnerInvalid, manage.CredentialUnknown, manage.NetworkUnknown,
    tale.TaleFailed,
    webhooks.EndpointUnknown, webhooks.EndpointInvalid, again.EventUnknown,
    orders.WrongState, limits.LimitInvalid, shelve.NotAside, shelve.CallKnown, registry.ProviderInvalid,
    money.UnknownCurrency, ledger.WalletUnknown, ledger.AmountInvalid, seal.CannotOpen,
)  # fmt: skip

main_app = typer.Typer(
    name="giftrail",
    help="A gift voucher partner service: catalogue, orders, vouchers, wallet.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
run.add_to(main_app)
main_app.add_typer(partner.partners, name="partner")
main_app.add_typer(access.credentials, name="credential")
main_app.add_typer(access.networks, name="network")
main_app.add_typer(brand.brands, name="brand")
main_app.add_typer(stock.stocks, name="stock")
main_app.add_typer(wallet.wallets, name="wallet")
main_app.add_typer(order.orders, name="order")
main_app.add_typer(delivery.deliveries, name="delivery")
main_app.add_typer(provider.providers, name="provider")
main_app.add_typer(limit.limits, name="limit")
main_app.add_typer(webhook.webhooks, name="webhook")
main_app.add_typer(event.events, name="event")
main_app.command("sandbox")(sandbox.sandbox)
main_app.command("listen")(listen.listen)
main_app.command("audit")(audit.audit)


@main_app.callback(invoke_without_command=True)
def version(
    show: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    """A gift voucher partner service: catalogue, orders, vouchers, wallet."""
    if show:
        desk.out.print(f"giftrail {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; a refusal is one sentence on standard error and exit status 1."""
    try:
        main_app()
    except ledger.InsufficientBalance:
        _fail("the wallet holds less than that")
    except _TOLD as error:
        _fail(str(error))
    except asyncpg.InvalidCatalogNameError as error:
        _fail(f"{error}; make it with createdb, or unset GIFTRAIL_DATABASE_URL")
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InsufficientPrivilegeError) as error:
        _fail(f"the database refuses: {error}")
    except BrokenPipeError:
        sys.exit(141)
    except sdk.GiftrailError as error:
        _fail(f"the service did not answer as it should: {error}")
    except pool.UNAVAILABLE as error:
        _fail(f"the database cannot be reached: {error or type(error).__name__}")


def _fail(sentence: str) -> None:
    desk.err.print(f"giftrail: {sentence}", style="red", markup=False, soft_wrap=True)
    sys.exit(1)
