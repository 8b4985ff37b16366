from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from common import audit, events, texts
from common.actor import Actor
from common.errors import Invalid, NameTaken, WrongState
from trust.errors import BadKey
from trust.events import KeyTrusted
from trust.models import SignaturePolicy, TrustedKey
from trust.signing import keys
from trust.states import SignatureDemand

MAX_KEYS = 50


def trust_key(*, actor: Actor, team: Team, name: str, pem: str, reason: str) -> TrustedKey:
    """Take signatures by this key for good from now on; versions that have one are looked at again.

    Raises NotAllowed, Invalid for a key that cannot be used, NameTaken.
    """
    require(actor, Right.SIGNATURES_ADMIN, team)
    why, called = texts.demanded_reason(reason), texts.name("name", name, limit=63)
    if not called:
        raise Invalid(fields={"name": [_("Give it a name that people know it by.")]})
    try:
        key = keys.public_key(pem)
    except BadKey as error:
        raise Invalid(fields={"pem": [str(error)]}) from None
    rows = TrustedKey.objects.in_force().filter(team=team)
    try:
        with transaction.atomic():
            row = TrustedKey.objects.create(
                team=team,
                name=called,
                pem=key.pem,
                fingerprint=key.fingerprint,
                reason=why,
                added_at=timezone.now(),
                added_by=actor.name,
            )
            if rows.count() > MAX_KEYS:
                raise Invalid(
                    fields={
                        "name": [
                            _("A team trusts at most %(max_keys)s keys; remove one first.")
                            % {"max_keys": MAX_KEYS}
                        ]
                    }
                )
            detail = {"name": called, "fingerprint": key.fingerprint}
            audit.record(actor, "key.trust", subject=row, reason=why, detail=detail, team_id=team.pk)
            events.publish(KeyTrusted(row.pk))
    except IntegrityError:
        same = rows.filter(fingerprint=key.fingerprint).first()
        if same:
            sentence = _("Team %(team)s trusts the same key already, as %(key)s.")
        else:
            sentence = _("Team %(team)s trusts another key with the name %(key)s already.")
        raise NameTaken(sentence % {"team": team.name, "key": same.name if same else called}) from None
    return row


def distrust_key(*, actor: Actor, key: TrustedKey, reason: str) -> TrustedKey:
    """Its signatures count for nothing from now on; what is served goes on. Raises NotAllowed, WrongState."""
    require(actor, Right.SIGNATURES_ADMIN, key.team)
    why, now = texts.demanded_reason(reason), timezone.now()
    with transaction.atomic():
        rows = TrustedKey.objects.in_force().filter(pk=key.pk)
        if not rows.update(removed_at=now, removed_by=actor.name):
            raise WrongState(_("This key was removed already."))
        detail = {"name": key.name, "fingerprint": key.fingerprint}
        audit.record(actor, "key.distrust", subject=key, reason=why, detail=detail, team_id=key.team_id)
    key.refresh_from_db()
    return key


def demand_signatures(
    *, actor: Actor, team: Team, demand: str, reason: str, expected: int | None = None
) -> SignaturePolicy:
    """Say what becomes of versions without a trusted signature that are to be served from now on.

    Raises NotAllowed, Invalid, Stale.
    """
    require(actor, Right.SIGNATURES_ADMIN, team)
    why = texts.demanded_reason(reason)
    if demand not in SignatureDemand.values:
        raise Invalid(
            fields={"demand": [_("Choose from %(values)s.") % {"values": ", ".join(SignatureDemand.values)}]}
        )
    with transaction.atomic():
        row, _created = SignaturePolicy.objects.get_or_create(team=team, defaults={"changed_by": actor.name})
        detail = {"from": row.demand, "to": demand}
        row.change(
            expected=expected,
            demand=demand,
            reason=why,
            changed_at=timezone.now(),
            changed_by=actor.name,
        )
        audit.record(actor, "signatures.demand", subject=row, reason=why, detail=detail, team_id=team.pk)
    return row
