"""What is wrong with the resources and pods that a service asks for."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from clusters.backends.kinds import abilities_of
from clusters.backends.pod_settings import (
    PodFaults,
    PodSettings,
    ResourceSettings,
    engine_faults,
    place_faults,
)
from gateway import selectors as gateway
from gateway.states import MetricsKind
from releases.models import Service
from releases.plans.plan import PlanSpec
from serving.engines.registry import POD_ENGINES, WORKER_ENGINES


def check_pods(service: Service) -> dict[str, list[str]]:
    """Faults by field, `pod.tolerations.0.effect`; empty when any cluster of its kind could take it."""
    found = _faults("resources", ResourceSettings, service.resources)
    if wrong := _faults("pod", PodSettings, service.pod):
        return found | wrong
    pod = PodSettings.read(service.pod)
    is_pod_only = service.engine in POD_ENGINES and service.engine not in WORKER_ENGINES
    if not abilities_of(service.cluster.kind).has_pods and (service.pod or is_pod_only):
        words = _("Cluster %(cluster)s runs workers as processes of its machine: it has no pods.")
        where = "pod" if service.pod else "engine"
        return found | {where: [words % {"cluster": service.cluster.name}]}
    if not abilities_of(service.cluster.kind).has_pods and service.resources.get("gpu_resource"):
        words = _("Cluster %(cluster)s counts the GPUs of its machine under no name: leave it out.")
        return found | {"resources.gpu_resource": [words % {"cluster": service.cluster.name}]}
    gpus = 1 if found else ResourceSettings.read(service.resources).gpus_per_worker
    wrong = engine_faults(service.engine, pod, gpus=gpus, settings=service.settings)
    wrong |= place_faults(pod, service.cluster.settings)
    return found | {f"pod.{place}": told for place, told in wrong.items()}


def uncounted(service: Service, plan: PlanSpec) -> str:
    """Why the plan cannot be followed with servers of other makers, whose requests the gateway does not count
    itself; empty: it can."""
    is_ours = PodSettings.read(service.pod).server_of(service.engine) is None
    found = gateway.gateway_of(service.cluster)
    if is_ours or found is None or found.metrics in (MetricsKind.GATEWAY, MetricsKind.ENVOY):
        return ""
    step = next((one for one in plan.steps if one.counts), None)
    if step is None:
        return ""
    words = _(
        "The plan's step %(step)s needs counts, and nobody counts the requests of the engine %(engine)s on "
        "cluster %(cluster)s: its workers do not, nor does its gateway. Take a plan without it, or a gateway "
        "of the kind envoy."
    )
    return words % {"step": step.spoken(), "engine": service.engine, "cluster": service.cluster.name}


def _faults(
    field: str, kind: type[PodSettings] | type[ResourceSettings], given: Mapping[str, Any]
) -> dict[str, list[str]]:
    try:
        kind.read(given)
    except PodFaults as faults:
        return {f"{field}.{place}" if place else field: told for place, told in faults.faults.items()}
    return {}
