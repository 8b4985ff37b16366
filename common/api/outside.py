"""Errors before or outside REST framework: problems for programs, Django's own pages for people."""

import sys
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.template import loader
from django.utils.translation import gettext
from django.views import defaults

from common import errors
from common.api import problems
from common.static_storage import NoStaticFiles


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if not _api(request):
        return defaults.bad_request(request, exception)
    return _problem(
        request,
        errors.Invalid(gettext("The request cannot be accepted: its host, size or form is not allowed.")),
    )


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if not _api(request):
        return defaults.permission_denied(request, exception)
    return _problem(request, PermissionDenied(gettext("You don't have permission to do that.")))


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return _problem(request, Http404()) if _api(request) else defaults.page_not_found(request, exception)


def server_error(request: HttpRequest, *_: Any) -> HttpResponseBase:
    """Called while the error that nobody caught is being handled."""
    if isinstance(error := sys.exc_info()[1], OperationalError):
        return _unavailable(request, error)
    if isinstance(error, NoStaticFiles):
        # A page would need them.
        return HttpResponse(f"{error}\n", status=503, content_type="text/plain; charset=utf-8")
    if not _api(request):
        return defaults.server_error(request)
    kind = problems.UNEXPECTED
    content = problems.document(kind, detail=problems.logged(), instance=request.path)
    return JsonResponse(content, status=kind.status, content_type=problems.CONTENT_TYPE)


def _unavailable(request: HttpRequest, error: OperationalError) -> HttpResponseBase:
    """The database does not answer. The page asks it for nothing, not even for who is looking."""
    if _api(request):
        return problems.http_answer(error, request=request)
    content = loader.render_to_string("503.html")
    return HttpResponse(content, status=503, headers={"Retry-After": "5"})


def _api(request: HttpRequest) -> bool:
    return request.path.startswith(("/api/", "/scim/"))


def _problem(request: HttpRequest, error: Exception) -> JsonResponse:
    response = problems.answer(error, request=request)
    return JsonResponse(response.data, status=response.status_code, content_type=problems.CONTENT_TYPE)
