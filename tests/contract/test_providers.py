"""One suite that every remote provider passes (engines, fulfilment)."""

import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from giftrail import app
from giftrail.providers import protocol, registry, sandbox, upstream
from house import House

KINDS = ["sandbox", "upstream"]
UPSTREAM_OPTIONS = {"kind": "upstream", "base_url": "https://x", "client_id": "i", "client_secret": "s"}


@pytest.fixture
def account(house: House) -> dict[str, Any]:
    """A partner's account with another Giftrail, as an upstream is configured."""
    brands = [house.brand(f"{brand_id}-{uuid.uuid4().hex[:8]}", **more) for brand_id, more in UPSTREAM.items()]
    program = house.partner(brands=brands)
    return {
        "base_url": house.base_url,
        "client_id": program.client_id,
        "client_secret": program.client_secret,
        "brands": dict(zip(BRANDS, brands, strict=True)),
        "timeout_seconds": 10,
    }


@pytest.fixture
async def provider(request: pytest.FixtureRequest, account: dict[str, Any]) -> AsyncIterator[protocol.Provider]:
    """The provider of that kind; the upstream is another Giftrail, over HTTP."""
    made: protocol.Provider
    made = sandbox.Sandbox("sandbox") if request.param == "sandbox" else upstream.Upstream("other", account)
    yield made
    await made.close()


BRANDS = ("sandbox-at-once", "sandbox-refused", "sandbox-reversible", "sandbox-void-refused")
UPSTREAM: dict[str, dict[str, Any]] = {
    "sold": {},
    "refused": {"status": "INACTIVE"},
    "reversible": {"reversible": True},
    "kept": {},
}


def ask(brand_id: str, quantity: int = 3, **changes: Any) -> protocol.Request:
    """A request for so many vouchers of 100, under a new key."""
    now = app.now()
    values: dict[str, Any] = {
        "key": f"{uuid.uuid4().hex}-1-1",
        "brand_id": brand_id,
        "denomination_minor": 100_00,
        "currency": "INR",
        "quantity": quantity,
        "shows_number": True,
        "shows_pin": True,
        "asked_at": now,
        "asks": 1,
        "now": now,
    }
    return protocol.Request(**values | changes)


each_provider: Callable[..., Any] = pytest.mark.parametrize("provider", KINDS, indirect=True)


@each_provider
async def test_it_delivers_what_is_asked_for(provider: protocol.Provider) -> None:
    request = ask("sandbox-at-once")
    outcome = await provider.issue(request)
    assert isinstance(outcome, protocol.Delivered)
    assert len({issued.provider_voucher_id for issued in outcome.vouchers}) == 3
    assert len({issued.card_number for issued in outcome.vouchers}) == 3
    assert all(issued.card_number and issued.card_pin for issued in outcome.vouchers)


@each_provider
async def test_the_same_key_is_the_same_vouchers(provider: protocol.Provider) -> None:
    request = ask("sandbox-at-once")
    first = await provider.issue(request)
    assert provider.replays
    assert await provider.issue(request) == first
    assert provider.finds
    assert await provider.look_up(request) == first


@each_provider
async def test_another_key_is_other_vouchers(provider: protocol.Provider) -> None:
    one, other = await provider.issue(ask("sandbox-at-once")), await provider.issue(ask("sandbox-at-once"))
    assert isinstance(one, protocol.Delivered)
    assert isinstance(other, protocol.Delivered)
    ids = {issued.provider_voucher_id for issued in [*one.vouchers, *other.vouchers]}
    assert len(ids) == 6


@each_provider
async def test_a_refusal_says_why(provider: protocol.Provider) -> None:
    outcome = await provider.issue(ask("sandbox-refused"))
    assert isinstance(outcome, protocol.Refused)
    assert outcome.reason


@each_provider
async def test_a_brand_it_does_not_have_is_refused(provider: protocol.Provider) -> None:
    assert isinstance(await provider.issue(ask("nobody-has-this")), protocol.Refused)


@each_provider
async def test_its_limits_fit_the_service(provider: protocol.Provider) -> None:
    assert provider.max_vouchers >= 1
    assert provider.timeout_seconds > 0
    assert provider.name


@each_provider
async def test_it_voids_what_it_may_and_again_the_same(provider: protocol.Provider) -> None:
    request = ask("sandbox-reversible")
    outcome = await provider.issue(request)
    assert isinstance(outcome, protocol.Delivered)
    ids = [issued.provider_voucher_id for issued in outcome.vouchers]
    assert await provider.void(request, provider_voucher_ids=ids) == protocol.Voided()
    assert await provider.void(request, provider_voucher_ids=ids) == protocol.Voided()


@each_provider
async def test_it_refuses_to_void_the_rest(provider: protocol.Provider) -> None:
    request = ask("sandbox-void-refused")
    outcome = await provider.issue(request)
    assert isinstance(outcome, protocol.Delivered)
    ids = [issued.provider_voucher_id for issued in outcome.vouchers]
    assert isinstance(await provider.void(request, provider_voucher_ids=ids), protocol.VoidRefused)


async def test_an_upstream_that_never_heard_of_a_key_says_not_created(account: dict[str, Any]) -> None:
    provider = upstream.Upstream("other", account)
    try:
        assert isinstance(await provider.look_up(ask("fixed")), protocol.Unavailable)
    finally:
        await provider.close()


async def test_an_upstream_with_wrong_credentials_is_unavailable(house: House) -> None:
    options = {"base_url": house.base_url, "client_id": "nobody", "client_secret": "nothing"}
    provider = upstream.Upstream("other", options)
    try:
        assert isinstance(await provider.issue(ask("fixed")), protocol.Unavailable)
    finally:
        await provider.close()


@pytest.mark.parametrize(
    ("configured", "told"),
    [
        ({"stock": {"kind": "sandbox"}}, "'stock': the name is taken"),
        ({"sandbox": {"kind": "sandbox"}}, "'sandbox': the name is taken"),
        ({"x": {"kind": "teapot"}}, "'teapot' is not one of sandbox, upstream"),
        ({"x": {}}, "'None' is not one of"),
        ({"x": {"kind": "sandbox", "speed": 1}}, "no option 'speed'"),
        ({"x": {"kind": "upstream"}}, "base_url is missing"),
        ({"x": {"kind": "upstream", "base_url": "http://x", "client_id": "i", "client_secret": ""}}, "client_secret"),
        ({"x": {"kind": "upstream", "teapot": 1}}, "'teapot' is not one of"),
        ({"x": UPSTREAM_OPTIONS | {"base_url": "ftp://x"}}, "'ftp://x' is not an http(s) address"),
        ({"x": UPSTREAM_OPTIONS | {"brands": ["a"]}}, "brands is not an object"),
        ({"x": UPSTREAM_OPTIONS | {"max_vouchers": 0}}, "max_vouchers is from 1 on"),
        ({"x": UPSTREAM_OPTIONS | {"timeout_seconds": "soon"}}, "could not convert"),
    ],
)
def test_a_provider_that_cannot_be_made_is_told(configured: dict[str, dict[str, Any]], told: str) -> None:
    with pytest.raises(registry.ProviderInvalid, match="provider '") as raised:
        registry.make_providers(configured, with_sandbox=True)
    assert told in str(raised.value)


def test_production_has_no_sandbox() -> None:
    assert registry.make_providers({}, with_sandbox=False) == {}
    assert registry.known_names({}, with_sandbox=False) == {"stock", "generator"}


async def test_a_sandbox_brand_serves_after_the_seconds_in_its_name() -> None:
    provider = sandbox.Sandbox("sandbox")
    request = ask("sandbox-after-7-seconds")
    assert await provider.issue(request) == protocol.Pending(sandbox.POLL_SECONDS)
    now = request.asked_at + timedelta(seconds=7)
    later = ask("sandbox-after-7-seconds", key=request.key, asked_at=request.asked_at, now=now)
    assert isinstance(await provider.look_up(later), protocol.Delivered)
