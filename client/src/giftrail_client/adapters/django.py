"""Webhooks in Django: `path("hooks/giftrail", django.view(router))` in the URLs. Under WSGI and ASGI alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from giftrail_client.router import MAX_BODY_BYTES, WebhookRouter


def view(router: WebhookRouter, *, start: bool = True) -> Callable[[HttpRequest], HttpResponse]:
    """A view that takes POST; the request's signature takes the place of a CSRF token.

    The router starts when it is made, or with the first event, or where you call `router.start()`: let your server
    do that, with `start=False` here, when `manage.py` commands load the URLs too. Async handlers run on loops of
    their own.
    """
    if start:
        router.start()

    def receive(request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            raw_body = request.body
        except RequestDataTooBig:  # Django's own limit, DATA_UPLOAD_MAX_MEMORY_SIZE
            raw_body = None
        if raw_body is None or len(raw_body) > MAX_BODY_BYTES:
            return HttpResponse(b"more than %d bytes" % MAX_BODY_BYTES, status=413, content_type="text/plain")
        answer = router.answer(raw_body, cast("Mapping[str, str]", request.headers))
        return HttpResponse(answer.text.encode(), status=answer.status, content_type="text/plain")

    # What the decorator returns is typed for async views too.
    return cast("Callable[[HttpRequest], HttpResponse]", csrf_exempt(receive))
