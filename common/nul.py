"""The one place where NUL (U+0000) is refused in addresses and forms: PostgreSQL stores no such text.

`common.api.json.loads` refuses it in documents.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from common.middleware import GetResponse, Told, around

FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})


@sync_and_async_middleware
def nul_middleware(get_response: GetResponse) -> GetResponse:
    return around(get_response, _without_nul)


@contextmanager
def _without_nul(request: HttpRequest) -> Iterator[Told]:
    values = [(request.path, []), *request.GET.lists()]
    # REST takes no forms: it answers 415, whatever they hold.
    if request.method == "POST" and request.content_type in FORMS and not request.path.startswith("/api/"):
        values += request.POST.lists()
    if any("\0" in name or any("\0" in str(value) for value in items) for name, items in values):
        raise BadRequest("A text of the request holds the character NUL (U+0000).")
    yield lambda _: None
