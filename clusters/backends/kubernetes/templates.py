"""The pod of a worker: how it is placed, what it is given, how long it may load and how it goes."""

import math
from collections.abc import Mapping
from typing import Any

from clusters.backends.base import CannotRun, DeploymentSpec
from clusters.backends.kubernetes.adapters import add_adapters, follows_adapters
from clusters.backends.kubernetes.containers import (
    SETTLE_SECONDS,
    claims_gpu,
    follower_container,
    server_container,
    worker_container,
)
from clusters.backends.kubernetes.device_claims import REQUEST, template_name
from clusters.backends.kubernetes.files.base import FilesMount
from clusters.backends.kubernetes.reporting import add_report_token
from clusters.backends.kubernetes.settings import BY_DIGEST, KubernetesSettings
from clusters.backends.placement import Spread, Toleration

Document = dict[str, Any]

KILL_AFTER_SECONDS = 5


def pod_spec(
    spec: DeploymentSpec,
    settings: KubernetesSettings,
    files: FilesMount,
    *,
    selector: Mapping[str, str],
    is_follower: bool = False,
) -> Document:
    """`selector`: labels of the pods among which it is spread. Raises CannotRun."""
    if not BY_DIGEST.fullmatch(spec.image):
        raise CannotRun(
            f"{spec.name} needs an image by digest, repository@sha256:..., and has {spec.image or 'none'}."
        )
    if is_follower:
        container = follower_container(spec, files)
    elif spec.server is None:
        container = worker_container(spec, settings, files)
    else:
        container = server_container(spec, spec.server, files)
    container["env"] += _variables(spec, settings)
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
        "containers": [container],
        "volumes": [
            {"name": "shared-memory", "emptyDir": _shared_memory(spec)},
            {"name": "scratch", "emptyDir": {}},
            {"name": "models", **files.volume},
        ],
    }
    if claims_gpu(spec):
        pod["resourceClaims"] = [{"name": REQUEST, "resourceClaimTemplateName": template_name(spec)}]
    if files.containers:
        pod["initContainers"] = list(files.containers)
    if settings.reports_to and spec.server is None and not is_follower:
        add_report_token(pod, spec)
    if follows_adapters(spec, settings):
        add_adapters(pod, spec, settings)
    wished: Document = {
        "nodeSelector": dict(placement.node_selector),
        "tolerations": [toleration(one) for one in placement.tolerations],
        "topologySpreadConstraints": [_spread(one, selector) for one in placement.spread],
        "imagePullSecrets": [{"name": name} for name in pull_secrets],
        "priorityClassName": placement.priority_class or settings.priority_class,
        "runtimeClassName": placement.runtime_class or settings.runtime_class,
        "serviceAccountName": settings.service_account,
    }
    return pod | {key: value for key, value in wished.items() if value}


def _variables(spec: DeploymentSpec, settings: KubernetesSettings) -> list[Document]:
    """Return the environment that the service asks for. Raises CannotRun for secrets that are not open to
    services.
    """
    closed = sorted({one.secret for one in spec.secret_environment.values()} - {*settings.env_secrets})
    if closed:
        raise CannotRun(
            f"{spec.name}: services may not read the secret {', '.join(closed)} here. Whoever operates the "
            "cluster can open it to them: env_secrets in its settings."
        )
    return [
        *({"name": name, "value": value} for name, value in spec.environment.items()),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": one.secret, "key": one.key}}}
            for name, one in spec.secret_environment.items()
        ),
    ]


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
    made: Document = {"operator": operator} | {key: value for key, value in found.items() if value}
    return made if one.seconds is None else made | {"tolerationSeconds": one.seconds}


def _spread(one: Spread, selector: Mapping[str, str]) -> Document:
    return {
        "topologyKey": one.topology_key,
        "maxSkew": one.max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if one.is_required else "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selector)},
    }
