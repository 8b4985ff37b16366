"""`slipway gpu check`: Jobs that check an idle machine."""

from typing import Annotated

import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import Number, Reason, Timeout, WaitForEnd
from slipway.cli.waiting import until_over
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Checks of GPUs: order one, see what was found.", no_args_is_help=True)

CHECKS = at("gpu-health", "checks")
OPEN = ("waiting", "running")
COLUMNS: Columns = {
    "CHECK": "id",
    "NODE": "node",
    "CLUSTER": "cluster",
    "LEVEL": "level",
    "STATE": "state",
    "RESULT": "why",
    "ORDERED BY": "ordered_by",
    "ORDERED": "ordered_at",
}
FOUND: Columns = {
    "CHECK": "name",
    "GPU": lambda row: row.get("gpu_bus_id") or "all",
    "OUTCOME": "outcome",
    "DETAILS": "words",
}
Cluster = Annotated[str, typer.Option("--cluster", help="Cluster of the machine, if ambiguous.")]


@app.command("run")
def run(
    typer_context: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the machine.")],
    cluster: Cluster = "",
    level: Annotated[
        int, typer.Option("--level", min=1, max=3, help="1: about 15 seconds, 2: 2 minutes, 3: 15 minutes.")
    ] = 1,
    wait_minutes: Annotated[
        int, typer.Option("--idle-within", min=0, max=10_080, help="Minutes to wait for an idle machine.")
    ] = 60,
    reason: Reason = "",
    wait: WaitForEnd = False,
    timeout: Timeout = 7_200,
) -> None:
    """Check the GPUs of a machine, once nobody computes on it."""
    context = context_of(typer_context)
    body: dict[str, object] = {"node": node, "level": level, "wait_minutes": wait_minutes, "reason": reason}
    if cluster:
        body["cluster"] = cluster
    ordered = context.client.create(CHECKS, body)
    if wait:
        one = CHECKS.below(ordered["id"])
        ordered = until_over(context, ordered, one, is_open=lambda now: now["state"] in OPEN, timeout=timeout)
    _show(context, ordered)
    if wait and ordered["state"] != "passed":
        raise CommandFailed(f"Check {ordered['id']} of {node}: {ordered['state']}.", Exit.FAILED)


@app.command("list")
def list_checks(
    typer_context: typer.Context,
    node: Annotated[str, typer.Option("--node", help="Only of this machine.")] = "",
    state: Annotated[str, typer.Option("--state", help="Only in this state, such as failed.")] = "",
) -> None:
    """List the checks of machines, the last first."""
    context_of(typer_context).each(CHECKS, COLUMNS, node=node, state=state)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show what a check has found."""
    context = context_of(typer_context)
    _show(context, context.client.get(CHECKS.below(number)))


@app.command("cancel")
def cancel(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Cancel a check that is not over."""
    context = context_of(typer_context)
    _show(context, context.client.post(CHECKS.below(number, "cancel"), {"reason": reason}))


def _show(context: CliContext, document: Document) -> None:
    context.show(document)
    names = ("id", "node", "cluster", "level", "state", "why", "ordered_by", "reason")
    context.details({name.replace("_", " "): str(document[name]) for name in names})
    if document["checks"]:
        context.tabulate(document["checks"], FOUND)
