"""Options for the resources and pods of workers, and the documents that REST takes."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from slipway.exits import CommandFailed, Exit

Gpus = Annotated[int | None, typer.Option("--gpus", min=0, help="GPUs of each worker; default: 1.")]
GpuResource = Annotated[
    str,
    typer.Option("--gpu-resource", help="Their name in the cluster: amd.com/gpu, nvidia.com/mig-1g.10gb."),
]
Cpus = Annotated[
    str, typer.Option("--cpus", metavar="N[:LIMIT]", help="Processors of each worker: 4, 500m, 4:8.")
]
Memory = Annotated[
    str, typer.Option("--memory", metavar="SIZE[:LIMIT]", help="Memory of each worker: 16Gi, 16Gi:24Gi.")
]
SharedMemory = Annotated[
    str, typer.Option("--shared-memory", metavar="SIZE", help="The most that /dev/shm holds: 16Gi.")
]
PodFile = Annotated[
    Path | None,
    typer.Option("--pod", help="JSON file: how its pods look in Kubernetes (docs/KUBERNETES.md)."),
]
NodeSelector = Annotated[
    list[str] | None,
    typer.Option("--node-selector", metavar="KEY=VALUE", help="Label of its machines; repeatable."),
]
Tolerate = Annotated[
    list[str] | None,
    typer.Option("--toleration", metavar="KEY[=VALUE][:EFFECT]", help="Taint that it tolerates; repeatable."),
]
TopologySpread = Annotated[
    list[str] | None,
    typer.Option(
        "--topology-spread",
        metavar="KEY[:SKEW][:WHEN]",
        help="Spread over machines of this label: topology.kubernetes.io/zone:1:DoNotSchedule; repeatable.",
    ),
]
PriorityClass = Annotated[str, typer.Option("--priority-class", help="Priority class that the cluster has.")]
RuntimeClass = Annotated[str, typer.Option("--runtime-class", help="Runtime class that the cluster has.")]
PullSecret = Annotated[
    list[str] | None, typer.Option("--pull-secret", help="Secret to pull images with; repeatable.")
]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Variable; repeatable.")]
SecretEnv = Annotated[
    list[str] | None,
    typer.Option("--secret-env", metavar="NAME=SECRET/KEY", help="Variable out of a secret; repeatable."),
]


def amounts(
    *, gpus: int | None, gpu_resource: str, cpus: str, memory: str, shared_memory: str
) -> dict[str, Any]:
    """`resources`. CPUs and memory are `4:8`: what is set aside, and the limit."""
    named = {"gpu_resource": gpu_resource, "shared_memory": shared_memory}
    found: dict[str, Any] = {key: value for key, value in named.items() if value}
    found |= {} if gpus is None else {"gpus_per_worker": gpus}
    for given, least, most in ((cpus, "cpus", "cpu_limit"), (memory, "memory", "memory_limit")):
        wanted, _, limit = given.partition(":")
        found |= {key: value for key, value in ((least, wanted), (most, limit)) if value}
    return found


def pod_of(
    document: Any,
    *,
    node_selector: Iterable[str] | None,
    tolerations: Iterable[str] | None,
    topology_spread: Iterable[str] | None,
    priority_class: str,
    runtime_class: str,
    pull_secrets: Iterable[str] | None,
    env: Iterable[str] | None,
    secret_env: Iterable[str] | None,
) -> dict[str, Any]:
    """`document`, that of a file or of the service as it is, with what the options say besides: they add to
    lists."""
    if not isinstance(document, dict):
        raise CommandFailed("--pod: the file must hold a JSON object.", Exit.USAGE)
    pod: dict[str, Any] = dict(document)
    for key, option, pairs, read in (
        ("node_selector", "--node-selector", node_selector, str),
        ("env", "--env", env, str),
        ("secret_env", "--secret-env", secret_env, _secret_key),
    ):
        if found := _pairs(option, pairs or (), read):
            pod[key] = {**(pod.get(key) or {}), **found}
    for key, told in (
        ("tolerations", [_toleration(one) for one in tolerations or ()]),
        ("topology_spread", [_spread(one) for one in topology_spread or ()]),
        ("image_pull_secrets", list(pull_secrets or ())),
    ):
        before = pod.get(key) or []
        if fresh := [one for one in told if one not in before]:
            pod[key] = [*before, *fresh]
    named = {"priority_class": priority_class, "runtime_class": runtime_class}
    return pod | {key: value for key, value in named.items() if value}


def read_json(path: Path, option: str) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise CommandFailed(f"{option} {path}: {error.strerror}.", Exit.USAGE) from None
    except orjson.JSONDecodeError as error:
        raise CommandFailed(f"{option} {path} is not JSON: {error}.", Exit.USAGE) from None


def _pairs(option: str, pairs: Iterable[str], read: Callable[[str], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, is_pair, value = pair.partition("=")
        if not is_pair or not name:
            raise typer.BadParameter(f"{pair}: write NAME=VALUE", param_hint=option)
        found[name] = read(value)
    return found


def _secret_key(text: str) -> dict[str, str]:
    secret, _, key = text.partition("/")
    if not secret or not key:
        raise typer.BadParameter(f"{text}: write NAME=SECRET/KEY", param_hint="--secret-env")
    return {"secret": secret, "key": key}


def _spread(text: str) -> dict[str, Any]:
    """Colons do not occur in keys of labels."""
    key, *rest = text.split(":")
    found: dict[str, Any] = {"topology_key": key}
    for one in rest:
        found |= {"max_skew": int(one)} if one.isdecimal() else {"when_unsatisfiable": one}
    return found


def _toleration(text: str) -> dict[str, str]:
    """Read a toleration written as `kubectl taint` writes taints."""
    taint, _, effect = text.partition(":")
    key, is_pair, value = taint.partition("=")
    found = {"key": key} if key else {}
    if is_pair:
        found["value"] = value
    return found | ({"effect": effect} if effect else {})
