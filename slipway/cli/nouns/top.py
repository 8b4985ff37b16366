"""`slipway top`: the busiest workers, live."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipway.cli.context import Columns, OutputFormat, context_of
from slipway.client import at

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer()
COLUMNS: Columns = {
    "WORKER": "name",
    "SERVICE": "service",
    "VERSION": "version",
    "NODE": "node",
    "STATE": lambda row: row["alert"] or row["state"],
    "BUSY": lambda row: "-" if row["busy"] is None else f"{100 * row['busy']:.0f}%",
    "IN FLIGHT": lambda row: f"{_shown(row['in_flight'])}/{row['slots']}",
    "QUEUE": lambda row: _shown(row["queue_depth"]),
    "TTFT P95": lambda row: "-" if row["ttft_p95_seconds"] is None else f"{row['ttft_p95_seconds']:.2f} s",
}


@app.command("top")
def top(
    typer_context: typer.Context,
    service: Annotated[str, typer.Option("--service", help="Only this service.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="Only this cluster.")] = "",
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and end.")] = False,
) -> None:
    """Show workers with their load, the busiest first, until Ctrl-C; in a pipe, once."""
    context = context_of(typer_context)

    def rows() -> Any:
        return context.client.get(at("workers"), service=service, cluster=cluster)["workers"]

    if once or context.output is OutputFormat.JSON or not context.words.is_terminal:
        context.rows(rows(), COLUMNS)
        return
    from rich.live import Live

    with Live(_table(rows()), console=context.words, screen=True, auto_refresh=False) as live:
        while True:
            context.outside.sleep(every)
            live.update(_table(rows()), refresh=True)


def _table(rows: Any) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in COLUMNS:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        cells = (row[cell] if isinstance(cell, str) else cell(row) for cell in COLUMNS.values())
        table.add_row(*(Text(str(cell)) for cell in cells), style="red" if row["alert"] else "")
    return table


def _shown(number: int | None) -> str:
    return "-" if number is None else str(number)
