"""Password guessing is limited by name and address (django-axes), by address, and in all.

Who guesses at many names locks nobody else out: a browser that has signed in under a name keeps its own
count for that name, wherever it is, and the limit in all spares addresses that somebody has signed in from.
"""

from datetime import datetime
from typing import Any, NamedTuple

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username, get_cool_off
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounts.models import User
from common.actor import Actor
from common.audit import record

COOKIE, SALT = "slipway_browser", "accounts.browser"
COOKIE_SECONDS = 180 * 86_400
MAX_NAMES = 5
"""That one browser is known for."""


class PasswordSpray(NamedTuple):
    sentence: str
    until: datetime
    failures: int


class LockoutHandler(AxesDatabaseHandler):  # type: ignore[misc]
    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        if super().is_locked(request, credentials):
            return True
        return spray_of(request, get_client_username(request, credentials)) is not None

    def user_login_failed(
        self, sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: Any
    ) -> None:
        super().user_login_failed(sender, credentials, request, **kwargs)
        # Refused attempts are not counted, so that only the one that reaches a limit comes here with it.
        if request is not None and not request.axes_locked_out:  # type: ignore[attr-defined]
            spray = spray_of(request, "")
            if spray:
                _record(request, spray)


def spray_of(request: HttpRequest, name: str) -> PasswordSpray | None:
    """Return the limit that keeps a password of this name from being tried here, if one is reached."""
    if name and name.casefold() in _names(request):
        return None
    address = request.axes_ip_address  # type: ignore[attr-defined]
    counted = AccessAttempt.objects.filter(attempt_time__gte=get_cool_off_threshold(request))
    said = _("Too many sign-ins from your address failed, under several names.")
    if spray := _reached(
        request, counted.filter(ip_address=address), settings.SLIPWAY_LOCKOUT_AFTER_ADDRESS, said
    ):
        return spray
    said = _("Too many sign-ins failed in the whole installation: somebody is guessing passwords.")
    spray = _reached(request, counted, settings.SLIPWAY_LOCKOUT_AFTER_ALL, said)
    return None if spray and AccessLog.objects.filter(ip_address=address).exists() else spray


def _reached(request: HttpRequest, attempts: Any, limit: int, sentence: str) -> PasswordSpray | None:
    failures = 0
    for at, count in attempts.order_by("-attempt_time").values_list("attempt_time", "failures_since_start"):
        failures += count
        if failures >= limit:
            return PasswordSpray(sentence, at + get_cool_off(request), failures)
    return None


def remember_browser(request: HttpRequest, response: HttpResponse, user: User) -> None:
    own = user.username.casefold()
    names = [own, *(name for name in _names(request) if name != own)][:MAX_NAMES]
    response.set_cookie(
        COOKIE,
        signing.dumps(names, salt=SALT),
        max_age=COOKIE_SECONDS,
        path=settings.SESSION_COOKIE_PATH,
        secure=bool(settings.SESSION_COOKIE_SECURE),
        httponly=True,
        samesite="Lax",
    )


def _names(request: HttpRequest) -> list[str]:
    try:
        names: list[str] = signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=COOKIE_SECONDS)
    except signing.BadSignature:
        return []
    return names


def _record(request: HttpRequest, spray: PasswordSpray) -> None:
    caller = Actor(name="anonymous", address=request.META.get("REMOTE_ADDR", ""), via="web")
    with transaction.atomic():
        record(caller, "session.lockout", subject="many names", detail={"failures": spray.failures})
