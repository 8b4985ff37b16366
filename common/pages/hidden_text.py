"""The one place where hidden characters become visible: every page passes it on its way out."""

from contextlib import nullcontext

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from common.characters import marked
from common.middleware import GetResponse, around


@sync_and_async_middleware
def hidden_text_middleware(get_response: GetResponse) -> GetResponse:
    """Our templates have no hidden characters: one in a page is in somebody's text, wherever it came from."""
    return around(get_response, lambda _: nullcontext(_show))


def _show(response: HttpResponseBase) -> None:
    if isinstance(response, HttpResponse) and response.get("Content-Type", "").startswith("text/html"):
        text = response.content.decode(response.charset)
        shown = marked(text)
        if shown is not text:
            response.content = shown
