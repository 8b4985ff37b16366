"""The one place where hidden characters become visible: every page passes it on its way out."""

from collections.abc import Awaitable, Callable
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from common.characters import marked

Answer = HttpResponseBase | Awaitable[HttpResponseBase]


@sync_and_async_middleware
def hidden_text_middleware(get_response: Callable[[HttpRequest], Answer]) -> Callable[[HttpRequest], Answer]:
    """Our templates have no hidden characters: one in a page is in somebody's text, wherever it came from."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            return _shown(await cast("Awaitable[HttpResponseBase]", get_response(request)))

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        return _shown(cast("HttpResponseBase", get_response(request)))

    return answer


def _shown(response: HttpResponseBase) -> HttpResponseBase:
    if isinstance(response, HttpResponse) and response.get("Content-Type", "").startswith("text/html"):
        text = response.content.decode(response.charset)
        shown = marked(text)
        if shown is not text:
            response.content = shown
    return response
