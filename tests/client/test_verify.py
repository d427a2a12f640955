"""The verifier returns an event or raises its one error, whatever it is given."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from giftrail_client import Event, VerificationFailed, verify, webhooks

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB3ZWJob29rcyBpbiB0ZXN0cyE="
BODY = json.dumps({"orderId": "ord_1", "status": "SUCCESS"}).encode()
names = st.sampled_from(["X-Verify", "x-verify", "webhook-id", "webhook-timestamp", "webhook-signature", "other"])


def signed(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    return {"X-Verify": webhooks.sign(body, secret)}


def standard(body: bytes = BODY, secret: str = SECRET, *, at: int = 1000) -> dict[str, str]:
    signature = webhooks.sign_standard(body, secret, event_id="evt_1", timestamp=at)
    return {"webhook-id": "evt_1", "webhook-timestamp": str(at), "webhook-signature": signature}


@given(body=st.binary(), headers=st.dictionaries(names, st.text()), secrets=st.lists(st.text()))
def test_any_bytes_and_headers_raise_its_one_error(body: bytes, headers: dict[str, str], secrets: list[str]) -> None:
    with pytest.raises(VerificationFailed):
        verify(body, headers, secrets, now=0)


@pytest.mark.parametrize("name", ["X-Verify", "webhook-signature", "webhook-id", "webhook-timestamp"])
def test_half_a_surrogate_pair_is_no_signature(name: str) -> None:
    with pytest.raises(VerificationFailed):
        verify(BODY, standard() | {name: "\ud800"} | {"X-Verify": "\ud800"} | {"webhook-id": "evt_2"}, SECRET, now=1000)


@given(body=st.binary(), secret=st.text(min_size=1))
def test_what_is_signed_is_an_event_or_its_one_error(body: bytes, secret: str) -> None:
    try:
        assert isinstance(verify(body, signed(body, secret), secret), Event)
    except VerificationFailed as failed:
        assert "JSON object" in str(failed)  # noqa: PT017 — either outcome is right, and each is checked


@pytest.mark.parametrize("headers", [signed(), standard(), signed() | {"webhook-signature": "v1,wrong"}])
def test_either_signature_does(headers: dict[str, str]) -> None:
    event = verify(BODY, headers, SECRET, now=1000)
    assert (event.kind, event.order_id, event.status) == ("ORDER_TERMINAL_STATE", "ord_1", "SUCCESS")


@pytest.mark.parametrize(
    ("body", "headers", "secret", "now"),
    [
        (BODY + b" ", signed(), SECRET, 1000),
        (BODY, signed(), SECRET + "x", 1000),
        (BODY, signed(secret="other"), SECRET, 1000),
        (BODY, {}, SECRET, 1000),
        (BODY, standard(), SECRET, 1301),
        (BODY, standard(), SECRET, 699),
        (BODY, standard() | {"webhook-id": "evt_2"}, SECRET, 1000),
        (BODY, standard() | {"webhook-timestamp": "1001"}, SECRET, 1000),
    ],
)
def test_what_was_changed_is_refused(body: bytes, headers: dict[str, str], secret: str, now: float) -> None:
    with pytest.raises(VerificationFailed):
        verify(body, headers, secret, now=now)


def test_several_secrets_do_while_one_is_rotated() -> None:
    other = "whsec_YW5vdGhlciBzZWNyZXQgb2YgMzIgYnl0ZXMgZm9yIHRlc3Q="
    assert verify(BODY, signed(secret=other), [SECRET, other]).id
    both = standard()
    both["webhook-signature"] += " " + standard(secret=other)["webhook-signature"]
    assert verify(BODY, both, other, now=1000).id == "evt_1"


def test_standard_webhooks_library_agrees() -> None:
    headers = standard(at=int(time.time()))
    assert Webhook(SECRET).verify(BODY, headers) == json.loads(BODY)


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"balance": 1, "threshold": 2}, "WALLET_LOW_BALANCE"),
        ({"id": "b", "denominationType": "FIXED", "amountRestrictions": {}}, "BRAND_UPDATED"),
        ({"id": "b", "discountPercentage": 1}, "BRAND_DISCOUNT_UPDATED"),
        ({"eventType": "SOMETHING_NEW"}, "SOMETHING_NEW"),
        ({}, "UNKNOWN"),
    ],
)
def test_the_kind_is_told_by_its_members_when_nobody_names_it(members: dict[str, object], kind: str) -> None:
    body = json.dumps(members).encode()
    event = verify(body, signed(body), SECRET)
    assert event.kind == kind
    assert event.id, "the same bytes have the same id"
    assert event.id == verify(body, signed(body), SECRET).id
