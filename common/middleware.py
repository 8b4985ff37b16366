"""What middleware is written with that is the same for views that wait and for those that do not."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

Answer = HttpResponseBase | Awaitable[HttpResponseBase]
GetResponse = Callable[[HttpRequest], Answer]
Told = Callable[[HttpResponseBase], object]


def around(
    get_response: GetResponse, block: Callable[[HttpRequest], AbstractContextManager[Told]]
) -> GetResponse:
    """Answers each request within its `block`, which is told the answer before it ends."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with block(request) as told:
                response = await cast("Awaitable[HttpResponseBase]", get_response(request))
                told(response)
            return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with block(request) as told:
            response = cast("HttpResponseBase", get_response(request))
            told(response)
        return response

    return answer
