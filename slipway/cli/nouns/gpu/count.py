"""`slipway gpu count`: how many GPUs machines show, and must have."""

from typing import Annotated

import typer

from slipway.cli.context import Columns, context_of
from slipway.cli.options import RequiredReason
from slipway.client import at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="GPUs that machines must have, and GPUs that are missing.", no_args_is_help=True)

COUNTS = at("gpu-health", "counts")
COLUMNS: Columns = {
    "NODE": "node",
    "CLUSTER": "cluster",
    "EXPECTED": "expected",
    "BY CLUSTER": lambda row: row["present"].get("cluster", ""),
    "BY AGENT": lambda row: row["present"].get("agent", ""),
    "SET BY": "fixed_by",
    "MISSING SINCE": "short_since",
}


@app.command("list")
def list_counts(typer_context: typer.Context) -> None:
    """List the machines with GPUs."""
    context_of(typer_context).each(COUNTS, COLUMNS)


@app.command("expect")
def expect(
    typer_context: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the machine.")],
    count: Annotated[int | None, typer.Argument(metavar="[COUNT]", min=0, help="GPUs it must have.")] = None,
    learned: Annotated[bool, typer.Option("--learned", help="Take labels and counts again.")] = False,
    cluster: Annotated[str, typer.Option("--cluster", help="Cluster of the machine, if ambiguous.")] = "",
    reason: RequiredReason = "",
) -> None:
    """Say how many GPUs a machine must have: one was taken out, or added, on purpose."""
    if (count is None) is not learned:
        raise CommandFailed("Give either a COUNT or --learned.", Exit.USAGE)
    context = context_of(typer_context)
    body: dict[str, object] = {"node": node, "count": count, "reason": reason}
    changed = context.client.post(COUNTS.below("expect"), body | ({"cluster": cluster} if cluster else {}))
    context.show(changed)
    context.tabulate([changed], COLUMNS)
