"""A provider that is another house: it keeps what it issued, by key, and can be asked about it over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from giftrail.providers import protocol

SOON_SECONDS = 0.1


class Vendor:
    """The provider, as an entry point of `giftrail.providers` makes it."""

    def __init__(self, name: str, *, url: str, timeout_seconds: float, finds: bool, replays: bool) -> None:
        self.name = name
        self.max_vouchers = 10
        self.timeout_seconds = timeout_seconds
        self.finds = finds
        self.replays = replays
        self._http = httpx.AsyncClient(base_url=url, timeout=None, trust_env=False)

    async def issue(self, request: protocol.Request) -> protocol.Outcome:
        """Ask for the vouchers."""
        return _outcome(await self._post("issue", request, {"quantity": request.quantity}))

    async def look_up(self, request: protocol.Request) -> protocol.Outcome:
        """Ask what became of them."""
        return _outcome(await self._post("look-up", request, {}))

    async def void(
        self, request: protocol.Request, *, provider_voucher_ids: Sequence[str]
    ) -> protocol.Voided | protocol.VoidRefused | protocol.Pending:
        """Give them back."""
        answer = await self._post("void", request, {"ids": list(provider_voucher_ids)})
        match answer["outcome"]:
            case "voided":
                return protocol.Voided()
            case "pending":
                return protocol.Pending(SOON_SECONDS)
        return protocol.VoidRefused("the vendor keeps what it sold")

    async def close(self) -> None:
        """Hang up."""
        await self._http.aclose()

    async def _post(self, deed: str, request: protocol.Request, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._http.post(f"/{deed}/{request.key}", json=body)
        return dict(answer.raise_for_status().json())


def _outcome(answer: dict[str, Any]) -> protocol.Outcome:
    match answer["outcome"]:
        case "delivered":
            return protocol.Delivered([
                protocol.Issued(voucher["id"], voucher["number"], voucher["pin"], None)
                for voucher in answer["vouchers"]
            ])  # fmt: skip
        case "pending":
            return protocol.Pending(SOON_SECONDS)
        case "refused":
            return protocol.Refused("the vendor refuses")
    return protocol.Unavailable("the vendor has no such key", SOON_SECONDS)


def make(name: str, options: Mapping[str, Any]) -> Vendor:
    """The entry point."""
    return Vendor(name, **options)
