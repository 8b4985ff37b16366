"""What happens at the door: nobody signs up, machines stay out, passwords can be off, failures lock."""

from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from allauth.account.signals import password_changed
from axes.helpers import get_cool_off
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from accounts import actors, lockouts
from accounts.models import User
from accounts.selectors import is_break_glass
from accounts.services.webhooks import announce
from common import clock
from common.actor import Actor
from common.audit import record
from common.sessions import SessionStore

BREAK_GLASS = "session.break_glass"


class PasswordBackend(AuthenticationBackend):  # type: ignore[misc]
    """Sign people in by name and password; a machine's account never gets a session."""

    def user_can_authenticate(self, user: User | None) -> bool:
        """Asked for every session, too."""
        if user is not None and (user.suspended_at is not None or not user.is_person):
            return False
        return bool(super().user_can_authenticate(user))


class PasswordAccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        """Return a response instead of a session if this person may not sign in, by whichever way."""
        if not user.is_person:
            request.session.flush()
            return redirect("account_inactive")
        return cast("HttpResponse | None", super().pre_login(request, user, **kwargs))

    def post_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse:
        response = cast("HttpResponse", super().post_login(request, user, **kwargs))
        lockouts.remember_browser(request, response, user)
        return response

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Raises ValidationError while passwords are off, the same for every name that is not let in."""
        if not settings.SLIPWAY_PASSWORD_LOGIN and not is_break_glass(str(credentials.get("username", ""))):
            raise ValidationError(_("Password sign-in is off. Use single sign-on."))
        super().pre_authenticate(request, **credentials)


def lockout_name(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str:
    """The name that failures are counted for. Names differ by case for nobody, so not here either."""
    name = (
        (credentials or {}).get("username") or request.POST.get("login") or request.POST.get("username", "")
    )
    return str(name).strip().casefold()[:255]


def locked_out(request: HttpRequest, *__: Any) -> HttpResponse:
    """The answer to every login from an address that failed too often with this name."""
    name, address = lockout_name(request), getattr(request, "axes_ip_address", None)
    attempts = AccessAttempt.objects.filter(username=name, ip_address=address).order_by("-attempt_time")
    began, failures = attempts.values_list("attempt_time", "failures_since_start").first() or (
        clock.now(),
        settings.AXES_FAILURE_LIMIT,
    )
    spray = lockouts.spray_of(request, name)
    until = spray.until if spray else began + get_cool_off(request)
    context = {"name": name, "until": until, "failures": failures, "spray": spray}
    response = render(request, "account/locked_out.html", context, status=429)
    response["Retry-After"] = str(max(1, round((until - clock.now()).total_seconds())))
    return response


def note_login(*, request: HttpRequest, user: User, **__: Any) -> None:
    actor = actors.of_user(user, address=request.META.get("REMOTE_ADDR", ""))
    with transaction.atomic():
        record(actor, "session.login", subject=user)
        if not settings.SLIPWAY_PASSWORD_LOGIN and is_break_glass(user.username):
            record(actor, BREAK_GLASS, subject=user)
            announce(BREAK_GLASS, username=user.username, address=actor.address)
    # Nobody else clears the table: what has expired goes when somebody comes.
    SessionStore.clear_expired()


def note_lockout(*, request: HttpRequest, username: str, ip_address: str | None, **__: Any) -> None:
    # Set by the failure that locks; the refused attempts after it would only fill the record.
    if getattr(request, "axes_failures_since_start", None) is None:
        return
    with transaction.atomic():
        record(
            Actor(name="anonymous", address=ip_address or "", via="web"),
            "session.lockout",
            subject=username,
            detail={"failures": request.axes_failures_since_start},  # type: ignore[attr-defined]
        )


def note_new_password(*, request: HttpRequest, user: User, **__: Any) -> None:
    with transaction.atomic():
        record(actors.of_request(request), "user.change_password", subject=user)


def connect() -> None:
    from axes.signals import user_locked_out

    password_changed.connect(note_new_password, dispatch_uid="accounts.note_new_password")
    user_logged_in.connect(note_login, dispatch_uid="accounts.note_login")
    user_locked_out.connect(note_lockout, dispatch_uid="accounts.note_lockout")
