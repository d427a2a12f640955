"""Another service of this same specification as a source of codes: a Giftrail resells another's catalogue.

The request's key is the referenceId upstream, so asking again never orders twice.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import giftrail_client as sdk
from giftrail.kit import money
from giftrail.providers import protocol

MAX_VOUCHERS = 100
TIMEOUT_SECONDS = 30.0
# How soon an order that is PROCESSING upstream is asked about again; its webhook, where one is set up, is sooner.
POLL_SECONDS = 5.0
# The SDK waits for the synchronous window of the service there.
_OPTIONS = frozenset(
    {
        "base_url",
        "client_id",
        "client_secret",
        "brands",
        "customer",
        "signing_secret",
        "timeout_seconds",
        "max_vouchers",
    }
)
_REQUIRED = ("base_url", "client_id", "client_secret")


class Upstream:
    """A partner's account with another service."""

    replays = True
    finds = True

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        """`brands` maps our brand ids to theirs; those it does not name are the same. Raises ValueError."""
        for option in options:
            if option not in _OPTIONS:
                raise ValueError(f"{option!r} is not one of {', '.join(sorted(_OPTIONS))}")
        for option in _REQUIRED:
            if not isinstance(options.get(option), str) or not options[option]:
                raise ValueError(f"{option} is missing")
        if not str(options["base_url"]).startswith(("https://", "http://")):
            raise ValueError(f"base_url {options['base_url']!r} is not an http(s) address")
        if not isinstance(options.get("brands", {}), Mapping):
            raise ValueError("brands is not an object of our ids to theirs")  # noqa: TRY004 — one error for all options
        if int(options.get("max_vouchers", MAX_VOUCHERS)) < 1 or float(options.get("timeout_seconds", 1)) <= 0:
            raise ValueError("max_vouchers is from 1 on, timeout_seconds more than 0")
        self.name = name
        self.timeout_seconds = float(options.get("timeout_seconds", TIMEOUT_SECONDS))
        self.max_vouchers = int(options.get("max_vouchers", MAX_VOUCHERS))
        self.signing_secret: str | None = options.get("signing_secret")
        self._brands: Mapping[str, str] = options.get("brands", {})
        self._customer: Mapping[str, str] | None = options.get("customer")
        self._client = sdk.AsyncGiftrail(options["base_url"], options["client_id"], options["client_secret"])

    async def issue(self, request: protocol.Request) -> protocol.Outcome:
        """Order upstream. Raises OutcomeUnknown and CannotReach when nobody knows."""
        denomination = Decimal(str(money.to_major(request.denomination_minor, currency=request.currency)))
        try:
            order = await self._client.orders.place(
                self._brands.get(request.brand_id, request.brand_id),
                {denomination: request.quantity},
                reference_id=request.key,
                customer=self._customer,
            )
        except (sdk.RateLimited, sdk.Unavailable, sdk.SpendingLimitExceeded) as error:
            return protocol.Unavailable(str(error), error.retry_after_seconds)
        except (sdk.AuthenticationFailed, sdk.NotAllowed) as error:
            return protocol.Unavailable(str(error))
        except sdk.ServiceError as error:
            return protocol.Refused(str(error))
        return _outcome(order, denomination)

    async def look_up(self, request: protocol.Request) -> protocol.Outcome:
        """The order of the reference. Raises CannotReach, ServiceError when nobody knows."""
        denomination = Decimal(str(money.to_major(request.denomination_minor, currency=request.currency)))
        try:
            return _outcome(await self._client.orders.by_reference(request.key), denomination)
        except sdk.NotFound:
            return protocol.Unavailable("not created", retry_after_seconds=0)

    async def void(
        self, request: protocol.Request, *, provider_voucher_ids: Sequence[str]
    ) -> protocol.Voided | protocol.VoidRefused | protocol.Pending:
        """Reverse the order upstream. Raises CannotReach, ServiceError when nobody knows."""
        del provider_voucher_ids  # they are all of that order
        try:
            order = await self._client.orders.by_reference(request.key)
            reversed_ = await self._client.orders.reverse(order.id)
        except (sdk.NotFound, sdk.WrongOrderState) as error:
            return protocol.VoidRefused(str(error))
        if reversed_.status == "REVERSED":
            return protocol.Voided()
        return protocol.Pending(POLL_SECONDS)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _outcome(order: sdk.Order, denomination: Decimal) -> protocol.Outcome:
    if order.succeeded:
        wrong = next((voucher for voucher in order.vouchers if voucher.amount != denomination), None)
        if wrong is not None:
            raise ValueError(f"voucher {wrong.id} is over {wrong.amount}, {denomination} was ordered")
        return protocol.Delivered(
            [
                protocol.Issued(voucher.id, voucher.card_number, voucher.card_pin, voucher.valid_till)
                for voucher in order.vouchers
            ]
        )
    if order.status == "PROCESSING":
        return protocol.Pending(POLL_SECONDS)
    return protocol.Refused(f"order {order.id} is {order.status}: {order.failure_reason} ({order.failure_code})")
