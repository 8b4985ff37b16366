"""`slipway cluster`: where workers run, and which host runs those that have none to be reached over."""

from typing import Annotated

import typer

from slipway.cli.context import Columns, context_of
from slipway.cli.options import Reason, Yes
from slipway.client import at

app = typer.Typer(help="Clusters: what they are, and the host of one.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="As `list` tells it.")]

COLUMNS: Columns = {
    "CLUSTER": "name",
    "KIND": "kind",
    "TEAM": lambda row: row["team"] or "shared by all",
    "HOST": "host",
    "REGION": "region",
    "PROBLEM": "problem",
}


@app.command("list")
def list_clusters(typer_context: typer.Context) -> None:
    """List the clusters that you may see."""
    context_of(typer_context).each(at("clusters"), COLUMNS)


@app.command("show")
def show(typer_context: typer.Context, name: Name) -> None:
    """Show a cluster."""
    context = context_of(typer_context)
    row = context.client.get(at("clusters", name))
    context.show(row)
    context.details(
        {title.lower(): column(row) if callable(column) else row[column] for title, column in COLUMNS.items()}
    )


@app.command("move")
def move(
    typer_context: typer.Context,
    name: Name,
    to: Annotated[str, typer.Option("--to", metavar="HOST", help="One whose worker or sweeper lives.")],
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Give a cluster to another host: its workers and its gateway start there."""
    context = context_of(typer_context)
    body = {"host": to, "reason": context.asked_for(reason)}
    context.confirm(
        f"Is the former host of {name} off, or does nothing of Slipway run there? Else both would serve.",
        yes=yes,
    )
    context.tell(context.client.create(at("clusters", name, "move"), body), f"{name} is given to {to}.")
