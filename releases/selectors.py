"""Named reads of releases."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from common.actor import Actor
from gateway import selectors as gateway
from gateway.traffic import TargetCounts
from models_registry.references import Uses
from releases.condition import STATES, Condition
from releases.conditions import conditions
from releases.errors import UnknownDeployment, UnknownPlan
from releases.judge.evidence import Evidence
from releases.judge.threshold import Kept, Stretch, Threshold, threshold
from releases.judge.verdict import Verdict, verdict
from releases.models import EvidencePoint, Plan, Release, Service, SlowThreshold, TeamPolicy
from releases.plans import plan as plans
from releases.plans.builtin import builtin_plans
from releases.plans.plan import parse_plan, plan_hash
from releases.plans.words import strip
from releases.policy import NOTHING, Policy, Term, demanded_by, stricter
from releases.states import IN_MOTION, ReleaseState, ThresholdSource
from releases.succession import with_succession
from releases.summaries import ServiceSummary

SERVICE_STATES = STATES


LEARNT_FROM = timedelta(hours=6)
"""How far back stable's traffic says what is usual."""


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """What a person must do before the release goes on."""

    kind: str
    right: Right
    role: str | None
    separate_requester: bool
    since: datetime | None
    until: datetime | None
    why: str


def plan_named(name: str, *, team: Team) -> plans.Plan:
    """The team's own plan of that name, or the built-in one. Raises UnknownPlan."""
    own = Plan.objects.filter(team=team, name=name).first()
    if own is not None:
        return parse_plan(own.body)
    builtin = builtin_plans()
    if name in builtin:
        return builtin[name]
    names = sorted({*builtin, *Plan.objects.filter(team=team).values_list("name", flat=True)})
    raise UnknownPlan(
        fields={
            "plan": [
                _("There is no plan '%(name)s'. There are: %(names)s.")
                % {"name": name, "names": ", ".join(names)}
            ]
        }
    )


def policy_of_team(team: Team | int) -> Policy:
    body = TeamPolicy.objects.filter(team=team).values_list("body", flat=True).first()
    return NOTHING if body is None else Policy.model_validate(body)


def teams_with_services(actor: Actor) -> QuerySet[Team]:
    """Those that the actor may see and that release something."""
    owners = Service.objects.for_actor(actor).values("team")
    return Team.objects.filter(pk__in=owners).order_by("name")


def policy_of(service: Service) -> Policy:
    """What a release of the service must go through: what its team, itself and its plan demand."""
    own = Policy.model_validate(service.policy) if service.policy else NOTHING
    named = own if service.policy_replaces_team else stricter(policy_of_team(service.team_id), own)
    try:
        return stricter(named, demanded_by(plan_named(service.plan_name, team=service.team)))
    except UnknownPlan:
        return named


def policy_at_start(release: Release) -> Policy:
    """What was demanded of the release, whatever is demanded since."""
    return Policy.model_validate(release.policy) if release.policy else NOTHING


def shortfalls_of(release: Release) -> list[Term]:
    """What its plan lacked of what was demanded, and was let pass."""
    return [Term.from_dict(one) for one in release.shortfalls]


def is_named_by_policy(plan_name: str, *, team: Team) -> bool:
    """Whether a policy of the team, or of one of its services, allows the plan by its name."""
    named = policy_of_team(team).plans or ()
    own = Service.objects.filter(team=team, policy__isnull=False).values_list("policy", flat=True)
    return plan_name in named or any(plan_name in (body["plans"] or ()) for body in own if body)


def plan_of(release: Release) -> plans.Plan:
    """The plan that the release started with, whatever became of its name since."""
    known = _parsed.get(release.plan_hash)
    if known is None or known[0] != release.plan:
        if len(_parsed) >= MOST_PARSED:
            _parsed.clear()
        known = _parsed[release.plan_hash] = (release.plan, parse_plan(release.plan))
    return known[1]


MOST_PARSED = 500
_parsed: dict[str, tuple[Any, plans.Plan]] = {}
"""Plans by hash, with the document that each was read from: a look a second need not read it again."""


def plans_for(actor: Actor) -> list[Plan]:
    """The built-in plans as rows without a team and without an id, then those of the actor's teams."""
    built_in = [
        Plan(
            name=plan.name,
            description=plan.description,
            body=plan.model_dump(mode="json"),
            hash=plan_hash(plan),
            changed_by="",
        )
        for plan in builtin_plans().values()
    ]
    return [*built_in, *Plan.objects.for_actor(actor).select_related("team").order_by("name")]


def summary(plan: Plan) -> list[str]:
    return [cell.label for cell in strip(parse_plan(plan.body))]


def releases_for(actor: Actor) -> QuerySet[Release]:
    rows = with_succession(Release.objects.for_actor(actor))
    return rows.select_related("service", "team", "version__model", "from_version__model")


def in_motion(actor: Actor) -> QuerySet[Release]:
    return releases_for(actor).filter(state__in=IN_MOTION).order_by("-created_at")


def count_by_state() -> dict[str, int]:
    """Of all teams; every state is named."""
    counted = Release.objects.order_by().values_list("state").annotate(number=Count("pk"))
    return dict.fromkeys(ReleaseState.values, 0) | dict(counted)


def waiting_for(actor: Actor) -> QuerySet[Release]:
    """Releases whose approval this actor may give."""
    return in_motion(actor).filter(
        state=ReleaseState.WAITING_APPROVAL, halt="", team__in=teams_where(actor, Right.RELEASES_APPROVE)
    )


def waiting_for_what(release: Release) -> WaitingFor | None:
    """What a person must do; None when the release goes on by itself, or has ended."""
    if release.state == ReleaseState.STUCK:
        return WaitingFor(
            kind="person",
            right=Right.RELEASES_OPERATE,
            role=None,
            separate_requester=False,
            since=release.stuck_at,
            until=None,
            why=release.last_error,
        )
    if release.state != ReleaseState.WAITING_APPROVAL or release.halt:
        return None
    step = plan_of(release).steps[release.step_index].approval
    if step is None:
        return None
    row = next((one for one in release.steps.all() if one.index == release.step_index), None)
    since = row.started_at if row else None
    ends = step.on_timeout != "wait" and since is not None
    return WaitingFor(
        kind="approval",
        right=Right.RELEASES_APPROVE,
        role=step.role,
        separate_requester=step.separate_requester,
        since=since,
        until=since + timedelta(seconds=step.timeout_seconds) if ends and since else None,
        why=_("The plan asks for a person's word before all traffic goes to the new version."),
    )


def verdict_of(release: Release) -> Verdict | None:
    """The judge's verdict as of the last look; None before it, and for what an older judge has written."""
    evidence = evidence_of(release)
    try:
        return verdict(evidence, plan_of(release).judge) if evidence else None
    except ValueError:
        return None


def evidence_of(release: Release) -> Evidence | None:
    """None before the first look, and for what an older judge has written."""
    try:
        return Evidence.from_dict(release.evidence) if release.evidence else None
    except ValueError:
        return None


DECISIONS = ("never", "none", "insufficient", "promote", "roll_back")
"""What the analysis of a release can say: nothing to analyse, nothing yet, or the verdict's decision."""


def decision_of(release: Release, verdict: Verdict | None) -> str:
    """One of DECISIONS; `verdict` as `verdict_of` gives it."""
    if verdict is not None:
        return str(verdict.decision)
    has_canary = any(step.candidate_percent is not None for step in plan_of(release).steps)
    return "none" if release.in_motion and release.from_version_id and has_canary else "never"


def slow_threshold(release: Release, *, at: datetime, counts: TargetCounts) -> Threshold | None:
    """From when on an answer is slow in this release, as known at this look; `counts` are stable's now."""
    objective = plan_of(release).judge.slow_above_ms
    if objective is not None:
        return threshold(objective, None, ())
    row = SlowThreshold.objects.filter(service=release.service_id).order_by("-pk").first()
    kept = (
        Kept(row.milliseconds, "person" if row.source == ThresholdSource.PERSON else "learnt")
        if row
        else None
    )
    history = gateway.answered_lately(
        release.service.name, release.stable_deployment, since=at - LEARNT_FROM, until=at, now=counts
    )
    stretches = [Stretch(one.requests, one.errors, one.latency_ms) for one in history]
    return threshold(None, kept, stretches)


def threshold_of(release: Release) -> Threshold | None:
    """The one that this release is judged by; None before it has one."""
    known = release.baseline.get("threshold")
    if known is None:
        # Releases of before thresholds had a source.
        milliseconds = release.evidence.get("slow_threshold_ms")
        return None if milliseconds is None else Threshold(milliseconds, "learnt")
    return Threshold.from_dict(known)


def slow_thresholds(service: Service) -> QuerySet[SlowThreshold]:
    """The service's, newest first: what was learnt, and what people have set."""
    return SlowThreshold.objects.filter(service=service).order_by("-pk")


def curve_of(release: Release) -> list[dict[str, Any]]:
    """The judge's curve so far, as `judge.CurvePoint` writes it."""
    return list(EvidencePoint.objects.filter(release=release).values_list("curve", flat=True))


def weights(release: Release | None) -> dict[str, Any]:
    """Desired and observed shares in percent of a release in motion; None: all to stable."""
    percent = release.candidate_percent if release else 0
    progress = release.progress if release and is_measured_at(release.progress, percent) else {}
    observed = progress.get("observed_percent")
    return {
        "desired": {"stable": 100 - percent, "candidate": percent},
        "observed": {
            "stable": None if observed is None else round(100 - observed, 2),
            "candidate": observed,
        },
        "requests": progress.get("requests", 0),
        "interval_percent": progress.get("interval_percent"),
    }


def is_measured_at(progress: Mapping[str, Any], percent: int) -> bool:
    """Whether what a step has measured of the split was measured at this weight, not at one before."""
    return bool(progress.get("wished_percent") == percent)


def traffic_of(
    service: Service, *, since: datetime, until: datetime, step: timedelta
) -> list[dict[str, Any]]:
    """What each version of the service answered, a point per stretch of about `step`, oldest first."""
    stretches = gateway.traffic_history(service.name, since=since, until=until, step=step)
    named = {name for stretch in stretches for name in stretch.targets or {}}
    rows = Release.objects.filter(service=service, candidate_deployment__in=named)
    versions = {row.candidate_deployment: str(row.version) for row in rows.select_related("version__model")}
    return [
        {
            "began_at": stretch.began_at,
            "at": stretch.at,
            "versions": None
            if stretch.targets is None
            else [
                {
                    "deployment": name,
                    "version": versions.get(name),
                    "requests": figures.requests,
                    "errors": figures.errors,
                    "abandoned": figures.abandoned,
                    "requests_per_s": round(figures.requests_per_s, 3),
                    "error_share": figures.error_share,
                    "p50_ms": figures.latency_ms.p50,
                    "p95_ms": figures.latency_ms.p95,
                    "p99_ms": figures.latency_ms.p99,
                    "first_byte_p95_ms": figures.first_byte_ms.p95,
                }
                for name, figures in sorted(stretch.targets.items())
            ],
        }
        for stretch in stretches
    ]


def services_for(actor: Actor) -> QuerySet[Service]:
    rows = Service.objects.for_actor(actor).select_related(
        "team", "model", "cluster", "stable_version__model"
    )
    return rows.defer("stable_version__config", "stable_version__scan")


def uses_of_plans(actor: Actor) -> dict[tuple[int | None, str], int]:
    """How many services name a plan, by team id and name; under None those of all teams."""
    found: dict[tuple[int | None, str], int] = defaultdict(int)
    rows = Service.objects.for_actor(actor).values_list("team_id", "plan_name").annotate(number=Count("pk"))
    for team_id, name, number in rows.order_by():
        found[team_id, name] += number
        found[None, name] += number
    return dict(found)


def release_of(service: Service) -> Release | None:
    """The one in motion."""
    return releases_in_motion([service]).get(service.pk)


def served_by(deployment: str) -> tuple[int, int | None]:
    """Ids of the deployment's service, and of that one's release in motion. Raises UnknownDeployment."""
    found = (
        Release.objects.filter(candidate_deployment=deployment).values_list("service_id", flat=True).first()
    )
    if found is None:
        raise UnknownDeployment(
            _("No release has made a deployment %(deployment)s.") % {"deployment": deployment}
        )
    moving = Release.objects.filter(service=found, state__in=IN_MOTION).values_list("pk", flat=True).first()
    return found, moving


def releases_in_motion(services: Iterable[Service]) -> dict[int, Release]:
    """By service id."""
    rows = Release.objects.filter(service__in=list(services), state__in=IN_MOTION)
    return {release.service_id: release for release in rows.select_related("version__model")}


def summarised(services: Sequence[Service]) -> Sequence[Service]:
    """The services, each with a `summary` (ServiceSummary); six queries for all of them."""
    moving = releases_in_motion(services)
    seen = conditions(services, moving) if services else {}
    urls = gateway.public_urls(service.cluster_id for service in services)
    for service in services:
        url = urls.get(service.cluster_id, "")
        service.summary = _summary(service, moving.get(service.pk), seen[service.pk], url)
    return services


def services_in_trouble(actor: Actor) -> list[Service]:
    """Degraded and failing ones that the actor may do something about, each with its summary."""
    rows = Service.objects.for_actor(actor, Right.RELEASES_OPERATE).select_related("stable_version__model")
    shown = summarised(list(rows.order_by("name")))
    return [one for one in shown if one.summary.state in ("failing", "degraded")]


def conditions_now() -> dict[str, Condition]:
    """Of every service of all teams, by name."""
    services = list(Service.objects.order_by("name"))
    found = conditions(services, releases_in_motion(services)) if services else {}
    return {one.name: found[one.pk] for one in services}


def _summary(
    service: Service, release: Release | None, condition: Condition, gateway_url: str
) -> ServiceSummary:
    stable = service.stable_version
    return ServiceSummary(
        state=condition.state,
        reason=condition.reason,
        stable=str(stable) if stable else None,
        candidate=str(release.version) if release else None,
        candidate_name=release.version.name if release else "",
        release_id=release.pk if release else None,
        weights=weights(release),
        url=f"{gateway_url}/{service.name}/" if gateway_url else "",
    )


def page_of(release: Release) -> str:
    return f"{settings.SLIPWAY_PUBLIC_URL}/releases/{release.pk}/"


def history(service: Service, *, limit: int = 50) -> QuerySet[Release]:
    return (
        with_succession(Release.objects.filter(service=service))
        .select_related("version__model", "from_version__model")
        .order_by("-created_at")[:limit]
    )


STABLE_VERSIONS = Uses(
    Service.objects.exclude(stable_version=None),
    "stable_version",
    "model",
    gettext_noop("service {} (stable)"),
    ("name",),
)
CANDIDATES = Uses(
    Release.objects.filter(state__in=IN_MOTION),
    "version",
    "service__model",
    gettext_noop("service {} (candidate)"),
    ("service__name",),
)


def ways_back() -> dict[int, list[str]]:
    """Versions that a rollback would return to, or that served last: by id, of which services, in words."""
    found: dict[int, list[str]] = defaultdict(list)
    promoted = Release.objects.filter(service=OuterRef("service"), state=ReleaseState.PROMOTED)
    newest = Release.objects.filter(pk=Subquery(promoted.order_by("-ended_at", "-pk").values("pk")[:1]))
    rows = newest.values_list("service__name", "version_id", "from_version_id", "service__stable_version_id")
    for name, version_id, before_id, stable_id in rows.order_by("service__name"):
        if version_id != stable_id:
            found[version_id].append(_("served last by service %(name)s") % {"name": name})
        if before_id is not None:
            found[before_id].append(_("the way back of service %(name)s") % {"name": name})
    return dict(found)
