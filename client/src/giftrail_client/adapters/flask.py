"""Webhooks in Flask: `app.register_blueprint(flask.blueprint(router, "/hooks/giftrail"))`."""

from __future__ import annotations

from flask import Blueprint, Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from giftrail_client.router import MAX_BODY_BYTES, WebhookRouter


def blueprint(router: WebhookRouter, path: str, *, start: bool = True) -> Blueprint:
    """A blueprint with the POST route at `path`.

    The router starts when it is registered, or with the first event, or where you call `router.start()`: let your
    server do that, with `start=False` here, when other programs import the application too.
    """
    made = Blueprint("giftrail_webhooks", __name__)
    if start:
        made.record_once(lambda _: router.start())

    def receive() -> Response:
        request.max_content_length = MAX_BODY_BYTES + 1  # a chunked body is cut off there without a word
        try:
            # The bytes as they came: what was parsed and written again has another signature.
            raw_body = request.get_data(cache=False)
        except RequestEntityTooLarge:
            raw_body = None
        if raw_body is None or len(raw_body) > MAX_BODY_BYTES:
            return Response(f"more than {MAX_BODY_BYTES} bytes", 413, mimetype="text/plain")
        answer = router.answer(raw_body, request.headers)
        return Response(answer.text, answer.status, mimetype="text/plain")

    made.add_url_rule(path, "receive", receive, methods=["POST"])
    return made
