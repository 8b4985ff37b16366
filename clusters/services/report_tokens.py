"""By which the workers of a deployment report themselves: made and renewed."""

from datetime import timedelta

from django.db import transaction

from accounts.models import ApiToken
from accounts.services.rights import require
from accounts.services.tokens import IssuedToken, revoke_of_part
from accounts.states import Right
from clusters.models import Deployment, ReportToken
from clusters.services.node_agents import issue_to_machines
from common.actor import Actor

TOKEN_LIFE = timedelta(days=30)


def issue_report_token(
    *, actor: Actor, deployment: Deployment, keep_last: bool = True, reason: str = ""
) -> IssuedToken:
    """A token that reports workers of this deployment, and nothing else.

    Those before it are revoked. The last one stays until it ends or the next one is made if `keep_last`: pods
    have a renewed Secret some minutes later. Where it has leaked, do not keep it. Raises NotAllowed,
    NameTaken when a person has the name of the agents' account.
    """
    require(actor, Right.FLEET_OPERATE, deployment.team_id)
    with transaction.atomic():
        known = ReportToken.objects.filter(deployment=deployment).order_by("-pk")
        kept = known.values_list("token", flat=True)[:1] if keep_last else ()
        old = ApiToken.objects.filter(pk__in=known.values("token"), revoked_at=None)
        for token in old.exclude(pk__in=list(kept)).select_related("owner"):
            revoke_of_part(actor=actor, token=token, reason=reason or "renewed")
        issued = issue_to_machines(
            actor=actor,
            cluster=deployment.cluster,
            name=f"{deployment.name}/reports",
            right=Right.FLEET_REPORT,
            lives=TOKEN_LIFE,
            reason=reason,
            team=deployment.team,
        )
        ReportToken.objects.create(deployment=deployment, token=issued.token)
    return issued
