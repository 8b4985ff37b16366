"""`slipway capacity replay` and `switch-times`: what a policy would have done, and what it follows from."""

from csv import reader
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import Columns, context_of
from slipway.client import at

ServiceName = Annotated[str, typer.Argument(help="Name of the service.")]

SWITCH_TIMES: Columns = {
    "MODEL": "model",
    "MACHINES": "kind",
    "DRAIN": lambda row: _seconds(row["drain_seconds"]),
    "LOAD": lambda row: _seconds(row["load_seconds"]),
    "READY": lambda row: _seconds(row["ready_seconds"]),
    "START IN ALL": lambda row: _seconds(row["start_seconds"]),
}
REPLAYS: Columns = {
    "POLICY": "policy",
    "VIOLATIONS": lambda row: f"{row['violations']:.3%}",
    "HARVEST": lambda row: f"{row['harvest']:.1%}",
    "MOVES A DAY": lambda row: f"{row['moves']:.0f}",
}


def replay(
    typer_context: typer.Context,
    service: ServiceName,
    target: Annotated[float | None, typer.Option(help="Utilisation, such as 0.8.")] = None,
    hold: Annotated[float | None, typer.Option(help="Seconds before workers are taken away.")] = None,
    band: Annotated[float | None, typer.Option(help="Share that the need must lie below.")] = None,
    drain: Annotated[float | None, typer.Option(help="Seconds within which a backlog is to go.")] = None,
    hours: Annotated[int, typer.Option(min=1, max=168, help="Of the recorded past.")] = 24,
    csv: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Columns seconds,load instead.")
    ] = None,
) -> None:
    """Run a policy over the recorded load of a service, or a CSV, beside the one in force."""
    context = context_of(typer_context)
    named = {"target": target, "hold_seconds": hold, "decrease_band": band, "drain_seconds": drain}
    law = {name: value for name, value in named.items() if value is not None}
    body: dict[str, Any] = {"service": service, "law": law}
    body |= {"points": _points(csv)} if csv else {"hours": hours}
    answer = context.client.post(at("capacity", "policies", "replay"), body)
    rows = [{"policy": name, **answer[name]} for name in ("present", "proposed")]
    context.tabulate(rows, REPLAYS)
    context.tell(answer, f"Both at a switch time of {answer['switch_seconds']:.0f} s.")


def _points(file: Path) -> list[list[float]]:
    """Raises typer.BadParameter naming the line."""
    points = []
    with file.open(newline="") as lines:
        for number, row in enumerate(reader(lines), start=1):
            try:
                seconds, load = (float(value) for value in row[:2])
            except ValueError:
                if number == 1:
                    continue  # a header
                raise typer.BadParameter(f"{file}, line {number}: give seconds,load as numbers.") from None
            points.append([seconds, load])
    return points


def _seconds(measured: float | None) -> str:
    return "-" if measured is None else f"{measured:.1f} s"


def switch_times(
    typer_context: typer.Context,
    model: Annotated[str, typer.Option(help="Name of one model.")] = "",
) -> None:
    """Show what workers of models took to drain, to load and to be ready, by kind of machine."""
    given = {"model": model} if model else {}
    context_of(typer_context).each(at("capacity", "switch-times"), SWITCH_TIMES, **given)
