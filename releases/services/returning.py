"""Any version back: from a service's history to a version that served it before."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common.actor import Actor
from common.reconcile import kernel
from models_registry.models import Version
from models_registry.states import VersionState
from releases import bake
from releases.errors import NotPossibleNow, NotReleasable
from releases.models import Release, Service
from releases.plans.builtin import RETURN, builtin_plan
from releases.plans.plan import PlanSpec
from releases.plans.step import StepSpec
from releases.policy import ReleasePolicy
from releases.selectors.plans import plan_named, policy_of, usual_plan_of
from releases.services.release import begin, rollback, take_back
from releases.states import ReleaseState


@dataclass(frozen=True, slots=True)
class FormerVersion:
    """A version that served the service before, and what it takes to return to it."""

    version: Version
    release: Release
    """By which it came up last."""
    served_until: datetime
    refusal: str
    """Why nobody can return to it; empty: one can."""
    plan: PlanSpec
    skips: tuple[StepSpec, ...]
    """Steps of the service's plan that are left out, as the release policy allows."""
    seconds: float | None
    """About how long its workers take to start, as they did last; None: not known."""
    warm_workers: int = 0
    """Ready without traffic: the weight alone moves."""


def former_versions(service: Service, *, limit: int = 50) -> list[FormerVersion]:
    """Return the versions that served before the present one, the latest first."""
    promoted = Release.objects.filter(service=service, state=ReleaseState.PROMOTED)
    rows = list(promoted.select_related("version__model", "from_version").order_by("-pk")[: 4 * limit])
    found: dict[int, FormerVersion] = {}
    policy = policy_of(service)
    for later, row in pairwise(rows):
        if row.version_id in found or row.version_id == service.stable_version_id or len(found) >= limit:
            continue
        found[row.version_id] = _former(service, row, later, policy, serving=rows[0])
    return list(found.values())


def former_version(service: Service, version: Version) -> FormerVersion:
    """Raises NotPossibleNow when it never served there, or serves now."""
    if service.stable_version_id == version.pk:
        raise NotPossibleNow(
            _("%(version)s serves %(service)s now.") % {"version": version, "service": service.name}
        )
    for one in former_versions(service, limit=1000):
        if one.version.pk == version.pk:
            return one
    raise NotPossibleNow(
        _("%(version)s has never served %(service)s: release it.")
        % {"version": version, "service": service.name}
    )


def return_to(service: Service, *, version: Version, actor: Actor, reason: str) -> Release:
    """Bring a former version back, without the steps that the release policy lets be skipped.

    While its workers are kept warm it is the rollback that moves the weight alone. Raises NotAllowed,
    NotPossibleNow, NotReleasable, AlreadyInMotion, and what `start_release` raises where nothing is skipped.
    """
    require(actor, Right.RELEASES_OPERATE, service.team, service=service.name)
    with transaction.atomic():
        service.refresh_from_db()
        former = former_version(service, version)
        if former.refusal:
            raise NotReleasable(former.refusal)
        serving = _serving(service)
        if former.warm_workers:
            return rollback(serving, actor=actor, reason=reason)
        if former.plan.name != RETURN:
            require(actor, Right.RELEASES_START, service.team, service=service.name)
            return begin(service, version=version, plan=former.plan, actor=actor, reason=reason)
        return take_back(
            serving,
            service,
            version=version,
            plan=former.plan,
            image=former.release.image,
            actor=actor,
            reason=reason,
        )


def _serving(service: Service) -> Release:
    """Return the release whose version serves."""
    rows = Release.objects.filter(service=service, state=ReleaseState.PROMOTED).order_by("-pk")
    return rows[0]


def _former(
    service: Service, row: Release, later: Release, policy: ReleasePolicy, *, serving: Release
) -> FormerVersion:
    until = later.ended_at or later.created_at
    usual = plan_named(usual_plan_of(service), team=service.team)
    skips = _may_skip(policy, until)
    plan = builtin_plan(RETURN) if skips else usual
    kinds = {step.kind for step in plan.steps}
    return FormerVersion(
        version=row.version,
        release=row,
        served_until=until,
        refusal=_refusal(row.version),
        plan=plan,
        skips=tuple(step for step in usual.steps if step.kind not in kinds),
        seconds=bake.start_seconds(service.pk, row.version_id),
        warm_workers=bake.warm_workers(serving) if serving.from_version_id == row.version_id else 0,
    )


def _may_skip(policy: ReleasePolicy, served_until: datetime) -> bool:
    days = policy.return_within_days
    return days is None or kernel.clock() - served_until <= timedelta(days=days)


def _refusal(version: Version) -> str:
    if version.state == VersionState.READY:
        return ""
    return _("%(version)s is %(state)s: its files are kept no longer.") % {
        "version": version, "state": version.get_state_display().lower()
    }  # fmt: skip
