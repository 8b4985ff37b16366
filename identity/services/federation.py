"""Service accounts that CI systems use by their own tokens: which are accepted, and what for."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.models import Membership, User
from accounts.services.rights import require, require_everywhere
from accounts.services.tokens import IssuedToken, issue_exchanged
from accounts.states import AccountKind, Right
from common import clock
from common.actor import Actor
from common.audit import record
from common.characters import hidden
from common.errors import Conflict, Invalid, NotAllowed
from common.texts import hidden_fault
from identity.errors import BadAssertion, ExchangeRefused
from identity.federation import TokenRequirements, names_an_owner
from identity.models import FederatedCredential
from identity.patterns import MAX_PATTERN
from identity.services.acceptance import accepted
from identity.services.refusals import note_refusal

LONGEST_MINUTES = 12 * 60
MAX_CLAIMS = 20
CHANGEABLE = ("name", "issuer", "audience", "subject", "claims", "scopes", "minutes", "is_single_use")


def require_over(actor: Actor, account: User) -> None:
    """Raises NotAllowed unless the actor manages people in every team that the service account is in."""
    teams = list(Membership.objects.filter(user=account).select_related("team"))
    if not teams:
        require_everywhere(actor, Right.PEOPLE_ADMIN)
    for membership in teams:
        require(actor, Right.PEOPLE_ADMIN, membership.team)


def may_manage(actor: Actor, account: User) -> bool:
    """Whether `require_over` lets the actor pass."""
    try:
        require_over(actor, account)
    except NotAllowed:
        return False
    return True


def create_credential(*, actor: Actor, account: User, reason: str = "", **given: Any) -> FederatedCredential:
    """Raises NotAllowed, Invalid, Conflict for a second one of a name."""
    require_over(actor, account)
    if account.kind != AccountKind.SERVICE:
        raise Invalid(fields={"account": [_("%(name)s is no service account.") % {"name": account}]})
    given.setdefault("audience", settings.SLIPWAY_PUBLIC_URL)
    made = FederatedCredential(account=account, created_by=actor.name, **given)
    _validate(made)
    try:
        with transaction.atomic():
            made.save(force_insert=True)
            _record(actor, "federated_credential.create", made, reason)
    except IntegrityError:
        raise Conflict(_("This account has a credential of this name already.")) from None
    return made


def change_credential(
    *,
    actor: Actor,
    credential: FederatedCredential,
    expected: int | None = None,
    reason: str = "",
    **changed: Any,
) -> FederatedCredential:
    """Raises NotAllowed, Invalid, Stale, Conflict."""
    require_over(actor, credential.account)
    for name, value in changed.items():
        setattr(credential, name, value)
    _validate(credential)
    try:
        with transaction.atomic():
            credential.change(expected=expected, **{name: getattr(credential, name) for name in changed})
            _record(actor, "federated_credential.change", credential, reason)
    except IntegrityError:
        raise Conflict(_("This account has a credential of this name already.")) from None
    return credential


def delete_credential(
    *, actor: Actor, credential: FederatedCredential, expected: int | None = None, reason: str = ""
) -> None:
    """Tokens that it has given live to their end, minutes. Raises NotAllowed, Stale."""
    require_over(actor, credential.account)
    with transaction.atomic():
        credential.change(expected=expected)
        _record(actor, "federated_credential.delete", credential, reason)
        FederatedCredential.objects.filter(pk=credential.pk).delete()


def exchange(assertion: str, *, account: str = "", address: str = "") -> IssuedToken:
    """A token of Slipway, for minutes, for a token that a CI system has signed.

    `account`: the service account; needed where a token fits credentials of several. Raises ExchangeRefused,
    whose sentence tells the caller no more than that; the audit record says why.
    """
    try:
        credential, claims = accepted(assertion, account)
    except BadAssertion as error:
        note_refusal(address=address, account=account, reason=str(error))
        raise ExchangeRefused(
            _("This token is not accepted. The audit log of the installation says why.")
        ) from None
    owner = credential.account
    actor = Actor(name=owner.username, user_id=owner.pk, address=address, via="api")
    with transaction.atomic():
        FederatedCredential.objects.filter(pk=credential.pk).update(last_used_at=clock.now())
        return issue_exchanged(
            actor=actor,
            owner=owner,
            name=credential.name,
            scopes=credential.scopes,
            lives=timedelta(minutes=credential.minutes),
            detail={
                name: claims[name] for name in ("iss", "sub", "jti", "run_id", "job_id") if name in claims
            },
        )


def _validate(credential: FederatedCredential) -> None:
    faults: dict[str, list[str]] = {}
    for name in ("name", "audience"):
        value = str(getattr(credential, name)).strip()
        setattr(credential, name, value)
        if not value:
            faults[name] = [_("This field is required.")]
        elif found := hidden(value):
            faults[name] = [hidden_fault(found)]
    credential.issuer = credential.issuer.rstrip("/")
    if credential.issuer not in settings.SLIPWAY_CI_ISSUERS:
        known = ", ".join(settings.SLIPWAY_CI_ISSUERS) or "–"
        faults["issuer"] = [_("Use an issuer that SLIPWAY_CI_ISSUERS names: %(known)s.") % {"known": known}]
    if fault := _claims_fault(credential.claims):
        faults["claims"] = [fault]
    elif found := hidden(" ".join((credential.subject, *credential.claims, *credential.claims.values()))):
        faults["subject" if hidden(credential.subject) else "claims"] = [hidden_fault(found)]
    elif any(character.isspace() for character in credential.subject):
        faults["subject"] = [_("A subject has no spaces: no token would fit this one.")]
    elif not names_an_owner(
        credential.issuer, TokenRequirements(credential.audience, credential.subject, credential.claims)
    ):
        faults["subject"] = [
            _(
                "It would accept tokens of strangers. Begin with the owner and a slash (repo:acme/*), or "
                "name a claim such as repository_owner."
            )
        ]
    if fault := _scopes_fault(credential.scopes):
        faults["scopes"] = [fault]
    if not 1 <= credential.minutes <= LONGEST_MINUTES:
        faults["minutes"] = [_("Choose 1 to %(most)s minutes.") % {"most": LONGEST_MINUTES}]
    if faults:
        raise Invalid(fields=faults)
    credential.scopes = sorted({str(scope) for scope in credential.scopes})
    credential.clean_fields()


def _claims_fault(claims: object) -> str:
    usable = isinstance(claims, dict) and all(
        isinstance(name, str) and isinstance(value, str) and 0 < len(name) <= 100 and value
        for name, value in claims.items()
    )
    if not usable or not isinstance(claims, dict) or len(claims) > MAX_CLAIMS:
        return _("Give names of claims and patterns of their values, at most %(most)s.") % {
            "most": MAX_CLAIMS
        }
    if any(len(value) > MAX_PATTERN for value in claims.values()):
        return _("Use at most %(most)s characters.") % {"most": MAX_PATTERN}
    return ""


def _scopes_fault(scopes: Collection[str]) -> str:
    if not scopes:
        return _("Select at least one scope.")
    if unknown := sorted(set(scopes) - set(Right.values)):
        return _("Unknown: %(unknown)s. Known: %(known)s.") % {
            "unknown": ", ".join(unknown),
            "known": ", ".join(Right.values),
        }
    return ""


def _record(actor: Actor, action: str, credential: FederatedCredential, reason: str) -> None:
    detail = {name: getattr(credential, name) for name in CHANGEABLE}
    detail["account"] = credential.account.username
    team_id = Membership.objects.filter(user=credential.account).values_list("team_id", flat=True).first()
    record(actor, action, subject=credential, reason=reason, detail=detail, team_id=team_id)
