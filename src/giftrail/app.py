"""The composition root: the only file that knows everyone."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from giftrail import keys
from giftrail.breakers import health
from giftrail.catalog import snapshot
from giftrail.db import bell, changes, migrate, pool
from giftrail.delivery import email, file, sms
from giftrail.delivery import model as delivery
from giftrail.delivery import protocol as channels
from giftrail.orders import batch, waiting
from giftrail.partner_api import endpoints, metrics, pages, rates
from giftrail.partners import directory, login
from giftrail.providers import protocol, registry
from giftrail.settings import Environment, Settings, read_keys
from giftrail.webhooks import directory as webhooks

GRACEFUL_SHUTDOWN_SECONDS = 30
# A lease must outlive a call and its repetition by this much.
LEASE_MARGIN_SECONDS = 15.0


def now() -> datetime:
    """The time of day, in UTC."""
    return datetime.now(UTC)


def database_url(settings: Settings) -> str:
    """The URL that is set, or that of the embedded server once it runs."""
    if settings.database_url is None:
        raise AssertionError("the database's address is known before it is used")
    return settings.database_url.get_secret_value()


@contextlib.asynccontextmanager
async def surroundings(settings: Settings) -> AsyncIterator[endpoints.Surroundings]:
    """All that the door works with, opened and, at the end, closed.

    Raises migrate.SchemaDiffers, migrate.MigrationEdited and what the database raises.
    """
    async with pool.connect(database_url(settings)) as conn:  # waits for a server that is starting up
        await migrate.check(conn)
    database = await pool.open_database(
        database_url(settings),
        read_connections=settings.read_connections,
        write_connections=settings.write_connections,
        statement_timeout_seconds=settings.statement_timeout_seconds,
    )
    try:
        made = _assemble(settings, database)
        await made.watcher.look()
        beside = [asyncio.create_task(run()) for run in (made.watcher.run, made.bell.run, made.waiters.run)]
        try:
            yield made
        finally:
            await made.gatherer.close()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            for provider in made.providers.values():
                await provider.close()
            for channel in made.channels.values():
                await channel.close()
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(database.close(), GRACEFUL_SHUTDOWN_SECONDS)
        database.terminate()


def _assemble(settings: Settings, database: pool.Database) -> endpoints.Surroundings:
    watcher = changes.Watcher(
        database,
        poll_seconds=settings.poll_seconds,
        stale_after_seconds=settings.stale_after_seconds,
        clock=time.monotonic,
    )
    sealing = keys.code_keys(settings)
    partners = directory.Directory(database)
    catalog = snapshot.Snapshot(database)
    watcher.subscribe("partners", partners.refresh)
    watcher.subscribe("catalog", catalog.refresh)
    breakers = health.Health(database)
    watcher.subscribe("breakers", breakers.refresh)
    called = webhooks.Directory(database, sealing.ring)
    watcher.subscribe("webhooks", called.refresh)
    ringing = bell.Bell(database_url(settings))
    if settings.token_keys is None:
        raise AssertionError("keys are set before they are used")
    figures = metrics.Metrics()
    return endpoints.Surroundings(
        settings=settings,
        database=database,
        watcher=watcher,
        directory=partners,
        catalog=catalog,
        tokens=login.Tokens(
            read_keys(settings.token_keys),
            environment=settings.environment,
            lifetime_seconds=settings.token_lifetime_seconds,
        ),
        keys=sealing,
        gatherer=batch.Gatherer(
            database,
            keys=sealing,
            limits=_limits(settings),
            clock=time.monotonic,
            now=now,
            batch_size=figures.count_batch,
        ),
        providers=make_providers(settings),
        channels=make_channels(settings),
        health=breakers,
        bell=ringing,
        webhooks=called,
        waiters=waiting.Waiters(database, ringing.heard("orders")),
        buckets=rates.Buckets(time.monotonic),
        login_buckets=rates.Buckets(time.monotonic),
        page_buckets=rates.Buckets(time.monotonic),
        catalog_pages=pages.Pages(),
        metrics=figures,
        now=now,
        clock=time.monotonic,
    )


def _limits(settings: Settings) -> batch.Limits:
    return batch.Limits(
        writers=settings.write_connections,
        batch_orders=settings.batch_orders,
        batch_vouchers=settings.batch_vouchers,
        waiting_orders=settings.waiting_orders,
        crowded_orders=settings.crowded_orders,
        patience_seconds=settings.placement_patience_seconds,
    )


def make_providers(settings: Settings) -> dict[str, protocol.Provider]:
    """The remote providers of the settings. Raises registry.ProviderInvalid."""
    providers = registry.make_providers(settings.providers, with_sandbox=_has_sandbox(settings))
    for provider in providers.values():
        if settings.work_lease_seconds <= 2 * provider.timeout_seconds + LEASE_MARGIN_SECONDS:
            raise registry.ProviderInvalid(
                f"provider {provider.name!r} may take {provider.timeout_seconds:g} s: GIFTRAIL_WORK_LEASE_SECONDS"
                f" must be more than twice that and {LEASE_MARGIN_SECONDS:g} s,"
                f" not {settings.work_lease_seconds:g}"
            )
    return providers


def make_channels(settings: Settings) -> dict[delivery.Channel, channels.Channel]:
    """The ways to recipients that the settings describe; a folder stands for all of them."""
    if settings.delivery_folder is not None:
        folder = file.Folder(settings.delivery_folder, now=now)
        return dict.fromkeys(delivery.Channel, folder)
    made: dict[delivery.Channel, channels.Channel] = {}
    if settings.smtp_host:
        server = email.Server(
            host=settings.smtp_host,
            port=settings.smtp_port,
            security=settings.smtp_security,
            user=settings.smtp_user or None,
            password=settings.smtp_password.get_secret_value() if settings.smtp_password else None,
            sender=settings.mail_from,
            timeout_seconds=settings.delivery_timeout_seconds,
        )
        made[delivery.Channel.EMAIL] = email.Email(server, now=now)
    way: sms.Gateway | sms.Twilio | None = None
    if settings.twilio_account and settings.twilio_token is not None:
        token = settings.twilio_token.get_secret_value()
        way = sms.Twilio(settings.twilio_account, token, settings.sms_from, settings.sms_url or sms.TWILIO_URL)
    elif settings.sms_url:
        headers = {name: value.get_secret_value() for name, value in settings.sms_headers.items()}
        way = sms.Gateway(settings.sms_url, settings.sms_body, headers, settings.sms_from)
    if way is not None:
        made[delivery.Channel.SMS] = sms.Sms(way, timeout_seconds=settings.delivery_timeout_seconds)
    return made


def provider_names(settings: Settings) -> frozenset[str]:
    """What a brand may name as its providers."""
    return registry.known_names(settings.providers, with_sandbox=_has_sandbox(settings))


def _has_sandbox(settings: Settings) -> bool:
    return settings.environment is not Environment.PRODUCTION
