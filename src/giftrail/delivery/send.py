"""Sends what is due: a link of its own for each try, the message, and what came of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import structlog

from giftrail.attempts import plan
from giftrail.db import pool
from giftrail.delivery import links, message, model, protocol, store
from giftrail.leases import model as leases

WORK = leases.Table("recipient_delivery", ("partner_id", "delivery_id"))
# Claims that never came back: whatever this message does to a worker, it is not tried for ever.
MAX_CLAIMS = 20

_log = structlog.get_logger()

# What is told of an order, or why nothing is to be told of it any more.
ReadContent = Callable[[model.Delivery], Awaitable[message.Content | str]]


class Pace:
    """Lets through so many a second, one after the other."""

    def __init__(self, per_second: float) -> None:
        self._between = 1 / per_second
        self._next = 0.0

    async def wait(self) -> None:
        """Until it is one's turn."""
        now = asyncio.get_running_loop().time()
        turn = max(self._next, now)
        self._next = turn + self._between
        await asyncio.sleep(turn - now)


class Sender:
    """Takes one delivery further at each claim."""

    def __init__(
        self,
        database: pool.Database,
        *,
        channels: Mapping[model.Channel, protocol.Channel],
        paces: Mapping[model.Channel, Pace],
        read_content: ReadContent,
        public_url: str,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._channels = channels
        self._paces = paces
        self._read_content = read_content
        self._public_url = public_url.rstrip("/")
        self._now = now
        self._chance = random.Random()  # noqa: S311 — jitter

    async def advance(self, claim: leases.Claim) -> None:
        """Send it, and write what came of it. Raises leases.LeaseLost, and what the database raises."""
        partner_id, delivery_id = claim.key
        delivery = await store.find_delivery(self._database.read, partner_id=partner_id, delivery_id=delivery_id)
        if delivery is None:
            raise leases.LeaseLost
        result = await self._send(delivery, claim)
        match result:
            case protocol.Sent():
                await self._end(delivery, claim, model.Outcome.SENT, None)
            case protocol.Refused(reason, bounced):
                await self._end(delivery, claim, model.Outcome.BOUNCED if bounced else model.Outcome.FAILED, reason)
            case protocol.NotNow(reason):
                await self._put_off(delivery, claim, reason)

    async def _send(self, delivery: model.Delivery, claim: leases.Claim) -> protocol.Result:
        if claim.attempts > MAX_CLAIMS:
            return protocol.Refused("it was begun many times and never ended")
        channel = self._channels.get(delivery.channel)
        if channel is None:
            return protocol.NotNow(f"this installation has no channel {delivery.channel}")
        content = await self._read_content(delivery)
        if isinstance(content, str):
            return protocol.Refused(content)
        await self._paces[delivery.channel].wait()
        token = await links.make_link(self._database.read, delivery=delivery, now=self._now())
        link = f"{self._public_url}/v/{token}"
        by_mail = delivery.channel is model.Channel.EMAIL
        return await channel.send(
            protocol.Parcel(
                parcel_id=delivery.delivery_id,
                address=delivery.address,
                from_name=content.partner_name,
                reply_to=content.delivery.reply_to,
                message=(message.render if by_mail else message.render_sms)(content, link=link),
            )
        )

    async def _end(
        self, delivery: model.Delivery, claim: leases.Claim, outcome: model.Outcome, reason: str | None
    ) -> None:
        if outcome is not model.Outcome.SENT:
            _log.warning("vouchers were not delivered", delivery_id=delivery.delivery_id, outcome=outcome)
        cut = reason[: model.MAX_REASON_CHARACTERS] if reason else None
        if not await store.end_delivery(
            self._database.read, delivery=delivery, token=claim.token, outcome=outcome, reason=cut, now=self._now()
        ):
            raise leases.LeaseLost

    async def _put_off(self, delivery: model.Delivery, claim: leases.Claim, reason: str) -> None:
        if delivery.tries >= len(plan.DELAYS_SECONDS):
            await self._end(delivery, claim, model.Outcome.FAILED, reason)
            return
        seconds = plan.DELAYS_SECONDS[delivery.tries] * self._chance.uniform(1 - plan.JITTER, 1 + plan.JITTER)
        now = self._now()
        if not await store.put_off(
            self._database.read, delivery=delivery, token=claim.token, reason=reason[: model.MAX_REASON_CHARACTERS],
            next_at=now + timedelta(seconds=seconds), now=now,
        ):  # fmt: skip
            raise leases.LeaseLost
