"""What people see when a request cannot be answered: the console's own pages, never a traceback.

`controlplane.urls` names these as handlers. They use no request context and no database, which may be what
failed. Under `/api/` the same errors are `application/problem+json`.
"""

import json
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.template import loader
from django.utils import timezone

from common.pages.formats import absolute

SAY = {
    400: "The server did not understand this request.",
    403: "You may not do this.",
    404: "There is nothing at this address.",
    500: "The server failed to answer; its log has the cause.",
}


def _answer(request: HttpRequest, status: int, **context: str) -> HttpResponse:
    if request.path.startswith("/api/"):
        title = HTTPStatus(status).phrase
        body = {"type": "about:blank", "title": title, "status": status, "detail": SAY[status]}
        return HttpResponse(json.dumps(body), status=status, content_type="application/problem+json")
    return HttpResponse(loader.render_to_string(f"{status}.html", context), status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 400)


def not_allowed(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The words of a PermissionDenied are shown: whoever raises it says which right is missing."""
    return _answer(request, 403, reason=str(exception or ""))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 404)


def failed(request: HttpRequest) -> HttpResponse:
    return _answer(request, 500, moment=absolute(timezone.now()))


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its CSRF token: usually a page that stayed open over a new sign-in."""
    return _answer(
        request, 403, reason="This page is from an earlier sign-in. Go back, load it again and repeat what you did."
    )
