"""The console's static files: what is collected, and how it is served under ASGI."""

from typing import Any

from django.contrib.staticfiles.apps import StaticFilesConfig
from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


class StaticFiles(StaticFilesConfig):
    """Leaves out what no page loads: the parts of packages that the console does without."""

    ignore_patterns = [
        *StaticFilesConfig.ignore_patterns,
        "tabler.css",
        "tabler.rtl*",
        "tabler-*",
        "uPlot.iife*",
        "uPlot.cjs*",
        "*-italic.woff2",
        "*-opsz-normal.woff2",
        "*-standard-normal.woff2",
    ]


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """Answers whole files: Django under ASGI would collect a synchronous stream first, and warn about it."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        body = b""
        if found.file is not None:
            with found.file as file:
                body = file.read()
        headers: dict[str, Any] = dict(found.headers)
        return HttpResponse(body, status=int(found.status), headers=headers)
