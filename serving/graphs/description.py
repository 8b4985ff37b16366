"""A task graph as a document: what a version of the registry holds, planners read and pages draw.

Standard library only. Inputs and nodes share one space of names; nodes stand in an order in which each comes
after those that it takes values from. `digest` covers all of it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from serving.fields import Fields, ProtocolError

FORMAT = 1
DEVICES = ("any", "cpu", "cuda")
KINDS = ("class", "function", "service")
LONGEST_WAIT_MS = 600_000.0
LARGEST_BATCH = 4_096


def task_model_path(model: str) -> str:
    """Return the directory beside the graph's file that holds the files of MODEL:VERSION."""
    return f"task_models/{model.replace(':', '/')}"


@dataclass(frozen=True, kw_only=True)
class ValueSource:
    """Origin of a value: an input or a node (`name`), and the fields that are followed from its value. An
    empty name: a constant of the program, whose text is `constant`."""

    name: str = ""
    path: tuple[str | int, ...] = ()
    constant: str = ""


@dataclass(frozen=True, kw_only=True)
class GraphInput:
    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class TaskDescription:
    """A task: code with a model that is loaded once in each of its processes. `kind`: class, function or
    service. `model`: MODEL:VERSION, or the service. `cores`: the processor cores that one call uses."""

    name: str
    kind: str
    device: str = "any"
    model: str = ""
    max_size: int = 1
    max_wait_ms: float = 0.0
    retries: int = 0
    timeout_seconds: float = 300.0
    cores: int = 1
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeDescription:
    """A call of a task. `each`: once per element of its first input. `when`: only if that is true; else its
    value is that of `otherwise` (absent: None)."""

    name: str
    task: str
    inputs: tuple[ValueSource, ...]
    type: str
    each: bool = False
    when: ValueSource | None = None
    otherwise: ValueSource | None = None
    line: int = 0

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """All that it waits for."""
        more = [one for one in (self.when, self.otherwise) if one is not None]
        return (*self.inputs, *more)


@dataclass(frozen=True, kw_only=True)
class GraphOutput:
    """A result of an item. `name` may be empty when there is one."""

    name: str
    source: ValueSource
    type: str


@dataclass(frozen=True, kw_only=True)
class GraphDescription:
    name: str
    inputs: tuple[GraphInput, ...]
    tasks: tuple[TaskDescription, ...]
    nodes: tuple[NodeDescription, ...]
    outputs: tuple[GraphOutput, ...]

    @property
    def digest(self) -> str:
        document = json.dumps(self._document(), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(document.encode()).hexdigest()

    def _document(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    def document(self) -> dict[str, Any]:
        """The description as JSON, with `edges` and `digest`, which follow from the rest."""
        edges = [
            {"from": source.name, "to": node.name, "path": list(source.path), "each": node.each and not index}
            for node in self.nodes
            for index, source in enumerate(node.sources)
            if source.name
        ]
        whole: dict[str, Any] = json.loads(json.dumps(self._document()))
        return {**whole, "edges": edges, "digest": self.digest}

    def task(self, name: str) -> TaskDescription:
        return next(one for one in self.tasks if one.name == name)

    def visits(self) -> Mapping[str, int]:
        """Calls of each task for one item, an `each` counted once."""
        return Counter(node.task for node in self.nodes)

    @classmethod
    def parse(cls, data: object) -> Self:
        """Read a document and check it. Raises ProtocolError."""
        fields = Fields(data, "the graph")
        if fields.whole("format") != FORMAT:
            raise ProtocolError(f"format must be {FORMAT}")
        graph = cls(
            name=fields.text("name"),
            inputs=tuple(
                GraphInput(name=one.text("name"), type=one.text("type")) for one in _all(fields, "inputs")
            ),
            tasks=tuple(_task(one) for one in _all(fields, "tasks")),
            nodes=tuple(_node(one) for one in _all(fields, "nodes")),
            outputs=tuple(
                GraphOutput(
                    name=one.text("name", default=""),
                    source=_source(one.data.get("source")),
                    type=one.text("type"),
                )
                for one in _all(fields, "outputs")
            ),
        )
        check(graph)
        if "digest" in fields.data and fields.data["digest"] != graph.digest:
            raise ProtocolError(f"digest does not fit the graph, whose digest is {graph.digest}")
        return graph


def check(graph: GraphDescription) -> None:
    """Raises ProtocolError for a graph that cannot run: cycles, values that nobody makes or uses."""
    if not graph.inputs or not graph.outputs:
        raise ProtocolError(f"{graph.name} must have an input and an output")
    _distinct("task", [one.name for one in graph.tasks])
    _distinct("output", [one.name for one in graph.outputs])
    _distinct("input or node", [*(one.name for one in graph.inputs), *(one.name for one in graph.nodes)])
    tasks = {one.name for one in graph.tasks}
    known = {one.name for one in graph.inputs}
    every = known | {one.name for one in graph.nodes}
    used = {one.source.name for one in graph.outputs}
    for node in graph.nodes:
        if node.task not in tasks:
            raise ProtocolError(f"node {node.name} calls the task {node.task}, which there is not")
        if not node.inputs:
            raise ProtocolError(f"node {node.name} takes no value: give its task an argument")
        for source in node.sources:
            if source.name and source.name not in known:
                reason = "comes after it: a cycle" if source.name in every else "nobody makes"
                raise ProtocolError(f"node {node.name} takes {source.name}, which {reason}")
            used.add(source.name)
        known.add(node.name)
    for output in graph.outputs:
        if output.source.name not in known:
            what = output.source.name or "a constant"
            raise ProtocolError(f"the output {output.name!r} is {what}, which nobody makes")
    if unused := sorted(known - used):
        raise ProtocolError(f"nobody uses {', '.join(unused)}")


def _distinct(what: str, names: Sequence[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ProtocolError(f"two have the name {twice[0]!r}: each {what} needs its own")


def _all(fields: Fields, key: str) -> list[Fields]:
    return [Fields(one, f"each of {key}") for one in fields.take(key, list, "a list")]


def _task(one: Fields) -> TaskDescription:
    kind, device = one.text("kind"), one.text("device")
    if kind not in KINDS or device not in DEVICES:
        raise ProtocolError(f"kind must be one of {', '.join(KINDS)}, device one of {', '.join(DEVICES)}")
    return TaskDescription(
        name=one.text("name"),
        kind=kind,
        device=device,
        model=one.text("model", default=""),
        max_size=one.whole("max_size", low=1, high=LARGEST_BATCH),
        max_wait_ms=one.number("max_wait_ms", high=LONGEST_WAIT_MS),
        retries=one.whole("retries", high=100),
        timeout_seconds=one.number("timeout_seconds"),
        cores=one.whole("cores", low=1, high=4_096),
        line=one.whole("line"),
    )


def _node(one: Fields) -> NodeDescription:
    data = one.data
    return NodeDescription(
        name=one.text("name"),
        task=one.text("task"),
        inputs=tuple(_source(source) for source in one.take("inputs", list, "a list")),
        type=one.text("type"),
        each=data.get("each") is True,
        when=_source(data["when"]) if data.get("when") is not None else None,
        otherwise=_source(data["otherwise"]) if data.get("otherwise") is not None else None,
        line=one.whole("line"),
    )


def _source(data: object) -> ValueSource:
    one = Fields(data, "each source of a value")
    path = one.take("path", (list, tuple), "a list")
    return ValueSource(
        name=one.text("name", default=""),
        path=tuple(step if isinstance(step, int) else str(step) for step in path),
        constant=one.text("constant", default="", longest=100),
    )
