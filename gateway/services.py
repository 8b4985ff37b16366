"""Every write to gateways and routes. A route's row says what is desired; its fence is checked here and by
the gateway.

A write of a route waits for the gateway, some 10 to 300 ms: call it outside of a transaction.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters import selectors as fleet
from clusters.backends.kinds import abilities_of
from clusters.errors import DeploymentMissing
from clusters.models import Cluster
from common import audit, clock, events
from common.actor import Actor
from common.errors import Invalid
from common.fence import Fence
from common.hosts import this_host
from common.live.touch import touch
from common.reconcile import kernel
from common.sentences import listed
from gateway import selectors
from gateway.backends import checks
from gateway.backends.configured import backends_of, gateway_of, look_at, traffic_backend_of
from gateway.errors import (
    GatewayError,
    GatewayInUse,
    GatewayTaken,
    InvalidGateway,
    InvalidRoute,
    StaleRouteFence,
)
from gateway.events import RouteChanged
from gateway.models import Gateway, Route, sealed_key, sealed_secrets
from gateway.route_columns import fence_columns, spec_columns, summary
from gateway.routes import (
    ReleaseHeader,
    RouteSpec,
    RouteTarget,
    WorkerEndpoint,
)
from gateway.states import ON_A_HOST, GatewayKind, MetricsKind

ACTOR = Actor.system("gateway")
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


def set_route(spec: RouteSpec, *, cluster: Cluster, fence: Fence, actor: Actor, reason: str = "") -> Route:
    """Make the service's route at the cluster's gateway be `spec`, weights included, creating it if needed;
    returns when the gateway has taken it.

    Who may choose a side is said by `spec` only for a route that is new: after that by `set_release_header`.
    Repeating it is safe, and only a change is audited. Raises StaleRouteFence when a later writer was here;
    InvalidRoute, with the route as it was, when the gateway would refuse it; GatewayUnreachable and
    GatewayBusy when it has not taken it yet: then it is kept, and applied as soon as it can be. NoGateway.
    """
    checks.check_spec(spec)
    gateway = gateway_of(cluster)
    before = _routes().filter(service=spec.name).first()
    if before is not None and before.removed_at is None:
        _refuse_elsewhere(before, gateway)
        kept = before.spec
        spec = replace(spec, release_header=kept.release_header, release_key=kept.release_key)
    row = _record(before, spec, gateway, fence=fence, actor=actor, reason=reason)
    traffic = backends_of(gateway).traffic
    return _apply(row, before, lambda: traffic.set_route(row.applied_spec, fence=fence), actor=actor)


def set_release_header(service: str, header: ReleaseHeader, *, key: str = "", actor: Actor) -> None:
    """Say who may choose a side of the service's route by `x-release`; the gateway is told within seconds.

    For inside a transaction. Without a route nothing is done: `set_route` says it when there is one.
    """
    row = _routes().filter(service=service, removed_at__isnull=True).first()
    if row is None or (row.spec.release_header, row.spec.release_key) == (header, key):
        return
    # Another moment of change: a writer that read the route before is refused and looks again.
    Route.objects.filter(pk=row.pk).update(
        release_header=header,
        sealed_release_key=sealed_key(key),
        changed_at=clock.now(),
        applied_at=None,
        problem="",
    )
    audit.record(
        actor,
        "route.release_header",
        subject=row,
        detail={"from": row.release_header, "to": header},
    )
    events.publish(RouteChanged(row.pk))
    kernel.wake(row.gateway)


def remove_route(service: str, *, fence: Fence, actor: Actor, reason: str = "") -> None:
    """Stop routing; removing what is gone is no error. Raises StaleRouteFence, GatewayUnreachable,
    GatewayBusy.
    """
    before = _routes().filter(service=service).first()
    if before is None:
        return
    with transaction.atomic():
        now = clock.now()
        columns = fence_columns(fence)
        if before.removed_at is None:
            columns |= {"removed_at": now, "changed_at": now, "applied_at": None, "problem": ""}
        row = _write(before, columns, fence)
        if before.removed_at is None:
            audit.record(actor, "route.remove", subject=row, reason=reason)
            events.publish(RouteChanged(row.pk))
    traffic = backends_of(row.gateway).traffic
    _apply(row, before, lambda: traffic.remove_route(service, fence=fence), actor=actor)


def sync_workers(deployment: str) -> None:
    """Tell the gateway of its cluster where the deployment's ready workers are, as they were seen last; an
    observation older than the last is ignored.

    Returns when a worker that was left out gets no new request; those in flight on it run to their end.
    Raises NoGateway, DeploymentMissing, InvalidEndpoint, GatewayUnreachable and GatewayBusy.
    """
    seen = fleet.endpoints(deployment)
    endpoints = [WorkerEndpoint(address, port) for address, port in seen.addresses]
    if not endpoints:
        # Before its last worker goes, so that no request finds nobody there.
        _withhold(deployment, since=clock.now())
    traffic_backend_of(seen.cluster_id).set_target(deployment, endpoints, observed_at=seen.observed_at)
    if endpoints:
        _withhold(deployment, since=None)


def _withhold(candidate: str, *, since: datetime | None) -> None:
    """Have stable get the candidate's requests from now on, or with None the candidate its own again."""
    rows = _routes().filter(candidate_target=candidate, removed_at=None, withheld_since__isnull=bool(since))
    for row in rows:
        with transaction.atomic():
            # Another moment of change: a writer that read the route before is refused and looks again.
            changed = {"withheld_since": since, "changed_at": clock.now(), "applied_at": None}
            if not _same(row).update(**changed):
                continue
            action = "route.withhold" if since else "route.restore"
            reason = "The candidate has no ready worker." if since else "The candidate has a ready worker."
            audit.record(ACTOR, action, subject=row, reason=reason)
            events.publish(RouteChanged(row.pk))
        reapply(_routes().get(pk=row.pk))


def look_soon(deployment_id: int) -> None:
    """Have the gateway's own reconciler, on whichever host, see to the workers of a deployment."""
    for row in Gateway.objects.filter(cluster__in=fleet.cluster_of(deployment_id)):
        kernel.wake(row)


def reapply(row: Route) -> None:
    """Have the gateway do what the row says once more. Raises as `set_route`."""

    def tell() -> None:
        traffic = backends_of(row.gateway).traffic
        if row.removed_at is None:
            traffic.set_route(row.applied_spec, fence=row.fence)
        else:
            traffic.remove_route(row.service, fence=row.fence)

    try:
        tell()
    except GatewayError as error:
        _same(row).update(problem=str(error))
        raise
    _same(row).update(applied_at=clock.now(), problem="")


def _refuse_elsewhere(row: Route, gateway: Gateway) -> None:
    if row.gateway_id != gateway.pk:
        raise InvalidRoute(
            _("%(service)s stands behind the gateway of %(cluster)s: remove its route there first.")
            % {"service": row.service, "cluster": row.gateway}
        )


def _record(
    before: Route | None, spec: RouteSpec, gateway: Gateway, *, fence: Fence, actor: Actor, reason: str
) -> Route:
    """Write down what is desired, and audit it if it is news. Raises StaleRouteFence."""
    is_news = before is None or before.removed_at is not None or before.spec != spec
    with transaction.atomic():
        columns = fence_columns(fence)
        if is_news:
            columns |= spec_columns(spec) | {
                "gateway": gateway,
                "changed_at": clock.now(),
                "removed_at": None,
                "applied_at": None,
                "problem": "",
                "withheld_since": clock.now() if _lacks_workers(spec.candidate) else None,
            }
        row = _create(spec.name, columns) if before is None else _write(before, columns, fence)
        if is_news:
            was = summary(before.spec) if before and before.removed_at is None else None
            detail: dict[str, Any] = {"from": was, "to": summary(spec), "writer": fence.holder}
            if row.withheld_since is not None:
                detail["withheld"] = True
            audit.record(actor, "route.set", subject=row, reason=reason, detail=detail)
            events.publish(RouteChanged(row.pk))
    return row


def _lacks_workers(candidate: RouteTarget | None) -> bool:
    with suppress(DeploymentMissing):
        return candidate is not None and not fleet.endpoints(candidate.name).addresses
    return False


def _create(service: str, columns: Mapping[str, Any]) -> Route:
    try:
        with transaction.atomic():
            return Route.objects.create(service=service, **columns)
    except IntegrityError:
        raise StaleRouteFence(
            _("Another writer has just created the route %(service)s; look again.") % {"service": service}
        ) from None


def _write(row: Route, columns: Mapping[str, Any], fence: Fence) -> Route:
    """Compare and set: who wrote since `row` was read must not have a later fence, nor have changed it."""
    earlier = Q(writer__lt=fence.holder) | Q(writer=fence.holder, writer_turn__lte=fence.turn)
    if not Route.objects.filter(earlier, pk=row.pk, changed_at=row.changed_at).update(**columns):
        now = _routes().get(pk=row.pk)
        checks.refuse_stale(row.service, last=now.fence, fence=fence)
        raise StaleRouteFence(
            _("Another writer has just changed the route %(service)s; look again.") % {"service": row.service}
        )
    return _routes().get(pk=row.pk)


def _apply(row: Route, before: Route | None, tell: Callable[[], None], *, actor: Actor) -> Route:
    try:
        tell()
    except InvalidRoute as error:
        _take_back(row, before, error, actor=actor)
        raise
    except StaleRouteFence:
        raise
    except GatewayError as error:
        _same(row).update(problem=str(error))
        kernel.wake(row.gateway)
        raise
    _same(row).filter(Q(applied_at__isnull=True) | ~Q(problem="")).update(applied_at=clock.now(), problem="")
    return _routes().get(pk=row.pk)


def _take_back(row: Route, before: Route | None, error: InvalidRoute, *, actor: Actor) -> None:
    """The gateway goes on with what it had, and so does the row; only the fence stays."""
    if before is None or before.removed_at is not None:
        columns: dict[str, Any] = {"removed_at": clock.now(), "applied_at": clock.now()}
    else:
        columns = {
            **spec_columns(before.spec),
            "withheld_since": before.withheld_since,
            "applied_at": before.applied_at,
        }
    with transaction.atomic():
        if _same(row).update(**columns, changed_at=clock.now(), problem=str(error)):
            audit.record(actor, "route.refused", subject=row, reason=str(error))
            events.publish(RouteChanged(row.pk))


def _same(row: Route) -> QuerySet[Route]:
    """The row, unless someone has changed it since."""
    return Route.objects.filter(
        pk=row.pk, writer=row.writer, writer_turn=row.writer_turn, changed_at=row.changed_at
    )


def _routes() -> QuerySet[Route]:
    return Route.objects.select_related("gateway__cluster")
