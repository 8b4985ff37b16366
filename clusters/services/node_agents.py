from datetime import datetime

from django.db import transaction

from accounts.models import ApiToken, User
from accounts.services.rights import require_for_owner
from accounts.services.tokens import IssuedToken, create_token, revoke_token
from accounts.states import Right
from clusters.models import Cluster, NodeAgent
from common.actor import Actor


def issue_node_token(
    *, actor: Actor, cluster: Cluster, node_uid: str, owner: User, name: str, expires_at: datetime
) -> IssuedToken:
    """A token that reports this machine and no other; those that it had before are revoked.

    Raises NotAllowed, Invalid.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    with transaction.atomic():
        former = NodeAgent.objects.filter(cluster=cluster, node_uid=node_uid).values("token")
        old = list(ApiToken.objects.filter(pk__in=former, revoked_at=None))
        issued = create_token(
            actor=actor, owner=owner, name=name, scopes=[Right.FLEET_REPORT], expires_at=expires_at
        )
        for token in old:
            revoke_token(actor=actor, token=token, reason="renewed")
        NodeAgent.objects.create(cluster=cluster, node_uid=node_uid, token=issued.token)
    return issued
