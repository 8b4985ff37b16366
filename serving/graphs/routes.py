"""Which parts of a task's result are needed, where, and until when: facts of a graph, computed once.

A result never crosses whole: its process takes out the fields that are used, splits the lists that an `each`
goes over, and encodes what is an output. So the executor itself opens nothing of the users' code.
"""

from collections import defaultdict
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from serving.graphs.description import GraphDescription, NodeDescription, ValueSource

Path = tuple[str | int, ...]


class PartMode(IntEnum):
    """Form of a part: the value itself, its elements one by one, whether it is true, its encoded bytes; of an
    input the bytes that came in."""

    VALUE = 0
    ELEMENTS = 1
    FLAG = 2
    OUTPUT = 3
    RAW = 4


class Part(NamedTuple):
    path: Path
    mode: PartMode


class GraphRoutes:
    """`nodes`: by name, each after those that it takes values from. `outputs` are ends, as nodes are."""

    def __init__(self, graph: GraphDescription) -> None:
        self.graph = graph
        self.nodes = {node.name: node for node in graph.nodes}
        self.inputs = frozenset(one.name for one in graph.inputs)
        self.outputs = {one.name: one.source for one in graph.outputs}
        self.depth = {node.name: number for number, node in enumerate(graph.nodes)}
        self.waits_for = {
            node.name: frozenset(one.name for one in node.sources if one.name in self.nodes)
            for node in graph.nodes
        }
        self.followers: dict[str, list[str]] = defaultdict(list)
        """Nodes that may begin when a node is over."""
        for name, sources in self.waits_for.items():
            for source in sources:
                self.followers[source].append(name)
        self.parts = {name: sorted(self._parts_of(name), key=repr) for name in self.nodes}
        """Parts that a node's process takes out of a result; of an `each`, out of each element's."""
        self.users = {name: frozenset(self._users_of(name)) for name in (*self.inputs, *self.nodes)}
        """Nodes and outputs (`=` before their names) after which a value is needed no more."""

    def _uses(self, name: str) -> Iterator[tuple[str, Part]]:
        """Uses of a value, with who uses it; through `otherwise` as well."""
        for node in self.graph.nodes:
            for number, source in enumerate(node.inputs):
                if source.name == name:
                    is_each = node.each and number == 0
                    yield node.name, Part(source.path, PartMode.ELEMENTS if is_each else PartMode.VALUE)
            if node.when is not None and node.when.name == name:
                yield node.name, Part(node.when.path, PartMode.FLAG)
            if node.otherwise is not None and node.otherwise.name == name:
                for user, part in self._uses(node.name):
                    yield user, Part((*node.otherwise.path, *part.path), part.mode)
        for output, source in self.outputs.items():
            if source.name == name:
                yield f"={output}", Part(source.path, PartMode.OUTPUT)

    def _parts_of(self, name: str) -> set[Part]:
        parts = {part for _, part in self._uses(name)}
        if not self.nodes[name].each:
            return parts
        whole = {Part((), PartMode.VALUE) for part in parts if not part.path}
        return whole | {Part(part.path[1:], PartMode.VALUE) for part in parts if part.path}

    def _users_of(self, name: str) -> set[str]:
        direct = {node.name for node in self.graph.nodes if any(one.name == name for one in node.sources)}
        return direct | {user for user, _ in self._uses(name)}

    def values_of(self, node: NodeDescription) -> list[tuple[int, ValueSource]]:
        """The arguments that are values of the item, with their places; others are constants."""
        return [(number, source) for number, source in enumerate(node.inputs) if source.name]
