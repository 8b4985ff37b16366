"""`slipway node drain`: preview, progress and end of a drain."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.nodes import Cluster, Name, node_named
from slipway.cli.nodes import app as app
from slipway.cli.options import Reason, RequiredReason
from slipway.cli.waiting import until_over
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

UNDER_WAY = ("cordoning", "replacing", "turning_away", "evicting", "cancelling")

PODS: Columns = {
    "POD": lambda row: f"{row['namespace']}/{row['name']}" if row["namespace"] else row["name"],
    "OWNER": "owner",
    "GPUS": "gpus",
    "FATE": "fate",
    "WHY": lambda row: row["blocked_by"] or row["why"],
}
DEPLOYMENTS: Columns = {
    "DEPLOYMENT": "name",
    "SERVICE": "service",
    "VERSION": "version",
    "LEAVING": "leaving",
    "READY ELSEWHERE": "ready_elsewhere",
    "NOTE": "note",
}
REPLACEMENTS: Columns = {
    "DEPLOYMENT": "deployment",
    "LEAVING": "leaving",
    "REPLACED FIRST": "started",
    "READY": "ready",
    "WHY NOT": "why",
}
DRAINS: Columns = {
    "DRAIN": "id",
    "NODE": "node",
    "CLUSTER": "cluster",
    "STATE": "state",
    "BY": "by",
    "REASON": "reason",
    "ASKED": "asked_at",
    "PROBLEM": "problem",
}


@app.command("drain")
@confirmed(lambda _, given: "" if given["preview"] else f"Evict the pods of {given['name']}?")
def drain(
    typer_context: typer.Context,
    name: Name,
    cluster: Cluster = "",
    reason: Reason = "",
    preview: Annotated[bool, typer.Option("--preview", help="Only show the effect.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for its end.")] = False,
    within: Annotated[int, typer.Option("--within", min=1, help="Seconds until it has failed.")] = 3600,
    grace: Annotated[
        int | None, typer.Option("--grace", min=1, help="Seconds for each pod to end; default: its own.")
    ] = None,
    local_data: Annotated[
        bool, typer.Option("--delete-local-data", help="Evict pods with emptyDir volumes, too.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also evict pods that no controller recreates.")
    ] = False,
    past_budgets: Annotated[
        bool, typer.Option("--past-budgets", help="Delete pods, whatever their disruption budgets say.")
    ] = False,
    replace_within: Annotated[
        int,
        typer.Option(
            "--replace-within",
            min=0,
            help="Seconds for replacements of Slipway's workers to be ready elsewhere first; 0: none.",
        ),
    ] = 600,
    checkpoint_within: Annotated[
        int, typer.Option("--checkpoint-within", min=0, help="Seconds for checkpoints first; 0: none.")
    ] = 900,
    gpu_pods_only: Annotated[bool, typer.Option("--gpu-pods-only", help="Leave pods without GPUs.")] = False,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            metavar="NAME=POLICY",
            help="`evict`, `leave` or `finish:SECONDS`; `*` is every other one; repeatable.",
        ),
    ] = None,
    checkpoint_urls: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint-url",
            metavar="NAMESPACE=URL",
            help="Webhook asked for checkpoints before pods of the namespace are evicted; repeatable.",
        ),
    ] = None,
) -> None:
    """Cordon a machine and evict its pods, as their disruption budgets allow. It stays cordoned."""
    context = context_of(typer_context)
    options = {
        "within_seconds": within,
        "grace_seconds": grace,
        "local_data_may_go": local_data,
        "unowned_may_go": force,
        "past_budgets": past_budgets,
        "replace_seconds": replace_within,
        "checkpoint_seconds": checkpoint_within,
        "gpu_pods_only": gpu_pods_only,
        "namespaces": namespaces_given(namespaces or (), checkpoint_urls or ()),
    }
    node = node_named(context, name, cluster)
    path = at("clusters", node["cluster"], "nodes", node["id"])
    if preview:
        _preview(context, context.client.post(path.below("drain-preview"), options))
        return
    row = context.client.create(path.below("drain"), {**options, "reason": context.asked_for(reason)})
    context.say(f"The drain of {name} is ordered.")
    if wait:
        where = at("clusters", node["cluster"], "drains", row["id"])
        row = until_over(context, row, where, is_open=_is_under_way, timeout=within + 60)
    _tell(context, row)


@app.command("drains")
def drains(typer_context: typer.Context, cluster: Cluster = "") -> None:
    """List drains, under way and ended, the latest first."""
    context = context_of(typer_context)
    names = [cluster] if cluster else [one["name"] for one in context.client.each(at("clusters"))]
    context.rows(
        [row for name in names for row in context.client.each(at("clusters", name, "drains"))], DRAINS
    )


@app.command("cancel-drain")
def cancel(
    typer_context: typer.Context, name: Name, cluster: Cluster = "", reason: RequiredReason = ""
) -> None:
    """Evict no further pod of a machine; a cordon that its drain set is taken back."""
    context = context_of(typer_context)
    body = {"reason": reason}
    node = node_named(context, name, cluster)
    found = list(context.client.each(at("clusters", node["cluster"], "drains"), node=name))
    open_ones = [row for row in found if row["node_id"] == node["id"] and _is_under_way(row)]
    if not open_ones:
        raise CommandFailed(f"{name} is not being drained.", Exit.USAGE)
    path = at("clusters", node["cluster"], "drains", open_ones[0]["id"], "cancel")
    context.tell(context.client.create(path, body), f"The drain of {name} is cancelled.")


def _is_under_way(row: Document) -> bool:
    return row["state"] in UNDER_WAY


def _preview(context: CliContext, found: Document) -> None:
    context.show(found)
    context.tabulate(found["pods"], PODS)
    if found["deployments"]:
        context.tabulate(found["deployments"], DEPLOYMENTS)
    if found["replacements"]:
        context.tabulate(found["replacements"], REPLACEMENTS)
    if found["problem"]:
        context.say(f"It cannot be done so: {found['problem']}")


def _tell(context: CliContext, row: Document) -> None:
    context.show(row)
    context.tabulate(row["pods"], PODS)
    if row["replacements"]:
        context.tabulate(row["replacements"], REPLACEMENTS)
    context.say(f"{row['node']} is {row['state'].replace('_', ' ')}. {row['problem']}".strip())
    if row["state"] in ("failed", "cancelled"):
        raise CommandFailed(f"{row['node']} is not drained.", Exit.FAILED)


def namespaces_given(policies: Iterable[str], urls: Iterable[str]) -> dict[str, dict[str, Any]]:
    found = dict(_policy(text) for text in policies)
    for text in urls:
        name, _, url = text.partition("=")
        if not name or not url:
            raise CommandFailed(f"--checkpoint-url {text}: give NAMESPACE=URL.", Exit.USAGE)
        found[name] = {"policy": "evict", **found.get(name, {}), "checkpoint_url": url}
    return found


def _policy(text: str) -> tuple[str, dict[str, Any]]:
    name, _, policy = text.partition("=")
    policy, _, seconds = policy.partition(":")
    if not name or policy not in ("evict", "leave", "finish") or (seconds and not seconds.isdecimal()):
        raise CommandFailed(
            f"--namespace {text}: give NAME=evict, NAME=leave or NAME=finish:SECONDS.", Exit.USAGE
        )
    return name, {"policy": policy} | ({"within_seconds": int(seconds)} if seconds else {})
