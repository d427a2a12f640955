"""The composition root: the only file that knows everyone."""

import asyncio
import base64
import contextlib
import os
import resource
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
import uvloop
from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from giftrail.breakers import health
from giftrail.catalog import snapshot
from giftrail.db import bell, changes, migrate, pool
from giftrail.kit import log, seal
from giftrail.leases import model as leases
from giftrail.orders import batch, waiting
from giftrail.partner_api import app as partner_api
from giftrail.partner_api import connection, endpoints, metrics, rates
from giftrail.partners import directory, login
from giftrail.providers import protocol, registry
from giftrail.settings import Environment, Settings, read_index_key, read_keys
from giftrail.workers import staff

KEYS_FILE = "keys.json"
GRACEFUL_SHUTDOWN_SECONDS = 30
# A lease must outlive a call and its repetition by this much.
LEASE_MARGIN_SECONDS = 15.0


def now() -> datetime:
    """The time of day, in UTC."""
    return datetime.now(UTC)


def draw_keys() -> dict[str, str]:
    """New random keys, by the names of their settings."""

    def key() -> str:
        return base64.b64encode(secrets.token_bytes(seal.KEY_BYTES)).decode()

    return {"token_keys": f"k1:{key()}", "vault_keys": f"k1:{key()}", "code_index_key": key()}


def with_keys(settings: Settings) -> Settings:
    """The settings, with the keys of the data directory where none are set; drawn there at the first time.

    Raises OSError. Production never comes here without keys: its settings demand them.
    """
    missing = [name for name in ("token_keys", "vault_keys", "code_index_key") if getattr(settings, name) is None]
    if not missing or settings.environment is Environment.PRODUCTION:
        return settings
    path = settings.data_dir / KEYS_FILE
    with contextlib.suppress(FileExistsError):
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        half_made = Path(f"{path}.{os.getpid()}")
        descriptor = os.open(half_made, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(draw_keys())))
        try:
            os.link(half_made, path)  # whole or not at all, and never over keys that are there
        finally:
            half_made.unlink()
    kept = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    return settings.model_copy(update={name: SecretStr(kept[name]) for name in missing})


def code_keys(settings: Settings) -> protocol.Keys:
    """The keys of the codes."""
    if settings.vault_keys is None or settings.code_index_key is None:
        raise AssertionError("keys are set before they are used")
    return protocol.Keys(
        ring=seal.KeyRing(read_keys(settings.vault_keys)), index_key=read_index_key(settings.code_index_key)
    )


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
    database = await pool.open_database(
        database_url(settings),
        read_connections=settings.read_connections,
        write_connections=settings.write_connections,
        statement_timeout_seconds=settings.statement_timeout_seconds,
    )
    try:
        async with database.read.acquire() as conn:
            await migrate.check(conn)
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
    partners = directory.Directory(database)
    catalog = snapshot.Snapshot(database)
    watcher.subscribe("partners", partners.refresh)
    watcher.subscribe("catalog", catalog.refresh)
    breakers = health.Health(database)
    watcher.subscribe("breakers", breakers.refresh)
    ringing = bell.Bell(database_url(settings))
    if settings.token_keys is None:
        raise AssertionError("keys are set before they are used")
    figures = metrics.Metrics()
    keys = code_keys(settings)
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
        keys=keys,
        gatherer=batch.Gatherer(
            database,
            keys=keys,
            limits=batch.Limits(
                batch_orders=settings.batch_orders,
                batch_vouchers=settings.batch_vouchers,
                waiting_orders=settings.waiting_orders,
                patience_seconds=settings.placement_patience_seconds,
            ),
            clock=time.monotonic,
            now=now,
            batch_size=figures.count_batch,
        ),
        providers=make_providers(settings),
        health=breakers,
        bell=ringing,
        waiters=waiting.Waiters(database, ringing.heard("orders")),
        buckets=rates.Buckets(time.monotonic),
        login_buckets=rates.Buckets(time.monotonic),
        metrics=figures,
        now=now,
        clock=time.monotonic,
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


def provider_names(settings: Settings) -> frozenset[str]:
    """What a brand may name as its providers."""
    return registry.known_names(settings.providers, with_sandbox=_has_sandbox(settings))


def _has_sandbox(settings: Settings) -> bool:
    return settings.environment is not Environment.PRODUCTION


class Application:
    """The ASGI application with its lifespan: opened when the server starts, closed when it stops."""

    def __init__(self, settings: Settings, *, with_workers: bool = False) -> None:
        self._settings = settings
        self._with_workers = with_workers
        self._door: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lifespan here, everything else at the door."""
        if scope["type"] == "lifespan":
            scope["state"][connection.HEADER_TIMEOUT_SECONDS] = self._settings.header_timeout_seconds
            await self._live(receive, send)
        elif self._door is not None:
            await self._door(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with surroundings(self._settings) as around, contextlib.AsyncExitStack() as stack:
                if self._with_workers:
                    await stack.enter_async_context(_working(around))
                self._door = partner_api.create_app(around)
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except (migrate.SchemaDiffers, migrate.MigrationEdited, *pool.UNAVAILABLE) as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


def create_from_environment() -> ASGIApp:
    """The application of one API process, from `GIFTRAIL_…`; the factory that the server's processes call."""
    settings = with_keys(Settings())
    log.configure(level=settings.log_level)
    return Application(settings)


def serve_processes(settings: Settings) -> None:
    """Serve with as many processes as the settings say, which read their settings from the environment."""
    uvicorn.run("giftrail.app:create_from_environment", factory=True, workers=settings.processes, **_options(settings))


async def serve_here(
    settings: Settings, listening: socket.socket, *, beside: Callable[[uvicorn.Server], Awaitable[None]]
) -> None:
    """Serve on the socket in this process, with the workers and `beside`, until the server is told to exit."""
    allow_many_connections()
    application = Application(settings, with_workers=True)
    server = uvicorn.Server(uvicorn.Config(application, **_options(settings)))

    async def run_beside() -> None:
        while not server.started and not server.should_exit:  # noqa: ASYNC110 — uvicorn tells it by no event
            await asyncio.sleep(0.01)
        if server.started:
            await beside(server)

    other = asyncio.create_task(run_beside())
    try:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await asyncio.wait([serving, other], return_when=asyncio.FIRST_COMPLETED)
        if other.done() and other.exception():
            server.should_exit = True
        await serving
        if other.done():
            other.result()
    finally:
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


async def work(settings: Settings) -> None:
    """What runs unasked, for as long as the process lives."""
    async with surroundings(settings) as around, _working(around) as working:
        await working


@contextlib.asynccontextmanager
async def _working(around: endpoints.Surroundings) -> AsyncIterator[asyncio.Task[None]]:
    """The workers, running beside; at the end they stop cleanly."""
    working = asyncio.create_task(staff.run(_staffing(around)))
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def _staffing(around: endpoints.Surroundings) -> staff.Staffing:
    settings = around.settings
    return staff.Staffing(
        database=around.database,
        database_url=database_url(settings),
        keys=around.keys,
        gatherer=around.gatherer,
        providers=around.providers,
        health=around.health,
        bell=around.bell,
        limits=leases.Limits(
            claim_rows=min(50, settings.work_in_flight),
            in_flight=settings.work_in_flight,
            lease_seconds=settings.work_lease_seconds,
            renew_seconds=settings.work_renew_seconds,
            poll_seconds=settings.work_poll_seconds,
            stop_seconds=settings.work_stop_seconds,
        ),
        deadline_seconds=settings.deadline_seconds,
        audit_every_seconds=settings.audit_every_seconds,
        low_stock_codes=settings.low_stock_codes,
        now=around.now,
    )


def listen(settings: Settings) -> socket.socket:
    """A socket on the host and port of the settings; port 0 picks a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=2048)


def allow_many_connections() -> None:
    """Raise this process's limit of open files, and so of connections, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def loop_factory() -> asyncio.AbstractEventLoop:
    """The event loop on which the service runs."""
    return uvloop.new_event_loop()


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "host": settings.host,
        "port": settings.port,
        "loop": "uvloop",
        "http": connection.Limited,
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": settings.keep_alive_seconds,
        "timeout_graceful_shutdown": GRACEFUL_SHUTDOWN_SECONDS,
        "backlog": 2048,
    }
