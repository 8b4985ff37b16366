"""Commands of `slipway graph` that talk to the server."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import OnlyTeam, Reason, Timeout, VersionLabel
from slipway.cli.waiting import until_over
from slipway.client import ApiPath, Document, at
from slipway.exits import CommandFailed, Exit

GraphName = Annotated[str, typer.Argument(metavar="GRAPH", help="Name of the graph, or its ID.")]
GraphFile = Annotated[Path, typer.Argument(metavar="APP.py", help="Python file with a graph.Graph.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be sent; change nothing.")]
PlanNumber = Annotated[int | None, typer.Option("--plan", help="ID of the plan; default: the newest.")]
ClusterName = Annotated[str, typer.Option("--cluster", help="A Kubernetes cluster of Slipway's.")]
RunName = Annotated[str, typer.Option("--name", help="Of the RayJob or RayService.")]

GRAPHS: Columns = {
    "ID": "id",
    "NAME": "name",
    "TEAM": "team",
    "STATE": "state",
    "VERSION": "version",
    "CREATED": "created_at",
}
PROFILES: Columns = {
    "TASK": "task",
    "RUNS ON": "option",
    "BATCH": "size",
    "SECONDS": lambda one: f"{one['seconds']:.4f} ± {one['half_width']:.4f}",
    "ITEMS/S": lambda one: f"{one['size'] / one['seconds']:.2f}",
    "MEMORY": lambda one: f"{one['memory'] / 2**20:.0f} MiB",
    "STALE": lambda one: "yes" if one["stale"] else "",
}
RUNS: Columns = {
    "NAME": "name",
    "KIND": lambda one: "job" if one["is_job"] else "service",
    "STATE": "state",
    "REASON": "reason",
}
TASKS: Columns = {
    "TASK": "task",
    "RUNS ON": "option",
    "REPLICAS": "replicas",
    "BATCH": "batch",
    "WAIT": lambda one: f"{1000 * one['wait']:.1f} ms",
    "BUSY": lambda one: f"{one['busy']:.0%}",
    "ITEMS/S": lambda one: f"{one['capacity']:.2f}",
}


ITEMS: Columns = {
    "ITEM": "id",
    "STATE": "state",
    "SECONDS": lambda one: f"{one['seconds']:.2f}",
    "REASON": "reason",
    "RETRY OF": "retry_of",
    "ARRIVED": "arrived",
}


def _find(context: CliContext, name: str) -> Document:
    """The graph of this name. Raises CommandFailed for none, or for several of different teams."""
    if name.isdecimal():
        return context.client.get(at("graphs", int(name)))
    found = [one for one in context.client.each(at("graphs"), q=name) if one["name"] == name]
    if len(found) != 1:
        several = "Several teams have one: give its ID." if found else "`slipway graph list` shows all."
        raise CommandFailed(f"There is no single graph {name}. {several}", Exit.USAGE)
    return found[0]


def _described(file: Path) -> Document:
    from serving.fields import ProtocolError
    from serving.graphs.errors import GraphError
    from serving.graphs.loading import load_graph
    from serving.runtime.errors import AppError

    try:
        return load_graph(file.resolve()).description.document()
    except (GraphError, AppError, ProtocolError) as error:
        raise CommandFailed(str(error), Exit.USAGE) from None


def list_graphs(typer_context: typer.Context) -> None:
    """List graphs."""
    context_of(typer_context).each(at("graphs"), GRAPHS)


def push(
    typer_context: typer.Context,
    file: GraphFile,
    version: VersionLabel,
    team: OnlyTeam = "",
    dry_run: DryRun = False,
    reason: Reason = "",
) -> None:
    """Make a graph of a version that holds its code, or give the graph of that name the new version."""
    context = context_of(typer_context)
    document = _described(file)
    body = {"version": version, "graph": document}
    if dry_run:
        context.tell(body, f"{document['name']} has {len(document['tasks'])} tasks, {document['digest']}.")
        return
    name = document["name"]
    mine = [
        one
        for one in context.client.each(at("graphs"), q=name)
        if one["name"] == name and team in ("", one["team"])
    ]
    if len(mine) > 1:
        raise CommandFailed(f"Several teams have a graph {name}: name one with --team.", Exit.USAGE)
    if mine:
        row = context.client.create(at("graphs", mine[0]["id"], "push"), {**body, "reason": reason})
    elif team:
        row = context.client.create(at("graphs"), {**body, "name": name, "team": team})
    else:
        raise CommandFailed(f"There is no graph {name} yet: say whose it shall be with --team.", Exit.USAGE)
    context.tell(row, f"{row['name']} is {row['version']}, {row['digest']}.")


def profile(
    typer_context: typer.Context,
    graph: GraphName,
    file: Annotated[
        Path | None, typer.Argument(metavar="[APP.py]", help="To measure; else it shows.")
    ] = None,
    source: Annotated[
        Path | None, typer.Argument(metavar="[INPUT]", help="Directory of inputs, or a .jsonl file.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    order: Annotated[bool, typer.Option("--order", help="Have an idle worker of the graph measure.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Measure the tasks on this machine and keep that, or show what is known of them."""
    context = context_of(typer_context)
    if order:
        row = context.client.create(at("graphs", _find(context, graph)["id"], "order-profile"), {})
        context.tell(row, f"The profile of {row['name']} is {row['profiling']['state']}.")
        return
    if (file is None) != (source is None) or device not in ("cpu", "cuda"):
        raise CommandFailed("To measure give APP.py and INPUT, and --device cpu or cuda.", Exit.USAGE)
    address = at("graphs", _find(context, graph)["id"], "profile")
    if file is not None and source is not None:
        report = _measured(file.resolve(), source, device)
        if dry_run:
            context.tell(report, f"{len(report['tasks'])} tasks measured; nothing was sent.")
            return
        context.client.create(address, report)
    rows = [{**one, **time} for one in context.client.each(address) for time in one["figures"]["times"]]
    context.rows(rows, PROFILES)


def _measured(file: Path, source: Path, device: str) -> Document:
    from serving.graphs import profiling
    from serving.graphs.errors import GraphError
    from serving.runtime.errors import AppError

    try:
        return profiling.profile(file, source, device=device)
    except (GraphError, AppError, OSError) as error:
        raise CommandFailed(str(error), Exit.FAILED) from None


def plan(
    typer_context: typer.Context,
    graph: GraphName,
    objective: Annotated[
        str, typer.Option("--objective", help="throughput, cost or latency.")
    ] = "throughput",
    rate: Annotated[float | None, typer.Option("--rate", help="Items/s; for cost and latency.")] = None,
    latency: Annotated[float | None, typer.Option("--latency", help="Bound on every path, seconds.")] = None,
    machines: Annotated[
        Path | None,
        typer.Option("--machines", help="JSON file with a list of machines; default: the profile's."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write it for `graph run --plan`.")] = None,
    dry_run: DryRun = False,
    timeout: Timeout = 600.0,
) -> None:
    """Compute a plan from the profiles. Exit status 1 where none is within the limits."""
    context = context_of(typer_context)
    wish: dict[str, Any] = {"objective": objective}
    wish |= {name: value for name, value in (("rate", rate), ("latency_seconds", latency)) if value}
    if machines is not None:
        try:
            wish["machines"] = json.loads(machines.read_bytes())
        except (OSError, ValueError) as error:
            raise CommandFailed(f"{machines} has no list of machines: {error}", Exit.USAGE) from None
    row = _find(context, graph)
    if dry_run:
        context.tell(wish, f"{row['name']} would be planned for {objective}.")
        return
    address = at("graphs", row["id"], "plan")
    made = context.client.create(address, wish)
    made = until_over(
        context,
        made,
        address.below(made["id"]),
        is_open=lambda one: one["state"] == "planning",
        timeout=timeout,
    )
    if out is not None and made["runtime"]:
        out.write_text(json.dumps(made["runtime"], indent=2) + "\n")
    _explain(context, made)


def explain(typer_context: typer.Context, graph: GraphName, plan: PlanNumber = None) -> None:
    """Show a plan: what holds it back, what one more core or card would bring, why not another option."""
    context = context_of(typer_context)
    _explain(context, _plan(context, at("graphs", _find(context, graph)["id"], "plan"), plan))


def _plan(context: CliContext, address: ApiPath, number: int | None, *states: str) -> Document:
    if number is not None:
        return context.client.get(address.below(number))
    for one in context.client.each(address):
        if not states or one["state"] in states:
            return one
    raise CommandFailed("The graph has no such plan: `slipway graph plan` makes one.", Exit.USAGE)


def _explain(context: CliContext, row: Document) -> None:
    result = row["result"]
    if row["state"] in ("impossible", "failed"):
        context.show(row)
        short = [
            f"{one['resource']}: {one['missing']:.4g} missing, {one['available']:.4g} there"
            for one in result.get("shortages", ())
        ]
        raise CommandFailed("; ".join(short) or row["reason"] or "No plan fits.", Exit.FAILED)
    if "plan" not in result:
        context.tell(row, f"Plan {row['id']} is {row['state']}.")
        return
    found, told = result["plan"], result["explanation"]
    context.tabulate(found["tasks"], TASKS)
    gap = "unknown" if found["gap"] is None else f"{found['gap']:.1%}"
    lines = [
        f"Plan {row['id']} is {row['state']}: {found['rate']:.3g} items/s, "
        f"{found['latency']:.3g} s, gap {gap}.",
        *(f"Bottleneck: {one['kind']} {one['name']}, {one['share']:.0%}." for one in told["bottlenecks"]),
        *(f"One more {one['more']}: {one['gain']:+.1%}." for one in told["what_if"]),
        *(f"{one['task']} by {one['option']}: {one['reason']}." for one in told["refusals"]),
    ]
    context.tell(row, "\n".join(lines))


def start(
    typer_context: typer.Context, graph: GraphName, plan: PlanNumber = None, reason: Reason = ""
) -> None:
    """Make a plan the active one; default: the newest that is proposed."""
    context = context_of(typer_context)
    address = at("graphs", _find(context, graph)["id"], "plan")
    chosen = _plan(context, address, plan, "proposed")
    row = context.client.create(address.below(chosen["id"], "start"), {"reason": reason})
    context.tell(row, f"Plan {row['id']} is {row['state']}.")


def rollback(typer_context: typer.Context, graph: GraphName, reason: Reason = "") -> None:
    """Make the plan active that was so before the present one."""
    context = context_of(typer_context)
    address = at("graphs", _find(context, graph)["id"], "rollback")
    row = context.client.create(address, {"reason": reason})
    context.tell(row, f"Plan {row['id']} is {row['state']}.")


def pause(typer_context: typer.Context, graph: GraphName, reason: Reason = "") -> None:
    """Freeze the plan: none is started until the graph is resumed."""
    _switch(context_of(typer_context), graph, "pause", reason)


def resume(typer_context: typer.Context, graph: GraphName, reason: Reason = "") -> None:
    """Let plans be started again."""
    _switch(context_of(typer_context), graph, "resume", reason)


def _switch(context: CliContext, graph: str, verb: str, reason: str) -> None:
    row = context.client.create(at("graphs", _find(context, graph)["id"], verb), {"reason": reason})
    context.tell(row, f"{row['name']} is {row['state']}.")


def runs(typer_context: typer.Context, graph: GraphName, cluster: ClusterName) -> None:
    """List the jobs and services of a graph on Ray in a cluster, as that shows them now."""
    context = context_of(typer_context)
    found = context.client.get(at("graphs", _find(context, graph)["id"], "ray"), cluster=cluster)
    context.rows(found["runs"], RUNS)


def submit(
    typer_context: typer.Context,
    graph: GraphName,
    cluster: ClusterName,
    name: RunName,
    image: Annotated[str, typer.Option("--image", help="With Ray, Slipway and the graph's packages.")],
    file: Annotated[str, typer.Option("--file", help="The graph's file, in the image or on a volume.")],
    cores: Annotated[int, typer.Option("--cores", help="Of each worker pod.")],
    memory: Annotated[int, typer.Option("--memory", help="Of each worker pod, in GiB.")],
    gpus: Annotated[int, typer.Option("--gpus", help="Of each worker pod.")] = 0,
    source: Annotated[str, typer.Option("--source", help="Items of a job; without it, a service.")] = "",
    out: Annotated[str, typer.Option("--out", help="Directory for a job's results.")] = "",
    queue: Annotated[str, typer.Option("--queue", help="Of Kueue.")] = "",
    volume: Annotated[
        list[str] | None,
        typer.Option("--volume", metavar="CLAIM:PATH", help="Volume claim; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
    reason: Reason = "",
) -> None:
    """Run a graph by its active plan on Ray in a Kubernetes cluster that has KubeRay."""
    context = context_of(typer_context)
    body: dict[str, Any] = {"cluster": cluster, "name": name, "image": image, "file": file}
    body["pods"] = {"cores": cores, "memory_gib": memory, "gpus": gpus}
    more = {"source": source, "out": out, "queue": queue, "reason": reason}
    body |= {key: value for key, value in more.items() if value}
    if volume:
        pairs = [one.partition(":") for one in volume]
        if not all(claim and path for claim, _, path in pairs):
            raise CommandFailed("--volume is CLAIM:PATH.", Exit.USAGE)
        body["volumes"] = {path: claim for claim, _, path in pairs}
    row = _find(context, graph)
    if dry_run:
        context.tell(body, f"{row['name']} would be run in {cluster} as {name}.")
        return
    _tell_run(context, context.client.create(at("graphs", row["id"], "ray", "submit"), body))


def abort(
    typer_context: typer.Context, graph: GraphName, cluster: ClusterName, name: RunName, reason: Reason = ""
) -> None:
    """Remove a job or service of a graph, with its Ray cluster."""
    context = context_of(typer_context)
    address = at("graphs", _find(context, graph)["id"], "ray", "abort")
    _tell_run(context, context.client.create(address, {"cluster": cluster, "name": name, "reason": reason}))


def _tell_run(context: CliContext, row: Document) -> None:
    context.tell(row, f"{row['name']} is {row['state']}. {row['reason']}".strip())


def items(
    typer_context: typer.Context,
    graph: GraphName,
    state: Annotated[
        str, typer.Option("--state", help="waiting, running, done, failed or cancelled; default: all.")
    ] = "",
    retry: Annotated[str, typer.Option("--retry", metavar="ID", help="Run this failed item again.")] = "",
    reason: Reason = "",
) -> None:
    """List the newest items that workers keep, failed ones with their reasons; or run one again."""
    context = context_of(typer_context)
    address = at("graphs", _find(context, graph)["id"], "items")
    if retry:
        again = context.client.create(address.below("retry"), {"item": retry, "reason": reason})
        context.tell(again, f"{retry} runs again as {again['item']}.")
        return
    found = context.client.get(address, state=state)
    context.rows(found["items"], ITEMS)
    if found["unheard"]:
        raise CommandFailed(f"These workers do not answer: {', '.join(found['unheard'])}.", Exit.FAILED)


def adapt(
    typer_context: typer.Context,
    graph: GraphName,
    mode: Annotated[str, typer.Argument(metavar="MODE", help="off, advise, approve or automatic.")],
    gain: Annotated[
        int | None, typer.Option("--gain", help="Least gain, percent of the horizon's items.")
    ] = None,
    dwell: Annotated[int | None, typer.Option("--dwell", help="Seconds that a plan stays active.")] = None,
    starts: Annotated[int | None, typer.Option("--starts-per-day", help="Adapted plans a day.")] = None,
    reason: Reason = "",
) -> None:
    """Say whether plans follow the times that workers measure."""
    context = context_of(typer_context)
    changes: dict[str, Any] = {"adapt": mode, "reason": reason}
    given = (("gain_percent", gain), ("dwell_seconds", dwell), ("starts_per_day", starts))
    changes |= {name: value for name, value in given if value is not None}
    row = context.client.patch(at("graphs", _find(context, graph)["id"]), changes)
    context.tell(row, f"{row['name']}: {row['adapt']}, from a gain of {row['gain_percent']} %.")


def add_to(app: typer.Typer) -> None:
    app.command("list")(list_graphs)
    commands = (
        *(push, profile, plan, explain, start, pause, resume, rollback),
        *(runs, submit, abort, items, adapt),
    )
    for command in commands:
        app.command()(command)
