"""What a deployment of ours is made of in Kubernetes: Service, PodDisruptionBudget, and a Deployment, or a
LeaderWorkerSet where one worker spans machines.

A deployment is always of the one kind: how many machines its workers span never changes."""

from collections.abc import Mapping
from typing import Any

from clusters.backends.base import CannotRun, DeploymentSpec
from clusters.backends.gpu_names import profile_of
from clusters.backends.kubernetes.adapters import adapters_listing, follows_adapters
from clusters.backends.kubernetes.containers import claims_gpu
from clusters.backends.kubernetes.device_claims import claim_template, template_name
from clusters.backends.kubernetes.files.base import FilesMount
from clusters.backends.kubernetes.groups import FOLLOWS, group_spec, set_name
from clusters.backends.kubernetes.pods import PORT
from clusters.backends.kubernetes.reporting import report_secret
from clusters.backends.kubernetes.scaling import turn_mark
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.template_patch import patch_faults, patched
from clusters.backends.kubernetes.templates import pod_spec
from common.fence import Fence
from kube.resources import LEADER_WORKER_SETS

Document = dict[str, Any]

INSTANCE = "app.kubernetes.io/instance"
MANAGED_BY = "app.kubernetes.io/managed-by"
DEPLOYMENT = "slipway.io/deployment"
SERVICE = "slipway.io/service"
FENCE = "slipway.io/fence"
"""Annotation: who wrote the object last, `HOLDER.TURN`."""
VERSION = "slipway.io/version"


def fence_text(fence: Fence) -> str:
    return f"{fence.holder}.{fence.turn}"


def fence_of(document: Mapping[str, Any]) -> Fence | None:
    """Return the fence; None: it was written by something without fences."""
    text = (document["metadata"].get("annotations") or {}).get(FENCE, "")
    holder, _, turn = text.partition(".")
    return Fence(int(holder), int(turn)) if holder.isdecimal() and turn.isdecimal() else None


def selector(deployment: str) -> dict[str, str]:
    """Labels by which its pods are found."""
    return {DEPLOYMENT: deployment}


def objects_of(
    spec: DeploymentSpec,
    *,
    fence: Fence,
    settings: KubernetesSettings,
    files: FilesMount,
    owner: Document | None = None,
) -> list[Document]:
    """Return the objects in the order in which they are applied. `owner`: a reference to what they are
    deleted with.

    Raises CannotRun for what Kubernetes could not run.
    """
    workers = _deployment if spec.nodes == 1 else _groups
    made = [_service(spec), _budget(spec), workers(spec, settings, files)]
    if settings.reports_to and spec.report_token:
        made.insert(0, report_secret(spec))
    if follows_adapters(spec, settings):
        made.insert(0, adapters_listing(spec))
    if claims_gpu(spec):
        made.insert(0, claim_template(profile_of(spec.resources.gpu_resource)))
        made[0]["metadata"] = {"name": template_name(spec)}
    namespace = spec.placement.namespace or settings.namespace
    for document in made:
        document["metadata"] = {"name": spec.name} | document["metadata"]
        document["metadata"] |= {
            "namespace": namespace,
            "labels": _labels(spec),
            "annotations": document["metadata"].get("annotations", {})
            | {FENCE: fence_text(fence), VERSION: spec.version.label},
        }
        if owner is not None:
            document["metadata"]["ownerReferences"] = [owner]
    return made


def _labels(spec: DeploymentSpec) -> dict[str, str]:
    ours = {
        "app.kubernetes.io/name": "slipway-worker",
        INSTANCE: spec.name,
        MANAGED_BY: "slipway",
        SERVICE: spec.service,
    }
    return {**spec.labels, **ours, **selector(spec.name)}


def _service(spec: DeploymentSpec) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {},
        "spec": {
            "selector": selector(spec.name),
            "ports": [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _budget(spec: DeploymentSpec) -> Document:
    """Whoever drains a machine takes one worker at a time; workers that are not ready hold up nobody."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {},
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            # A worker that spans machines goes with any of its pods.
            "selector": {"matchLabels": selector(spec.name) if spec.nodes == 1 else {INSTANCE: spec.name}},
        },
    }


def _deployment(spec: DeploymentSpec, settings: KubernetesSettings, files: FilesMount) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"annotations": {} if spec.leaves_scale else turn_mark(spec)},
        "spec": {
            **({} if spec.leaves_scale else {"replicas": spec.replicas}),
            "revisionHistoryLimit": 2,
            # A model takes long to load; what fails is told by its pods, not by this clock.
            "progressDeadlineSeconds": spec.load_within_seconds + 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": selector(spec.name)},
            "template": _template(spec, settings, files),
        },
    }


def _groups(spec: DeploymentSpec, settings: KubernetesSettings, files: FilesMount) -> Document:
    return {
        "apiVersion": LEADER_WORKER_SETS.api_version,
        "kind": LEADER_WORKER_SETS.kind,
        "metadata": {"name": set_name(spec.name)},
        "spec": group_spec(
            replicas=spec.replicas,
            size=spec.nodes,
            leader=_template(spec, settings, files),
            follower=_template(spec, settings, files, is_follower=True),
        ),
    }


def _template(
    spec: DeploymentSpec, settings: KubernetesSettings, files: FilesMount, *, is_follower: bool = False
) -> Document:
    labels = _labels(spec)
    if is_follower:
        # Whoever looks for those that take requests must not find it.
        del labels[DEPLOYMENT]
        labels[FOLLOWS] = spec.name
    template = {
        "metadata": {"labels": labels, "annotations": {VERSION: spec.version.label}},
        "spec": pod_spec(spec, settings, files, selector=selector(spec.name), is_follower=is_follower),
    }
    if not spec.pod_patch:
        return template
    if faults := patch_faults(spec.pod_patch, allows=settings.patch_allows, secrets=settings.env_secrets):
        said = "; ".join(f"{place}: {' '.join(told)}" for place, told in faults.items())
        raise CannotRun(f"{spec.name}: the patch of its pods is not allowed here (any more). {said}")
    return patched(template, spec.pod_patch)
