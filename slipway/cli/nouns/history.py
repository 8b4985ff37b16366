"""`slipway history`: figures of a service, version, worker, machine, GPU or cluster over time."""

from typing import Annotated

import typer

from slipway.cli.context import Columns, context_of
from slipway.cli.moments import with_zone
from slipway.client import Document, at

app = typer.Typer()
FIGURES: Columns = {
    "FIGURE": "title",
    "OF": "name",
    "LAST": lambda row: _said(row, row["known"][-1]),
    "LOWEST": lambda row: _said(row, min(row["known"])),
    "HIGHEST": lambda row: _said(row, max(row["known"])),
}


@app.command("history")
def history(
    typer_context: typer.Context,
    kind: Annotated[str, typer.Argument(help="service, version, worker, machine, gpu or cluster.")],
    name: Annotated[str, typer.Argument(help="Of a version its deployment; of a machine or GPU its id.")],
    length: Annotated[str, typer.Option("--range", help="Up to now, such as 15m, 1h, 24h, 30d.")] = "1h",
    since: Annotated[str, typer.Option("--since", help="Begin, instead of --range.")] = "",
    until: Annotated[str, typer.Option("--until", help="End; default: now.")] = "",
) -> None:
    """Show what its charts show: a summary and what happened; `--output json` has each point."""
    context = context_of(typer_context)
    moments = {"from": since, "to": until}
    asked = {key: with_zone(context, moment) for key, moment in moments.items() if moment}
    found = context.client.get(at("charts", kind, name), **(asked or {"range": length}))
    context.show(found)
    lines = [
        {"title": chart["title"], "unit": chart["unit"], "name": line["name"], "known": known}
        for chart in found["charts"]
        for line in chart["lines"]
        if (known := [value for value in line["values"] if value is not None])
    ]
    context.tabulate(lines, FIGURES)
    context.tabulate(found["marks"], {"TIME": "at", "MARK": "name"})


def _said(row: Document, value: float) -> str:
    return f"{100 * value:.1f}%" if row["unit"] == "percent" else f"{value:.3g}"
