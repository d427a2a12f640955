"""Connections: a pool for reads and a pool for the money path, over one database."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

if TYPE_CHECKING:
    Record: TypeAlias = asyncpg.Record
    Connection: TypeAlias = asyncpg.Connection[Record] | PoolConnectionProxy[Record]
    WritePool: TypeAlias = asyncpg.Pool[Record]
else:  # the driver's classes take a parameter only in its stubs
    Record = asyncpg.Record
    Connection = asyncpg.Connection | PoolConnectionProxy
    WritePool = asyncpg.Pool

CONNECT_TIMEOUT_SECONDS = 5.0
# A server that answers that it is starting up, or recovering, is waited for so long.
STARTING_UP_SECONDS = 10.0
STARTING_UP_PAUSE_SECONDS = 0.2
# A caller that finds every connection busy for this long is told that the service is unavailable.
ACQUIRE_TIMEOUT_SECONDS = 2.0
# Nothing waits longer for a row lock: the caller is told, and a later look-up can be trusted.
LOCK_TIMEOUT_SECONDS = 2.0
# A plan made while a table was small is not kept longer than this: on an empty one, any index looks right.
PLAN_LIFETIME_SECONDS = 10
# An idle connection of the money path inside a transaction was forgotten; its locks are freed.
IDLE_IN_TRANSACTION_SECONDS = 10.0

# What the database says when it is away, overloaded, restarting or failing over: nobody's request is wrong.
UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


class Pool:
    """A pool for single statements. No caller waits for a connection longer than ACQUIRE_TIMEOUT_SECONDS."""

    def __init__(self, connections: WritePool) -> None:
        self.connections = connections

    @contextlib.asynccontextmanager
    async def acquire(self, *, timeout_seconds: float = ACQUIRE_TIMEOUT_SECONDS) -> AsyncIterator[Connection]:
        """A connection for several statements. Raises TimeoutError when none is free in time."""
        async with self.connections.acquire(timeout=timeout_seconds) as connection:
            yield connection

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        """All rows."""
        async with self.acquire() as connection:
            return await connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> Record | None:
        """The first row."""
        async with self.acquire() as connection:
            return await connection.fetchrow(query, *arguments)


@dataclass(frozen=True, slots=True)
class Database:
    """Two pools over one database: `read` for single statements, `write` for transactions."""

    read: Pool
    write: WritePool

    async def close(self) -> None:
        """Wait for what runs, then close both pools."""
        await self.read.connections.close()
        await self.write.close()

    def terminate(self) -> None:
        """Close both pools at once."""
        self.read.connections.terminate()
        self.write.terminate()


async def open_database(
    url: str, *, read_connections: int, write_connections: int, statement_timeout_seconds: float
) -> Database:
    """Connect both pools. Raises one of UNAVAILABLE when the database cannot be reached."""
    common = {
        "application_name": "giftrail",
        "statement_timeout": _milliseconds(statement_timeout_seconds),
        "lock_timeout": _milliseconds(LOCK_TIMEOUT_SECONDS),
        "timezone": "UTC",
        "jit": "off",
    }
    read = await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=read_connections,
        timeout=CONNECT_TIMEOUT_SECONDS,
        command_timeout=statement_timeout_seconds + 1,
        max_cached_statement_lifetime=PLAN_LIFETIME_SECONDS,
        server_settings=common,
        # Reads leave nothing behind on a connection; the default clean-up costs a round trip each.
        reset=_leave_as_it_is,
    )
    write = await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=write_connections,
        timeout=CONNECT_TIMEOUT_SECONDS,
        command_timeout=statement_timeout_seconds + 1,
        max_cached_statement_lifetime=PLAN_LIFETIME_SECONDS,
        server_settings=common
        | {
            # Plans cached while a table was empty would keep scanning it whole when it has grown.
            "enable_seqscan": "off",
            "idle_in_transaction_session_timeout": _milliseconds(IDLE_IN_TRANSACTION_SECONDS),
        },
        reset=_leave_as_it_is,
    )
    return Database(read=Pool(read), write=write)


@contextlib.asynccontextmanager
async def connect(url: str) -> AsyncIterator[Connection]:
    """One connection outside the pools, for commands. A server that is just starting up is waited for."""
    connection = await _connect(url)
    try:
        yield connection
    finally:
        await connection.close(timeout=CONNECT_TIMEOUT_SECONDS)


async def _connect(url: str) -> Connection:
    for _ in range(int(STARTING_UP_SECONDS / STARTING_UP_PAUSE_SECONDS)):
        try:
            return await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_SECONDS)
        except asyncpg.CannotConnectNowError:
            await asyncio.sleep(STARTING_UP_PAUSE_SECONDS)
    return await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_SECONDS)


async def _leave_as_it_is(_: Connection) -> None:
    pass


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))
