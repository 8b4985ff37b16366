"""`slipway graph`: applications as DAGs of tasks."""

import asyncio
import json
import sys
import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipway.cli import graph_planning
from slipway.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from serving.graphs.offline import ResultFiles
    from serving.graphs.places import Place

app = typer.Typer(help="Applications as DAGs of tasks: run, profile, plan.", no_args_is_help=True)


graph_planning.add_to(app)


class ExecutorChoice(StrEnum):
    EMBEDDED = "embedded"
    RAY = "ray"


@app.command(help="Runs a graph over the files of a directory or bucket, or over a .jsonl file.")
def run(
    file: Annotated[Path, typer.Argument(help="Python file with a graph.Graph.")],
    source: Annotated[
        str, typer.Argument(help="Directory, s3://BUCKET/PREFIX, or a .jsonl file.", metavar="INPUT")
    ],
    out: Annotated[str, typer.Option("--out", help="Directory or s3://BUCKET/PREFIX for the results.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="JSON file with a plan; without it one process per task.")
    ] = None,
    serial: Annotated[
        bool, typer.Option("--serial", help="In one process, one item after the other, for debugging.")
    ] = False,
    executor: Annotated[
        ExecutorChoice, typer.Option("--executor", help="Processes of this machine, or Ray Data.")
    ] = ExecutorChoice.EMBEDDED,
    address: Annotated[
        str,
        typer.Option("--address", help="With Ray: one that runs, seen from a node of it: auto, HOST:PORT."),
    ] = "",
) -> None:
    from serving.fields import ProtocolError
    from serving.graphs.errors import GraphError
    from serving.graphs.offline import ResultFiles
    from serving.graphs.places import place_of
    from serving.runtime.errors import AppError

    if serial and plan is not None:
        raise CommandFailed("A serial run has no plan: leave out --plan or --serial.", Exit.USAGE)
    if serial and executor is ExecutorChoice.RAY:
        raise CommandFailed("A serial run has no executor: leave out --executor or --serial.", Exit.USAGE)
    if address and executor is not ExecutorChoice.RAY:
        raise CommandFailed("--address is of --executor ray.", Exit.USAGE)
    planned = _plan(plan) if plan is not None else None
    try:
        began = time.monotonic()
        with closing(ResultFiles(place_of(out))) as results:
            if executor is ExecutorChoice.RAY:
                _run_on_ray(file.resolve(), source, results, plan, address)
            else:
                _run(file.resolve(), place_of(source), results, planned, serial=serial)
    except (GraphError, AppError, ProtocolError, OSError) as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    seconds = time.monotonic() - began
    sys.stderr.write(
        f"slipway: {results.done} done, {results.failed} failed in {seconds:.1f} s "
        f"({results.done / seconds:.2f} items/s); results in {out}\n"
    )
    if results.failed:
        words = f"{results.failed} failed: {out}/{results.failed_file.name} has the reasons."
        raise CommandFailed(words, Exit.FAILED)


def _plan(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{path} is no plan: {error}", Exit.USAGE) from None


def _run(file: Path, source: "Place", results: "ResultFiles", plan: Any, *, serial: bool) -> None:
    from serving.graphs.loading import load_graph
    from serving.graphs.offline import run_pipelined, run_serially

    if serial:
        run_serially(load_graph(file), file.parent, source, results)
        return
    counters = asyncio.run(run_pipelined(file, plan, source, results))
    for name, task in counters.tasks.items():
        share = task.busy_seconds / max(counters.elapsed_seconds, 1e-9) / max(task.replicas, 1)
        sys.stderr.write(f"slipway: {name}: {task.items} calls, busy {100 * share:.0f} %\n")


def _run_on_ray(file: Path, source: str, results: "ResultFiles", plan: Path | None, address: str) -> None:
    from serving.graphs.ray import environment

    asked = ["run", str(file), source, f"--out={results.directory}", *_of_ray(plan, address)]
    report = environment.run(asked)
    results.done, results.failed = report["done"], report["failed"]
    if report["lost"]:
        sys.stderr.write(f"slipway: {report['lost']} were run again alone, after their processes died\n")


def _of_ray(plan: Path | None, address: str) -> list[str]:
    return [
        *([f"--plan={plan}"] if plan is not None else []),
        *([f"--address={address}"] if address else []),
    ]


@app.command(help="Serves a graph by Ray Serve, with replicas from a plan, until Ctrl-C.")
def serve(
    file: Annotated[Path, typer.Argument(help="Python file with a graph.Graph.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="JSON file with a plan; without it one replica per task.")
    ] = None,
    address: Annotated[
        str, typer.Option("--address", help="A Ray that runs, seen from a node of it: auto, HOST:PORT.")
    ] = "",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65_535)] = 8_100,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    from serving.graphs.errors import GraphError
    from serving.graphs.ray import environment

    asked = ["serve", str(file.resolve()), f"--port={port}", f"--host={host}", *_of_ray(plan, address)]
    try:
        environment.run(asked)
    except GraphError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
