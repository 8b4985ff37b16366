"""`slipway service change`: what the next release of a service starts its workers with."""

from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any

import typer

from serving.engines.registry import SERVED_ENGINES
from slipway.cli.context import context_of
from slipway.cli.pods import (
    Cpus,
    Env,
    GpuResource,
    Gpus,
    Memory,
    NodeSelector,
    PodFile,
    PriorityClass,
    PullSecret,
    RuntimeClass,
    SecretEnv,
    SharedMemory,
    Tolerate,
    TopologySpread,
    amounts,
    pod_of,
    read_json,
)
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

OBJECTS = ("resources", "pod", "settings")
"""Of a service: those of whose entries one can be removed."""


def change(
    typer_context: typer.Context,
    name: str,
    engine: Annotated[str, typer.Option("--engine", help=f"One of {', '.join(SERVED_ENGINES)}.")] = "",
    replicas: Annotated[int | None, typer.Option("--replicas", min=1, help="Number of workers.")] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, help="Concurrent requests per worker.")
    ] = None,
    gpus: Gpus = None,
    gpu_resource: GpuResource = "",
    cpus: Cpus = "",
    memory: Memory = "",
    shared_memory: SharedMemory = "",
    pod: PodFile = None,
    node_selector: NodeSelector = None,
    toleration: Tolerate = None,
    topology_spread: TopologySpread = None,
    priority_class: PriorityClass = "",
    runtime_class: RuntimeClass = "",
    pull_secret: PullSecret = None,
    env: Env = None,
    secret_env: SecretEnv = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            metavar="PLACE",
            help="Remove what is set: pod.tolerations, pod.env.LEVEL, resources.cpus; before what other "
            "options add; repeatable.",
        ),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="JSON file with engine settings; replaces all.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cuda or cpu.")] = "",
    plan: Annotated[str, typer.Option("--plan", help="Default release plan.")] = "",
    image: Annotated[
        str | None, typer.Option("--image", help="Runtime image; empty: the best match of the catalogue.")
    ] = None,
    alias: Annotated[
        str | None, typer.Option("--alias", help="Alias to move to each promoted version; empty: none.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="Description.")] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Required when a plan demands less of releases than before.")
    ] = "",
) -> None:
    """Change what the next release of a service uses; workers that run now stay as they are.

    What is not given stays. --pod replaces all that is set of its pods; other options add to it.
    """
    context = context_of(typer_context)
    plain = {"engine": engine, "device": device, "plan": plan, "reason": reason}
    body: dict[str, Any] = {key: value for key, value in plain.items() if value}
    numbers = {"replicas": replicas, "slots": slots, "alias": alias, "description": description}
    body |= {key: value for key, value in numbers.items() if value is not None}
    if image is not None:
        body["image"] = image or None
    if settings is not None:
        body["settings"] = read_json(settings, "--settings")
    asked = amounts(
        gpus=gpus, gpu_resource=gpu_resource, cpus=cpus, memory=memory, shared_memory=shared_memory
    )
    looks: dict[str, Any] = {
        "node_selector": node_selector,
        "tolerations": toleration,
        "topology_spread": topology_spread,
        "priority_class": priority_class,
        "runtime_class": runtime_class,
        "pull_secrets": pull_secret,
        "env": env,
        "secret_env": secret_env,
    }
    document = None if pod is None else read_json(pod, "--pod")

    def changed(present: Document) -> dict[str, Any]:
        now = {key: deepcopy(present[key]) for key in OBJECTS}
        if document is not None:
            now["pod"] = document
        _remove(now, unset or ())
        wanted = now | {
            "resources": now["resources"] | asked,
            "pod": pod_of(now["pod"], **looks),
        }
        return {key: wanted[key] for key in OBJECTS if wanted[key] != present[key]} | body

    if not (body.keys() - {"reason"} or asked or document is not None or unset or any(looks.values())):
        raise CommandFailed("Nothing is to be changed: name what, see --help.", Exit.USAGE)
    row = context.client.change(at("services", name), changed)
    context.tell(row, f"{name} is changed; its next release uses it.")


def _remove(settings: dict[str, Any], places: Iterable[str]) -> None:
    """Raises CommandFailed for a place at which nothing is set."""
    for place in places:
        *way, last = place.split(".") if place.count(".") < 2 else place.split(".", 2)
        found: Any = settings
        for key in way:
            found = found.get(key) if isinstance(found, dict) else None
        if not way or not isinstance(found, dict) or last not in found:
            raise CommandFailed(
                f"--unset {place}: nothing is set there. Places are such as pod.env.LEVEL or resources.cpus.",
                Exit.USAGE,
            )
        del found[last]
