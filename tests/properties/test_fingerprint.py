"""A replay is told from a conflict by content, whatever its spelling (wire contract §3, replay)."""

import itertools
import json
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from giftrail.orders.fingerprint import fingerprint
from house import House, PartnerProgram

details = st.none() | st.dictionaries(st.sampled_from(["name", "email"]), st.sampled_from(["", "a", "b", "é"]))
contents = st.fixed_dictionaries(
    {
        "brand_id": st.sampled_from(["a", "b", 'a"', "a,1"]),
        "amount_minor": st.sampled_from([1, 11, 111]),
        "lines": st.dictionaries(st.sampled_from([1, 11, 100]), st.sampled_from([1, 11, 2]), min_size=1),
        "customer": details,
        "delivery": details,
    }
)


def canonical(content: Mapping[str, Any]) -> Any:
    """The content as two are compared: an empty object is none."""
    return {name: value or None for name, value in content.items()}


def rewritten(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same with every mapping in the opposite order."""
    return {
        name: dict(reversed(value.items())) if isinstance(value, dict) else value for name, value in content.items()
    }


@given(contents, contents)
def test_fingerprints_are_equal_exactly_when_contents_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (fingerprint(**one) == fingerprint(**other)) == (canonical(one) == canonical(other))
    assert fingerprint(**one) == fingerprint(**rewritten(one))


@given(contents)
def test_a_fingerprint_tells_customer_from_delivery(content: dict[str, Any]) -> None:
    swapped = content | {"customer": content["delivery"], "delivery": content["customer"]}
    assert (fingerprint(**content) == fingerprint(**swapped)) == (canonical(content) == canonical(swapped))


_references = (f"property-{uuid.uuid4().hex[:12]}-{number}" for number in itertools.count())
orders = st.fixed_dictionaries(
    {
        "productId": st.sampled_from(["flexible", "fixed"]),
        "lines": st.lists(st.tuples(st.sampled_from([100, 250, 500]), st.integers(1, 3)), min_size=1, max_size=4),
        "customerDetails": st.none() | st.fixed_dictionaries({"name": st.sampled_from(["Asha", "Ravi", "asha"])}),
        "deliveryDetails": st.none() | st.fixed_dictionaries({"recipientType": st.sampled_from(["SELF", "OTHER"])}),
    }
)


def content_of(order: Mapping[str, Any]) -> Any:
    counted: Counter[int] = Counter()
    for denomination, quantity in order["lines"]:
        counted[denomination] += quantity
    return order["productId"], counted, order["customerDetails"], order["deliveryDetails"]


@st.composite
def spellings(draw: st.DrawFn, order: Mapping[str, Any], reference_id: str) -> str:
    """One of the many JSON texts of an order."""

    def number(value: int) -> str:
        return draw(st.sampled_from([f"{value}", f"{value}.0", f"{value}.000", f"{value}e0", f"{value * 10}E-1"]))

    lines = [
        line
        for denomination, quantity in order["lines"]
        for line in draw(st.sampled_from([[(denomination, quantity)], [(denomination, 1)] * quantity]))
    ]
    spelt = ",".join(
        f'{{"denomination":{number(denomination)},"quantity":{number(quantity)}}}'
        for denomination, quantity in draw(st.permutations(lines))
    )
    members = [
        f'"productId":"{order["productId"]}"',
        f'"referenceId":"{reference_id}"',
        f'"amount":{number(sum(denomination * quantity for denomination, quantity in order["lines"]))}',
        f'"denominationDetails":[{spelt}]',
    ]
    members += [
        f'"{name}":{json.dumps(order[name])}'
        for name in ("customerDetails", "deliveryDetails")
        if order[name] is not None or draw(st.booleans())
    ]
    if draw(st.booleans()):
        members.append('"discountAmount":12.5')
    return "{" + ", ".join(draw(st.permutations(members))) + "}"


_partners: dict[str, PartnerProgram] = {}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), one=orders, other=orders, same=st.booleans())
def test_the_service_replays_what_is_equal_and_refuses_what_is_not(
    house: House, data: st.DataObject, one: dict[str, Any], other: dict[str, Any], *, same: bool
) -> None:
    if house.base_url not in _partners:
        _partners[house.base_url] = house.partner(money_major=10_000_000)
    partner = _partners[house.base_url]
    other = one if same else other
    reference_id = next(_references)
    first = partner.post("/orders", content=data.draw(spellings(one, reference_id)))
    assert first.status_code == 200, first.text
    again = partner.post("/orders", content=data.draw(spellings(other, reference_id)))
    if content_of(one) == content_of(other):
        assert (again.status_code, again.text) == (200, first.text)
        assert again.headers["Idempotent-Replayed"] == "true"
    else:
        assert (again.status_code, again.json()["orderId"]) == (409, first.json()["id"])
