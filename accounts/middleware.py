from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, nullcontext
from typing import cast
from zoneinfo import ZoneInfo

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers
from django.utils.decorators import sync_and_async_middleware
from django.utils.functional import SimpleLazyObject

from accounts import actors
from accounts.actors import KnownActor
from accounts.models import User
from common.logs import context
from common.middleware import GetResponse, Told, around


@sync_and_async_middleware
def actor_middleware(get_response: GetResponse) -> GetResponse:
    """Sets `request.actor` to whoever the session belongs to; the API puts a token's owner in its place."""
    return around(get_response, _introduced)


@contextmanager
def _introduced(request: HttpRequest) -> Iterator[Told]:
    # Lazy: a page that asks for no right reads no session.
    request.actor = SimpleLazyObject(  # type: ignore[attr-defined]
        lambda: _known(actors.of_user(request.user, address=request.META.get("REMOTE_ADDR", "")))
    )
    yield lambda _: None


def _known(actor: KnownActor) -> KnownActor:
    context.note_actor(actor.name)
    return actor


@sync_and_async_middleware
def language_middleware(get_response: GetResponse) -> GetResponse:
    """Answers a person in the language and the time zone of their settings, everybody else in the one that
    the browser's cookie or `Accept-Language` names. REST has no settings: it goes by `Accept-Language` alone.
    """
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            # Reading the session is work for the view's thread; who has none is not sent there.
            person = await sync_to_async(_person)(request) if _has_session(request) else None
            with _spoken_to(request, person):
                response = await cast("Awaitable[HttpResponseBase]", get_response(request))
            return _marked(request, response)

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with _spoken_to(request, _person(request) if _has_session(request) else None):
            response = cast("HttpResponseBase", get_response(request))
        return _marked(request, response)

    return answer


def _has_session(request: HttpRequest) -> bool:
    return settings.SESSION_COOKIE_NAME in request.COOKIES and not request.path.startswith("/api/")


def _person(request: HttpRequest) -> User | None:
    return request.user if isinstance(request.user, User) else None


@contextmanager
def _spoken_to(request: HttpRequest, person: User | None) -> Iterator[None]:
    language = (person and person.language) or translation.get_language_from_request(request)
    request.time_zone = person.time_zone if person else ""  # type: ignore[attr-defined]
    request.LANGUAGE_CODE = language
    zone = timezone.override(ZoneInfo(person.time_zone)) if person and person.time_zone else nullcontext()
    with translation.override(language), zone:
        yield


def _marked(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    patch_vary_headers(response, ("Accept-Language", "Cookie"))
    response.headers.setdefault("Content-Language", request.LANGUAGE_CODE)
    return response
