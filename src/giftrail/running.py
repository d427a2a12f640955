"""The service as processes: the API with or without workers in it, or workers alone, from start to clean stop."""

import asyncio
import contextlib
import gc
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from giftrail import app, keys
from giftrail.attempts import courier
from giftrail.db import migrate, pool
from giftrail.delivery import model as delivery
from giftrail.delivery import send
from giftrail.kit import log, outbound
from giftrail.leases import model as leases
from giftrail.partner_api import app as partner_api
from giftrail.partner_api import connection, endpoints
from giftrail.provider_api import hooks
from giftrail.providers import registry
from giftrail.settings import Settings
from giftrail.voucher_page import page
from giftrail.workers import housekeeping, recipients, staff

# New objects between two looks for circles of garbage. Every 700, Python's own number, took a tenth of the time.
GARBAGE_OBJECTS = 50_000


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
            async with app.surroundings(self._settings) as around, contextlib.AsyncExitStack() as stack:
                if self._with_workers:
                    await stack.enter_async_context(_working(around))
                self._door = partner_api.create_app(around, beside=[hooks.route(around), *page.routes(around)])
                await send({"type": "lifespan.startup.complete"})
                _collect_less()
                await receive()
        except (
            migrate.SchemaDiffers, migrate.MigrationEdited, registry.ProviderInvalid, *pool.UNAVAILABLE
        ) as error:  # fmt: skip
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


def create_from_environment() -> ASGIApp:
    """The application of one API process, from `GIFTRAIL_…`; the factory that the server's processes call."""
    settings = keys.with_keys(Settings())
    log.configure(level=settings.log_level)
    return Application(settings)


def serve_processes(settings: Settings) -> None:
    """Serve with as many processes as the settings say, which read their settings from the environment."""
    uvicorn.run(
        "giftrail.running:create_from_environment", factory=True, workers=settings.processes, **_options(settings)
    )


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
    async with app.surroundings(settings) as around, _working(around) as working:
        if settings.worker_metrics_port:
            around.metrics.serve(settings.worker_metrics_port)
        await working


@contextlib.asynccontextmanager
async def _working(around: endpoints.Surroundings) -> AsyncIterator[asyncio.Task[None]]:
    """The workers, running beside; at the end they stop cleanly."""
    settings = around.settings
    caller = outbound.Caller(allowlist=settings.webhook_networks, connections=settings.webhook_in_flight)
    working = asyncio.create_task(staff.run(_staffing(around, caller)))
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await caller.close()


def _staffing(around: endpoints.Surroundings, caller: outbound.Caller) -> staff.Staffing:
    settings = around.settings
    return staff.Staffing(
        database=around.database,
        database_url=app.database_url(settings),
        keys=around.keys,
        gatherer=around.gatherer,
        providers=around.providers,
        health=around.health,
        bell=around.bell,
        webhooks=around.webhooks,
        sender=send.Sender(
            around.database,
            channels=around.channels,
            paces={
                delivery.Channel.EMAIL: send.Pace(settings.emails_per_second),
                delivery.Channel.SMS: send.Pace(settings.sms_per_second),
            },
            read_content=recipients.content_reader(around.database, ring=around.keys.ring, now=around.now),
            public_url=settings.public_url,
            now=around.now,
        ),
        caller=caller,
        observer=around.metrics,
        webhook_limits=courier.Limits(
            in_flight=settings.webhook_in_flight,
            per_endpoint=settings.webhook_per_endpoint,
            lease_seconds=settings.webhook_lease_seconds,
            poll_seconds=settings.work_poll_seconds,
            stop_seconds=settings.work_stop_seconds,
        ),
        retention=housekeeping.Retention(event_days=settings.event_days, attempt_days=settings.attempt_days),
        clock=around.clock,
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


def _collect_less() -> None:
    """Leave what the start made to itself, and look for circles of garbage seldom: requests leave next to none."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)


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
        "timeout_graceful_shutdown": app.GRACEFUL_SHUTDOWN_SECONDS,
        "backlog": 2048,
    }
