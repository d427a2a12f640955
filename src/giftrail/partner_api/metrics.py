"""What /metrics tells: counts and times by route and code, of nobody by name."""

import os
import time

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.multiprocess import MultiProcessCollector

from giftrail.db import pool
from giftrail.orders import model as orders

CONTENT_TYPE = CONTENT_TYPE_LATEST
# Set for `serve --processes N`: the processes keep their figures in files there, and any of them tells the sum.
_MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


class Metrics:
    """The figures of one process, or of all when they share a folder."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "giftrail_requests", "Requests answered", ["route", "method", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "giftrail_request_seconds", "Time to answer", ["route"], registry=self._registry, buckets=_SECONDS
        )
        # Looked up by their labels once; every request is counted.
        self._of_requests: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._orders = Counter(
            "giftrail_orders",
            "Orders placed, replays not counted",
            ["status", "failure_code"],
            registry=self._registry,
        )
        self._replays = Counter("giftrail_orders_replayed", "Placements answered again", registry=self._registry)
        self._batch = Histogram(
            "giftrail_batch_orders",
            "Orders in one transaction",
            registry=self._registry,
            buckets=_BATCH_SIZES,
        )
        self._pool = Gauge(
            "giftrail_database_connections",
            "Connections of the pools",
            ["pool", "state"],
            registry=self._registry,
            multiprocess_mode="livesum",
        )

        self._attempts = Counter(
            "giftrail_webhook_attempts", "Webhooks attempted", ["outcome"], registry=self._registry
        )
        self._attempt_seconds = Histogram(
            "giftrail_webhook_attempt_seconds", "Time of an attempt", registry=self._registry, buckets=_SECONDS
        )
        self._first_attempt = Histogram(
            "giftrail_webhook_first_attempt_seconds",
            "From an event to its first attempt",
            registry=self._registry,
            buckets=(*_SECONDS, 30, 60, 300),
        )
        self._oldest_due = Gauge(
            "giftrail_webhook_oldest_due_seconds",
            "Age of the oldest due delivery, throttled ones included",
            registry=self._registry,
            multiprocess_mode="livemax",
        )
        self._open_breakers = Gauge(
            "giftrail_webhook_open_breakers",
            "Endpoints that are left alone",
            registry=self._registry,
            multiprocess_mode="livemax",
        )

    def count_request(self, *, route: str, method: str, status: int, started: float) -> None:
        """A request was answered; `started` is of `time.perf_counter`."""
        found = self._of_requests.get((route, method, status))
        if found is None:
            found = self._requests.labels(route, method, str(status)), self._seconds.labels(route)
            self._of_requests[route, method, status] = found
        counter, seconds = found
        counter.inc()
        seconds.observe(time.perf_counter() - started)

    def count_receipt(self, receipt: orders.Receipt) -> None:
        """An order was placed or answered again."""
        if receipt.replayed:
            self._replays.inc()
        else:
            self._orders.labels(receipt.order.status.value, receipt.order.failure_code or "").inc()

    def count_batch(self, size: int) -> None:
        """A transaction with so many orders begins."""
        self._batch.observe(size)

    def count_attempt(self, *, outcome: str, seconds: float) -> None:
        """A webhook was attempted, with that outcome."""
        self._attempts.labels(outcome).inc()
        self._attempt_seconds.observe(seconds)

    def observe_first_attempt(self, seconds: float) -> None:
        """An event was tried for the first time so long after it happened."""
        self._first_attempt.observe(max(0.0, seconds))

    def set_webhooks(self, oldest_due_seconds: float, open_breakers: int) -> None:
        """How late webhooks are, and how many endpoints are left alone."""
        self._oldest_due.set(oldest_due_seconds)
        self._open_breakers.set(open_breakers)

    def serve(self, port: int) -> None:
        """Tell the figures on a port of this machine, for a process that has no API."""
        start_http_server(port, registry=self._registry)

    def render(self, database: pool.Database) -> bytes:
        """All figures in Prometheus' text format."""
        for name, connections in (("read", database.read.connections), ("write", database.write)):
            idle = connections.get_idle_size()
            self._pool.labels(name, "idle").set(idle)
            self._pool.labels(name, "busy").set(connections.get_size() - idle)
        if _MULTIPROCESS_DIR in os.environ:
            everyone = CollectorRegistry()
            MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
            return generate_latest(everyone)
        return generate_latest(self._registry)
