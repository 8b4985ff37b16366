"""`slipway objective`: service level objectives and their error budgets."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import Number, Reason
from slipway.client import at

app = typer.Typer(help="Service level objectives and their error budgets.", no_args_is_help=True)


def _left(row: dict[str, Any]) -> str:
    budget = row["budget"]
    return f"{budget['remaining']:.1%}" if budget["requests"] else "-"


COLUMNS: Columns = {
    "ID": "id",
    "NAME": "name",
    "SERVICE": "service",
    "TARGET": lambda row: f"{row['target_percent']:g}%",
    "WITHIN": lambda row: f"{row['latency_ms']:g} ms" if row["latency_ms"] else "",
    "DAYS": "window_days",
    "BAD": lambda row: f"{row['budget']['bad']}/{row['budget']['requests']}",
    "BUDGET LEFT": _left,
    "BURN 1H": lambda row: row["budget"]["burn_1h"],
    "BURN 6H": lambda row: row["budget"]["burn_6h"],
}


@app.command("list")
def list_objectives(
    typer_context: typer.Context,
    service: Annotated[str, typer.Option("--service", help="Only of this service.")] = "",
) -> None:
    """List objectives with their error budgets."""
    context_of(typer_context).each(at("objectives"), COLUMNS, service=service or None)


@app.command("add")
def add(
    typer_context: typer.Context,
    name: str,
    service: Annotated[str, typer.Option("--service", help="Service that it is about.")],
    target: Annotated[float, typer.Option("--target", help="Percent of requests that must be good.")],
    latency_ms: Annotated[
        float, typer.Option("--latency-ms", help="Slower answers are bad; default: 5xx are.")
    ] = 0.0,
    days: Annotated[int, typer.Option("--days", min=1, max=30, help="Window.")] = 30,
) -> None:
    """Add an objective of availability, or of latency."""
    context = context_of(typer_context)
    body = {"name": name, "service": service, "target_percent": target, "window_days": days}
    row = context.client.create(at("objectives"), body | {"latency_ms": latency_ms or None})
    context.tell(row, f"Objective {row['id']}, {row['name']}, was created.")


@app.command("delete")
@confirmed("Delete objective {number} with its counts?")
def delete(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Delete an objective; its alerts are resolved."""
    context = context_of(typer_context)
    context.client.delete(at("objectives", number), reason=reason)
    context.progress.print(f"Objective {number} was deleted.", markup=False)
