"""Writes of routes. A route's row says what is desired; its fence is checked here and by the gateway.

A write waits for the gateway, some 10 to 300 ms: call it outside of a transaction.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.models import Cluster
from common import audit, clock, events
from common.actor import Actor
from common.fence import Fence
from common.reconcile import kernel
from gateway.backends import checks
from gateway.backends.configured import backends_of, gateway_of, traffic_backend_of
from gateway.errors import GatewayError, InvalidRoute, StaleRouteFence
from gateway.events import RouteChanged
from gateway.models import Gateway, Route, sealed_key
from gateway.route_columns import fence_columns, spec_columns, summary
from gateway.routes import ReleaseHeader, RouteSpec, RouteTarget, WorkerEndpoint
from gateway.services.abilities import sync_abilities_of

ACTOR = Actor.system("gateway")


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

    Returns when a worker that was left out gets no new request, and a spare one none that another takes;
    those in flight on it run to their end.
    Raises NoGateway, DeploymentMissing, InvalidEndpoint, GatewayUnreachable and GatewayBusy.
    """
    seen = fleet.endpoints(deployment)
    endpoints = [WorkerEndpoint(*one) for one in seen.addresses]
    endpoints += [WorkerEndpoint(*one, is_spare=True) for one in seen.spare]
    if not endpoints:
        # Before its last worker goes, so that no request finds nobody there.
        _withhold(deployment, since=clock.now())
    traffic_backend_of(seen.cluster_id).set_target(deployment, endpoints, observed_at=seen.observed_at)
    if endpoints:
        _withhold(deployment, since=None)
    sync_abilities_of(seen.cluster_id)


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
    with suppress(GatewayError):  # the rows tell it, and the gateway is looked at again soon
        sync_abilities_of(row.gateway.cluster_id)
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
