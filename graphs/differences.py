"""Differences between two descriptions of a graph: nodes that came, went, or are done otherwise. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from serving.graphs.description import GraphDescription


@dataclass(frozen=True, slots=True)
class GraphDifference:
    """Difference at one node. `kind`: added, removed or changed. `parts`: what changed, before and after."""

    node: str
    kind: str
    parts: tuple[tuple[str, str, str], ...] = ()


def differences(before: GraphDescription, after: GraphDescription) -> list[GraphDifference]:
    """Return the nodes of both graphs that differ, those of the later one first."""
    old, new = _nodes(before), _nodes(after)
    found = [
        GraphDifference(name, "changed", parts) if name in old else GraphDifference(name, "added")
        for name, one in new.items()
        if (parts := tuple(_changed(old.get(name, {}), one)))
    ]
    return found + [GraphDifference(name, "removed") for name in old if name not in new]


def _nodes(graph: GraphDescription) -> dict[str, dict[str, Any]]:
    """Return what each node does: its task's options, and where its values come from."""
    tasks = {task.name: asdict(task) for task in graph.tasks}
    return {
        node.name: {key: value for key, value in tasks[node.task].items() if key not in ("name", "line")}
        | {
            "task": node.task,
            "inputs": ", ".join(_value(one) for one in node.inputs),
            "each": node.each,
            "when": _value(node.when) if node.when else "",
        }
        for node in graph.nodes
    }


def _value(source: Any) -> str:
    return ".".join([source.name or source.constant, *map(str, source.path)])


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, value in after.items():
        if before.get(name) != value:
            yield name, str(before.get(name, "")), str(value)
