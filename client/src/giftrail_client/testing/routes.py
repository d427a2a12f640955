"""The fake's paths: who answers them, in the order in which they are looked at."""

from __future__ import annotations

import re

from giftrail_client.testing import brand_answers, event_answers, order_answers, reconciling
from giftrail_client.testing.calls import Route

API = "/v1/partners"
_ID = "([^/]+)"
ROUTES: tuple[Route, ...] = (
    Route("POST", "/auth/login", lambda call: call.service.log_in(call.body), authenticated=False, secret=True),
    Route("GET", "/products", brand_answers.list_brands, tagged=True),
    Route("GET", f"/products/{_ID}", brand_answers.get_brand, tagged=True),
    Route("POST", f"/products/{_ID}/plan", brand_answers.plan),
    Route("POST", "/orders/quote", order_answers.quote),
    Route("POST", "/reconcile", lambda call: reconciling.reconcile(call.service.books, call.body)),
    Route("POST", "/orders", order_answers.place, secret=True),
    Route("GET", "/orders", order_answers.list_orders),
    Route("GET", "/orders/by-reference/(.*)", order_answers.get_by_reference, secret=True),
    Route("GET", f"/orders/vouchers/{_ID}", order_answers.get_voucher, secret=True),
    Route("GET", f"/orders/{_ID}", order_answers.get_order, secret=True),
    Route("POST", f"/orders/{_ID}/cancel", order_answers.cancel, body_required=False, secret=True),
    Route("POST", f"/orders/{_ID}/reverse", order_answers.reverse, body_required=False, secret=True),
    Route(
        "POST", f"/orders/{_ID}/resend-delivery", order_answers.resend_delivery, body_required=False, secret=True,
    ),
    Route("GET", "/wallet/balance", order_answers.get_balance),
    Route("GET", "/wallet/transactions", order_answers.list_transactions),
    Route("POST", "/webhooks", lambda call: call.service.teller.create(call.body), secret=True),
    Route("GET", "/webhooks", event_answers.list_endpoints),
    Route("GET", f"/webhooks/{_ID}", lambda call: call.service.teller.find(call.ids[0]).members()),
    Route("PATCH", f"/webhooks/{_ID}", lambda call: call.service.teller.change(call.ids[0], call.body)),
    Route("DELETE", f"/webhooks/{_ID}", lambda call: call.service.teller.delete(call.ids[0])),
    Route("POST", f"/webhooks/{_ID}/test", lambda call: call.service.teller.test(call.ids[0]), body_required=False),
    Route(
        "POST", f"/webhooks/{_ID}/rotate-secret", lambda call: call.service.teller.rotate(call.ids[0], call.body),
        body_required=False, secret=True,
    ),
    Route(
        "POST", f"/webhooks/{_ID}/promote-secret", lambda call: call.service.teller.promote(call.ids[0]),
        body_required=False,
    ),
    Route("GET", f"/webhooks/{_ID}/deliveries", event_answers.list_deliveries),
    Route("POST", f"/webhooks/{_ID}/replay", lambda call: call.service.teller.replay(call.ids[0], call.body)),
    Route("GET", "/events", event_answers.list_events),
    Route(
        "POST", f"/events/{_ID}/redeliver", lambda call: call.service.teller.redeliver(call.ids[0]),
        body_required=False,
    ),
)  # fmt: skip


def find(path: str) -> tuple[tuple[str, ...], dict[str, Route]] | None:
    """The ids in a path and its routes by method; HEAD is answered as GET. None when there is no such path."""
    for pattern, methods in _PATTERNS.items():
        match = pattern.fullmatch(path)
        if match is not None:
            return match.groups(), methods
    return None


def _by_path() -> dict[re.Pattern[str], dict[str, Route]]:
    by_path: dict[re.Pattern[str], dict[str, Route]] = {}
    for route in ROUTES:
        methods = by_path.setdefault(re.compile(API + route.path), {})
        methods[route.method] = route
        if route.method == "GET":
            methods["HEAD"] = route
    return by_path


_PATTERNS = _by_path()
