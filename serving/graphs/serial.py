"""The plain serial run of a graph: one process, one item after the other, for debugging and comparison."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from serving.graphs.errors import ItemFailed
from serving.graphs.paths import follow
from serving.graphs.program import Graph, GraphNode, GraphValue
from serving.runtime.gpu_model import Files


class SerialRun:
    """The graph with its models loaded in this process."""

    def __init__(self, graph: Graph, directory: Path) -> None:
        """`directory`: of the graph's files, for `load`."""
        self._graph = graph
        files = Files(directory)
        self._runs = {one.name: one.make(files) for one in graph.loaded}

    def run(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of one item. Raises ItemFailed."""
        values = dict(item)
        for node in self._graph.nodes:
            task = node.loaded
            try:
                values[node.name] = self._value(node, values)
            except Exception as error:
                raise ItemFailed(reason_of_failure(task.name, error)) from error
        try:
            return {name: look_up(value, values) for name, value in self._graph.outputs.items()}
        except (KeyError, AttributeError, IndexError, TypeError) as error:
            raise ItemFailed(reason_of_failure("the output", error)) from error

    def _value(self, node: GraphNode, values: Mapping[str, Any]) -> Any:
        if node.condition is not None and not look_up(node.condition[0], values):
            return look_up(node.condition[1], values)
        arguments = [look_up(value, values) for value in node.arguments]
        if node.each:
            return [self._called(node, (one, *arguments[1:])) for one in arguments[0]]
        return self._called(node, tuple(arguments))

    def _called(self, node: GraphNode, arguments: tuple[Any, ...]) -> Any:
        """The result, after as many retries as the task has."""
        task = node.loaded.task
        for _ in range(task.options.retries):
            with contextlib.suppress(Exception):
                return call_alone(self._runs[node.loaded.name], arguments, is_class=task.is_class)
        return call_alone(self._runs[node.loaded.name], arguments, is_class=task.is_class)


def look_up(value: Any, values: Mapping[str, Any]) -> Any:
    return follow(values[value._name], value._path) if isinstance(value, GraphValue) else value


def call_alone(run: Callable[..., Any], arguments: tuple[Any, ...], *, is_class: bool) -> Any:
    """The result for one item. Raises what the task raises, and TypeError for a wrong count."""
    if not is_class:
        return run(*arguments)
    results = run(*([argument] for argument in arguments))
    if len(results) != 1:
        raise TypeError(f"run returned {len(results)} results for 1 item")
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def reason_of_failure(task: str, error: BaseException) -> str:
    """The reason that an item failed for, as both ways of running it give it."""
    return f"{task}: {type(error).__name__}: {error}"[:1_000]
