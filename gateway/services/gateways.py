"""Writes of a cluster's gateway: what splits its traffic, and where that stands."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters import selectors as fleet
from clusters.backends.kinds import abilities_of
from clusters.models import Cluster
from common import audit, clock
from common.actor import Actor
from common.errors import Invalid
from common.hosts import this_host
from common.live.touch import touch
from common.reconcile import kernel
from common.sentences import listed
from gateway import selectors
from gateway.backends.configured import backends_of, look_at
from gateway.errors import GatewayInUse, GatewayTaken, InvalidGateway
from gateway.models import Gateway, Route, sealed_secrets
from gateway.states import ON_A_HOST, GatewayKind, MetricsKind

LATE_WRITERS = timedelta(minutes=5)
"""Far longer than any lease of the reconcile kernel: a route's fence is kept so long."""


def set_gateway(
    *,
    actor: Actor,
    cluster: Cluster,
    kind: str,
    settings: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    metrics: str = MetricsKind.GATEWAY,
    public_url: str = "",
    expected: int | None = None,
) -> Gateway:
    """Say what splits the cluster's traffic; its routes follow within seconds.

    `secrets`: None keeps those that are known. Raises NotAllowed, ValidationError, InvalidGateway,
    GatewayTaken when another cluster's gateway has one of its ports, Stale when the revision is not the
    `expected` one.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    before = Gateway.objects.filter(cluster=cluster).first()
    sealed = sealed_secrets(secrets) if secrets is not None else before.sealed_secrets if before else ""
    columns = {
        "kind": kind,
        "settings": dict(settings or {}),
        "sealed_secrets": sealed,
        "metrics": metrics,
        "public_url": public_url,
        "host": (cluster.host or this_host()) if kind in ON_A_HOST else "",
    }
    desired = Gateway(cluster=cluster, **columns)
    desired.clean_fields()
    with transaction.atomic():
        _refuse_taken(desired)
        if before is None:
            row = Gateway.objects.create(cluster=cluster, **columns)
        else:
            row = before
            row.change(expected=expected, **columns)
            # What it was told at its old place it has to be told at the new one.
            Route.objects.filter(gateway=row).update(applied_at=None)
        kernel.wake(row)
        shown = {name: value for name, value in columns.items() if name != "sealed_secrets"}
        detail = shown | {"secrets": sorted(secrets or ())}
        audit.record(actor, "gateway.set", subject=row, detail=detail, team_id=cluster.team_id)
        touch("fleet")
    return row


def remove_gateway(gateway: Gateway, *, actor: Actor, reason: str = "", expected: int | None = None) -> None:
    """Forget what splits the cluster's traffic, its secrets with it; the audit names routes that it could not
    be told to drop.

    Raises NotAllowed; Invalid without a reason; GatewayInUse naming what leads through it, or just did;
    Stale.
    """
    cluster = gateway.cluster
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    reason = reason.strip()
    if not reason:
        raise Invalid(fields={"reason": [_("Give a reason: it is kept in the audit log.")]})
    with transaction.atomic():
        gateway.change(expected=expected)
        if present := selectors.routes_through(cluster):
            raise GatewayInUse(
                _("The gateway of %(cluster)s is in use: %(uses)s. End these first.")
                % {"cluster": cluster.name, "uses": listed(present)}
            )
        routes = Route.objects.filter(gateway=gateway)
        if routes.filter(removed_at__gte=clock.now() - LATE_WRITERS).exists():
            raise GatewayInUse(
                _("The gateway of %(cluster)s lost a route a moment ago. Try again in %(minutes)d min.")
                % {"cluster": cluster.name, "minutes": LATE_WRITERS // timedelta(minutes=1)}
            )
        left = list(routes.filter(applied_at=None).order_by("service").values_list("service", flat=True))
        audit.record(
            actor,
            "gateway.remove",
            subject=gateway,
            reason=reason,
            detail={"left_there": left},
            team_id=cluster.team_id,
        )
        routes.delete()
        gateway.delete()
        touch("fleet")


def ensure_gateway(cluster: Cluster, *, actor: Actor) -> Gateway | None:
    """The cluster's gateway; made on clusters of a host, unless another cluster has it. For inside a
    transaction."""
    present = Gateway.objects.filter(cluster=cluster).first()
    if present is not None or not abilities_of(cluster.kind).runs_on_host:
        return present
    with suppress(GatewayTaken):
        return set_gateway(actor=actor, cluster=cluster, kind=GatewayKind.ENVOY)
    return None


def follow_cluster(cluster: Cluster) -> None:
    """Its gateway stands where it does now, and is told everything anew. For inside a transaction."""
    for row in Gateway.objects.filter(cluster=cluster, kind__in=ON_A_HOST):
        row.change(host=cluster.host)
        Route.objects.filter(gateway=row).update(applied_at=None)
        kernel.wake(row)


def look_soon(deployment_id: int) -> None:
    """Have the gateway's own reconciler, on whichever host, see to the workers of a deployment."""
    for row in Gateway.objects.filter(cluster__in=fleet.cluster_of(deployment_id)):
        kernel.wake(row)


def _refuse_taken(desired: Gateway) -> None:
    """Raises GatewayTaken, InvalidGateway."""
    occupied = look_at(desired).occupies
    others = Gateway.objects.filter(host=desired.host, cluster__removed_at=None)
    others = others.exclude(cluster=desired.cluster)
    for other in others.select_related("cluster"):
        try:
            taken = sorted(occupied & backends_of(other).occupies)
        except InvalidGateway:
            continue
        if taken:
            raise GatewayTaken(
                _("The gateway of %(cluster)s has %(taken)s already. Choose others in its settings.")
                % {"cluster": other.cluster.name, "taken": ", ".join(taken)}
            )
