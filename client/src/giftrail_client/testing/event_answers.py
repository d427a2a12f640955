"""What the fake answers about webhook endpoints, their deliveries and the event feed."""

from __future__ import annotations

from typing import Any

from giftrail_client.testing import parameters, problems
from giftrail_client.testing.calls import Call

STATES = ("DUE", "DELIVERED", "EXHAUSTED", "HELD")


def list_endpoints(call: Call) -> dict[str, Any]:
    """The endpoints, oldest first."""
    return {"data": [one.members() for one in call.service.teller.endpoints.values()], "nextCursor": None}


def list_deliveries(call: Call) -> dict[str, Any]:
    """What was sent to an endpoint and how each attempt went, newest event first."""
    query = call.query
    limit, states = query.limit(), query.choices("status", STATES)
    before = query.cursor(r"evt_[0-9a-f]{32}")
    query.check()
    kept = call.service.teller.find(call.ids[0]).deliveries.values()
    found = sorted((one for one in kept if not states or one.state == states[-1]), key=lambda one: one.event.id)
    page, following = parameters.cut(found[::-1], limit=limit, position=lambda one: one.event.id, before=before)
    return {"data": [one.members() for one in page], "nextCursor": following}


def list_events(call: Call) -> dict[str, Any]:
    """The events by their sequence, from behind the given one."""
    teller, query = call.service.teller, call.query
    limit, after = query.limit(), query.text("after")
    query.check()
    start = 0
    if after is not None:
        start = next((event.sequence for event in teller.events if event.id == after), 0)
        if not start:
            raise problems.invalid(("after", f"{problems.show(after)} is no event of yours that is kept"))
    page = teller.events[start : start + limit]
    more = start + limit < len(teller.events)
    return {"data": [teller.feed(one) for one in page], "nextCursor": page[-1].id if more else None}
