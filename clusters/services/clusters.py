from collections.abc import Mapping
from hmac import compare_digest
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.backends.base import SECRET_NAME, Misconfigured
from clusters.backends.configured import SECRETS_PURPOSE, connect
from clusters.backends.kinds import abilities_of
from clusters.backends.labels import is_label
from clusters.errors import FleetNameTaken, HostInUse, InvalidCluster
from clusters.events import ClusterMoved, ClusterRegistered
from clusters.models import Cluster, Deployment
from clusters.services.cluster_removal import refuse_if_it_goes
from clusters.states import ClusterKind, DeploymentState
from common import audit, clock, events
from common.actor import Actor
from common.characters import hidden
from common.errors import Invalid
from common.hosts import this_host
from common.live.touch import touch
from common.reconcile import kernel, silent_hosts
from common.reconcile.pulses import living_hosts
from common.sealed import CannotUnseal, seal, unseal
from common.texts import hidden_fault

MOST_LABELS = 32
RESERVED = frozenset({"manifest"})


def register_cluster(
    *,
    actor: Actor,
    name: str,
    kind: ClusterKind | str,
    team: Team | None = None,
    region: str = "",
    provider: str = "",
    labels: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Cluster:
    """A cluster of `team`, or shared by all (for administrators). The same one again changes nothing.
    One that runs on a host itself runs on this one. It is looked at and checked from now on.

    Raises NotAllowed, ValidationError, InvalidCluster, FleetNameTaken when another cluster has the name.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, team)
    host = this_host() if abilities_of(kind).runs_on_host else ""
    wanted = Cluster(
        name=name,
        kind=kind,
        team=team,
        region=region.strip(),
        provider=provider.strip(),
        labels=dict(sorted((labels or {}).items())),
        settings=dict(settings or {}),
        host=host,
    )
    wanted.sealed_secrets = _with_secrets({}, secrets or {})
    wanted.clean_fields()
    _check_words(wanted)
    with transaction.atomic():
        existing = Cluster.objects.present().filter(name=name).first()
        if existing is None:
            _check_connection(wanted)
            columns = ("kind", "team", "settings", "sealed_secrets", "host")
            defaults = {column: getattr(wanted, column) for column in columns} | _described(wanted)
            cluster, is_new = Cluster.objects.get_or_create(name=name, removed_at=None, defaults=defaults)
        else:
            cluster, is_new = existing, False
        if not is_new:
            if not _is_same(cluster, wanted, secrets or {}):
                raise FleetNameTaken(
                    _(
                        "There is another cluster with the name %(name)s. Choose another name, or change "
                        "that one."
                    )
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
    provider: str | None = None,
    labels: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str | None] | None = None,
    expected: int | None = None,
) -> Cluster:
    """Change what is given; deployments that were made before keep their images.

    `settings` replace all settings, `labels` all labels, `secrets` those of their names (None removes one).
    The cluster is connected to anew with the next step of anything that asks it, and checked. Raises
    NotAllowed, ValidationError, InvalidCluster, Stale when the revision is not the `expected` one.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    changes: dict[str, Any] = {}
    detail: dict[str, Any] = {}
    if region is not None:
        changes["region"] = cluster.region = detail["region"] = region.strip()
    if provider is not None:
        changes["provider"] = cluster.provider = detail["provider"] = provider.strip()
    if labels is not None:
        changes["labels"] = cluster.labels = detail["labels"] = dict(sorted(labels.items()))
    if settings is not None:
        changes["settings"] = cluster.settings = detail["settings"] = dict(settings)
    if secrets:
        cluster.sealed_secrets = _with_secrets(cluster.sealed_secrets, secrets)
        changes["sealed_secrets"] = cluster.sealed_secrets
        detail["secrets"] = sorted(secrets)
    cluster.clean_fields()
    _check_words(cluster)
    if settings is not None or secrets:
        _check_connection(cluster)
        changes["check_asked_at"] = clock.now()
    with transaction.atomic():
        cluster.change(expected=expected, **changes)
        kernel.wake(cluster)
        audit.record(actor, "cluster.change", subject=cluster, detail=detail, team_id=cluster.team_id)
        touch("fleet")
    return cluster


def check_cluster(*, actor: Actor, cluster: Cluster) -> Cluster:
    """Have everything that it must let Slipway do looked at anew; its row has the results within seconds.

    Raises NotAllowed, ClusterRemoving.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    with transaction.atomic():
        refuse_if_it_goes(cluster)
        kernel.wake(cluster, check_asked_at=clock.now())
        audit.record(actor, "cluster.check", subject=cluster, team_id=cluster.team_id)
        touch("fleet")
    cluster.refresh_from_db()
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
    if not abilities_of(cluster.kind).runs_on_host:
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


def _is_same(cluster: Cluster, wanted: Cluster, secrets: Mapping[str, str]) -> bool:
    """Tell whether the given fields are the same; fields that people changed since make no other cluster."""
    if (cluster.kind, cluster.team_id, cluster.settings) != (wanted.kind, wanted.team_id, wanted.settings):
        return False
    if any(said and getattr(cluster, name) != said for name, said in _described(wanted).items()):
        return False
    return all(_has_secret(cluster, name, secret) for name, secret in secrets.items())


def _described(cluster: Cluster) -> dict[str, Any]:
    return {name: getattr(cluster, name) for name in ("region", "provider", "labels")}


def _has_secret(cluster: Cluster, name: str, secret: str) -> bool:
    try:
        held = unseal(cluster.sealed_secrets.get(name, ""), purpose=SECRETS_PURPOSE)
    except CannotUnseal:
        return False
    return compare_digest(held.encode(), secret.encode())


def _check_words(cluster: Cluster) -> None:
    """Raises ValidationError, InvalidCluster."""
    if cluster.name in RESERVED:
        raise ValidationError({"name": _("That name is taken by an address of the API: choose another one.")})
    for column in ("region", "provider"):
        if found := hidden(getattr(cluster, column)):
            raise ValidationError({column: hidden_fault(found)})
    if len(cluster.labels) > MOST_LABELS:
        raise InvalidCluster(
            fields={"labels": [_("At most %(most)d labels are possible.") % {"most": MOST_LABELS}]}
        )
    for key, value in cluster.labels.items():
        if not (isinstance(value, str) and is_label(key, value)):
            raise InvalidCluster(
                fields={
                    "labels": [
                        _(
                            "%(key)s is no label: keys and values have letters, digits, '-', '_' and '.', at "
                            "most 63 of them."
                        )
                        % {"key": key}
                    ]
                }
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
        raise InvalidCluster(fields={error.about: [str(error)]}) from None
