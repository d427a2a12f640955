"""Webhooks in Flask: `app.register_blueprint(flask.blueprint(router, "/hooks/giftrail"))`."""

from __future__ import annotations

from flask import Blueprint, Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from giftrail_client.router import MAX_BODY_BYTES, WebhookRouter


def blueprint(router: WebhookRouter, path: str) -> Blueprint:
    """A blueprint with the POST route at `path`. The router starts when it is registered."""
    made = Blueprint("giftrail_webhooks", __name__)
    made.record_once(lambda _: router.start())

    def receive() -> Response:
        request.max_content_length = MAX_BODY_BYTES
        try:
            # The bytes as they came: what was parsed and written again has another signature.
            raw_body = request.get_data(cache=False)
        except RequestEntityTooLarge:
            return Response(f"more than {MAX_BODY_BYTES} bytes", 413, mimetype="text/plain")
        answer = router.answer(raw_body, request.headers)
        return Response(answer.text, answer.status, mimetype="text/plain")

    made.add_url_rule(path, "receive", receive, methods=["POST"])
    return made
