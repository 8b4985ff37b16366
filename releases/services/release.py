from django.db import IntegrityError, transaction
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.services.cluster_removal import refuse_if_it_goes
from clusters.states import GONE, DeploymentState
from common import audit, events
from common.actor import Actor
from common.numbers import next_number
from common.reconcile import kernel
from freezes.errors import Frozen
from images.models import RuntimeImage
from models_registry.models import Version
from releases.errors import AlreadyInMotion, NotPossibleNow, NotReleasable
from releases.events import ReleaseMoved, RollbackStarted
from releases.freezing import freeze_holding, in_words
from releases.models import Release, ReleaseMove, ReleaseStep, Service
from releases.plans.builtin import ROLLBACK, WARM_ROLLBACK, builtin_plan
from releases.plans.later import refuse_later
from releases.plans.plan import PlanSpec, plan_hash
from releases.selectors.plans import plan_named, policy_of, usual_plan_of
from releases.services.changes import OF_WORKERS
from releases.services.freezing import pause_automation, record_override, refuse_frozen
from releases.services.policy import let_pass, record_bypass
from releases.services.releasable import check_possible, check_releasable, image_before, image_fault
from releases.states import IN_MOTION, Halt, ReleaseState, word_of


def start_release(
    *,
    actor: Actor,
    service: Service,
    version: Version,
    plan_name: str = "",
    reason: str = "",
    image: RuntimeImage | None = None,
    bypass: str | None = "",
    override: str = "",
    waits: bool = False,
) -> Release:
    """Set the version on its way, with `image` if one is named for this release alone.

    A plan that falls short of the release policy takes the right `releases.bypass` and a reason, `bypass`
    (None: there is no place to give one); a start in spite of a freeze `releases.override` and a reason,
    `override`. `waits`: a freeze does not refuse it but holds it before its first step.
    Raises NotAllowed, BelowPolicy, BypassReasonMissing, Frozen, NotReleasable, AlreadyInMotion, UnknownPlan.
    """
    require(actor, Right.RELEASES_START, service.team, service=service.name)
    with transaction.atomic():
        return begin(
            service,
            version=version,
            plan=plan_named(plan_name or usual_plan_of(service), team=service.team),
            actor=actor,
            reason=reason,
            image=image,
            bypass=bypass,
            override=override,
            waits=waits,
        )


def pause(release: Release, *, actor: Actor, reason: str = "") -> None:
    """Stay at the present step; the judge and the guards keep watching. Raises NotAllowed, NotPossibleNow."""
    require(actor, Right.RELEASES_OPERATE, release.team, service=release.service.name)
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
                _("Only an active release can be paused; this one is %(release)s.")
                % {"release": word_of(release.state)}
            )
        audit.record(actor, "release.pause", subject=release, team_id=release.team_id, reason=reason)


def resume(release: Release, *, actor: Actor, reason: str = "") -> None:
    """Go on after a pause, or try a stuck release again. Raises NotAllowed, NotPossibleNow."""
    require(actor, Right.RELEASES_OPERATE, release.team, service=release.service.name)
    with transaction.atomic():
        release.refresh_from_db()
        if release.state == ReleaseState.STUCK:
            resumed = kernel.try_again(release, actor=actor, reason=reason)
        else:
            resumed = kernel.wake(
                release, where={"paused_at__isnull": False, "halt": ""}, paused_at=None, paused_by=""
            )
        if not resumed and (held := freeze_holding(release)):
            raise Frozen(in_words(held))
        if not resumed:
            raise NotPossibleNow(
                _("Nothing to resume: the release is %(release)s.") % {"release": word_of(release.state)}
            )
        audit.record(actor, "release.resume", subject=release, team_id=release.team_id, reason=reason)


def abort(release: Release, *, actor: Actor, reason: str) -> None:
    """Give up, from any state in motion: every request back to stable, then the candidate's workers end.

    Raises NotAllowed, NotPossibleNow when it has ended already.
    """
    require(actor, Right.RELEASES_OPERATE, release.team, service=release.service.name)
    with transaction.atomic():
        halt_release(release, Halt.ABORT, by=actor.name, reason=reason)
        audit.record(actor, "release.abort", subject=release, team_id=release.team_id, reason=reason)


def rollback(release: Release, *, actor: Actor, reason: str) -> Release:
    """Return to the version before this release.

    In motion: all traffic back to stable now; the same release is returned. Promoted and still what serves: a
    new release of the version it replaced is started and returned. While that version's workers are kept warm
    only the weight moves; else they start first. It has served before, so no release policy demands anything.
    Raises NotAllowed, NotPossibleNow, NotReleasable, AlreadyInMotion.
    """
    require(actor, Right.RELEASES_OPERATE, release.team, service=release.service.name)
    with transaction.atomic():
        release.refresh_from_db()
        if release.state in IN_MOTION:
            halt_release(release, Halt.ROLLBACK, by=actor.name, reason=reason)
            audit.record(actor, "release.rollback", subject=release, team_id=release.team_id, reason=reason)
            pause_automation(Service.objects.get(pk=release.service_id), actor=actor)
            return release
        service = Service.objects.get(pk=release.service_id)
        if release.state != ReleaseState.PROMOTED or service.stable_version_id != release.version_id:
            raise NotPossibleNow(
                _("Only the release that serves now can be rolled back; this one does not serve.")
            )
        if release.from_version is None:
            raise NotPossibleNow(_("This was the service's first version: there is none to return to."))
        warm = has_warm_workers(release) and kernel.interrupt(
            release, where={"bake_until__isnull": False}, bake_until=None
        )
        return take_back(
            release,
            service,
            version=release.from_version,
            plan=builtin_plan(WARM_ROLLBACK if warm else ROLLBACK),
            image=image_before(release, service),
            actor=actor,
            reason=reason,
        )


def end_bake(release: Release, *, actor: Actor, reason: str = "") -> None:
    """Stop now the workers that are kept warm for a rollback. Raises NotAllowed, NotPossibleNow."""
    require(actor, Right.RELEASES_OPERATE, release.team, service=release.service.name)
    with transaction.atomic():
        if not _end_bake(release):
            raise NotPossibleNow(_("No workers are kept warm by this release."))
        audit.record(actor, "release.end_bake", subject=release, team_id=release.team_id, reason=reason)


def _end_bake(release: Release) -> bool:
    """Make its end due now; False when there is none to come."""
    # Also of a row that is stuck at it: a person has asked, or another release needs the room.
    return kernel.interrupt(release, where={"bake_until__isnull": False}, bake_until=kernel.clock())


def take_back(
    serving: Release,
    service: Service,
    *,
    version: Version,
    plan: PlanSpec,
    image: RuntimeImage | None,
    actor: Actor,
    reason: str,
) -> Release:
    """Start the release that takes back the one that serves, inside the transaction of whoever wishes it."""
    audit.record(actor, "release.rollback", subject=serving, team_id=service.team_id, reason=reason)
    events.publish(RollbackStarted(serving.pk))
    pause_automation(service, actor=actor)
    return begin(service, version=version, plan=plan, actor=actor, reason=reason, undoes=serving, image=image)


def has_warm_workers(release: Release) -> bool:
    """Whether workers of the version before are there that a rollback could take over."""
    try:
        state = fleet.deployment_status(release.stable_deployment).state
    except DeploymentMissing:
        return False
    return state not in (DeploymentState.FAILING, *GONE)


def begin(
    service: Service,
    *,
    version: Version,
    plan: PlanSpec,
    actor: Actor,
    reason: str,
    undoes: Release | None = None,
    image: RuntimeImage | None = None,
    bypass: str | None = "",
    override: str = "",
    waits: bool = False,
) -> Release:
    """Create the release with its steps; call it inside the transaction of whoever wishes it."""
    # Read inside the transaction: what is stable now is what the release starts from.
    service.refresh_from_db(
        fields=[
            "stable_version",
            "stable_deployment",
            "plan_name",
            "policy",
            "policy_replaces_team",
            *OF_WORKERS,
        ]
    )
    refuse_if_it_goes(service.cluster)
    overrides = undoes is None and not waits and refuse_frozen(service, actor=actor, override=override)
    warm = undoes.stable_deployment if undoes and plan.name == WARM_ROLLBACK else ""
    if not warm:
        # Workers that run answer, whatever has become of their files since.
        check_releasable(service, version, image=image)
    check_possible(service, version, plan, undoes=undoes)
    policy = policy_of(service)
    # Nobody's requests go to a service's first version, and a rollback must not wait for anybody at night.
    is_exempt = undoes is not None or service.stable_version_id is None
    missing = () if is_exempt else let_pass(plan, policy, actor=actor, service=service, bypass=bypass)
    if image is not None and (fault := image_fault(image, engine=service.engine, team=service.team)):
        raise NotReleasable(fault)
    refuse_later(plan)
    body = plan.model_dump(mode="json")
    release = Release(
        service=service,
        team=service.team,
        version=version,
        from_version=service.stable_version,
        undoes=undoes,
        image=image,
        plan_name=plan.name,
        plan=body,
        plan_hash=plan_hash(plan),
        policy=policy.to_dict(),
        shortfalls=[term.to_dict() for term in missing],
        bypass_reason=bypass.strip() if missing and bypass else "",
        freeze_override=override.strip() if overrides else "",
        freeze_overridden_by=actor.name if overrides else "",
        freeze_overridden_at=kernel.clock() if overrides else None,
        requested_by_id=actor.user_id,
        requester=actor.name,
        reason=reason,
        created_at=kernel.clock(),
        stable_deployment=service.stable_deployment,
        next_at=kernel.clock(),
    )
    _insert(release, service)
    candidate = warm or f"{service.name}-r{release.pk}"
    Release.objects.filter(pk=release.pk).update(candidate_deployment=candidate)
    # Three sets of workers at once are more than anybody has reckoned with.
    for former in Release.objects.filter(service=service, bake_until__isnull=False):
        _end_bake(former)
    # A row has many readers, whatever this one reads.
    with translation.override("en"):
        rows = [
            ReleaseStep(release=release, index=index, kind=step.kind, title=step.summary())
            for index, step in enumerate(plan.steps)
        ]
    ReleaseStep.objects.bulk_create(rows)
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
            **({"image": image.name} if image else {}),
        },
    )
    if missing:
        record_bypass(release, missing, actor=actor, reason=release.bypass_reason)
    if overrides:
        record_override(release, actor=actor, reason=override.strip())
    kernel.wake(release)
    events.publish(ReleaseMoved(release.pk, service.pk))
    release.refresh_from_db()
    return release


def _insert(release: Release, service: Service) -> None:
    """Raises AlreadyInMotion when the service has another release."""
    # What keeps it to one of a service is an index over the states that are known here.
    if later := Release.objects.filter(service=service).exclude(state__in=ReleaseState.values).first():
        raise _already(service, later)
    try:
        with transaction.atomic():
            release.pk = next_number(Release)
            release.save(force_insert=True)
    except IntegrityError:
        moving = Release.objects.filter(service=service, state__in=IN_MOTION).first()
        if moving is None:
            raise
        raise _already(service, moving) from None


def _already(service: Service, moving: Release) -> AlreadyInMotion:
    return AlreadyInMotion(
        _(
            "%(version)s is being released to %(service)s (release %(moving)s, %(moving_2)s). Wait "
            "for its end, or abort it."
        )
        % {
            "version": moving.version,
            "service": service.name,
            "moving": moving.pk,
            "moving_2": word_of(moving.state),
        }
    )


def halt_release(release: Release, halt: Halt, *, by: str, reason: str) -> None:
    """Write the wish to give up. Raises NotPossibleNow if there is one, or it has ended."""
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
        if not release.is_known_here:
            raise NotPossibleNow(
                _("The release is %(release)s. Try again when the upgrade is over.")
                % {"release": word_of(release.state)}
            )
        if release.halt and release.state in IN_MOTION:
            raise NotPossibleNow(
                _("It is being aborted already, by %(halted_by)s.") % {"halted_by": release.halted_by}
            )
        raise NotPossibleNow(
            _("The release has ended: it is %(release)s.") % {"release": word_of(release.state)}
        )
    events.publish(ReleaseMoved(release.pk, release.service_id))
