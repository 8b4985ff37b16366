"""What happens at the door: nobody signs up, single sign-on brings people without a team, failures lock."""

from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from allauth.account.signals import password_changed
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from axes.helpers import get_cool_off
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts import actors
from accounts.models import User
from common.actor import Actor
from common.audit import record
from common.characters import without_hidden
from common.sessions import SessionStore


class PasswordBackend(AuthenticationBackend):  # type: ignore[misc]
    """By name and password; a session, however it came to be, is no machine's."""

    def user_can_authenticate(self, user: User | None) -> bool:
        return super().user_can_authenticate(user) and not (user is not None and user.is_machine)


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        """By password and by single sign-on alike: a response instead of a session."""
        if user.is_machine:
            request.session.flush()
            return redirect("account_inactive")
        return cast("HttpResponse | None", super().pre_login(request, user, **kwargs))


class SingleSignOnAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Whom the identity provider vouches for gets an account, but no team: an admin adds them to one."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> User:
        told = {name: without_hidden(said) if isinstance(said, str) else said for name, said in data.items()}
        return cast("User", super().populate_user(request, sociallogin, told))

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        with transaction.atomic():
            user: User = super().save_user(request, sociallogin, form)
            record(
                Actor(name="single sign-on", address=request.META.get("REMOTE_ADDR", ""), via="web"),
                "user.create",
                subject=user,
                detail={"provider": sociallogin.account.provider, "uid": sociallogin.account.uid},
            )
        return user


def lockout_name(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str:
    """The name that failures are counted for. Names differ by case for nobody, so not here either."""
    name = (
        (credentials or {}).get("username") or request.POST.get("login") or request.POST.get("username", "")
    )
    return str(name).strip().casefold()[:255]


def locked_out(request: HttpRequest, *_: Any) -> HttpResponse:
    """The answer to every login from an address that failed too often with this name."""
    name, address = lockout_name(request), getattr(request, "axes_ip_address", None)
    attempts = AccessAttempt.objects.filter(username=name, ip_address=address).order_by("-attempt_time")
    began, failures = attempts.values_list("attempt_time", "failures_since_start").first() or (
        timezone.now(),
        settings.AXES_FAILURE_LIMIT,
    )
    until = began + get_cool_off(request)
    context = {"name": name, "until": until, "failures": failures}
    response = render(request, "account/locked_out.html", context, status=429)
    response["Retry-After"] = str(max(1, round((until - timezone.now()).total_seconds())))
    return response


def note_login(*, request: HttpRequest, user: User, **_: Any) -> None:
    with transaction.atomic():
        record(
            actors.of_user(user, address=request.META.get("REMOTE_ADDR", "")), "session.login", subject=user
        )
    # Nobody else clears the table: what has expired goes when somebody comes.
    SessionStore.clear_expired()


def note_lockout(*, request: HttpRequest, username: str, ip_address: str | None, **_: Any) -> None:
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


def note_new_password(*, request: HttpRequest, user: User, **_: Any) -> None:
    with transaction.atomic():
        record(actors.of_request(request), "user.change_password", subject=user)


def connect() -> None:
    from axes.signals import user_locked_out

    password_changed.connect(note_new_password, dispatch_uid="accounts.note_new_password")
    user_logged_in.connect(note_login, dispatch_uid="accounts.note_login")
    user_locked_out.connect(note_lockout, dispatch_uid="accounts.note_lockout")
