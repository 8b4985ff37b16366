from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.backends.base import SECRET_NAME, Misconfigured
from clusters.backends.configured import SECRETS_PURPOSE, connect
from clusters.errors import InvalidCluster, NameTaken
from clusters.events import ClusterRegistered
from clusters.models import Cluster
from clusters.states import ClusterKind
from common import audit, events
from common.actor import Actor
from common.characters import hidden
from common.live.touch import touch
from common.reconcile import kernel
from common.sealed import seal
from common.texts import hidden_fault


def register_cluster(
    *,
    actor: Actor,
    name: str,
    kind: ClusterKind | str,
    team: Team | None = None,
    settings: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Cluster:
    """A cluster of `team`, or shared by all (for administrators). The same one again changes nothing.

    Raises NotAllowed, ValidationError, InvalidCluster, NameTaken when another cluster has the name.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, team)
    wanted = Cluster(name=name, kind=kind, team=team, settings=dict(settings or {}))
    wanted.sealed_secrets = _with_secrets({}, secrets or {})
    wanted.clean_fields()
    with transaction.atomic():
        existing = Cluster.objects.filter(name=name).first()
        if existing is None:
            _check_connection(wanted)
            columns = ("kind", "team", "settings", "sealed_secrets")
            defaults = {column: getattr(wanted, column) for column in columns}
            cluster, is_new = Cluster.objects.get_or_create(name=name, defaults=defaults)
        else:
            cluster, is_new = existing, False
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
        events.publish(ClusterRegistered(cluster.pk))
        touch("fleet")
    return cluster


def change_cluster(
    *,
    actor: Actor,
    cluster: Cluster,
    region: str | None = None,
    settings: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str | None] | None = None,
    expected: int | None = None,
) -> Cluster:
    """Change what is given; deployments that were made before keep their images.

    `settings` replace all settings, `secrets` those of their names (None removes one). The cluster is
    connected to anew with the next step of anything that asks it. Raises NotAllowed, ValidationError,
    InvalidCluster, Stale when the revision is not the `expected` one.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    changes: dict[str, Any] = {}
    detail: dict[str, Any] = {}
    if region is not None:
        changes["region"] = cluster.region = detail["region"] = region.strip()
        if found := hidden(cluster.region):
            raise ValidationError({"region": hidden_fault(found)})
    if settings is not None:
        changes["settings"] = cluster.settings = detail["settings"] = dict(settings)
    if secrets:
        cluster.sealed_secrets = _with_secrets(cluster.sealed_secrets, secrets)
        changes["sealed_secrets"] = cluster.sealed_secrets
        detail["secrets"] = sorted(secrets)
    cluster.clean_fields()
    if settings is not None or secrets:
        _check_connection(cluster)
    with transaction.atomic():
        cluster.change(expected=expected, **changes)
        kernel.wake(cluster)
        audit.record(actor, "cluster.change", subject=cluster, detail=detail, team_id=cluster.team_id)
        touch("fleet")
    return cluster


def _with_secrets(sealed: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    found = dict(sealed)
    for name, secret in changes.items():
        found.pop(name, None)
        if not SECRET_NAME.fullmatch(name):
            message = _("%(name)s cannot name a secret: use lower-case letters, digits, hyphens and dots.")
            raise InvalidCluster(fields={"secrets": [message % {"name": name}]})
        if secret is not None:
            found[name] = seal(secret, purpose=SECRETS_PURPOSE)
    return found


def _check_connection(cluster: Cluster) -> None:
    """Raises InvalidCluster with what its backend says against its settings."""
    try:
        connect(cluster)
    except Misconfigured as error:
        raise InvalidCluster(fields={"settings": [str(error)]}) from None
