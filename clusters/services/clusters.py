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
from clusters.errors import HostInUse, InvalidCluster, NameTaken
from clusters.events import ClusterMoved, ClusterRegistered
from clusters.models import Cluster, Deployment
from clusters.states import ON_A_HOST, ClusterKind, DeploymentState
from common import audit, events
from common.actor import Actor
from common.characters import hidden
from common.errors import Invalid
from common.hosts import this_host
from common.live.touch import touch
from common.reconcile import kernel, silent_hosts
from common.reconcile.pulses import living_hosts
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
    One that runs on a host itself runs on this one.

    Raises NotAllowed, ValidationError, InvalidCluster, NameTaken when another cluster has the name.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, team)
    host = this_host() if kind in ON_A_HOST else ""
    wanted = Cluster(name=name, kind=kind, team=team, settings=dict(settings or {}), host=host)
    wanted.sealed_secrets = _with_secrets({}, secrets or {})
    wanted.clean_fields()
    with transaction.atomic():
        existing = Cluster.objects.filter(name=name).first()
        if existing is None:
            _check_connection(wanted)
            columns = ("kind", "team", "settings", "sealed_secrets", "host")
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


def move_cluster(*, actor: Actor, cluster: Cluster, host: str, reason: str) -> Cluster:
    """Another host runs its workers and its gateway from now on. The host that it has already is no error.

    Raises NotAllowed, Invalid without a reason, InvalidCluster for one that runs on no host or for a host
    that does not live, HostInUse while its own lives and has deployments.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    reason, former = reason.strip(), cluster.host
    if not reason:
        raise Invalid(fields={"reason": [_("Give a reason: it is kept in the audit log.")]})
    if host == former != "":
        return cluster
    _check_move(cluster, host)
    with transaction.atomic():
        cluster.host = host
        cluster.change(host=host)
        # What was told to the former host's data plane has to be told to this one's.
        Deployment.objects.filter(cluster=cluster).update(applied_generation=0)
        events.publish(ClusterMoved(cluster.pk))
        silent_hosts.ask_anew(former)
        kernel.wake(cluster)
        detail = {"from": former, "to": host}
        audit.record(
            actor, "cluster.move", subject=cluster, reason=reason, detail=detail, team_id=cluster.team_id
        )
        touch("fleet")
    return cluster


def _check_move(cluster: Cluster, host: str) -> None:
    """Whether another host may run its workers, its gateway with them. Raises InvalidCluster, HostInUse."""
    if cluster.kind not in ON_A_HOST:
        raise InvalidCluster(fields={"host": [_("A cluster of this kind is reached over a network.")]})
    living = living_hosts()
    if host not in living:
        raise InvalidCluster(
            fields={
                "host": [
                    _("No worker or sweeper of %(host)s gives a sign of life. Those that do: %(living)s.")
                    % {"host": host, "living": ", ".join(sorted(living)) or "-"}
                ]
            }
        )
    serves = Deployment.objects.filter(cluster=cluster).exclude(state=DeploymentState.REMOVED)
    if cluster.host in living and serves.exists():
        raise HostInUse(
            _(
                "%(host)s is alive, and deployments have workers there (%(number)d), which would go on "
                "beside the new ones. End the services, or, if the machine is to be given up, stop its "
                "worker and sweeper; a minute later the cluster can be moved."
            )
            % {"host": cluster.host, "number": serves.count()}
        )


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
