"""The fake's events: kept in the feed, and delivered to the endpoints that want them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from giftrail_client import webhooks, wire
from giftrail_client.router import Answer
from giftrail_client.testing import endpoints, problems, reading, writing

TEST = "TEST"
GONE = 410
MAX_KEPT_ANSWER_BYTES = 2048
# When the next attempt is made, in seconds after the last.
DELAYS = (5, 30, 120, 300, 900, 1800, 3600, 7200, 18000, 36000, 50400, 72000, 72000)
# An endpoint whose events ran out of attempts is switched off when nothing has arrived for so long.
HOPELESS_HOURS = 120

# Takes the raw body and the headers of a webhook and answers, as `WebhookRouter.answer` does.
Receiver = Callable[[bytes, webhooks.Headers], Answer]


class Teller:
    """Keeps events and endpoints, and delivers what is due when it is told the time."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.events: list[endpoints.FakeEvent] = []
        self.endpoints: dict[str, endpoints.FakeEndpoint] = {}
        self.receivers: dict[str, Receiver] = {}

    def append(self, kind: str, members: Mapping[str, Any], *, fault: str | None = None) -> endpoints.FakeEvent:
        """Something happened: it is in the feed, and on its way to every endpoint that wants its kind."""
        at, event_id = self._now(), writing.new_id("evt", now=self._now())
        body = {**members, "eventId": event_id, "eventType": kind, "occurredAt": at}
        event = endpoints.FakeEvent(event_id, kind, at, writing.encode(body), len(self.events) + 1, fault)
        self.events.append(event)
        for endpoint in self.endpoints.values():
            if kind in endpoint.kinds:
                if endpoint.is_enabled and fault != "LOST":
                    endpoint.send(event, now=at)
                else:
                    endpoint.deliveries[event.id] = endpoints.FakeDelivery(event)
        return event

    def deliver(self) -> None:
        """Attempt every delivery that is due."""
        for endpoint in list(self.endpoints.values()):
            for delivery in list(endpoint.deliveries.values()):
                while delivery.state == "DUE" and delivery.next_at is not None and delivery.next_at <= self._now():
                    self._attempt(endpoint, delivery)

    def next_at(self) -> datetime | None:
        """When the next attempt is due."""
        on_their_way = (one for endpoint in self.endpoints.values() for one in endpoint.deliveries.values())
        due = [one.next_at for one in on_their_way if one.state == "DUE"]
        return min((at for at in due if at is not None), default=None)

    def create(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """Register an endpoint. Raises Refused."""
        read = endpoints.read_new(members)
        if len(self.endpoints) >= endpoints.MAX_ENDPOINTS:
            raise problems.invalid(("url", f"the partner has {endpoints.MAX_ENDPOINTS} endpoints already"))
        made = endpoints.make(read, now=self._now())
        self.endpoints[made.id] = made
        return made.members(secret=made.secret)

    def find(self, endpoint_id: str) -> endpoints.FakeEndpoint:
        """An endpoint. Raises Refused."""
        if endpoint_id not in self.endpoints:
            raise problems.not_found()
        return self.endpoints[endpoint_id]

    def change(self, endpoint_id: str, members: Mapping[str, Any]) -> dict[str, Any]:
        """Change what is given. Raises Refused."""
        read = endpoints.read_change(members)
        endpoint = self.find(endpoint_id)
        endpoint.change(read)
        return endpoint.members()

    def delete(self, endpoint_id: str) -> dict[str, Any]:
        """Remove an endpoint. Raises Refused."""
        endpoint = self.find(endpoint_id)
        del self.endpoints[endpoint_id]
        return endpoint.members(status="DELETED")

    def test(self, endpoint_id: str) -> dict[str, Any]:
        """Send a test event. Raises Refused."""
        endpoint = self.find(endpoint_id)
        endpoint.check_enabled()
        event = self.append(TEST, {"message": "a test of this endpoint"})
        endpoint.send(event, now=self._now())
        return {"eventId": event.id}

    def rotate(self, endpoint_id: str, members: Mapping[str, Any]) -> dict[str, Any]:
        """Stage a second secret. Raises Refused."""
        secret = endpoints.read_secret(members)
        endpoint = self.find(endpoint_id)
        return endpoint.members(secret=endpoint.stage(secret))

    def promote(self, endpoint_id: str) -> dict[str, Any]:
        """Put the staged secret in force. Raises Refused."""
        endpoint = self.find(endpoint_id)
        endpoint.promote(now=self._now())
        return endpoint.members()

    def replay(self, endpoint_id: str, members: Mapping[str, Any]) -> dict[str, Any]:
        """Send the events of a range again; without an end, all that happened until now. Raises Refused."""
        sheet = reading.Sheet(members)
        since, until = sheet.moment("from", required=True), sheet.moment("to")
        sheet.check()
        endpoint = self.find(endpoint_id)
        endpoint.check_enabled()
        found = [
            one
            for one in self.events
            if one.kind in endpoint.kinds and since and since <= one.at and (until is None or one.at < until)
        ]
        for event in found:
            endpoint.send(event, now=self._now())
        return {"events": len(found)}

    def redeliver(self, event_id: str) -> dict[str, Any]:
        """Send one event to every endpoint that wants it. Raises Refused."""
        event = next((one for one in self.events if one.id == event_id), None)
        if event is None:
            raise problems.not_found()
        wanting = [one for one in self.endpoints.values() if one.is_enabled and event.kind in one.kinds]
        for endpoint in wanting:
            endpoint.send(event, now=self._now())
        return {"endpoints": len(wanting)}

    def feed(self, event: endpoints.FakeEvent) -> dict[str, Any]:
        """An event as the feed lists it."""
        return {**wire.decode(event.raw_body), "sequence": event.sequence}

    def _attempt(self, endpoint: endpoints.FakeEndpoint, delivery: endpoints.FakeDelivery) -> None:
        now, number = self._now(), len(delivery.attempts) + 1
        answer, error = Answer(0, ""), None
        receive = self.receivers.get(endpoint.url)
        if receive is None:
            error = "CONNECT"
        else:
            answer = receive(delivery.event.raw_body, endpoint.sign(delivery.event, at=now, attempt=number))
        delivery.round_attempts += 1
        delivery.attempts.append({
            "attempt": number, "at": now, "status": answer.status or None, "error": error, "latencyMs": 0,
            "answer": answer.text.encode()[:MAX_KEPT_ANSWER_BYTES].decode("utf-8", "replace"),
        })  # fmt: skip
        if 200 <= answer.status < 300:
            endpoint.last_success_at = now
            is_again = delivery.event.fault == "TWICE" and number == 1
            delivery.state = "DUE" if is_again else "DELIVERED"
        elif delivery.round_attempts > len(DELAYS):
            delivery.state = "EXHAUSTED"
        else:
            delivery.next_at = now + timedelta(seconds=DELAYS[delivery.round_attempts - 1])
        if answer.status == GONE:
            endpoint.disable("it answered 410 Gone")
        last = endpoint.last_success_at or endpoint.made_at
        if delivery.state == "EXHAUSTED" and now - last >= timedelta(hours=HOPELESS_HOURS):
            endpoint.disable(f"nothing has arrived since {last:%Y-%m-%dT%H:%M:%SZ}")


def order_members(order_id: str, reference_id: str, status: str) -> dict[str, Any]:
    """The body of an order event."""
    return {"id": order_id, "orderId": order_id, "referenceId": reference_id, "status": status}


def discount_members(brand_id: str, percentage: Decimal, before: Decimal) -> dict[str, Any]:
    """The body of Brand Discount Update."""
    return {
        "id": brand_id, "brandId": brand_id, "discountPercentage": percentage,
        "previousDiscountPercentage": before, "subventionPercentage": percentage,
    }  # fmt: skip
