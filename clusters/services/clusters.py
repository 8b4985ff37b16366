from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services import require_for_owner
from accounts.states import Right
from clusters.errors import NameTaken
from clusters.models import Cluster
from clusters.states import ClusterKind
from common import audit, live
from common.actor import Actor
from common.characters import hidden
from common.reconcile import kernel
from common.texts import hidden_fault


def register_cluster(
    *,
    actor: Actor,
    name: str,
    kind: ClusterKind | str,
    team: Team | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Cluster:
    """A cluster of `team`, or shared by all (for administrators). The same one again changes nothing.

    Raises NotAllowed, ValidationError, NameTaken when another cluster has the name.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, team)
    wanted = Cluster(name=name, kind=kind, team=team, settings=dict(settings or {}))
    wanted.clean_fields()
    with transaction.atomic():
        cluster, is_new = Cluster.objects.get_or_create(
            name=name, defaults={"kind": wanted.kind, "team": team, "settings": wanted.settings}
        )
        if not is_new:
            if (cluster.kind, cluster.team_id, cluster.settings) != (
                wanted.kind,
                wanted.team_id,
                wanted.settings,
            ):
                raise NameTaken(
                    _("There is another cluster with the name %(name)s. Choose another name.")
                    % {"name": name}
                )
            return cluster
        kernel.wake(cluster)
        audit.record(
            actor, "cluster.register", subject=cluster, detail={"kind": wanted.kind}, team_id=wanted.team_id
        )
        live.touch("fleet")
    return cluster


def change_cluster(
    *, actor: Actor, cluster: Cluster, region: str | None = None, expected: int | None = None
) -> Cluster:
    """Change what is given; deployments that were made before keep their images.

    Raises NotAllowed, ValidationError, Stale when the revision is not the `expected` one.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    changes = {}
    if region is not None:
        changes["region"] = cluster.region = region.strip()
        if found := hidden(cluster.region):
            raise ValidationError({"region": hidden_fault(found)})
        cluster.clean_fields()
    with transaction.atomic():
        cluster.change(expected=expected, **changes)
        audit.record(actor, "cluster.change", subject=cluster, detail=changes, team_id=cluster.team_id)
        live.touch("fleet")
    return cluster
