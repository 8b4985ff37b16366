"""What follows from a sign-in at the provider, and from the provider's word that somebody has left."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction

from accounts.errors import LastAdmin
from accounts.models import User
from accounts.selectors import is_break_glass
from accounts.services.provisioned import apply_given, end_sessions, resume, suspend
from common import clock
from common.actor import Actor
from common.audit import record
from common.sealed import seal
from common.sessions import stored_key
from identity import assertions, openid, saml
from identity.errors import BadAssertion
from identity.group_rules import given_by
from identity.models import MAX_NAME_ID, Identity, ProviderSession, ProvisionedGroup
from identity.saml_logout import SamlSession
from identity.selectors import rules_in_force

logger = logging.getLogger(__name__)
PURPOSE = "refresh token"
BACKCHANNEL = "http://schemas.openid.net/event/backchannel-logout"
ACTOR = Actor.system("single sign-on")
LONGEST_SINCE_LOGOUT_SECONDS = 300


class ProviderSignIn(NamedTuple):
    """The provider's word on a person who signs in through it."""

    provider: str
    subject: str
    groups: Sequence[str] | None
    """None: it could not say."""
    refresh_token: str = ""
    sid: str = ""
    id_token: str = ""
    until: int | None = None
    """Epoch seconds at which the provider ends its session; None: it does not say."""
    saml_session: SamlSession | None = None
    """By which it is ended at a SAML provider."""


def note_sign_on(*, user: User, sign_on: ProviderSignIn, address: str) -> Identity:
    """Keep what the provider said, give what the group rules give, and lift a suspension."""
    actor = Actor(name="single sign-on", address=address, via="web")
    now = clock.now()
    with transaction.atomic():
        told: dict[str, Any] = {
            "provider": sign_on.provider,
            "subject": sign_on.subject,
            "signed_in_at": now,
            "checked_at": now,
            "sealed_refresh_token": seal(sign_on.refresh_token, purpose=PURPOSE)
            if sign_on.refresh_token
            else "",
        }
        if sign_on.groups is not None:
            told["groups"] = list(sign_on.groups)
        identity, _ = Identity.objects.update_or_create(user=user, defaults=told)
        resume(actor=actor, user=user, reason="The identity provider accepts them again.")
        apply_rules(identity, actor=actor, reason="Groups at sign-in")
    return identity


def apply_rules(identity: Identity, *, actor: Actor, reason: str) -> None:
    """Give the person what the rules give to their groups. The break-glass account is left alone."""
    if is_break_glass(identity.user.username):
        return
    given = given_by(rules_in_force(), groups_of(identity))
    apply_given(actor=actor, user=identity.user, given=given, reason=reason)


def groups_of(identity: Identity) -> Sequence[str]:
    """Groups of a person by the last sign-in or check, and those that the provider keeps here by SCIM."""
    kept = ProvisionedGroup.objects.filter(members=identity.user_id).values_list("name", flat=True)
    return [*identity.groups, *kept]


def note_session(*, user: User, sign_on: ProviderSignIn, session_key: str) -> None:
    """Remember by which session of the provider this browser's began."""
    identity = Identity.objects.get(user=user)
    living = Session.objects.filter(expire_date__gt=clock.now()).values("session_key")
    identity.sessions.exclude(session_key__in=living).delete()
    ProviderSession.objects.update_or_create(
        session_key=stored_key(session_key),
        defaults={"identity": identity, "sid": sign_on.sid, "name_id": _name_id_of(sign_on)},
    )


def _name_id_of(sign_on: ProviderSignIn) -> str:
    return sign_on.saml_session.name_id[:MAX_NAME_ID] if sign_on.saml_session else ""


def log_out_by_saml(*, name_id: str, session_indexes: Sequence[str]) -> None:
    """End the sessions that began at these of the provider, or all of this person's that began there."""
    began = ProviderSession.objects.filter(identity__provider=saml.PROVIDER, name_id=name_id[:MAX_NAME_ID])
    if session_indexes:
        began = began.filter(sid__in=session_indexes)
    for one in began.select_related("identity__user"):
        _end(one)


def log_out_from_provider(logout_token: str) -> None:
    """End what the provider's logout token names (OpenID Connect Back-Channel Logout 1.0, 2.6): the session
    `sid`, or every session of `sub`. Raises BadAssertion, ProviderUnavailable.
    """
    claims = assertions.verified(logout_token, server_url=settings.SLIPWAY_OIDC_SERVER_URL, required=("iat",))
    _judge_logout(claims)
    assertions.use_once(claims)
    subject, sid = str(claims.get("sub", "")), str(claims.get("sid", ""))
    found = Identity.objects.filter(provider=provider_id()).select_related("user")
    if sid:
        sessions = ProviderSession.objects.filter(sid=sid, identity__in=found)
        if subject:
            sessions = sessions.filter(identity__subject=subject)
        for one in sessions.select_related("identity__user"):
            _end(one)
        return
    for identity in found.filter(subject=subject):
        end_sessions(actor=ACTOR, user=identity.user, reason="The identity provider has signed them out.")
        identity.sessions.all().delete()


def _judge_logout(claims: Mapping[str, Any]) -> None:
    if not assertions.is_for(claims, openid_client_id()):
        raise BadAssertion("It is for another audience.")
    events = claims.get("events")
    if not (isinstance(events, Mapping) and BACKCHANNEL in events) or "nonce" in claims:
        raise BadAssertion("It is no logout token.")
    if not (claims.get("sub") or claims.get("sid")):
        raise BadAssertion("It names nobody.")
    if clock.now().timestamp() - float(claims["iat"]) > LONGEST_SINCE_LOGOUT_SECONDS:
        raise BadAssertion("It is too old.")


def _end(session: ProviderSession) -> None:
    with transaction.atomic():
        Session.objects.filter(session_key=session.session_key).delete()
        session.delete()
        record(
            ACTOR,
            "session.end",
            subject=session.identity.user,
            reason="The identity provider has ended the session.",
        )


def drop(identity: Identity, *, reason: str) -> None:
    """The provider accepts the person no longer."""
    try:
        suspend(actor=ACTOR, user=identity.user, reason=reason)
    except LastAdmin:
        with transaction.atomic():
            said = f"Not suspended: nobody else could administer the installation. {reason}"
            record(ACTOR, "user.suspend_refused", subject=identity.user, reason=said[:500])
    identity.sessions.all().delete()


def _app() -> Mapping[str, Any]:
    configured: Any = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {})
    app: Mapping[str, Any] = (configured.get("APPS") or [{}])[0]
    return app


def provider_id() -> str:
    return saml.PROVIDER if settings.SLIPWAY_SAML_METADATA else str(_app().get("provider_id", ""))


def openid_client_id() -> str:
    return str(_app().get("client_id", ""))


def openid_secret() -> str:
    return str(_app().get("secret", ""))


def end_session_url(id_token: str, *, back_to: str) -> str:
    """Return where the provider ends its own session (OpenID Connect RP-Initiated Logout 1.0); empty when
    it offers no such address. Raises ProviderUnavailable.
    """
    address = str(openid.discovery(settings.SLIPWAY_OIDC_SERVER_URL).get("end_session_endpoint", ""))
    if not address.startswith(("https://", "http://")):
        return ""
    asked = {"client_id": openid_client_id(), "post_logout_redirect_uri": back_to}
    if id_token:
        asked["id_token_hint"] = id_token
    return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"


def claims_of_refreshed(identity: Identity, id_token: str) -> Mapping[str, Any]:
    """Return the claims of a new id_token; empty when it is about another person, or cannot be verified."""
    if not id_token:
        return {}
    try:
        claims = assertions.id_token(
            id_token, server_url=settings.SLIPWAY_OIDC_SERVER_URL, client_id=openid_client_id()
        )
    except BadAssertion as error:
        logger.warning("The id_token that came with a refresh of %s is not used: %s", identity, error)
        return {}
    return claims if claims["sub"] == identity.subject else {}


def note_groups(identity: Identity, groups: Sequence[str], *, reason: str) -> None:
    with transaction.atomic():
        Identity.objects.filter(pk=identity.pk).update(groups=list(groups))
        identity.groups = list(groups)
        apply_rules(identity, actor=ACTOR, reason=reason)
