"""`python -m serving.graphs.ray run|serve`: a graph on Ray, in Ray's environment.

`run` ends with one line of JSON on its standard output: what it did, or `{"error": ...}`.
"""

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from serving.fields import ProtocolError
from serving.graphs.errors import GraphError
from serving.graphs.loading import load_graph
from serving.graphs.offline import ResultFiles
from serving.graphs.places import place_of
from serving.graphs.plan import GraphPlan
from serving.graphs.program import Graph
from serving.graphs.ray.environment import EXIT_REFUSED
from serving.graphs.ray.sizes import PLAN_VARIABLE
from serving.runtime.errors import AppError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m serving.graphs.ray", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    serve = commands.add_parser("serve")
    for command in (run, serve):
        command.add_argument("file", type=Path)
        command.add_argument("--plan", type=Path)
        command.add_argument("--address", default="")
    run.add_argument("source", type=place_of)
    run.add_argument("--out", type=place_of, required=True)
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8_100)
    asked = parser.parse_args()
    # What the user's code prints must not look like the report.
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        told = _run(asked) if asked.command == "run" else _serve(asked)
    except (GraphError, AppError, ProtocolError, OSError) as error:
        told = {"error": str(error)}
    with contextlib.closing(report):
        report.write(json.dumps(told) + "\n")
    return EXIT_REFUSED if "error" in told else 0


def _run(asked: Any) -> dict[str, Any]:
    from serving.graphs.ray import data

    file = asked.file.resolve()
    graph = load_graph(file)
    plan = plan_of(graph, asked.plan)
    with contextlib.closing(ResultFiles(asked.out)) as results:
        told = data.run(file, graph, plan, asked.source, results, address=asked.address)
    return {**told, "done": results.done, "failed": results.failed}


def _serve(asked: Any) -> dict[str, Any]:
    from serving.graphs.ray import online

    file = asked.file.resolve()
    graph = load_graph(file)
    plan = plan_of(graph, asked.plan)
    online.serve_here(file, graph, plan, address=asked.address, host=asked.host, port=asked.port)
    return {}


def plan_of(graph: Graph, file: Path | None) -> GraphPlan:
    """Raises GraphError, ProtocolError."""
    text = os.environ.get(PLAN_VARIABLE, "")
    if file is None and not text:
        return GraphPlan.of_one_each(graph.description)
    try:
        document = json.loads(text if file is None else file.read_bytes())
    except (OSError, ValueError) as error:
        raise GraphError(f"{file or PLAN_VARIABLE} is no plan: {error}") from None
    return GraphPlan.parse(document, graph.description)


if __name__ == "__main__":
    sys.exit(main())
