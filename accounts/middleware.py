from collections.abc import Awaitable, Callable
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from django.utils.functional import SimpleLazyObject

from accounts import actors

Answer = HttpResponseBase | Awaitable[HttpResponseBase]


@sync_and_async_middleware
def actor_middleware(get_response: Callable[[HttpRequest], Answer]) -> Callable[[HttpRequest], Answer]:
    """Sets `request.actor` to whoever the session belongs to; the API puts a token's owner in its place."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            _introduce(request)
            return await cast("Awaitable[HttpResponseBase]", get_response(request))

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        _introduce(request)
        return cast("HttpResponseBase", get_response(request))

    return answer


def _introduce(request: HttpRequest) -> None:
    # Lazy: a page that asks for no right reads no session.
    request.actor = SimpleLazyObject(  # type: ignore[attr-defined]
        lambda: actors.of_user(request.user, address=request.META.get("REMOTE_ADDR", ""))
    )
