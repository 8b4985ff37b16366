"""Tokens by which the workers of a deployment report: made and renewed."""

from datetime import timedelta

from django.db import transaction

from accounts.models import ApiToken
from accounts.services.rights import require, require_for_owner
from accounts.services.tokens import IssuedToken, revoke_of_part
from accounts.states import Right
from clusters.models import Cluster, Deployment, RelayToken, ReportToken
from clusters.services.node_agents import issue_to_machines
from common.actor import Actor

TOKEN_LIFE = timedelta(days=30)
RELAY_TOKEN_LIFE = timedelta(days=365)


def issue_report_token(
    *, actor: Actor, deployment: Deployment, keep_last: bool = True, reason: str = ""
) -> IssuedToken:
    """A token that reports workers of this deployment, and nothing else.

    Those before it are revoked. The last one stays until it ends or the next one is made if `keep_last`: pods
    have a renewed Secret some minutes later. Where it has leaked, do not keep it. Raises NotAllowed,
    FleetNameTaken when a person has the name of the agents' account.
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


def issue_relay_token(*, actor: Actor, cluster: Cluster, reason: str = "") -> IssuedToken:
    """A token that reports the workers of this cluster for its relay, and nothing else. Of a team's cluster
    it is limited to that team. Those before the last one are revoked. Raises NotAllowed, FleetNameTaken.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    with transaction.atomic():
        known = RelayToken.objects.filter(cluster=cluster).order_by("-pk")
        old = ApiToken.objects.filter(pk__in=known.values("token"), revoked_at=None)
        for token in old.exclude(pk__in=list(known.values_list("token", flat=True)[:1])).select_related(
            "owner"
        ):
            revoke_of_part(actor=actor, token=token, reason=reason or "renewed")
        issued = issue_to_machines(
            actor=actor,
            cluster=cluster,
            name="relay",
            right=Right.FLEET_REPORT,
            lives=RELAY_TOKEN_LIFE,
            reason=reason,
        )
        RelayToken.objects.create(cluster=cluster, token=issued.token)
    return issued
