"""Every write to the gateway's routes. A row is the wish; its fence is checked here and by the gateway.

A write waits for the gateway, some 10 to 300 ms: call it outside of a transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from clusters import selectors as fleet
from common import audit, events
from common.actor import Actor
from common.reconcile import kernel
from gateway.backends import backend, checks
from gateway.backends.base import Endpoint, Fence, RouteSpec
from gateway.errors import GatewayError, InvalidRoute, StaleFence, UnknownRoute
from gateway.events import RouteChanged
from gateway.models import Route, Watch, sealed_key
from gateway.routes import ReleaseHeader


def set_route(spec: RouteSpec, *, fence: Fence, actor: Actor, reason: str = "") -> Route:
    """Make the service's route be `spec`, creating it if needed; returns when the gateway has taken it.

    Who may choose a side is said by `spec` only for a route that is new: after that by `set_release_header`.
    Repeating it is safe, and only a change is audited. Raises StaleFence when a later writer was here;
    InvalidRoute, with the route as it was, when the gateway would refuse it; GatewayUnreachable and
    GatewayBusy when it has not taken it yet: then the wish is kept, and applied as soon as it can be.
    """
    checks.check_spec(spec)
    before = Route.objects.filter(service=spec.name).first()
    if before is not None and before.removed_at is None:
        kept = before.spec
        spec = replace(spec, release_header=kept.release_header, release_key=kept.release_key)
    row = _wish(before, spec, fence=fence, actor=actor, reason=reason)
    return _carry_out(row, before, lambda: backend().apply_route(spec, fence=fence), actor=actor)


def set_weights(
    service: str, *, candidate_percent: int, fence: Fence, actor: Actor, reason: str = ""
) -> Route:
    """Make the candidate's share be `candidate_percent`. Raises as `set_route`, and UnknownRoute."""
    before = Route.objects.filter(service=service, removed_at__isnull=True).first()
    if before is None:
        raise UnknownRoute(_("%(service)s has no route.") % {"service": service})
    checks.check_percent(service, before.spec.candidate, candidate_percent)
    spec = replace(before.spec, candidate_percent=candidate_percent)
    row = _wish(before, spec, fence=fence, actor=actor, reason=reason)

    def tell() -> None:
        known = backend().wished_route(service)
        if known and (known.stable, known.candidate) == (spec.stable, spec.candidate):
            backend().set_weights(service, candidate_percent=candidate_percent, fence=fence)
        else:
            # The gateway was set up anew, or missed a change: a share alone would not mean the same there.
            backend().apply_route(spec, fence=fence)

    return _carry_out(row, before, tell, actor=actor)


def set_release_header(service: str, header: ReleaseHeader, *, key: str = "", actor: Actor) -> None:
    """Say who may choose a side of the service's route by `x-release`; the gateway is told within seconds.

    For inside a transaction. Without a route nothing is done: `set_route` says it when there is one.
    """
    row = Route.objects.filter(service=service, removed_at__isnull=True).first()
    if row is None or (row.spec.release_header, row.spec.release_key) == (header, key):
        return
    # Another moment of change: a writer that read the route before is refused and looks again.
    Route.objects.filter(pk=row.pk).update(
        release_header=header,
        sealed_release_key=sealed_key(key),
        changed_at=timezone.now(),
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
    for watch in Watch.objects.all():
        kernel.wake(watch)


def remove_route(service: str, *, fence: Fence, actor: Actor, reason: str = "") -> None:
    """Stop routing; removing what is gone is no error. Raises StaleFence, GatewayUnreachable, GatewayBusy."""
    before = Route.objects.filter(service=service).first()
    if before is None:
        backend().remove_route(service, fence=fence)
        return
    with transaction.atomic():
        now = timezone.now()
        columns = _fence_columns(fence)
        if before.removed_at is None:
            columns |= {"removed_at": now, "changed_at": now, "applied_at": None, "problem": ""}
        row = _write(before, columns, fence)
        if before.removed_at is None:
            audit.record(actor, "route.remove", subject=row, reason=reason)
            events.publish(RouteChanged(row.pk))
    _carry_out(row, before, lambda: backend().remove_route(service, fence=fence), actor=actor)


def sync_endpoints(target: str, endpoints: Sequence[Endpoint], *, observed_at: datetime) -> None:
    """Tell the gateway where the workers of `target` are; an observation older than the last is ignored.

    Returns when a worker that was left out gets no new request; those in flight on it run to their end.
    Raises InvalidEndpoint, GatewayUnreachable and GatewayBusy.
    """
    backend().set_endpoints(target, endpoints, observed_at=observed_at)


def sync_workers(deployment: str) -> None:
    """Tell the gateway where the deployment's ready workers are, as its cluster saw them last.

    Raises as `sync_endpoints`, and DeploymentMissing.
    """
    seen = fleet.endpoints(deployment)
    endpoints = [Endpoint(address, port) for address, port in seen.addresses]
    sync_endpoints(deployment, endpoints, observed_at=seen.observed_at)


def reapply(row: Route) -> None:
    """Have the gateway do what the row says once more. Raises as `set_route`."""

    def tell() -> None:
        if row.removed_at is None:
            backend().apply_route(row.spec, fence=row.fence)
        else:
            backend().remove_route(row.service, fence=row.fence)

    try:
        tell()
    except GatewayError as error:
        _same(row).update(problem=str(error))
        raise
    _same(row).update(applied_at=timezone.now(), problem="")


def _wish(before: Route | None, spec: RouteSpec, *, fence: Fence, actor: Actor, reason: str) -> Route:
    """Write the wish down, and audit it if it is a new one. Raises StaleFence."""
    is_news = before is None or before.removed_at is not None or before.spec != spec
    with transaction.atomic():
        columns = _fence_columns(fence)
        if is_news:
            columns |= _spec_columns(spec) | {
                "changed_at": timezone.now(),
                "removed_at": None,
                "applied_at": None,
                "problem": "",
            }
        row = _create(spec.name, columns) if before is None else _write(before, columns, fence)
        if is_news:
            was = _summary(before.spec) if before and before.removed_at is None else None
            detail = {"from": was, "to": _summary(spec)}
            audit.record(actor, "route.set", subject=row, reason=reason, detail=detail)
            events.publish(RouteChanged(row.pk))
    return row


def _create(service: str, columns: Mapping[str, Any]) -> Route:
    try:
        with transaction.atomic():
            return Route.objects.create(service=service, **columns)
    except IntegrityError:
        raise StaleFence(
            _("Another writer has just created the route %(service)s; look again.") % {"service": service}
        ) from None


def _write(row: Route, columns: Mapping[str, Any], fence: Fence) -> Route:
    """Compare and set: whoever wrote since `row` was read must not have a later fence, nor another wish."""
    earlier = Q(writer__lt=fence.holder) | Q(writer=fence.holder, writer_turn__lte=fence.turn)
    if not Route.objects.filter(earlier, pk=row.pk, changed_at=row.changed_at).update(**columns):
        now = Route.objects.get(pk=row.pk)
        checks.refuse_stale(row.service, last=now.fence, fence=fence)
        raise StaleFence(
            _("Another writer has just changed the route %(service)s; look again.") % {"service": row.service}
        )
    return Route.objects.get(pk=row.pk)


def _carry_out(row: Route, before: Route | None, tell: Callable[[], None], *, actor: Actor) -> Route:
    try:
        tell()
    except InvalidRoute as error:
        _take_back(row, before, error, actor=actor)
        raise
    except StaleFence:
        raise
    except GatewayError as error:
        _same(row).update(problem=str(error))
        for watch in Watch.objects.all():
            kernel.wake(watch)
        raise
    _same(row).filter(Q(applied_at__isnull=True) | ~Q(problem="")).update(
        applied_at=timezone.now(), problem=""
    )
    return Route.objects.get(pk=row.pk)


def _take_back(row: Route, before: Route | None, error: InvalidRoute, *, actor: Actor) -> None:
    """The gateway goes on with what it had, and so does the row; only the fence stays."""
    if before is None or before.removed_at is not None:
        columns: dict[str, Any] = {"removed_at": timezone.now(), "applied_at": timezone.now()}
    else:
        columns = {**_spec_columns(before.spec), "applied_at": before.applied_at}
    with transaction.atomic():
        if _same(row).update(**columns, changed_at=timezone.now(), problem=str(error)):
            audit.record(actor, "route.refused", subject=row, reason=str(error))
            events.publish(RouteChanged(row.pk))


def _same(row: Route) -> QuerySet[Route]:
    """The row, unless someone has wished otherwise since."""
    return Route.objects.filter(
        pk=row.pk, writer=row.writer, writer_turn=row.writer_turn, changed_at=row.changed_at
    )


def _fence_columns(fence: Fence) -> dict[str, Any]:
    return {"writer": fence.holder, "writer_turn": fence.turn}


def _spec_columns(spec: RouteSpec) -> dict[str, Any]:
    return {
        "stable_target": spec.stable.name,
        "stable_version": spec.stable.version,
        "candidate_target": spec.candidate.name if spec.candidate else "",
        "candidate_version": spec.candidate.version if spec.candidate else "",
        "candidate_percent": spec.candidate_percent,
        "release_header": spec.release_header,
        "sealed_release_key": sealed_key(spec.release_key),
    }


def _summary(spec: RouteSpec) -> dict[str, Any]:
    return {
        "stable": spec.stable.version,
        "candidate": spec.candidate.version if spec.candidate else None,
        "candidate_percent": spec.candidate_percent,
    }
