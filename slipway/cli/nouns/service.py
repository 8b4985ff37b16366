from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from serving.engines.registry import SERVED_ENGINES
from slipway.cli import adapters, asking, indicators, pod_patches, service_changes
from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.moments import with_zone
from slipway.cli.names import split_version
from slipway.cli.options import Reason, Timeout, WaitForEnd
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
from slipway.cli.watching import fetch_lines, watch
from slipway.client import Document, ServerRefused, at
from slipway.exits import CommandFailed, Exit

COLUMNS: Columns = {
    "SERVICE": "name",
    "STATE": "state",
    "STABLE": "stable",
    "CANDIDATE": "candidate",
    "CANDIDATE %": lambda row: _percent(row),
}

LIVE_COLUMNS: Columns = {
    "VERSION": "version",
    "SHARE %": "percent",
    "SINCE": "since",
    "RELEASE": "release",
    "REQUESTED BY": "requested_by",
    "APPROVED BY": lambda row: ", ".join(approval["by"] for approval in row["approvals"]),
}


FORMER_COLUMNS: Columns = {
    "VERSION": "version",
    "SERVED UNTIL": "served_until",
    "RELEASE": "release",
    "PLAN": "plan",
    "SKIPS": lambda row: ", ".join(row["skips"]),
    "SECONDS": lambda row: "" if row["seconds"] is None else f"{row['seconds']:.1f}",
    "REFUSED": "refusal",
}


class ReleaseHeaderOption(StrEnum):
    OFF = "off"
    SECRET = "secret"  # noqa: S105 - a mode
    OPEN = "open"


TAKEN_FROM = {
    ReleaseHeaderOption.OFF: "no client",
    ReleaseHeaderOption.SECRET: "clients that send this key as x-release-key",
    ReleaseHeaderOption.OPEN: "every client",
}
app = typer.Typer(help="Services: a gateway endpoint and the version that serves it.", no_args_is_help=True)
app.add_typer(pod_patches.app, name="pod-patch")
app.add_typer(adapters.app, name="adapter")
app.add_typer(indicators.app, name="indicator")
app.command("change")(service_changes.change)
app.command("ask")(asking.ask)


@app.command("create")
def create(
    typer_context: typer.Context,
    name: str,
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION", help="First version, or MODEL:ALIAS.")],
    cluster: Annotated[
        str, typer.Option("--cluster", help="Cluster of its workers; default: local, or what a rule picks.")
    ] = "",
    cluster_rule: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster-rule",
            metavar="KEY=VALUE",
            help="Pick the cluster by region, provider, gpu, gpu_resource, free_gpus or label.NAME; "
            "repeatable.",
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", help=f"One of {', '.join(SERVED_ENGINES)}.")
    ] = "transformers",
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Number of workers.")] = 1,
    slots: Annotated[int, typer.Option("--slots", min=1, help="Concurrent requests per worker.")] = 4,
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
    device: Annotated[
        str, typer.Option("--device", help="auto, cuda or cpu; cpu: workers get no GPUs.")
    ] = "",
    plan: Annotated[str, typer.Option("--plan", help="Default release plan.")] = "canary",
    image: Annotated[
        str, typer.Option("--image", help="Runtime image; default: the best match of the catalogue.")
    ] = "",
    alias: Annotated[str, typer.Option("--alias", help="Alias to move to each promoted version.")] = "",
    team: Annotated[str, typer.Option("--team", help="Owner; default: the model's.")] = "",
    description: Annotated[str, typer.Option("--description", help="Description.")] = "",
    release_header: Annotated[
        ReleaseHeaderOption | None,
        typer.Option(
            "--release-header", help="Who may choose the version by x-release: off, secret or open."
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="With --release-header open: required where a policy applies.")
    ] = "",
    settings: Annotated[
        Path | None, typer.Option("--settings", help="JSON file with engine settings.")
    ] = None,
    wait: WaitForEnd = False,
    timeout: Timeout = 3600,
) -> None:
    """Create a service; a first release deploys the version."""
    context = context_of(typer_context)
    model, first = split_version(version)
    body = {
        "name": name,
        "model": model,
        "version": first,
        "engine": engine,
        "replicas": replicas,
        "slots": slots,
        "plan": plan,
        "description": description,
    }
    named = {"alias": alias, "team": team, "image": image, "device": device, "cluster": cluster}
    if cluster_rule:
        body["cluster_rule"] = _rule(cluster_rule)
    body |= {key: value for key, value in named.items() if value}
    resources = amounts(
        gpus=gpus, gpu_resource=gpu_resource, cpus=cpus, memory=memory, shared_memory=shared_memory
    )
    asked = pod_of(
        read_json(pod, "--pod") if pod else {},
        node_selector=node_selector,
        tolerations=toleration,
        topology_spread=topology_spread,
        priority_class=priority_class,
        runtime_class=runtime_class,
        pull_secrets=pull_secret,
        env=env,
        secret_env=secret_env,
    )
    body |= {key: value for key, value in (("resources", resources), ("pod", asked)) if value}
    if settings is not None:
        body["settings"] = read_json(settings, "--settings")
    document = context.client.create(at("services"), body)
    if release_header is not None:
        document |= _take_header(context, name, release_header, reason)
    number = document["release_in_motion"]
    if document.get("release_key"):
        context.say_secret(document["release_key"])
    context.say(f"{name} is created; release {number} deploys {version}")
    status = Exit.DONE
    if wait:
        release = context.client.get(at("releases", number))
        release, status = watch(context, release, stop_at_approval=False, timeout_seconds=timeout)
        document |= context.client.get(at("services", name))
        for line in (release["outcome"], *fetch_lines(release)):
            context.say(line)
    context.show(document)
    if status:
        raise typer.Exit(status)


def _rule(pairs: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not is_pair or not value:
            raise typer.BadParameter(f"{pair}: write KEY=VALUE", param_hint="--cluster-rule")
        if key.startswith("label."):
            found.setdefault("labels", {})[key.removeprefix("label.")] = value
        else:
            found[key] = int(value) if key == "free_gpus" and value.isdecimal() else value
    return found


@app.command("release-header")
@confirmed("Let x-release be used by {release_header} on {name}? A key that clients have stops working.")
def set_release_header(
    typer_context: typer.Context,
    name: str,
    release_header: Annotated[
        ReleaseHeaderOption,
        typer.Argument(
            metavar="off|secret|open", help="Clients that may use it: none, those with the key, all."
        ),
    ],
    reason: Reason = "",
) -> None:
    """Set who may choose stable or candidate by the header x-release; `secret` prints a new key, once.

    `open` requires the right releases.bypass and a reason where releases need an approval or a judge step.
    """
    context = context_of(typer_context)
    body = {"release_header": release_header.value, "reason": reason}
    document = context.client.post(at("services", name, "release-header"), body)
    context.show(document)
    if document["release_key"]:
        context.say_secret(document["release_key"])
    context.progress.print(f"{name} accepts x-release from {TAKEN_FROM[release_header]}.", markup=False)


@app.command("resume-automation")
def resume_automation(typer_context: typer.Context, name: str, reason: Reason = "") -> None:
    """Let releases start by themselves again, which a rollback by hand has paused."""
    context = context_of(typer_context)
    document = context.client.post(at("services", name, "resume-automation"), {"reason": reason})
    context.tell(document, f"Releases of {name} may start by themselves again.")


@app.command("former")
def former(typer_context: typer.Context, name: str) -> None:
    """List versions that served before: when, and what returning to one takes."""
    context = context_of(typer_context)
    context.rows(context.client.get(at("services", name, "former-versions"))["results"], FORMER_COLUMNS)


@app.command("list")
def list_services(typer_context: typer.Context) -> None:
    """List services."""
    context = context_of(typer_context)
    context.each(at("services"), COLUMNS)


@app.command("show")
def show(typer_context: typer.Context, name: str) -> None:
    """Show a service: stable, candidate, and the traffic split, desired and observed."""
    context = context_of(typer_context)
    document = context.client.get(at("services", name))
    context.show(document)
    told = {key: document[key] for key in ("name", "state", "reason", "model", "stable", "candidate", "url")}
    context.table(("", ""), (told | {"traffic": _routed(document["weights"])}).items())


@app.command("live")
def live(
    typer_context: typer.Context,
    name: str,
    moment: Annotated[str, typer.Option("--at", help="Time, such as 2026-03-03T14:00Z; default: now.")] = "",
) -> None:
    """Show the versions that answered at a time: shares, since when, by which release and approval."""
    context = context_of(typer_context)
    document = context.client.get(at("services", name, "live"), at=with_zone(context, moment))
    context.show(document)
    context.say(document["summary"])
    context.tabulate(document["versions"], LIVE_COLUMNS)


def _take_header(context: CliContext, name: str, header: ReleaseHeaderOption, reason: str) -> Document:
    """Set the release header of a service that was just created. Raises CommandFailed."""
    body = {"release_header": header.value, "reason": reason}
    try:
        return context.client.post(at("services", name, "release-header"), body)
    except ServerRefused as refused:
        message = f"{name} is created, but its release header is not set. {refused}"
        raise CommandFailed(message, refused.exit) from None


def _routed(weights: dict[str, Any]) -> str:
    """Desired shares, and those observed."""
    told, seen = _shares(weights["desired"]), _shares(weights["observed"] or {})
    return f"{told}; observed {seen} ({weights['requests']:,} requests)" if seen else told


def _shares(percent: dict[str, float | None]) -> str:
    return ", ".join(f"{share:g} % {side}" for side, share in percent.items() if share is not None)


def _percent(row: dict[str, Any]) -> Any:
    return ((row.get("weights") or {}).get("desired") or {}).get("candidate")
