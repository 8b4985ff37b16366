"""The graph of the user's file."""

from pathlib import Path
from types import ModuleType

from serving.graphs.errors import GraphError
from serving.graphs.program import Graph
from serving.runtime.loading import load_module


def load_graph(file: Path) -> Graph:
    """The one graph of the file. Raises GraphError or AppError; what the file itself raises goes through."""
    return graph_of(load_module(file), file)


def graph_of(module: ModuleType, file: Path) -> Graph:
    graphs = {id(value): value for value in vars(module).values() if isinstance(value, Graph)}
    if len(graphs) != 1:
        count = len(graphs) or "none"
        raise GraphError(f"{file.name} must have one graph.Graph at its top level; it has {count}")
    graph = next(iter(graphs.values()))
    _ = graph.description
    return graph
