"""A work table, a claim on one of its rows, and the limits of who works on them."""

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A table with the columns state, next_at, attempts, lease_until and lease_token beside its key's text columns.

    A row whose state is DUE is claimed from its `next_at` on. The name and columns are ours, never anyone's input.
    """

    name: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A row that is ours until its lease ends; `attempts` counts the claims that have not come back, this one too."""

    key: tuple[str, ...]
    token: uuid.UUID
    attempts: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How a worker claims: rows at once and in flight, and how long a claim lasts without being renewed."""

    claim_rows: int
    in_flight: int
    lease_seconds: float
    renew_seconds: float
    poll_seconds: float
    stop_seconds: float  # how long a stop waits for what is in flight


class LeaseLost(Exception):
    """The lease ended and somebody else may hold the row: what this worker found out is dropped."""
