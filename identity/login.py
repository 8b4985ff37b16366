"""Single sign-on at the door: who comes that way, what they are told, and what is kept of it."""

import logging
import time
from typing import Any, cast

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.crypto import constant_time_compare

from accounts import login as door
from accounts.models import User
from common.actor import Actor
from common.audit import record
from common.characters import without_hidden
from identity import saml
from identity.group_rules import groups_in
from identity.saml_logout import SamlSession
from identity.services.provisioning import linked_person
from identity.services.sign_on import ProviderSignIn, note_session, note_sign_on

logger = logging.getLogger(__name__)
ID_TOKEN = "identity_id_token"  # noqa: S105 (a key of the session)
SAML_SESSION = "identity_saml_session"
_SIGN_ON = "_identity_sign_on"


class SingleSignOnAccountAdapter(door.PasswordAccountAdapter):
    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        """Somebody whom the provider has just vouched for is suspended no longer."""
        response = super().pre_login(request, user, **kwargs)
        social = (kwargs.get("signal_kwargs") or {}).get("sociallogin")
        if response is None and social is not None:
            sign_on = _sign_on(social)
            note_sign_on(user=user, sign_on=sign_on, address=request.META.get("REMOTE_ADDR", ""))
            setattr(request, _SIGN_ON, sign_on)
        return response


class SingleSignOnAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Whom the identity provider vouches for gets an account; teams and roles follow from group rules."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Raises ImmediateHttpResponse for an answer to a question that this browser has not asked."""
        asked = sociallogin.state.get("nonce")
        answered = sociallogin.account.extra_data.get("id_token", {}).get("nonce", "")
        if asked is not None and not constant_time_compare(asked, str(answered)):
            logger.warning("The identity provider's id_token has another nonce than was sent.")
            raise ImmediateHttpResponse(
                render(request, "socialaccount/authentication_error.html", status=403)
            )

        self._link(sociallogin)

    def _link(self, sociallogin: Any) -> None:
        """Link the first sign-in to the account that the provider has provisioned."""
        if sociallogin.is_existing:
            return
        claims = _claims(sociallogin)
        user = linked_person(provider=sociallogin.account.provider, claims=claims)
        if user is not None:
            sociallogin.user = sociallogin.account.user = user
            sociallogin.account.save()

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


def _claims(social: Any) -> dict[str, Any]:
    told = social.account.extra_data
    if social.account.provider == saml.PROVIDER:
        return {name: values[0] for name, values in told.items() if values} | {"sub": social.account.uid}
    return {**(told.get("id_token") or {}), **(told.get("userinfo") or {})}


def _sign_on(social: Any) -> ProviderSignIn:
    told = social.account.extra_data
    session: SamlSession | None = getattr(social, "saml_session", None)
    if social.account.provider == saml.PROVIDER:
        groups = None if saml.groups_left_out(told) else groups_in(told, settings.SLIPWAY_GROUPS_CLAIM)
    else:
        groups = groups_in(_claims(social), settings.SLIPWAY_GROUPS_CLAIM)
    return ProviderSignIn(
        provider=social.account.provider,
        subject=social.account.uid,
        groups=groups,
        refresh_token=(social.token.token_secret if social.token else "") or "",
        sid=session.session_index if session else str((told.get("id_token") or {}).get("sid", ""))[:255],
        id_token=getattr(social, "id_token", ""),
        until=getattr(social, "session_until", None),
        saml_session=session,
    )


def note_login(*, request: HttpRequest, user: User, **_: Any) -> None:
    """The session has its final key only now."""
    sign_on: ProviderSignIn | None = getattr(request, _SIGN_ON, None)
    if sign_on is None:
        return
    if sign_on.id_token:
        request.session[ID_TOKEN] = sign_on.id_token
    if sign_on.saml_session:
        request.session[SAML_SESSION] = sign_on.saml_session.as_json()
    if sign_on.until is not None:
        seconds = int(sign_on.until - time.time())
        request.session.set_expiry(max(60, min(seconds, request.session.get_expiry_age())))
    if not request.session.session_key:
        request.session.create()
    note_session(user=user, sign_on=sign_on, session_key=cast("str", request.session.session_key))


def connect() -> None:
    user_logged_in.connect(note_login, dispatch_uid="identity.note_login")
