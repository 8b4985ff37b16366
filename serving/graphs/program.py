"""A graph as users write it: tasks, and calls of them that are recorded instead of run."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, get_type_hints, overload

from serving.fields import ProtocolError
from serving.graphs import edge_types
from serving.graphs.description import (
    GraphDescription,
    GraphInput,
    GraphOutput,
    NodeDescription,
    TaskDescription,
    ValueSource,
    check,
)
from serving.graphs.errors import refused, user_line
from serving.graphs.service_calls import ServiceCalls
from serving.graphs.task_models import check_model, files_of_model
from serving.graphs.task_options import Batch, TaskOptions

_open: list["Graph"] = []
"""Graphs whose `with` block runs, the innermost last."""


class Task:
    """A function or a class with `load` and `run`, as the decorator leaves it. Outside of a graph a call
    is one of the target itself, so that tests use it as a plain function or object."""

    def __init__(self, target: Callable[..., Any], options: TaskOptions) -> None:
        self.target, self.options = target, options
        self.name = target.__name__
        self.is_class = isinstance(target, type)
        self.is_service = isinstance(target, type) and issubclass(target, ServiceCalls)
        self.is_loaded_by_hand = self.is_class and not self.is_service
        self.line = user_line()
        if options.model and not self.is_service:
            check_model(self.name, options.model, is_class=self.is_class)
        function = getattr(target, "run", None) if self.is_class else target
        if function is None:
            raise refused(f"{self.name} has no method run(items)")
        try:
            hints = get_type_hints(function)
        except NameError as error:
            raise refused(f"{self.name}: unknown type: {error}") from None
        parameters = list(inspect.signature(function).parameters.values())[1 if self.is_class else 0 :]
        self.parameters = [self._item_type(one.name, hints.get(one.name, Any)) for one in parameters]
        self.required = sum(one.default is inspect.Parameter.empty for one in parameters)
        self.returns = self._item_type("its return", hints.get("return", Any))

    def _item_type(self, name: str, hint: Any) -> Any:
        if not self.is_class:
            return hint
        inside = edge_types.element(hint)
        if inside is None:
            hinted = edge_types.name_of(hint)
            raise refused(f"{self.name}.run: {name} is a list with one element per item, not {hinted}")
        return inside

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return the loaded task of a class or the value of a function; outside of a graph, call it."""
        if not _open:
            return self.target(*arguments, **named)
        if self.is_loaded_by_hand:
            return _open[-1]._load(self, arguments, named)
        if named:
            raise refused(f"{self.name}: a graph passes values by position")
        return _open[-1]._load(self, (), {})(*arguments)

    def each(self, *arguments: Any) -> "GraphValue":
        return self._loaded("each").each(*arguments)

    def when(self, flag: Any, *, otherwise: Any = None) -> "TaskCall":
        return self._loaded("when").when(flag, otherwise=otherwise)

    def _loaded(self, method: str) -> "LoadedTask":
        if self.is_loaded_by_hand:
            raise refused(f"{self.name} is a class: load it first, {self.name}().{method}(...)")
        return _innermost(self.name)._load(self, (), {})


class LoadedTask:
    """A task in a graph: one model, that each of its processes loads once. Call it as often as needed."""

    def __init__(
        self, graph: "Graph", task: Task, name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ):
        self._graph, self.task, self.name = graph, task, name
        self.arguments, self.named = arguments, named
        self.line = user_line()

    def make(self, files: Mapping[str, Any]) -> Callable[..., Any]:
        """Return what runs it in its process: `run` of the loaded object, or the function."""
        if not self.task.is_class:
            return self.task.target
        made = self.task.target(*self.arguments, **self.named)
        if hasattr(made, "load"):
            model = "" if self.task.is_service else self.task.options.model
            made.load(files_of_model(files, self.name, model) if model else files)
        run: Callable[..., Any] = made.run
        return run

    def __call__(self, *arguments: Any) -> "GraphValue":
        return TaskCall(self._graph, self)(*arguments)

    def each(self, *arguments: Any) -> "GraphValue":
        """Call it for each element of the first argument, a list; the others are the same for all. The value
        is the list of the results."""
        return TaskCall(self._graph, self).each(*arguments)

    def when(self, flag: Any, *, otherwise: Any = None) -> "TaskCall":
        """Call it only for items whose `flag` is true; the value of the others is `otherwise`."""
        return TaskCall(self._graph, self, flag, otherwise, is_conditional=True)


class TaskCall:
    """A call of a loaded task that is not complete yet: its condition is known, its arguments are not."""

    def __init__(
        self,
        graph: "Graph",
        loaded: LoadedTask,
        flag: Any = None,
        otherwise: Any = None,
        *,
        is_conditional: bool = False,
    ) -> None:
        self._graph, self._loaded = graph, loaded
        self._flag, self._otherwise, self._is_conditional = flag, otherwise, is_conditional

    def __call__(self, *arguments: Any) -> "GraphValue":
        return self._added(arguments, each=False)

    def each(self, *arguments: Any) -> "GraphValue":
        return self._added(arguments, each=True)

    def _added(self, arguments: tuple[Any, ...], *, each: bool) -> "GraphValue":
        condition = (self._flag, self._otherwise) if self._is_conditional else None
        return self._graph._call(self._loaded, arguments, each=each, condition=condition)


class GraphValue:
    """A value that an item will have: an input or a task's result, or a field of one (`lines.text`)."""

    def __init__(self, graph: "Graph", name: str, type_: Any, path: tuple[str | int, ...] = ()) -> None:
        self._graph, self._name, self._type, self._path = graph, name, type_, path

    def __getattr__(self, name: str) -> "GraphValue":
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str | int) -> "GraphValue":
        try:
            inside = edge_types.field(self._type, name)
        except KeyError as error:
            raise refused(f"{self._name} has no {name!r}: {error.args[0]}") from None
        return GraphValue(self._graph, self._name, inside, (*self._path, name))

    def __iter__(self) -> Any:
        raise refused(f"{self._name} has no elements before it runs: use task.each({self._name})")

    def __bool__(self) -> bool:
        raise refused(f"{self._name} is not known before it runs: use task.when({self._name})(...)")


@dataclass(frozen=True)
class GraphNode:
    """A recorded call. `arguments` are GraphValues or constants; `condition`: the flag, and the value without
    a call."""

    name: str
    loaded: LoadedTask
    arguments: tuple[Any, ...]
    each: bool
    condition: tuple[Any, Any] | None
    type: Any
    where: tuple[str, int]


class Graph:
    """The DAG of an application: `with Graph("name") as g:` records inputs, calls of tasks, and outputs."""

    def __init__(self, name: str) -> None:
        if not name or len(name) > 100 or not name.replace("-", "").replace("_", "").isalnum():
            raise refused(f"Graph: {name!r} must be made of letters, digits, - and _")
        self.name = name
        self.inputs: dict[str, Any] = {}
        self.loaded: list[LoadedTask] = []
        self.nodes: list[GraphNode] = []
        self.outputs: dict[str, GraphValue] = {}
        self._where = user_line()
        self._description: GraphDescription | None = None

    def __enter__(self) -> Self:
        _open.append(self)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        _open.remove(self)
        if kind is None:
            described = self._described()
            try:
                check(described)
            except ProtocolError as error:
                raise refused(str(error), self._where_of(str(error))) from None
            self._description = described

    @property
    def description(self) -> GraphDescription:
        if self._description is None:
            raise refused(
                f"the graph {self.name} is not complete: its `with` block has not ended", self._where
            )
        return self._description

    def input(self, name: str, type: Any) -> GraphValue:
        """A value that each item brings along: graph.Image, bytes, text, or a JSON type."""
        self._check_open()
        if not edge_types.is_input(type):
            known = ", ".join(edge_types.name_of(one) for one in edge_types.INPUT_TYPES)
            raise refused(
                f"input {name!r} has the unknown type {edge_types.name_of(type)}; there are {known}"
            )
        if name in self.inputs or not name.isidentifier():
            raise refused(f"input {name!r} must be a name that no other input has")
        self.inputs[name] = type
        return GraphValue(self, name, type)

    def output(self, value: Any, name: str = "") -> None:
        """A result of each item. Several need names."""
        self._check_open()
        if not isinstance(value, GraphValue) or value._graph is not self:
            raise refused("g.output takes a value that this graph makes")
        if name in self.outputs or (self.outputs and not name) or "" in self.outputs:
            raise refused("several outputs need names of their own: g.output(value, 'name')")
        if name and not name.isidentifier():
            raise refused(f"{name!r} cannot name an output: letters, digits and _")
        self.outputs[name] = value

    def _check_open(self) -> None:
        if self not in _open:
            raise refused(f"the graph {self.name} is closed: this belongs into its `with` block")

    def _load(self, task: Task, arguments: tuple[Any, ...], named: dict[str, Any]) -> LoadedTask:
        self._check_open()
        alike = [one for one in self.loaded if one.task is task]
        for one in alike:
            if not task.is_loaded_by_hand:
                return one
            if (one.arguments, one.named) == (arguments, named):
                file, line = one.line
                raise refused(
                    f"{task.name} is loaded twice, first in line {line} of {file}: "
                    "keep that one in a variable and call it again"
                )
        for one in self.loaded:
            if task.options.model and not task.is_service and one.task.options.model == task.options.model:
                raise refused(
                    f"{task.name} and {one.name} both load {task.options.model}: make them one task"
                )
        loaded = LoadedTask(self, task, _numbered(task.name, len(alike)), arguments, named)
        self.loaded.append(loaded)
        return loaded

    def _call(
        self, loaded: LoadedTask, arguments: tuple[Any, ...], *, each: bool, condition: tuple[Any, Any] | None
    ) -> GraphValue:
        self._check_open()
        task = loaded.task
        if loaded._graph is not self:
            raise refused(f"{loaded.name} was loaded in the graph {loaded._graph.name}, not in {self.name}")
        if not task.required <= len(arguments) <= len(task.parameters) or not arguments:
            raise refused(f"{task.name} takes {task.required} values for an item, not {len(arguments)}")
        for number, (value, wanted) in enumerate(zip(arguments, task.parameters, strict=False)):
            self._check_argument(task, number, value, wanted, each=each and not number)
        for value in condition or ():
            self._check_own(value)
        returns = task.returns
        if each:
            returns = list[returns] if returns is not Any else list  # type: ignore[valid-type]
        if condition is not None and edge_types.name_of(_type_of(condition[1])) != edge_types.name_of(
            returns
        ):
            returns = Any
        count = sum(one.loaded is loaded for one in self.nodes)
        name = _numbered(loaded.name, count)
        self.nodes.append(GraphNode(name, loaded, arguments, each, condition, returns, user_line()))
        return GraphValue(self, name, returns)

    def _check_own(self, value: Any) -> None:
        if isinstance(value, GraphValue) and value._graph is not self:
            raise refused(f"{value._name} belongs to the graph {value._graph.name}, not to {self.name}")
        if isinstance(value, Task | LoadedTask | TaskCall):
            raise refused("a task is given where a value is asked for: call it first")

    def _check_argument(self, task: Task, number: int, value: Any, wanted: Any, *, each: bool) -> None:
        self._check_own(value)
        if not isinstance(value, GraphValue):
            if each:
                raise refused(f"{task.name}.each takes a list that the graph makes, not a constant")
            return
        made = value._type
        if each:
            made = edge_types.element(made)
            if made is None:
                raise refused(
                    f"{task.name}.each takes a list; {value._name} is {edge_types.name_of(value._type)}"
                )
        if not edge_types.fits(made, wanted):
            has, needs = edge_types.name_of(made), edge_types.name_of(wanted)
            raise refused(f"value {number + 1} of {task.name} must be {needs}; {value._name} is {has}")

    def _described(self) -> GraphDescription:
        return GraphDescription(
            name=self.name,
            inputs=tuple(
                GraphInput(name=name, type=edge_types.name_of(kind)) for name, kind in self.inputs.items()
            ),
            tasks=tuple(
                TaskDescription(
                    name=one.name,
                    kind="service" if one.task.is_service else "class" if one.task.is_class else "function",
                    device=one.task.options.device,
                    model=one.task.options.model,
                    max_size=one.task.options.batch.max_size,
                    max_wait_ms=float(one.task.options.batch.max_wait_ms),
                    retries=one.task.options.retries,
                    timeout_seconds=float(one.task.options.timeout_seconds),
                    cores=one.task.options.cores,
                    line=one.line[1],
                )
                for one in self.loaded
            ),
            nodes=tuple(
                NodeDescription(
                    name=one.name,
                    task=one.loaded.name,
                    inputs=tuple(_source(value) for value in one.arguments),
                    each=one.each,
                    when=_source(one.condition[0]) if one.condition else None,
                    otherwise=_source(one.condition[1]) if one.condition else None,
                    type=edge_types.name_of(one.type),
                    line=one.where[1],
                )
                for one in self.nodes
            ),
            outputs=tuple(
                GraphOutput(name=name, source=_source(one), type=edge_types.name_of(one._type))
                for name, one in self.outputs.items()
            ),
        )

    def _where_of(self, reason: str) -> tuple[str, int]:
        """The line of the node that the reason names, or the graph's own."""
        named = [node.where for node in self.nodes if node.name in reason.replace(",", " ").split()]
        return named[0] if named else self._where


def _innermost(name: str) -> Graph:
    if not _open:
        raise refused(f"{name}: this makes sense inside `with graph.Graph(...)` only")
    return _open[-1]


def _numbered(name: str, count: int) -> str:
    return name if not count else f"{name}-{count + 1}"


def _type_of(value: Any) -> Any:
    return value._type if isinstance(value, GraphValue) else type(value)


def _source(value: Any) -> ValueSource:
    if isinstance(value, GraphValue):
        return ValueSource(name=value._name, path=value._path)
    return ValueSource(constant=repr(value)[:100])


@overload
def task(target: Callable[..., Any]) -> Task: ...
@overload
def task(
    *,
    batch: Batch = ...,
    device: str = ...,
    model: str = ...,
    retries: int = ...,
    timeout_seconds: float = ...,
    cores: int = ...,
) -> Callable[[Callable[..., Any]], Task]: ...
def task(target: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Makes a task of a function (values of one item in, its result out) or of a class: `load(files)` once in
    each process, `run(items)` with a list per argument in and a list with one result per item out."""
    chosen = TaskOptions(**options)
    if target is None:
        return lambda decorated: Task(decorated, chosen)
    return Task(target, chosen)
