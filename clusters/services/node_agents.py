"""Whoever reports a machine: the token of its agent, made and taken away."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import ApiToken, Team, User
from accounts.services.people import create_machine
from accounts.services.rights import require_for_owner
from accounts.services.tokens import IssuedToken, issue_for_part, revoke_of_part
from accounts.states import Right
from clusters.errors import FleetNameTaken
from clusters.models import AgentToken, Cluster, Node
from common import audit
from common.actor import Actor
from common.errors import Invalid
from common.live.touch import touch

ROBOT = "node-agents"
"""The account that owns the tokens of all agents."""
TOKEN_LIFE = timedelta(days=365)
LONGEST_NAME = 100


def issue_node_token(
    *,
    actor: Actor,
    cluster: Cluster,
    node_uid: str,
    node_name: str,
    lives: timedelta = TOKEN_LIFE,
    reason: str = "",
) -> IssuedToken:
    """A token that reports this machine and no other; those that it had before are revoked. Of a team's
    cluster it is limited to that team.

    Raises NotAllowed, Invalid, FleetNameTaken when a person has the name of the agents' account.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    with transaction.atomic():
        old = list(_tokens(cluster, node_uid))
        issued = issue_to_machines(
            actor=actor,
            cluster=cluster,
            name=node_name,
            right=Right.FLEET_REPORT,
            lives=lives,
            reason=reason,
        )
        for token in old:
            revoke_of_part(actor=actor, token=token, reason="renewed")
        AgentToken.objects.create(cluster=cluster, node_uid=node_uid, token=issued.token)
        touch("fleet")
    return issued


def remove_node_agent(*, actor: Actor, node: Node, reason: str) -> Node:
    """Its token ends and nobody misses its reports. Of a machine without an agent it changes nothing.

    Raises NotAllowed, Invalid without a reason.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    reason = reason.strip()
    if not reason:
        raise Invalid(fields={"reason": [_("Give a reason: it is kept in the audit log.")]})
    with transaction.atomic():
        for token in _tokens(node.cluster, node.uid):
            revoke_of_part(actor=actor, token=token, reason=reason)
        gone, _kinds = AgentToken.objects.filter(cluster=node.cluster, node_uid=node.uid).delete()
        if gone:
            Node.objects.filter(pk=node.pk).update(agent_silent_since=None)
            node.agent_silent_since = None
            audit.record(
                actor, "node.remove_agent", subject=node, reason=reason, team_id=node.cluster.team_id
            )
            touch("fleet")
    return node


def _tokens(cluster: Cluster, node_uid: str) -> "list[ApiToken]":
    agents = AgentToken.objects.filter(cluster=cluster, node_uid=node_uid).values("token")
    return list(ApiToken.objects.select_related("owner").filter(pk__in=agents, revoked_at=None))


def issue_to_machines(
    *,
    actor: Actor,
    cluster: Cluster,
    name: str,
    right: Right,
    lives: timedelta,
    reason: str,
    team: Team | None = None,
) -> IssuedToken:
    """A token of machines of this cluster, with one right, which whoever calls has checked that the actor may
    give away; `name` follows the cluster's. It is limited to `team`, or else to the cluster's. Raises
    Invalid, FleetNameTaken when a person has the account's name.
    """
    return issue_for_part(
        actor=actor,
        owner=_robot(),
        name=f"{cluster.name}/{name}"[:LONGEST_NAME],
        scopes=[right],
        team=team or cluster.team,
        expires_at=timezone.now() + lives,
        reason=reason,
    )


def _robot() -> User:
    robot = User.objects.filter(username=ROBOT).first()
    if robot is None:
        return create_machine(actor=Actor.system("clusters"), username=ROBOT)
    if not robot.is_machine:
        raise FleetNameTaken(
            _(
                "The name %(name)s is that of the account by which machines are reported, but a person has "
                "it. Rename that person, then try again."
            )
            % {"name": ROBOT}
        )
    return robot
