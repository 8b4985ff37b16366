"""What a deployment of ours is made of in Kubernetes: Deployment, Service, PodDisruptionBudget."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusters.backends.base import CannotRun, DeploymentSpec, Fence
from clusters.backends.kubernetes.files.base import CONFINED, MODELS, Mount
from clusters.backends.kubernetes.pods import CONTAINER, PORT
from clusters.backends.kubernetes.reporting import add_report_token, report_secret, reporting
from clusters.backends.kubernetes.settings import BY_DIGEST, KubernetesSettings
from clusters.backends.placement import Spread, Toleration
from serving.protocol import WORKER_ENVIRONMENT, WorkerCommand

Document = dict[str, Any]

MANAGED_BY = "app.kubernetes.io/managed-by"
DEPLOYMENT = "slipway.dev/deployment"
SERVICE = "slipway.dev/service"
FENCE = "slipway.dev/fence"
"""Annotation: who wrote the object last, `HOLDER.TURN`."""
VERSION = "slipway.dev/version"
GPU = "nvidia.com/gpu"

SETTLE_SECONDS = 5.0
"""Longer than a gateway takes to see that an endpoint is terminating."""
KILL_AFTER_SECONDS = 5
LOADS_WITHIN_SECONDS = 3_600
"""A model that is fetched and loaded may take this long before the kubelet gives its container up."""
PROBED_EVERY_SECONDS = 5


def fence_text(fence: Fence) -> str:
    return f"{fence.holder}.{fence.turn}"


def fence_of(document: Mapping[str, Any]) -> Fence | None:
    """None: written by nobody who knows of fences."""
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
    files: Mount,
    owner: Document | None = None,
) -> list[Document]:
    """In the order in which they are applied. `owner`: a reference to what they are deleted with.

    Raises CannotRun for what Kubernetes could not run.
    """
    made = [_service(spec), _budget(spec), _deployment(spec, settings, files)]
    if settings.reports_to and spec.report_token:
        made.insert(0, report_secret(spec))
    namespace = spec.placement.namespace or settings.namespace
    for document in made:
        document["metadata"] = {"name": spec.name} | document["metadata"]
        document["metadata"] |= {
            "namespace": namespace,
            "labels": _labels(spec),
            "annotations": {FENCE: fence_text(fence), VERSION: spec.version.label},
        }
        if owner is not None:
            document["metadata"]["ownerReferences"] = [owner]
    return made


def _labels(spec: DeploymentSpec) -> dict[str, str]:
    ours = {
        "app.kubernetes.io/name": "slipway-worker",
        "app.kubernetes.io/instance": spec.name,
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
            "selector": {"matchLabels": selector(spec.name)},
        },
    }


def _deployment(spec: DeploymentSpec, settings: KubernetesSettings, files: Mount) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {},
        "spec": {
            "replicas": spec.replicas,
            "revisionHistoryLimit": 2,
            # A model takes long to load; what fails is told by its pods, not by this clock.
            "progressDeadlineSeconds": LOADS_WITHIN_SECONDS + 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": selector(spec.name)},
            "template": {
                "metadata": {
                    "labels": _labels(spec),
                    "annotations": {VERSION: spec.version.label},
                },
                "spec": _pod(spec, settings, files),
            },
        },
    }


def _pod(spec: DeploymentSpec, settings: KubernetesSettings, files: Mount) -> Document:
    placement = spec.placement
    pull_secrets = dict.fromkeys((*placement.image_pull_secrets, *settings.image_pull_secrets))
    pod: Document = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": math.ceil(SETTLE_SECONDS + spec.grace_seconds) + KILL_AFTER_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10_001,
            "fsGroup": 10_001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(spec, settings, files)],
        "volumes": [
            {"name": "shared-memory", "emptyDir": _shared_memory(spec)},
            {"name": "scratch", "emptyDir": {}},
            {"name": "models", **files.volume},
        ],
    }
    if files.containers:
        pod["initContainers"] = list(files.containers)
    if settings.reports_to:
        add_report_token(pod, spec)
    wished: Document = {
        "nodeSelector": dict(placement.node_selector),
        "tolerations": [toleration(one) for one in placement.tolerations],
        "topologySpreadConstraints": [_spread(one, spec.name) for one in placement.spread],
        "imagePullSecrets": [{"name": name} for name in pull_secrets],
        "priorityClassName": settings.priority_class,
        "runtimeClassName": settings.runtime_class,
        "serviceAccountName": settings.service_account,
    }
    return pod | {key: value for key, value in wished.items() if value}


def _container(spec: DeploymentSpec, settings: KubernetesSettings, files: Mount) -> Document:
    if not BY_DIGEST.fullmatch(spec.image):
        raise CannotRun(
            f"{spec.name} needs an image by digest, repository@sha256:..., and has {spec.image or 'none'}."
        )
    command = WorkerCommand(
        model_dir=Path(MODELS, "version"),
        name="POD_NAME",
        deployment=spec.name,
        service=spec.service,
        version_label=spec.version.label,
        engine=spec.engine,
        host="0.0.0.0",  # noqa: S104 - of the pod
        port=PORT,
        address="POD_IP",
        machine="NODE_NAME",
        slots=spec.slots,
        device=spec.device,
        settings=spec.settings,
        settle_seconds=SETTLE_SECONDS,
        grace_seconds=spec.grace_seconds,
        **reporting(settings),
    )
    healthy = {"httpGet": {"path": "/healthz", "port": "http"}}
    return {
        "name": CONTAINER,
        "image": spec.image,
        "command": [_argument(one) for one in command.argv("python")],
        "env": [
            *({"name": name, "value": value} for name, value in WORKER_ENVIRONMENT.items()),
            {"name": "HOME", "value": "/scratch"},
            *(
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for name, path in (
                    ("POD_NAME", "metadata.name"),
                    ("POD_IP", "status.podIP"),
                    ("NODE_NAME", "spec.nodeName"),
                )
            ),
        ],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "resources": _resources(spec),
        # While it loads, only the start-up probe asks; a worker that is busy must never be killed for it.
        "startupProbe": healthy
        | {
            "periodSeconds": PROBED_EVERY_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": LOADS_WITHIN_SECONDS // PROBED_EVERY_SECONDS,
        },
        "readinessProbe": healthy | {"periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {
            "tcpSocket": {"port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "securityContext": CONFINED,
        # The last lines of a worker that ends without a word are its reason.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - of the pod
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "models", "mountPath": f"{MODELS}/version", "readOnly": True}
            | ({"subPath": files.sub_path} if files.sub_path else {}),
        ],
    }


def _argument(text: str) -> str:
    """Kubernetes puts values of the environment where `$(NAME)` stands: in ours, and in nobody else's."""
    option, is_option, value = text.partition("=")
    if is_option and option in ("--name", "--address", "--machine"):
        return f"{option}=$({value})"
    return text.replace("$(", "$$(")


def _resources(spec: DeploymentSpec) -> Document:
    wanted = spec.resources
    amounts: Document = {}
    if wanted.cpus:
        amounts["cpu"] = f"{round(wanted.cpus * 1000)}m"
    if wanted.memory_bytes:
        amounts["memory"] = str(wanted.memory_bytes)
    # More processors than it asked for do no harm; more memory would be its neighbours'.
    limits = {key: value for key, value in amounts.items() if key != "cpu"}
    if wanted.gpus and spec.device != "cpu":
        amounts[GPU] = limits[GPU] = str(wanted.gpus)
    return {key: value for key, value in (("requests", amounts), ("limits", limits)) if value}


def _shared_memory(spec: DeploymentSpec) -> Document:
    size = spec.resources.shared_memory_bytes
    return {"medium": "Memory", "sizeLimit": str(size)} if size else {"medium": "Memory"}


def toleration(one: Toleration) -> Document:
    found: Document = {
        "key": one.key,
        "effect": one.effect.value if one.effect else "",
        "value": one.value or "",
    }
    operator = "Exists" if one.value is None else "Equal"
    return {"operator": operator} | {key: value for key, value in found.items() if value}


def _spread(one: Spread, deployment: str) -> Document:
    return {
        "topologyKey": one.topology_key,
        "maxSkew": one.max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if one.is_required else "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(deployment)},
    }
