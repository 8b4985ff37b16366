"""`slipway cluster`: where workers run, whether they may, and which host runs those that have no address."""

from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.kubeconfig import whole_kubeconfig
from slipway.cli.options import RequiredReason
from slipway.cli.waiting import until_over
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Clusters: adding them, their checks, removing them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name from `list`.")]

COLUMNS: Columns = {
    "CLUSTER": "name",
    "KIND": "kind",
    "STATE": "state",
    "TEAM": lambda row: row["team"] or "shared by all",
    "HOST": "host",
    "REGION": "region",
    "PROVIDER": "provider",
    "LABELS": lambda row: ",".join(f"{key}={value}" for key, value in row["labels"].items()),
    "PROBLEM": "problem",
}
CAPACITY_COLUMNS: Columns = {
    "GPU": "gpu_type",
    "SHARING": "sharing",
    "NODES": "machines",
    "TOTAL": "total",
    "OURS": "ours",
    "OTHERS": "others",
    "FREE": "free",
    "FRAGMENTED": "fragmented",
    "DOWN": "unavailable",
    "USUAL": "usual",
    "LARGEST": "largest",
}
PENDING_COLUMNS: Columns = {
    "POD": lambda row: f"{row['namespace']}/{row['name']}",
    "GPUS": "gpus",
    "WHY": "why",
}
CHECK_COLUMNS: Columns = {"CHECK": "name", "RESULT": "result", "FOUND": "detail"}
CHECK_SECONDS = 120.0

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig file; stored encrypted, never shown."),
]
ContextName = Annotated[
    str | None, typer.Option("--context", help="CliContext of the kubeconfig; default: its current one.")
]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace of the workers.")]
Region = Annotated[str | None, typer.Option("--region", help="Region, as in the mirrors of images.")]
Provider = Annotated[
    str | None, typer.Option("--provider", help="Provider of the machines, such as aws or on-premises.")
]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Label; repeatable.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another setting, such as store_url=URL; repeatable."),
]
WaitForChecks = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for its checks.")]
WithinSeconds = Annotated[float, typer.Option("--timeout", help="Maximum wait in seconds.")]


@app.command("list")
def list_clusters(
    typer_context: typer.Context,
    kind: Annotated[str, typer.Option("--kind", help="Only of this kind: embedded, kubernetes.")] = "",
    region: Annotated[str, typer.Option("--region", help="Only in this region.")] = "",
    provider: Annotated[str, typer.Option("--provider", help="Only of this provider.")] = "",
) -> None:
    """List the clusters that you may see."""
    asked = {"kind": kind, "region": region, "provider": provider}
    context_of(typer_context).each(at("clusters"), COLUMNS, **asked)


@app.command("show")
def show(typer_context: typer.Context, name: Name) -> None:
    """Show a cluster: its settings, and what its checks found."""
    context = context_of(typer_context)
    row = context.client.get(at("clusters", name))
    context.show(row)
    _tell(context, row)


@app.command("capacity")
def capacity(typer_context: typer.Context, name: Name) -> None:
    """Show a cluster's GPUs by type: free, used and fragmented; and the pods that wait for a machine."""
    context = context_of(typer_context)
    found = context.client.get(at("clusters", name, "capacity"))
    context.show(found)
    context.tabulate(found["types"], CAPACITY_COLUMNS)
    if found["pending"]:
        context.tabulate(found["pending"], PENDING_COLUMNS)
    if found["problem"]:
        context.say(found["problem"])
    if found["is_stale"]:
        context.say(f"The cluster has been silent since {found['seen_at'] or 'it was added'}: this is old.")


@app.command("add")
def add(
    typer_context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="CLUSTER", help="Lower-case letters, digits and hyphens.")],
    kubeconfig: Kubeconfig = None,
    context_name: ContextName = None,
    namespace: Namespace = None,
    team: Annotated[str, typer.Option("--team", help="Team that owns it; default: shared by all.")] = "",
    region: Region = None,
    provider: Provider = None,
    labels: Labels = None,
    settings: Settings = None,
    wait: WaitForChecks = True,
    timeout: WithinSeconds = CHECK_SECONDS,
) -> None:
    """Add a Kubernetes cluster and check it; `slipway cluster manifest` prints what it must grant.

    Exits with 1 when a check failed: nothing can be released there until that is fixed.
    """
    context = context_of(typer_context)
    if kubeconfig is None:
        raise CommandFailed("A cluster is reached by its kubeconfig: --kubeconfig FILE.", Exit.USAGE)
    body = _given(region=region, provider=provider, labels=labels) | {
        "name": name,
        "kind": "kubernetes",
        "settings": _settings(settings, context=context_name, namespace=namespace),
        "secrets": {
            "kubeconfig": whole_kubeconfig(kubeconfig, named="--kubeconfig", context=context_name or "")
        },
    }
    if team:
        body["team"] = team
    row = context.client.create(at("clusters"), body)
    context.say(f"{name} is added.")
    _end_with_checks(context, row, wait=wait, timeout=timeout)


@app.command("change")
def change(
    typer_context: typer.Context,
    name: Name,
    kubeconfig: Kubeconfig = None,
    context_name: ContextName = None,
    namespace: Namespace = None,
    region: Region = None,
    provider: Provider = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="Replaces all labels; repeatable."),
    ] = None,
    settings: Settings = None,
) -> None:
    """Change what is given; what is connected to anew is checked anew."""
    context = context_of(typer_context)
    body = _given(region=region, provider=provider, labels=labels)
    if kubeconfig is not None:
        body["secrets"] = {
            "kubeconfig": whole_kubeconfig(kubeconfig, named="--kubeconfig", context=context_name or "")
        }
    added = _settings(settings, context=context_name, namespace=namespace)
    if not (body or added):
        raise CommandFailed("Nothing to change: give an option such as --region eu.", Exit.USAGE)

    def changed(row: Document) -> dict[str, Any]:
        return body | ({"settings": row["settings"] | added} if added else {})

    context.tell(context.client.change(at("clusters", name), changed), f"{name} is changed.")


@app.command("check")
def check(
    typer_context: typer.Context,
    name: Name,
    wait: WaitForChecks = True,
    timeout: WithinSeconds = CHECK_SECONDS,
) -> None:
    """Check a cluster now; exits with 1 when a check failed."""
    context = context_of(typer_context)
    row = context.client.create(at("clusters", name, "check"), {})
    _end_with_checks(context, row, wait=wait, timeout=timeout)


@app.command("remove")
@confirmed("Remove {name} and delete its credentials?")
def remove(typer_context: typer.Context, name: Name, reason: RequiredReason = "") -> None:
    """Remove a cluster on which nothing runs; its credentials are deleted with it."""
    context = context_of(typer_context)
    row = context.client.delete(at("clusters", name), reason=reason)
    context.tell(row, f"{name} is being removed.")


@app.command("manifest")
def manifest(
    typer_context: typer.Context,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the workers.")
    ] = "slipway",
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            help="capacity, node-operations, drain, forced-drain, checkpoints, gateway, inference, "
            "groups, jobs, checks; repeatable; default: all. Inventory and serving are always included.",
        ),
    ] = None,
) -> None:
    """Print the least RBAC that a Kubernetes cluster must grant, for kubectl apply -f."""
    context = context_of(typer_context)
    asked = {"namespace": namespace, "features": ",".join(features or ())}
    text = context.client.text(at("clusters", "manifest"), **asked)
    context.show({"manifest": text})
    context.say(text.rstrip("\n"))


def _given(*, region: str | None, provider: str | None, labels: list[str] | None) -> dict[str, Any]:
    given = {"region": region, "provider": provider, "labels": labels and _pairs(labels, option="--label")}
    return {key: value for key, value in given.items() if value is not None}


def _settings(given: list[str] | None, **more: str | None) -> dict[str, Any]:
    return _pairs(given or [], option="--set") | {
        key: value for key, value in more.items() if value is not None
    }


def _pairs(given: list[str], *, option: str) -> dict[str, str]:
    """`KEY=VALUE` in its two parts. Raises CommandFailed."""
    found = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not (key and equals):
            raise CommandFailed(f"{option} '{one}' is not of the form KEY=VALUE.", Exit.USAGE)
        found[key] = value
    return found


def _end_with_checks(context: CliContext, row: Document, *, wait: bool, timeout: float) -> None:
    if wait:
        address = at("clusters", row["name"])
        row = until_over(
            context, row, address, is_open=lambda now: now["state"] == "checking", timeout=timeout
        )
    context.show(row)
    _tell(context, row)
    if failed := [one["name"] for one in row["checks"] if one["result"] == "failed"]:
        raise CommandFailed(f"{row['name']} fails its checks: {', '.join(failed)}.", Exit.FAILED)


def _tell(context: CliContext, row: Document) -> None:
    told = {
        title.lower(): column(row) if callable(column) else row[column] for title, column in COLUMNS.items()
    }
    settings = ", ".join(f"{key}={value}" for key, value in row["settings"].items())
    context.details(told | {"settings": settings, "checked": row["checked_at"]})
    if row["checks"]:
        context.tabulate(row["checks"], CHECK_COLUMNS)


@app.command("move")
@confirmed("Is the former host of {name} off, or does nothing of Slipway run there? Else both would serve.")
def move(
    typer_context: typer.Context,
    name: Name,
    to: Annotated[str, typer.Option("--to", metavar="HOST", help="Host with a running worker or sweeper.")],
    reason: RequiredReason = "",
) -> None:
    """Give a cluster to another host: its workers and its gateway start there."""
    context = context_of(typer_context)
    body = {"host": to, "reason": reason}
    context.tell(context.client.create(at("clusters", name, "move"), body), f"{name} is given to {to}.")
