"""A service's page. Every section is read when the template asks for it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils import timezone

from accounts.selectors import may
from accounts.states import Right
from clusters import selectors as fleet
from clusters.backends.kinds import abilities_of
from clusters.draining.leaving import nodes_under
from clusters.errors import NoImageFits
from clusters.images import foresee_image
from clusters.pod_facts import PodFact, pod_facts
from common.actor import Actor
from common.pages.steps import StepView
from gateway import selectors as gateway
from gateway.history import TrafficInterval
from gateway.key_selectors import access_of
from gateway.models import Gateway, Route
from gpu_health import selectors as gpu_health
from gpu_health.models import Incident
from images.models import RuntimeImage
from models_registry.models import Version
from releases import bake
from releases.errors import UnknownPlan
from releases.freezing import freeze_of, in_words
from releases.models import PodPatch, Release, Service, ServiceIndicator
from releases.pages import actions, lanes, strip, values
from releases.pages.panels import service_panels
from releases.pages.traffic_charts import SPANS, moments_of, span_named, traffic_charts
from releases.pages.workers import WorkersPanel, workers_panel
from releases.plans.plan import PlanSpec
from releases.policy import PolicyTerm, ReleasePolicy, demands, guards_candidate, shortfalls
from releases.sampling import sampler
from releases.selectors.adapters import wanted_adapters
from releases.selectors.plans import plan_named, plan_of, policy_of
from releases.selectors.releases import count_at_hand, weights
from releases.selectors.services import history, release_of, summarised
from releases.services.pod_patch import approved_patch
from releases.states import PatchState, ReleaseHeader
from serving.engines.registry import ENGINES

HISTORY_SHOWN = 25
EARLIER_SHOWN = 2


@dataclass(frozen=True, slots=True)
class ForeseenImage:
    reason: str = ""
    """Why it would be this image, or none; empty where none is needed."""
    is_lacking: bool = False
    """None fits: the release would stop before any worker starts."""


class ServicePage:
    def __init__(self, service: Service, actor: Actor, *, span: str = "") -> None:
        self.service = service
        self.span = span_named(span)
        self._actor = actor
        summarised([service])

    @cached_property
    def counted_by(self) -> str:
        return gateway.counted_by(self.service.cluster_id)

    @cached_property
    def not_counted(self) -> str:
        return gateway.not_counted(self.service.cluster_id)

    @cached_property
    def frozen(self) -> str:
        """Say which freeze keeps its releases; empty: none does."""
        held = freeze_of(self.service)
        return in_words(held) if held else ""

    @cached_property
    def release(self) -> Release | None:
        """The one in motion."""
        return release_of(self.service)

    @cached_property
    def may_decide(self) -> bool:
        """Whether this person may approve or reject the release that waits."""
        release = self.release
        if release is None:
            return False
        return bool(actions.decisions(release, plan_of(release), self._actor, count_at_hand(release)))

    @cached_property
    def machines_out(self) -> list[Incident]:
        """Incidents of machines under the workers that serve."""
        nodes = nodes_under([self.service.stable_deployment]) if self.service.stable_deployment else []
        return list(gpu_health.out_of_service(nodes)) if nodes else []

    @cached_property
    def lanes(self) -> list[lanes.Lane]:
        return lanes.lanes_of(self.service, self.release, self._looks)

    @cached_property
    def weights(self) -> dict[str, Any]:
        return weights(self.release)

    @cached_property
    def split_basis(self) -> str:
        return values.split_basis(self.weights)

    @property
    def sides(self) -> str:
        """Names of the charts' lines; asked for again by a page that shows others."""
        return ",".join(values.sides_of(self.service, self.release))

    @cached_property
    def charts(self) -> list[Any]:
        now = timezone.now()
        history = gateway.traffic_history(
            self.service.name, since=now - self.span.length, until=now, step=self.span.step
        )
        sides = values.sides_of(self.service, self.release)
        return traffic_charts(
            moments_of(history, self._looks if self.span.is_fine else ()),
            {**sides, **self._earlier(history, set(sides.values()))},
            span=self.span,
            keeps=self.span.length,
        )

    @cached_property
    def workers(self) -> WorkersPanel | None:
        """Return the workers' own counts; None: they run no code of the team's own, or are not asked yet."""
        now = timezone.now()
        history = gateway.worker_history(
            self.service.name, since=now - self.span.length, until=now, step=self.span.step
        )
        sides = values.sides_of(self.service, self.release)
        return workers_panel(history, sides) if history else None

    spans = SPANS

    @cached_property
    def panels(self) -> Sequence[tuple[str, Any]]:
        """Return what apps above show, each with its template."""
        return service_panels(self.service)

    def _earlier(self, history: Sequence[TrafficInterval], present: set[str]) -> dict[str, str]:
        """Deployments of earlier versions that answered in this time, by the name of their version."""
        answered = {
            name
            for stretch in history
            for name, figures in (stretch.targets or {}).items()
            if figures.requests and name not in present
        }
        rows = Release.objects.filter(service=self.service, candidate_deployment__in=answered)
        newest = rows.select_related("version").order_by("-pk")[:EARLIER_SHOWN]
        return {f"{row.version.name} (#{row.pk})": row.candidate_deployment for row in newest}

    @property
    def has_pods(self) -> bool:
        return abilities_of(self.service.cluster.kind).has_pods

    @property
    def indicators(self) -> list[str]:
        rows = ServiceIndicator.objects.filter(service=self.service)
        return list(rows.values_list("name", flat=True))

    @property
    def takes_adapters(self) -> bool:
        """Whether its engine loads LoRA adapters while it runs."""
        return ENGINES[self.service.engine].loads_adapters

    @cached_property
    def adapters(self) -> list[str]:
        return sorted(wanted_adapters(self.service))

    @cached_property
    def pod_patch(self) -> str:
        """Return the patch in effect; empty: none is."""
        found = approved_patch(self.service)
        return json.dumps(found) if found else ""

    @cached_property
    def is_patch_proposed(self) -> bool:
        return PodPatch.objects.filter(service=self.service, state=PatchState.PROPOSED).exists()

    @cached_property
    def may_decide_patch(self) -> bool:
        return self.is_patch_proposed and may(self._actor, Right.RELEASES_APPROVE, self.service.team)

    @cached_property
    def pod_facts(self) -> list[PodFact]:
        return pod_facts(self.service.engine, self.service.resources, self.service.pod)

    @cached_property
    def gateway(self) -> Gateway | None:
        """Return the gateway that splits its traffic; None: its cluster has none yet."""
        return gateway.gateway_of(self.service.cluster)

    @cached_property
    def access(self) -> Route | None:
        """Return the route that says whether its clients need a key; None: it has none."""
        return access_of(self.service.name)

    @cached_property
    def strip(self) -> list[StepView]:
        if self.release is None:
            return []
        return strip.strip_of(self.release, plan_of(self.release), list(self.release.steps.all()))

    @cached_property
    def deployments(self) -> list[Any]:
        """Deployments that it runs in: (deployment, its status), oldest first."""
        return [(row, lanes.status_of(row.name)) for row in fleet.deployments_of(self.service.name)]

    @cached_property
    def history(self) -> list[tuple[Release, list[actions.ReleaseAction]]]:
        """Newest first, each with the button that takes it back, where it can be."""
        rows = history(self.service, limit=HISTORY_SHOWN)
        for release in rows:
            release.service = self.service
            release.team = self.service.team
        return [
            (
                release,
                self._rollback(release)
                if release.candidate_deployment == self.service.stable_deployment
                and release.superseded_by_id is None
                else [],
            )
            for release in rows
        ]

    @cached_property
    def baking(self) -> Release | None:
        """The release that keeps the workers of the version before warm."""
        return next((release for release, _actions in self.history if release.bake_until is not None), None)

    @cached_property
    def warm_workers(self) -> int:
        return bake.warm_workers(self.baking) if self.baking else 0

    def _rollback(self, release: Release) -> list[actions.ReleaseAction]:
        if self.release is not None:
            return []  # the one in motion comes first: abort it there
        offered = actions.operations(release, self._actor, is_serving=True)
        return [action for action in offered if action.name == "rollback"]

    @cached_property
    def may_release(self) -> bool:
        return may(self._actor, Right.RELEASES_START, self.service.team)

    @cached_property
    def may_operate(self) -> bool:
        return may(self._actor, Right.RELEASES_OPERATE, self.service.team, service=self.service.name)

    @cached_property
    def may_change(self) -> bool:
        return may(self._actor, Right.SERVICES_WRITE, self.service.team)

    @property
    def url(self) -> str:
        return self.service.summary.url

    @property
    def curl(self) -> str:
        """Return a request that its workers answer: of own code, the list of its routes."""
        if self.service.engine == "app":
            return f"curl {self.url}openapi.json"  # untranslated
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64}
        return (
            f"curl {self.url}v1/chat/completions \\\n"  # untranslated
            f"  -H 'content-type: application/json' \\\n"
            f"  -d '{json.dumps(body)}'"
        )

    def strip_of_plan(self, name: str) -> list[StepView]:
        """Return the strip of the service's plan; empty for a plan that there is not."""
        try:
            return strip.strip_of_plan(plan_named(name, team=self.service.team))
        except UnknownPlan:
            return []

    def shortfalls_of_plan(self, name: str) -> Sequence[PolicyTerm]:
        """Return the terms that the plan lacks; nothing is demanded of a service's first version."""
        if self.service.stable_version_id is None:
            return ()
        try:
            plan = plan_named(name, team=self.service.team)
        except UnknownPlan:
            return ()
        return shortfalls(plan, self._policy)

    @cached_property
    def demanded(self) -> Sequence[PolicyTerm]:
        """Terms that its releases must meet."""
        return demands(self._policy)

    @property
    def is_candidate_open(self) -> bool:
        """Clients can choose the candidate before what is demanded of it."""
        return self.service.release_header == ReleaseHeader.OPEN and guards_candidate(self._policy)

    @cached_property
    def _policy(self) -> ReleasePolicy:
        return policy_of(self.service)

    @cached_property
    def may_bypass(self) -> bool:
        return may(self._actor, Right.RELEASES_BYPASS, self.service.team)

    def image_for(self, version: Version | None, named: RuntimeImage | None) -> ForeseenImage:
        """Foresee the image that a release would run."""
        if version is None:
            return ForeseenImage()
        service = self.service
        try:
            picked = foresee_image(
                cluster=service.cluster,
                team=service.team,
                version=version,
                engine=service.engine,
                device=service.device,
                resources=service.resources,
                named=named or service.image,
                present=fleet.image_of(service.stable_deployment),
            )
        except NoImageFits as error:
            return ForeseenImage(str(error), is_lacking=True)
        return ForeseenImage(picked.reason if picked.image else "")

    @cached_property
    def plan(self) -> PlanSpec | None:
        try:
            return plan_named(self.service.plan_name, team=self.service.team)
        except UnknownPlan:
            return None

    @cached_property
    def _looks(self) -> Sequence[Any]:
        return sampler.seen(self.service.name)
