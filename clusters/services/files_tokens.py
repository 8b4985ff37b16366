"""Tokens by which a cluster's machines fetch model files: made, renewed and revoked."""

from datetime import timedelta

from django.db import transaction

from accounts.models import ApiToken
from accounts.services.rights import require_for_owner
from accounts.services.tokens import IssuedToken, revoke_of_part
from accounts.states import Right
from clusters.models import Cluster, FilesToken
from clusters.services.node_agents import TOKEN_LIFE, issue_to_machines
from common.actor import Actor


def issue_files_token(
    *,
    actor: Actor,
    cluster: Cluster,
    lives: timedelta = TOKEN_LIFE,
    keep_last: bool = True,
    reason: str = "",
) -> IssuedToken:
    """A token that reads the files of versions that run on this cluster, and nothing else. Of a team's
    cluster it is limited to that team.

    Those before it are revoked. The last one stays until the next renewal if `keep_last`: fetches that are
    under way began with it, and pods hear of a renewed Secret only when they start. Where it has leaked, do
    not keep it. Raises NotAllowed, Invalid, FleetNameTaken when a person has the name of the agents'
    account.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    with transaction.atomic():
        known = FilesToken.objects.filter(cluster=cluster).order_by("-pk")
        kept = known.values_list("token", flat=True)[:1] if keep_last else ()
        old = ApiToken.objects.select_related("owner").filter(
            pk__in=known.values("token"), revoked_at=None
        )  # fmt: skip
        for token in old.exclude(pk__in=list(kept)):
            revoke_of_part(actor=actor, token=token, reason=reason or "renewed")
        issued = issue_to_machines(
            actor=actor,
            cluster=cluster,
            name="model-files",
            right=Right.FLEET_FETCH,
            lives=lives,
            reason=reason,
        )
        FilesToken.objects.create(cluster=cluster, token=issued.token)
    return issued
