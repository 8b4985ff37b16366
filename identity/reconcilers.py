"""The provider is asked, every so often, whether it still accepts the people who have signed in there.

A refresh token that the provider exchanges for another one is stored before the next person's turn. A worker
that dies between the two leaves a token that is void: that person signs in again.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F

from common import clock
from common.reconcile import Operation, Recurring, StepOutcome, lane_at, wait
from common.sealed import CannotUnseal, seal, unseal
from identity import openid
from identity.group_rules import groups_in
from identity.models import Identity, ProviderCheck
from identity.services import sign_on
from identity.services.refusals import record_refusals

AT_ONCE = 10
"""People in one step, which has 30 s."""
WITHIN = timedelta(seconds=15)


class ProviderCheckReconciler(Recurring[ProviderCheck]):
    """While the provider fails, nobody's session ends: the row fails, and Home says since when."""

    model = ProviderCheck
    name = "check people"

    def lane_of(self, row: ProviderCheck) -> str:
        issuer = settings.SLIPWAY_OIDC_SERVER_URL
        return lane_at("identity", issuer) if issuer else ""

    def observe(self, row: ProviderCheck, operation: Operation) -> bool:
        """Whether more people are due. Raises ProviderUnavailable."""
        record_refusals()
        if not settings.SLIPWAY_OIDC_SERVER_URL:
            return False
        began = clock.now()
        due = began - timedelta(minutes=settings.SLIPWAY_OIDC_CHECK_MINUTES)
        found = Identity.objects.filter(checked_at__lte=due, user__suspended_at=None, user__is_active=True)
        found = found.exclude(sealed_refresh_token="").select_related("user").order_by("checked_at")
        for number, identity in enumerate(found[: AT_ONCE + 1]):
            if number == AT_ONCE or clock.now() - began > WITHIN:
                return True
            check(identity)
        return False

    def settle(self, row: ProviderCheck, seen: bool, now: datetime) -> StepOutcome:
        pause = timedelta(minutes=settings.SLIPWAY_OIDC_CHECK_MINUTES) / 10
        return wait(timedelta(0) if seen else min(pause, timedelta(minutes=1)))


def check(identity: Identity) -> None:
    """Ask for one person. Raises ProviderUnavailable."""
    former = identity.sealed_refresh_token
    # Of what they had then; sealed anew under another key it is still the same.
    rows = Identity.objects.filter(pk=identity.pk, checked_at=identity.checked_at)
    rows = rows.exclude(sealed_refresh_token="")
    try:
        answer = openid.ask_for_tokens(
            settings.SLIPWAY_OIDC_SERVER_URL,
            client_id=sign_on.openid_client_id(),
            secret=sign_on.openid_secret(),
            grant={
                "grant_type": "refresh_token",
                "refresh_token": unseal(former, purpose=sign_on.PURPOSE),
            },
        )
    except openid.GrantRefused as error:
        if rows.update(sealed_refresh_token="", checked_at=clock.now()):
            sign_on.drop(identity, reason=f"The identity provider refuses them: {error}")
        return
    except CannotUnseal:
        # Stored under a key that is gone: nothing can be asked until they sign in again.
        rows.update(sealed_refresh_token="")
        return
    renewed = str(answer.get("refresh_token") or "")
    sealed = seal(renewed, purpose=sign_on.PURPOSE) if renewed else F("sealed_refresh_token")
    if not rows.update(sealed_refresh_token=sealed, checked_at=clock.now()):
        return  # They have signed in meanwhile, which says more.
    claims = sign_on.claims_of_refreshed(identity, str(answer.get("id_token") or ""))
    claim = settings.SLIPWAY_GROUPS_CLAIM
    # Many providers put the groups into the first id_token only.
    groups = groups_in(claims, claim) if {claim, claim.partition(".")[0]} & claims.keys() else None
    if groups is not None and groups != identity.groups:
        sign_on.note_groups(identity, groups, reason="Groups at the provider's check")
