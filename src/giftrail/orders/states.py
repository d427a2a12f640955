"""The states of an order and who may move between them (specification, States and transitions)."""

from enum import StrEnum


class Status(StrEnum):
    """The five states of the specification."""

    PROCESSING = "PROCESSING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    REVERSED = "REVERSED"


# From (None: not placed yet) → to, by what. Everything else never happens.
TRANSITIONS: dict[tuple[Status | None, Status], str] = {
    (None, Status.SUCCESS): "placed, served at once",
    (None, Status.PROCESSING): "placed, a provider is still asked",
    (None, Status.FAILED): "placed, refused",
    (Status.PROCESSING, Status.SUCCESS): "every voucher delivered",
    (Status.PROCESSING, Status.FAILED): "refused, or the deadline passed",
    (Status.PROCESSING, Status.CANCELLED): "cancelled before any provider was asked",
    (Status.SUCCESS, Status.REVERSED): "the provider voided the vouchers",
}


def draw() -> str:
    """The states as a Mermaid diagram, for the documents."""
    lines = ["stateDiagram-v2"]
    for (before, after), trigger in TRANSITIONS.items():
        lines.append(f"    {before.value if before else '[*]'} --> {after.value}: {trigger}")
    outgoing = {before for before, _ in TRANSITIONS}
    lines += [f"    {status.value} --> [*]" for status in Status if status not in outgoing]
    return "\n".join(lines)
