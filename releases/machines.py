"""Machines that leave service under a release's workers: what follows is not the candidate's fault."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from clusters import selectors as fleet
from clusters.draining import leaving
from clusters.models import Node
from clusters.notes import DeploymentNote
from clusters.states import DeploymentState
from gpu_health import selectors as gpu_health
from releases.models import Release
from releases.states import IN_MOTION

SETTLES = timedelta(minutes=10)
"""So long workers have to be ready elsewhere, once the machine is no concern any more."""
REPAIR_TAKES = timedelta(hours=1)
"""So long workers that find no other machine wait for the return of theirs."""
JUST_NOW = timedelta(minutes=2)
"""An incident as new as this may not have been let through to quarantine yet."""


@dataclass(frozen=True, slots=True)
class MachineProblem:
    """A machine under workers of the release, and what is the matter with it."""

    node: Node
    why: str
    url: str

    def document(self, since: datetime) -> dict[str, Any]:
        return {
            "node": self.node.pk,
            "machine": self.node.name,
            "why": self.why,
            "url": self.url,
            "since": since.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class OutageState:
    """State of the release while a machine is out of service."""

    is_over: bool
    is_whole: bool
    """All its workers are ready, on machines that are in service."""
    candidate_answers: bool
    """A worker of the candidate is ready that does not leave its machine."""


def deployments_of(release: Release) -> list[str]:
    return [name for name in (release.candidate_deployment, release.stable_deployment) if name]


def standing(release: Release, now: datetime) -> OutageState:
    """Over when no worker of the release stands on a machine that is out of service, and all are ready."""
    names = deployments_of(release)
    node_id = int(release.disturbance.get("node", 0))
    drain = leaving.last_drain(node_id)
    is_drained_now = drain is not None and drain.is_under_way
    is_out = gpu_health.out_of_service([node_id], opened_after=now - JUST_NOW).exists()
    stands_there = leaving.stand_on(names, node_id)
    states = [fleet.deployment_state(name)[0] for name in names]
    left_at = release.disturbed_at or now
    if drain is not None and drain.ended_at is not None:
        left_at = max(left_at, drain.ended_at)
    answers = leaving.answer_elsewhere(release.candidate_deployment, node_id if is_out else 0)
    if is_drained_now or (is_out and stands_there):
        return OutageState(False, False, answers)
    if all(state == DeploymentState.READY for state in states):
        return OutageState(True, True, answers)
    patience = REPAIR_TAKES if is_out else SETTLES
    return OutageState(now - left_at > patience, False, answers)


def trouble_under(release: Release, now: datetime) -> MachineProblem | None:
    """The machine with an open GPU incident on which workers of the release stand; None: there is none."""
    nodes = leaving.nodes_under(deployments_of(release))
    found = gpu_health.out_of_service(nodes, opened_after=now - JUST_NOW).first()
    return MachineProblem(found.node, found.title, f"/gpu-health/incidents/{found.pk}/") if found else None


def held_deployments() -> Mapping[str, DeploymentNote]:
    """Tell the fleet's pages whose release waits for a machine."""
    rows: Sequence[tuple[str, int]] = list(
        Release.objects.filter(disturbed_at__isnull=False, state__in=IN_MOTION).values_list(
            "candidate_deployment", "pk"
        )
    )
    return {
        name: DeploymentNote(_("Release #%(release)s is held") % {"release": pk}, None, f"/releases/{pk}/")
        for name, pk in rows
    }
