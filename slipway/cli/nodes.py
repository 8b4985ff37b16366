"""`slipway node`: the machines of clusters, and whether new workers are placed on them."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of, flag, size
from slipway.cli.options import Reason, RequiredReason
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Machines of clusters: what they are, and cordons.", no_args_is_help=True)

Cluster = Annotated[str, typer.Option("--cluster", help="Only of this cluster.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name from `list`.")]


def _cordon(row: Document) -> str:
    if row["operation"]:
        return f"{row['operation']} ordered by {row['operation_by']}"
    if not row["is_cordoned"]:
        return ""
    return ", ".join(filter(None, (row["cordoned_by"] or "outside Slipway", row["cordoned_at"])))


COLUMNS: Columns = {
    "NODE": "name",
    "CLUSTER": "cluster",
    "STATE": "state",
    "GROUP": "group",
    "GPUS": lambda row: len(row["gpus"]),
    "CPUS": "cpu_count",
    "MEMORY": lambda row: size(row["memory_bytes"] or None),
    "CORDONED BY": _cordon,
    "REASON": lambda row: row["cordon_reason"] if row["is_cordoned"] else "",
}


@app.command("list")
def list_nodes(
    typer_context: typer.Context,
    cluster: Cluster = "",
    cordoned: Annotated[
        bool | None, typer.Option("--cordoned/--schedulable", help="Only cordoned machines, or only others.")
    ] = None,
) -> None:
    """List the machines of all clusters that you may see."""
    context = context_of(typer_context)
    context.rows(_nodes(context, cluster, cordoned=flag(cordoned)), COLUMNS)


@app.command("show")
def show(typer_context: typer.Context, name: Name, cluster: Cluster = "") -> None:
    """Show a machine."""
    context = context_of(typer_context)
    node = node_named(context, name, cluster)
    context.show(node)
    context.details({title.lower(): _text(node, column) for title, column in COLUMNS.items()})
    if node["operation_problem"]:
        context.say(f"The last operation was not done: {node['operation_problem']}")


EVENTS: Columns = {
    "LAST": lambda row: row["last_at"] or "",
    "TYPE": "type",
    "ABOUT": lambda row: "this machine" if row["kind"] == "Node" else row["name"],
    "REASON": "reason",
    "COUNT": "count",
    "MESSAGE": "message",
    "BY": "by",
}


@app.command("events")
def events(
    typer_context: typer.Context,
    name: Name,
    cluster: Cluster = "",
    warnings: Annotated[bool, typer.Option("--warnings", help="Only warnings.")] = False,
    pod: Annotated[str, typer.Option("--pod", help="Only about this pod.")] = "",
    words: Annotated[str, typer.Option("--search", help="Words that reason or message must have.")] = "",
) -> None:
    """List events of a machine and of Slipway's pods on it, the latest first."""
    context = context_of(typer_context)
    node = node_named(context, name, cluster)
    wanted = {"type": "Warning" if warnings else None, "name": pod or None, "q": words or None}
    path = at("clusters", node["cluster"], "nodes", node["id"], "events")
    if context.client.get(path, limit=1)["heard_at"] is None:
        context.say(f"No watcher of {node['cluster']} is running: its events are not known.")
    context.each(path, EVENTS, **wanted)


@app.command("cordon")
def cordon(
    typer_context: typer.Context, name: Name, cluster: Cluster = "", reason: RequiredReason = ""
) -> None:
    """Place no new workers on a machine; those that run on it go on."""
    _order(context_of(typer_context), "cordon", name, cluster, reason)


@app.command("uncordon")
def uncordon(
    typer_context: typer.Context, name: Name, cluster: Cluster = "", reason: RequiredReason = ""
) -> None:
    """Let new workers be placed on a machine again, whoever cordoned it."""
    _order(context_of(typer_context), "uncordon", name, cluster, reason)


@app.command("agent-token")
@confirmed("Create a token for the agent of {name}? One that it has stops working.")
def agent_token(
    typer_context: typer.Context,
    name: Name,
    cluster: Cluster = "",
    days: Annotated[int, typer.Option("--expires-in-days", min=1, help="For how long it is good.")] = 365,
    reason: Reason = "",
) -> None:
    """Create the token by which a machine's agent reports it; shown once, on stdout. The former one ends."""
    context = context_of(typer_context)
    node = node_named(context, name, cluster)
    # No retry under an idempotency key: a secret is never told twice.
    document = context.client.post(
        at("clusters", node["cluster"], "nodes", node["id"], "agent-token"), {"days": days, "reason": reason}
    )
    context.show(document)
    context.say_secret(document["token"])


@app.command("remove-agent")
@confirmed("Remove the agent of {name} and end its token?")
def remove_agent(
    typer_context: typer.Context, name: Name, cluster: Cluster = "", reason: RequiredReason = ""
) -> None:
    """Have no agent report a machine any more: its token ends, and nobody misses its reports."""
    context = context_of(typer_context)
    body = {"reason": reason}
    node = node_named(context, name, cluster)
    path = at("clusters", node["cluster"], "nodes", node["id"], "remove-agent")
    context.tell(context.client.create(path, body), f"The agent of {name} is removed.")


def _order(context: CliContext, operation: str, name: str, cluster: str, reason: str) -> None:
    body = {"reason": reason}
    node = node_named(context, name, cluster)
    path = at("clusters", node["cluster"], "nodes", node["id"], operation)
    context.tell(context.client.create(path, body), f"{operation} of {name} is ordered.")


def _nodes(context: CliContext, cluster: str, **wanted: Any) -> list[Document]:
    names = [cluster] if cluster else [one["name"] for one in context.client.each(at("clusters"))]
    return [
        node | {"cluster": name}
        for name in names
        for node in context.client.each(at("clusters", name, "nodes"), **wanted)
    ]


def node_named(context: CliContext, name: str, cluster: str) -> Document:
    """Return the machine of that name; of several, the one that is not gone."""
    found = _nodes(context, cluster, name=name)
    living = [node for node in found if node["state"] != "gone"] or found
    if not living:
        raise CommandFailed(f"There is no machine {name}. `slipway node list` shows all.", Exit.USAGE)
    if len(living) > 1:
        clusters = ", ".join(node["cluster"] for node in living)
        raise CommandFailed(
            f"Several clusters have a {name}: choose one with --cluster ({clusters}).", Exit.USAGE
        )
    return living[0]


def _text(row: Document, column: Any) -> str:
    value = column(row) if callable(column) else row[column]
    return "" if value is None else str(value)
