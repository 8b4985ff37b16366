"""The container that serves: our worker, or the server of an image of another maker."""

import math
from pathlib import Path
from typing import Any

from clusters.backends.base import DeploymentSpec
from clusters.backends.gpu_names import is_claimed
from clusters.backends.kubernetes.adapters import DIRECTORY, follows_adapters
from clusters.backends.kubernetes.device_claims import REQUEST
from clusters.backends.kubernetes.files.base import CONFINED, MODELS, FilesMount
from clusters.backends.kubernetes.pods import CONTAINER, PORT
from clusters.backends.kubernetes.reporting import reporting
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.servers import ModelServer
from serving.protocol import ADAPTERS_FILE
from serving.worker_command import WORKER_ENVIRONMENT, WorkerCommand

Document = dict[str, Any]

SETTLE_SECONDS = 5.0
"""Longer than a gateway takes to see that an endpoint is terminating."""
PROBED_EVERY_SECONDS = 5
_OF_GROUPS = {"--master-address": "LWS_LEADER_ADDRESS", "--node-rank": "LWS_WORKER_INDEX"}
"""Variables that the controller of LeaderWorkerSets gives each container."""


def worker_container(spec: DeploymentSpec, settings: KubernetesSettings, files: FilesMount) -> Document:
    """Return the container of our worker, which leaves by itself: after SIGTERM its health fails, and it
    takes requests until gateways have seen that.
    """
    further = reporting(settings)
    if follows_adapters(spec, settings):
        further["adapters_file"] = Path(DIRECTORY, ADAPTERS_FILE)
    return _ours(spec, files, _command(spec, **further).argv("python")) | {
        "ports": [_port(PORT)],
        **_probes(spec, "/healthz"),
    }


def follower_container(spec: DeploymentSpec, files: FilesMount) -> Document:
    """Return the container on a worker's other machines, which talks to its leader alone."""
    argv = _command(spec, node_rank=1).argv("python")
    return _ours(spec, files, ["python", "-m", "serving.follower", *argv[3:]])


def _command(spec: DeploymentSpec, **further: Any) -> WorkerCommand:
    if spec.nodes > 1:
        further |= {"nodes": spec.nodes, "master_address": "LEADER"}
    return WorkerCommand(
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
        settings=_settings(spec),
        settle_seconds=SETTLE_SECONDS,
        grace_seconds=spec.grace_seconds,
        **further,
    )


def _settings(spec: DeploymentSpec) -> dict[str, Any]:
    """Return the engine's settings. Where a worker spans machines, each is a pipeline stage whose GPUs share
    its layers, unless the service says otherwise.
    """
    given = dict(spec.settings)
    if spec.nodes < 2 or {"tensor-parallel-size", "pipeline-parallel-size"} & {
        name.replace("_", "-") for name in given
    }:
        return given
    sizes = {"tensor-parallel-size": max(1, spec.resources.gpus), "pipeline-parallel-size": spec.nodes}
    return given | sizes


def _ours(spec: DeploymentSpec, files: FilesMount, argv: list[str]) -> Document:
    environment = [*_surroundings(), *_whereabouts()]
    if spec.nodes > 1:
        # Of the machines that it has, the address by which the others reach it.
        environment.append({"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    return {
        "name": CONTAINER,
        "image": spec.image,
        "command": [_argument(one) for one in argv],
        "env": environment,
        "resources": resources(spec),
        "securityContext": CONFINED,
        # The last lines of a worker that ends without a word are its reason.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(files, f"{MODELS}/version"),
    }


def server_container(spec: DeploymentSpec, server: ModelServer, files: FilesMount) -> Document:
    """Return the container of an image's own server. It knows nothing of gateways and may drop requests on
    SIGTERM, so that is sent after gateways have left and its requests have had their time.
    """
    told = {
        "MODEL_DIR": server.model_path,
        "MODEL_NAME": spec.service,
        "MODEL_VERSION": spec.version.label,
        "PORT": str(server.port),
        # Of a user that the image does not know, whose name some ask for.
        "USER": "slipway",
        "LOGNAME": "slipway",
    }
    found: Document = {
        "name": CONTAINER,
        "image": spec.image,
        "env": [
            *({"name": name, "value": value} for name, value in told.items()),
            *_surroundings(),
            *_whereabouts(),
        ],
        "ports": [_port(server.port)],
        "resources": resources(spec),
        **_probes(spec, server.health_path),
        "lifecycle": {"preStop": {"sleep": {"seconds": math.ceil(SETTLE_SECONDS + spec.grace_seconds)}}},
        "securityContext": CONFINED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *_mounts(files, server.model_path),
            {"name": "scratch", "mountPath": "/tmp", "subPath": "tmp"},  # noqa: S108 - of the pod
        ],
    }
    if server.command:
        found["command"] = list(server.command)
    if server.args:
        found["args"] = list(server.args)
    return found


def _surroundings() -> list[Document]:
    told = {**WORKER_ENVIRONMENT, "HOME": "/scratch"}
    return [{"name": name, "value": value} for name, value in told.items()]


def _whereabouts() -> list[Document]:
    paths = {"POD_NAME": "metadata.name", "POD_IP": "status.podIP", "NODE_NAME": "spec.nodeName"}
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()]


def _port(number: int) -> Document:
    return {"name": "http", "containerPort": number, "protocol": "TCP"}


def _probes(spec: DeploymentSpec, path: str) -> Document:
    """While it loads, only the start-up probe asks; one that is busy must never be killed for it."""
    healthy = {"httpGet": {"path": path, "port": "http"}}
    return {
        "startupProbe": healthy
        | {
            "periodSeconds": PROBED_EVERY_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": max(1, spec.load_within_seconds // PROBED_EVERY_SECONDS),
        },
        "readinessProbe": healthy | {"periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {
            "tcpSocket": {"port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
    }


def _mounts(files: FilesMount, model_path: str) -> list[Document]:
    return [
        {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - of the pod
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "models", "mountPath": model_path, "readOnly": True}
        | ({"subPath": files.sub_path} if files.sub_path else {}),
    ]


def _argument(text: str) -> str:
    """Kubernetes puts values of the environment where `$(NAME)` stands: in ours, and in nobody else's."""
    option, is_option, value = text.partition("=")
    if is_option and option in ("--name", "--address", "--machine"):
        return f"{option}=$({value})"
    if is_option and option in _OF_GROUPS:
        return f"{option}=$({_OF_GROUPS[option]})"
    return text.replace("$(", "$$(")


def resources(spec: DeploymentSpec) -> Document:
    wanted = spec.resources
    requests: Document = {}
    limits: Document = {}
    if wanted.cpus:
        requests["cpu"] = f"{round(wanted.cpus * 1000)}m"
    # More processors than it asked for do no harm; more memory would be its neighbours'.
    if wanted.cpu_limit:
        limits["cpu"] = f"{round(wanted.cpu_limit * 1000)}m"
    if wanted.memory_bytes:
        requests["memory"] = str(wanted.memory_bytes)
    if most := wanted.memory_limit_bytes or wanted.memory_bytes:
        limits["memory"] = str(most)
    if claims_gpu(spec):
        return {**_known(requests=requests, limits=limits), "claims": [{"name": REQUEST}]}
    if wanted.gpus and spec.device != "cpu":
        requests[wanted.gpu_resource] = limits[wanted.gpu_resource] = str(wanted.gpus)
    return _known(requests=requests, limits=limits)


def _known(**amounts: Document) -> Document:
    return {key: value for key, value in amounts.items() if value}


def claims_gpu(spec: DeploymentSpec) -> bool:
    """Whether its pods get a slice of a GPU by a claim."""
    return bool(spec.resources.gpus and spec.device != "cpu" and is_claimed(spec.resources.gpu_resource))
