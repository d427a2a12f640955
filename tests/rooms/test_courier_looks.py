"""One look finds whoever has something due, however many have nothing (engines, webhooks)."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest
from aiohttp import web

import counter
from giftrail import app
from giftrail.attempts import courier, store
from giftrail.db import pool
from giftrail.events import model as events
from giftrail.events import store as outbox
from giftrail.kit import ids, outbound
from giftrail.webhooks import directory, manage
from giftrail.webhooks import model as webhooks

PATIENCE_SECONDS = 15.0
NEVER_SECONDS = 3600.0
PARTNERS, ENDPOINTS = 4, 10
LOOPBACK = [ip_network("127.0.0.0/8")]


class Silence:
    """An observer who keeps nothing."""

    def count_attempt(self, *, outcome: str, seconds: float) -> None:
        """Say nothing."""

    def observe_first_attempt(self, seconds: float) -> None:
        """Say nothing."""

    def set_webhooks(self, oldest_due_seconds: float, open_breakers: int) -> None:
        """Say nothing."""


@dataclass
class Office:
    """Many endpoints of several partners on one real receiver, and a courier who looks only when it is told to."""

    database: pool.Database
    url: str
    heard: Counter[str]
    endpoints: list[webhooks.Endpoint] = field(default_factory=list)

    async def open(self) -> None:
        """Register the endpoints: each partner's."""
        async with self.database.write.acquire() as conn:
            for _ in range(PARTNERS):
                partner = await counter.new_partner(conn)
                for number in range(ENDPOINTS):
                    async with conn.transaction():
                        made = await manage.create_endpoint(
                            conn,
                            partner_id=partner.partner_id,
                            url=f"{self.url}/{partner.partner_id}/{number}",
                            kinds=None,
                            description=None,
                            secret=None,
                            allowlist=LOOPBACK,
                            ring=counter.KEYS.ring,
                            now=app.now(),
                        )
                    self.endpoints.append(made)

    async def happen(self, partner_ids: list[str], count: int) -> None:
        """So many events of each of these partners, given to their endpoints."""
        now = app.now()
        made = [
            events.Event(partner_id, ids.new("evt", now=now), events.Kind.WALLET_LOW_BALANCE, {}, now)
            for partner_id in partner_ids
            for _ in range(count)
        ]
        async with self.database.write.acquire() as conn, conn.transaction():
            await outbox.append_events(conn, made)
            assert await store.fan_out(conn, limit=1000, now=now) == len(made)

    @contextlib.asynccontextmanager
    async def sending(self, *, in_flight: int, per_endpoint: int) -> AsyncIterator[courier.Courier]:
        """A courier at work."""

        async def disable(endpoint: webhooks.Endpoint, why: str) -> None:
            raise AssertionError(endpoint, why)

        known = directory.Directory(self.database, counter.KEYS.ring)
        await known.refresh(0)
        caller = outbound.Caller(allowlist=LOOPBACK, connections=in_flight)
        made = courier.Courier(
            self.database,
            endpoints=known,
            caller=caller,
            disable=disable,
            limits=courier.Limits(
                in_flight=in_flight,
                per_endpoint=per_endpoint,
                lease_seconds=60,
                poll_seconds=NEVER_SECONDS,
                stop_seconds=1,
            ),
            observer=Silence(),
            now=app.now,
            clock=asyncio.get_running_loop().time,
        )
        running = asyncio.create_task(made.run())
        try:
            await asyncio.sleep(0.2)  # its first look, at nothing
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await caller.close()


@pytest.fixture
async def office(database_url: str) -> AsyncIterator[Office]:
    heard: Counter[str] = Counter()

    async def hear(request: web.Request) -> web.Response:
        heard[request.path] += 1
        return web.Response()

    application = web.Application()
    application.router.add_post("/{path:.*}", hear)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    database = await pool.open_database(
        database_url, read_connections=2, write_connections=1, statement_timeout_seconds=30
    )
    made = Office(database, f"http://127.0.0.1:{runner.addresses[0][1]}", heard)
    await made.open()
    yield made
    await database.close()
    await runner.cleanup()


async def until(true: Callable[[], bool], told: Callable[[], object]) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not true():
        assert asyncio.get_running_loop().time() < deadline, told()
        await asyncio.sleep(0.02)


async def test_one_look_reaches_those_behind_many_with_nothing_to_do(office: Office) -> None:
    """Room is not set aside for endpoints for which nothing is due."""
    partner_id = office.endpoints[-1].partner_id
    async with office.sending(in_flight=20, per_endpoint=20) as sending:
        await office.happen([partner_id], 1)
        sending.wake()
        await until(lambda: office.heard.total() == ENDPOINTS, lambda: office.heard)
    assert all(path.startswith(f"/{partner_id}/") for path in office.heard)


async def test_who_finds_no_room_is_served_when_there_is_some_and_not_at_the_next_poll(office: Office) -> None:
    partner_ids = sorted({endpoint.partner_id for endpoint in office.endpoints})
    async with office.sending(in_flight=5, per_endpoint=2) as sending:
        await office.happen(partner_ids, 3)
        sending.wake()
        await until(lambda: office.heard.total() == PARTNERS * ENDPOINTS * 3, lambda: office.heard)
    assert set(office.heard.values()) == {3}
