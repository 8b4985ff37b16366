"""Every write of releases: services, plans, and the wishes people have about a release.

A wish is a column on the release row; `releases.reconcilers` moves the state.
"""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts.models import Team, User
from accounts.services import require
from accounts.states import Right
from clusters.models import Cluster
from common import audit, events
from common.actor import Actor
from common.reconcile import kernel
from models_registry.models import Model, Version
from models_registry.states import VersionState
from releases import plans, selectors
from releases.errors import (
    AlreadyInMotion,
    InvalidPlan,
    InvalidService,
    NotPossibleNow,
    NotReleasable,
    NotWaiting,
    PlanProblem,
    SeparationOfDuties,
)
from releases.events import ReleaseMoved, ServiceChanged
from releases.models import Approval, Plan, Release, ReleaseMove, ReleaseStep, Service
from releases.states import IN_MOTION, Decision, Halt, ReleaseState
from serving.protocol import ENGINES


def create_service(
    *,
    actor: Actor,
    team: Team,
    name: str,
    model: Model,
    version: Version,
    cluster: Cluster,
    engine: str = "transformers",
    replicas: int = 1,
    slots: int = 4,
    device: str = "auto",
    description: str = "",
    alias: str = "",
    resources: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    plan_name: str = "canary",
) -> Service:
    """Create the service and start the release that brings `version` up as its first.

    Raises NotAllowed, InvalidService (with faults per field), NotReleasable, UnknownPlan.
    """
    require(actor, Right.SERVICES_WRITE, team)
    selectors.plan_named(plan_name, team=team)
    service = Service(
        team=team,
        name=name,
        description=description,
        model=model,
        alias=alias,
        cluster=cluster,
        engine=engine,
        replicas=replicas,
        slots=slots,
        device=device,
        resources=dict(resources or {}),
        settings=dict(settings or {}),
        plan_name=plan_name,
        created_by=actor.name,
    )
    _check(service)
    with transaction.atomic():
        service.save(force_insert=True)
        _begin(
            service,
            version=version,
            plan_name=plans.DIRECT.name,
            actor=actor,
            reason="The service's first version.",
        )
        audit.record(
            actor,
            "service.create",
            subject=service,
            team_id=team.pk,
            detail={
                "model": model.name,
                "version": str(version),
                "cluster": cluster.name,
                "replicas": replicas,
            },
        )
    return service


def change_service(
    service: Service, *, actor: Actor, expected_revision: int | None = None, **changes: Any
) -> Service:
    """Change what the next release of the service will use; workers that run now stay as they are.

    Raises NotAllowed, InvalidService, UnknownPlan, common.revisions.Stale.
    """
    require(actor, Right.SERVICES_WRITE, service.team)
    allowed = {
        "description",
        "alias",
        "engine",
        "replicas",
        "slots",
        "device",
        "resources",
        "settings",
        "plan_name",
    }
    fixed = sorted(set(changes) - allowed)
    if fixed:
        raise InvalidService(fields={name: ["Cannot be changed after creation."] for name in fixed})
    if "plan_name" in changes:
        selectors.plan_named(changes["plan_name"], team=service.team)
    for name, value in changes.items():
        setattr(service, name, value)
    _check(service)
    with transaction.atomic():
        service.change(expected=expected_revision, **changes)
        audit.record(actor, "service.change", subject=service, team_id=service.team_id, detail=changes)
        events.publish(ServiceChanged(service.pk))
    return service


def save_plan(
    *, actor: Actor, team: Team, name: str, body: Mapping[str, Any], expected_revision: int | None = None
) -> Plan:
    """Create or replace the team's plan `name`. Releases that are under way keep the plan they started with.

    Raises NotAllowed, InvalidPlan (with faults per place), common.revisions.Stale.
    """
    require(actor, Right.SERVICES_WRITE, team)
    if name in plans.BUILTIN_PLANS:
        message = f"'{name}' is built in: save your own under another name."
        raise InvalidPlan((PlanProblem("name", message),))
    parsed = plans.parse_plan({**body, "name": name})
    values = {
        "description": parsed.description,
        "body": parsed.model_dump(mode="json"),
        "hash": plans.plan_hash(parsed),
        "changed_by": actor.name,
        "changed_at": kernel.clock(),
    }
    with transaction.atomic():
        plan, is_new = Plan.objects.get_or_create(team=team, name=name, defaults=values)
        before = "" if is_new else plan.hash
        if not is_new:
            plan.change(expected=expected_revision, **values)
        audit.record(
            actor,
            "plan.create" if is_new else "plan.change",
            subject=plan,
            team_id=team.pk,
            detail={"before": before, "after": plan.hash},
        )
    return plan


def delete_plan(plan: Plan, *, actor: Actor) -> None:
    require(actor, Right.SERVICES_WRITE, plan.team)
    users = list(
        Service.objects.filter(team=plan.team, plan_name=plan.name).values_list("name", flat=True)[:5]
    )
    if users:
        raise NotPossibleNow(f"Services use this plan: {', '.join(users)}. Give them another plan first.")
    with transaction.atomic():
        audit.record(actor, "plan.delete", subject=plan, team_id=plan.team_id, detail={"body": plan.body})
        plan.delete()


def start_release(
    *, actor: Actor, service: Service, version: Version, plan_name: str = "", reason: str = ""
) -> Release:
    """Set the version on its way. Raises NotAllowed, NotReleasable, AlreadyInMotion, UnknownPlan."""
    require(actor, Right.RELEASES_START, service.team)
    with transaction.atomic():
        return _begin(
            service, version=version, plan_name=plan_name or service.plan_name, actor=actor, reason=reason
        )


def approve(release: Release, *, actor: Actor, reason: str) -> Approval:
    """Say yes to the approval that the release waits for.

    Raises NotAllowed, NotWaiting, SeparationOfDuties.
    """
    return _decide(release, Decision.APPROVE, actor=actor, reason=reason)


def reject(release: Release, *, actor: Actor, reason: str) -> Approval:
    """Say no: the release gives up and returns all traffic to stable. Raises NotAllowed, NotWaiting."""
    return _decide(release, Decision.REJECT, actor=actor, reason=reason)


def pause(release: Release, *, actor: Actor, reason: str = "") -> None:
    """Stay at the present step; the judge and the guards keep watching. Raises NotAllowed, NotPossibleNow."""
    require(actor, Right.RELEASES_OPERATE, release.team)
    with transaction.atomic():
        paused = kernel.wake(
            release,
            where={
                "state__in": [ReleaseState.PENDING, ReleaseState.RUNNING, ReleaseState.WAITING_APPROVAL],
                "halt": "",
                "paused_at__isnull": True,
            },
            paused_by=actor.name,
            paused_at=kernel.clock(),
        )
        if not paused:
            raise NotPossibleNow(
                f"Only a release that moves can be paused; this one is {_state_word(release)}."
            )
        audit.record(actor, "release.pause", subject=release, team_id=release.team_id, reason=reason)


def resume(release: Release, *, actor: Actor, reason: str = "") -> None:
    """Go on after a pause, or try a stuck release again. Raises NotAllowed, NotPossibleNow."""
    require(actor, Right.RELEASES_OPERATE, release.team)
    with transaction.atomic():
        release.refresh_from_db()
        if release.state == ReleaseState.STUCK:
            resumed = kernel.revive(release, state=release.stuck_from, stuck_from="")
            if resumed:
                ReleaseMove.objects.create(
                    release=release,
                    before=ReleaseState.STUCK,
                    after=release.stuck_from,
                    actor=actor.name,
                    note=reason or "Tried again.",
                )
        else:
            resumed = kernel.wake(
                release, where={"paused_at__isnull": False, "halt": ""}, paused_at=None, paused_by=""
            )
        if not resumed:
            raise NotPossibleNow(f"Nothing to resume: the release is {_state_word(release)}.")
        audit.record(actor, "release.resume", subject=release, team_id=release.team_id, reason=reason)


def abort(release: Release, *, actor: Actor, reason: str) -> None:
    """Give up, from any state in motion: every request back to stable, then the candidate's workers end.

    Raises NotAllowed, NotPossibleNow when it has ended already.
    """
    require(actor, Right.RELEASES_OPERATE, release.team)
    with transaction.atomic():
        _halt(release, Halt.ABORT, by=actor.name, reason=reason)
        audit.record(actor, "release.abort", subject=release, team_id=release.team_id, reason=reason)


def rollback(release: Release, *, actor: Actor, reason: str) -> Release:
    """Return to the version before this release.

    In motion: all traffic back to stable now; the same release is returned. Promoted and still what serves: a
    new release of the version it replaced, by the `direct` plan, is started and returned.
    Raises NotAllowed, NotPossibleNow, NotReleasable, AlreadyInMotion.
    """
    require(actor, Right.RELEASES_OPERATE, release.team)
    with transaction.atomic():
        release.refresh_from_db()
        if release.state in IN_MOTION:
            _halt(release, Halt.ROLLBACK, by=actor.name, reason=reason)
            audit.record(actor, "release.rollback", subject=release, team_id=release.team_id, reason=reason)
            return release
        service = Service.objects.get(pk=release.service_id)
        if release.state != ReleaseState.PROMOTED or service.stable_version_id != release.version_id:
            raise NotPossibleNow(
                "Only the release that serves now can be rolled back; this one does not serve."
            )
        if release.from_version is None:
            raise NotPossibleNow("This was the service's first version: there is none to return to.")
        audit.record(actor, "release.rollback", subject=release, team_id=release.team_id, reason=reason)
        return _begin(
            service,
            version=release.from_version,
            plan_name=plans.DIRECT.name,
            actor=actor,
            reason=reason,
            undoes=release,
        )


def _begin(
    service: Service,
    *,
    version: Version,
    plan_name: str,
    actor: Actor,
    reason: str,
    undoes: Release | None = None,
) -> Release:
    plan = selectors.plan_named(plan_name, team=service.team)
    # Read inside the transaction: what is stable now is what the release starts from.
    service.refresh_from_db(fields=["stable_version", "stable_deployment"])
    _check_releasable(service, version)
    body = plan.model_dump(mode="json")
    release = Release(
        service=service,
        team=service.team,
        version=version,
        from_version=service.stable_version,
        undoes=undoes,
        plan_name=plan.name,
        plan=body,
        plan_hash=plans.plan_hash(plan),
        requested_by_id=actor.user_id,
        requester=actor.name,
        reason=reason,
        created_at=kernel.clock(),
        stable_deployment=service.stable_deployment,
        next_at=kernel.clock(),
    )
    try:
        with transaction.atomic():
            release.save(force_insert=True)
    except IntegrityError:
        moving = Release.objects.filter(service=service, state__in=IN_MOTION).first()
        if moving is None:
            raise
        raise AlreadyInMotion(
            f"{moving.version} is on its way to {service.name} (release {moving.pk}, {_state_word(moving)}). "
            "Wait for its end, or abort it."
        ) from None
    Release.objects.filter(pk=release.pk).update(candidate_deployment=f"{service.name}-r{release.pk}")
    ReleaseStep.objects.bulk_create(
        ReleaseStep(release=release, index=index, kind=step.kind, title=plans.summary(step))
        for index, step in enumerate(plan.steps)
    )
    ReleaseMove.objects.create(release=release, before="", after=release.state, actor=actor.name, note=reason)
    audit.record(
        actor,
        "release.start",
        subject=release,
        team_id=service.team_id,
        reason=reason,
        detail={
            "from": str(service.stable_version or ""),
            "to": str(version),
            "plan": plan.name,
            "plan_hash": release.plan_hash,
        },
    )
    kernel.wake(release)
    events.publish(ReleaseMoved(release.pk, service.pk))
    release.refresh_from_db()
    return release


def _check(service: Service) -> None:
    if service.engine not in ENGINES:
        raise InvalidService(
            fields={"engine": [f"There is no '{service.engine}'; use {', '.join(ENGINES)}."]}
        )
    try:
        service.full_clean(validate_constraints=True)
    except ValidationError as error:
        raise InvalidService(fields=error.message_dict) from None


def _check_releasable(service: Service, version: Version) -> None:
    if version.model_id != service.model_id:
        raise NotReleasable(f"{version} is not a version of {service.model}, which {service.name} serves.")
    if version.state != VersionState.READY:
        raise NotReleasable(f"{version} is {version.state}: only a ready version can be released.")
    if service.stable_version_id == version.pk:
        raise NotReleasable(f"{version} already serves all traffic of {service.name}.")


def _decide(release: Release, decision: Decision, *, actor: Actor, reason: str) -> Approval:
    require(actor, Right.RELEASES_APPROVE, release.team)
    if actor.user_id is None:
        raise NotWaiting("Only a person can decide.")
    with transaction.atomic():
        release.refresh_from_db()
        step = selectors.plan_of(release).steps[release.step_index]
        waits = release.state == ReleaseState.WAITING_APPROVAL and not release.halt
        if not waits or not isinstance(step, plans.Approval):
            raise NotWaiting(f"The release does not wait for an approval; it is {_state_word(release)}.")
        if step.role == "admin":
            require(actor, Right.PEOPLE_ADMIN, release.team)
        separate = step.separate_requester
        if decision == Decision.APPROVE and separate and release.requested_by_id == actor.user_id:
            raise SeparationOfDuties(
                "You asked for this release, so somebody else must approve it: that is what its plan says."
            )
        try:
            with transaction.atomic():
                approval = Approval.objects.create(
                    release=release,
                    step_index=release.step_index,
                    plan_hash=release.plan_hash,
                    decision=decision,
                    by=User.objects.get(pk=actor.user_id),
                    requester_id=release.requested_by_id,
                    separate_requester=separate,
                    reason=reason,
                )
        except IntegrityError:
            raise NotWaiting("Somebody has decided already.") from None
        if decision == Decision.REJECT:
            _halt(release, Halt.REJECT, by=actor.name, reason=reason)
        else:
            kernel.wake(release)
        audit.record(
            actor,
            f"release.{decision}",
            subject=release,
            team_id=release.team_id,
            reason=reason,
            detail={"step": release.step_index, "plan_hash": release.plan_hash},
        )
        events.publish(ReleaseMoved(release.pk, release.service_id))
    return approval


def _halt(release: Release, halt: Halt, *, by: str, reason: str) -> None:
    halted = kernel.interrupt(
        release,
        where={"state__in": IN_MOTION, "halt": ""},
        halt=halt,
        halted_by=by,
        halted_at=kernel.clock(),
        outcome=reason,
    )
    if not halted:
        release.refresh_from_db()
        if release.halt and release.state in IN_MOTION:
            raise NotPossibleNow(f"It is being given up already, by {release.halted_by}.")
        raise NotPossibleNow(f"The release has ended: it is {_state_word(release)}.")
    events.publish(ReleaseMoved(release.pk, release.service_id))


def _state_word(release: Release) -> str:
    return ReleaseState(release.state).label.lower()
