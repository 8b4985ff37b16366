"""One item through a graph whose tasks run elsewhere: what can run side by side does."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from serving.graphs.calling import Arguments
from serving.graphs.errors import ItemFailed
from serving.graphs.paths import follow
from serving.graphs.program import Graph, GraphNode, GraphValue
from serving.graphs.serial import reason_of_failure

Call = Callable[[GraphNode, Arguments], Awaitable[Any]]
"""Calls a node's task somewhere. Raises ItemFailed with the reason."""


async def walk(graph: Graph, item: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """The outputs of one item. Raises ItemFailed, with the reason of the serial run, whichever call failed
    first."""
    values: dict[str, asyncio.Future[Any]] = {}

    async def look_up(value: Any) -> Any:
        if not isinstance(value, GraphValue):
            return value
        found = item[value._name] if value._name in item else await asyncio.shield(values[value._name])
        return follow(found, value._path)

    async def value_of(node: GraphNode) -> Any:
        try:
            if node.condition is not None and not await look_up(node.condition[0]):
                return await look_up(node.condition[1])
            arguments = [await look_up(value) for value in node.arguments]
            if not node.each:
                return await call(node, tuple(arguments))
            calls = (call(node, (one, *arguments[1:])) for one in arguments[0])
            return _first_failure_or_all(await asyncio.gather(*calls, return_exceptions=True))
        except ItemFailed:
            raise
        except Exception as error:
            raise ItemFailed(reason_of_failure(node.loaded.name, error)) from error

    for node in graph.nodes:
        values[node.name] = asyncio.ensure_future(value_of(node))
    try:
        ended = await asyncio.gather(*values.values(), return_exceptions=True)
    finally:
        for one in values.values():
            one.cancel()
    _first_failure_or_all(ended)
    try:
        return {name: await look_up(value) for name, value in graph.outputs.items()}
    except (KeyError, AttributeError, IndexError, TypeError) as error:
        raise ItemFailed(reason_of_failure("the output", error)) from error


def _first_failure_or_all(ended: Sequence[Any]) -> list[Any]:
    """Results, unless one is an exception: the first in order is raised."""
    for one in ended:
        if isinstance(one, BaseException):
            raise one
    return list(ended)
