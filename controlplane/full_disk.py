"""What the doors do while the disk of the home is full: what is new is refused, what helps goes on."""

import logging
from collections.abc import Awaitable
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import loader
from django.urls import resolve
from django.utils.decorators import sync_and_async_middleware
from django.utils.translation import gettext_noop as _

from common import disk
from common.api import problems
from common.disk import DiskFull
from common.middleware import GetResponse
from common.pages.answers import is_part_request, refused
from common.pages.disk_notice import words

logger = logging.getLogger(__name__)

INSUFFICIENT_STORAGE = 507
GROWING = frozenset({"POST", "PUT", "PATCH"})
"""Methods that write something new. What deletes makes room."""
GO_ON = frozenset(
    {
        *("account_login", "account_logout", "set_language"),
        *("heartbeats", "node-reports"),
        *("release-act", "release-approve", "release-reject", "release-pause", "release-resume"),
        *("release-abort", "release-rollback"),
        *("collect", "collection-list", "retention-act", "retention-apply", "retention-stop"),
        *("version-act", "hub-sync-act", "export-act", "cancel-upload"),
        *(
            "delete-alias",
            "delete-model",
            "delete-plan",
            "delete-team",
            "delete-webhook",
            "delete-hub-source",
        ),
        *("revoke-token", "person-active"),
    }
)
"""Names of what is done all the same: it keeps traffic safe, shuts somebody out, or makes room."""

problems.register(DiskFull, status=INSUFFICIENT_STORAGE, title=_("Disk full"), slug="disk-full")


@sync_and_async_middleware
def full_disk_middleware(get_response: GetResponse) -> GetResponse:
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            if _is_refused(request):
                return _refusal(request)
            return _told(request, await cast("Awaitable[HttpResponseBase]", get_response(request)))

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        if _is_refused(request):
            return _refusal(request)
        return _told(request, cast("HttpResponseBase", get_response(request)))

    return answer


def _is_refused(request: HttpRequest) -> bool:
    if request.method not in GROWING or not disk.is_full():
        return False
    try:
        return resolve(request.path_info).url_name not in GO_ON
    except Http404:
        return False


def _told(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Whatever failed while the disk is full failed of that."""
    if response.status_code in (500, 503) and disk.is_full():
        return _refusal(request)
    return response


def _refusal(request: HttpRequest) -> HttpResponse:
    if request.path.startswith("/api/"):
        return problems.http_answer(DiskFull(words(), retry_after_s=30), request=request)
    if is_part_request(request):
        return refused(request, words(), status=INSUFFICIENT_STORAGE)
    return HttpResponse(loader.render_to_string("507.html", {"words": words()}), status=INSUFFICIENT_STORAGE)
