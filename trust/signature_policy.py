"""Whose signatures a team trusts, what it demands of them, and with which key this installation signs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.states import Right
from common.actor import Actor
from trust.models import SignaturePolicy, TrustedKey
from trust.signing import keys, signers
from trust.signing.keys import PublicKey
from trust.signing.signers import Signer
from trust.states import SignatureDemand, SignatureVerdict

STANDINGS = ("trusted", "invalid", "unknown", "unsigned")


@dataclass(frozen=True, slots=True)
class SignatureStatus:
    """The combined status of a version's signatures.

    `trusted`: a key that the team trusts now has signed its files, and no other signature of it is broken.
    `invalid`: one is broken. `unknown`: nobody whom the team trusts has signed it. `unsigned`: nobody has.
    """

    name: str
    reason: str


def standing(signatures: Sequence[tuple[str, str, str]]) -> SignatureStatus:
    """Judge signatures given as (verdict, reason, name of the trusted key, or empty)."""
    for verdict, reason, _key in signatures:
        if verdict == SignatureVerdict.INVALID:
            return SignatureStatus(
                "invalid", _("A signature of it is broken. %(reason)s") % {"reason": reason}
            )
    for verdict, _reason, key in signatures:
        if verdict == SignatureVerdict.VALID and key:
            return SignatureStatus("trusted", _("Signed by the key %(key)s.") % {"key": key})
    if any(verdict != SignatureVerdict.MISSING for verdict, _, _ in signatures):
        return SignatureStatus("unknown", _("It is signed, but by no key that the team trusts."))
    missing = next((f" {reason}" for _, reason, _ in signatures), "")
    return SignatureStatus("unsigned", _("It is not signed.%(missing)s") % {"missing": missing})


def is_signing() -> bool:
    """Whether a key is set with which versions are to be signed."""
    return bool(settings.SLIPWAY_SIGNING_KEY or settings.SLIPWAY_SIGNING_COMMAND)


def signer() -> Signer | None:
    """Who signs for this installation; None: nobody. Raises CannotSign."""
    if settings.SLIPWAY_SIGNING_KEY:
        return signers.key_file(Path(settings.SLIPWAY_SIGNING_KEY))
    if settings.SLIPWAY_SIGNING_COMMAND:
        public_key = Path(settings.SLIPWAY_SIGNING_PUBLIC_KEY)
        return signers.command(settings.SLIPWAY_SIGNING_COMMAND, public_key)
    return None


def keys_of(team_id: int) -> QuerySet[TrustedKey]:
    """Return the keys that the team trusts now."""
    rows: QuerySet[TrustedKey] = TrustedKey.objects.in_force().filter(team=team_id)
    return rows


def public_keys_of(team_id: int) -> dict[str, PublicKey]:
    """Return the public keys that the team trusts now, by fingerprint."""
    rows = keys_of(team_id).values_list("fingerprint", "pem")
    return {fingerprint: keys.public_key(pem) for fingerprint, pem in rows}


def trusted_keys(actor: Actor, right: Right = Right.READ) -> QuerySet[TrustedKey]:
    """Return the keys of the teams in which the actor has the right, removed ones too."""
    rows: QuerySet[TrustedKey] = TrustedKey.objects.for_actor(actor, right)
    return rows.select_related("team")


def policy_of(team: Team) -> SignaturePolicy:
    """The team's, or one as it is before somebody has said anything."""
    return SignaturePolicy.objects.filter(team=team).first() or SignaturePolicy(team=team)


def demand_of(team_id: int) -> SignatureDemand:
    demand = SignaturePolicy.objects.filter(team=team_id).values_list("demand", flat=True).first()
    return SignatureDemand(demand or SignatureDemand.OFF)
