"""Signed-in people only, who are sent back to where they were; and what they may know of."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url

from common.actor import Actor
from common.errors import Missing

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedLink:
    """A link that is shown to people who may follow it."""

    right: str = ""
    """Needed in some team; empty: everybody's."""
    is_for_admins: bool = False
    """Needs the right in the whole installation."""

    def is_open_to(self, actor: Actor) -> bool:
        return not self.right or actor.holds(self.right, everywhere=self.is_for_admins)


def address_of(request: HttpRequest) -> str:
    """Path and query of the page that the person sees, which for an htmx request is not the one it asks."""
    shown = request.headers.get("HX-Current-URL")
    if not shown:
        return request.get_full_path()
    parts = urlsplit(shown)
    if parts.netloc and parts.netloc != request.get_host():
        return request.get_full_path()
    return parts.path + (f"?{parts.query}" if parts.query else "")


def ask_to_sign_in(request: HttpRequest) -> HttpResponse:
    """A redirect to the login page with `next`; for htmx one that moves the whole page, not a part of it."""
    redirect = redirect_to_login(address_of(request), resolve_url(settings.LOGIN_URL))
    if not request.headers.get("HX-Request"):
        return redirect
    return HttpResponse(status=401, headers={"HX-Redirect": redirect.url})


def signed_in(
    view: Callable[Concatenate[HttpRequest, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Let only signed-in people into a function view."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return ask_to_sign_in(request)
        return view(request, *args, **kwargs)

    return guarded


def or_404(look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `look` finds. Raises Http404 where it raises Missing."""
    try:
        return look(*args, **kwargs)
    except Missing as error:
        raise Http404(str(error)) from None
