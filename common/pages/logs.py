"""The end of a log on a page: searched, paused, downloaded. See `components/live_log.html`."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

from common.errors import SlipwayError, Unavailable

LogReader = Callable[[str], str]
"""Returns the end of the log, or those lines of it that hold a text. Raises SlipwayError."""


def log_context(request: HttpRequest, read: LogReader) -> dict[str, Any]:
    search, log, problem = _search(request), "", ""
    try:
        log = read(search)
    except SlipwayError as error:
        problem = str(error)
    return {"log": log, "log_problem": problem, "log_search": search, "is_paused": "paused" in request.GET}


def log_file(request: HttpRequest, name: str, read: LogReader) -> HttpResponse:
    """Send it as a file of this name."""
    try:
        log = read(_search(request))
    except Unavailable as error:
        return HttpResponse(str(error), status=503, content_type="text/plain; charset=utf-8")
    response = HttpResponse(log + "\n", content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.log"'
    return response


def _search(request: HttpRequest) -> str:
    return request.GET.get("search", "").strip()[:200]
