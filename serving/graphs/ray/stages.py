"""The steps of a run over many items: one per node, with values of some items in and more of them out.

A value is its pickle, an input its bytes. A step opens only those that it needs; the others pass by unopened,
and those that no later step needs end there. Nothing here imports Ray.
"""

import os
import pickle
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from serving.graphs.calling import Arguments, CallFailure, CallResult, call_batch
from serving.graphs.encoding import decode_named
from serving.graphs.errors import ItemFailed
from serving.graphs.offline import SourceItem, encode_result
from serving.graphs.program import Graph, GraphNode
from serving.graphs.routes import GraphRoutes
from serving.graphs.serial import look_up, reason_of_failure
from serving.graphs.task_process import limit_threads
from serving.runtime.gpu_model import Files

Row = dict[str, Any]
"""An item: its bookkeeping columns, and its values by name. Those of an item that failed are None."""
NUMBER, NAME, PLACE, LINE, FAILED = "#number", "#name", "#place", "#line", "#failed"
BOOKKEEPING = (NUMBER, NAME, PLACE, LINE, FAILED)
EXIT_TOO_LONG = 70


def suffix_column(output: str) -> str:
    return f"={output}.suffix"


def data_column(output: str) -> str:
    return f"={output}"


def row_of(number: int, item: SourceItem) -> Row:
    """An item that has not been read yet."""
    return {NUMBER: number, NAME: item.name, PLACE: str(item.place.absolute()), LINE: item.line, FAILED: ""}


class CallLimit:
    """Ends the process when a call takes longer than its task allows: nothing else stops foreign code."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, os._exit, (EXIT_TOO_LONG,))
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


class LoadedRunner:
    """A task with its model loaded in this process."""

    def __init__(self, graph: Graph, directory: Path, task: str, threads: int) -> None:
        self.loaded = next(one for one in graph.loaded if one.name == task)
        self._run = self.loaded.make(Files(directory))
        limit_threads(threads)

    def run(self, calls: Sequence[Arguments]) -> list[CallResult | CallFailure]:
        """Results of one batch; calls that raise are repeated as often as the task says."""
        options = self.loaded.task.options
        with CallLimit(options.timeout_seconds * (1 + options.retries)):
            results = self._called(calls)
            for number, result in enumerate(results):
                for _ in range(options.retries):
                    if isinstance(result, CallFailure):
                        (result,) = self._called([calls[number]])
                results[number] = result
        return results

    def _called(self, calls: Sequence[Arguments]) -> list[CallResult | CallFailure]:
        return call_batch(self._run, calls, task=self.loaded.name, is_class=self.loaded.task.is_class)


class GraphStage:
    """The step of one node. The first one reads the items, the last one encodes their outputs.

    An `each` stays in its step: the elements of a block's items are its batches.
    """

    def __init__(self, graph: Graph, directory: Path, node: str, *, max_size: int, threads: int) -> None:
        """`directory`: of the graph's files, for `load`."""
        self._graph = graph
        self._node: GraphNode = next(one for one in graph.nodes if one.name == node)
        self._max_size = max_size
        self._is_first, self._is_last = node == graph.nodes[0].name, node == graph.nodes[-1].name
        routes = GraphRoutes(graph.description)
        after = {one.name for one in graph.nodes[routes.depth[node] + 1 :]}
        ends = () if self._is_last else {f"={name}" for name in graph.outputs}
        self.kept = {name for name, users in routes.users.items() if users & {*after, *ends}}
        """Values that later steps need."""
        sources = {one.name for one in routes.nodes[node].sources if one.name}
        outputs = {one.name for one in routes.outputs.values()} if self._is_last else set()
        self.needed = {*sources, *outputs} - {node}
        """Values that this step opens."""
        self._runner = LoadedRunner(graph, directory, self._node.loaded.name, threads)

    def added(self) -> list[str]:
        """The columns that its rows bring, in addition to those that pass by."""
        inputs = [*self._graph.inputs] if self._is_first else []
        values = [name for name in (*inputs, self._node.name) if name in self.kept]
        outputs = self._graph.outputs if self._is_last else ()
        return [*values, *(column for one in outputs for column in (data_column(one), suffix_column(one)))]

    def run(self, rows: Sequence[Row]) -> list[Row]:
        """`rows`: with the columns that are needed. Answers have FAILED, and the columns that are added."""
        opened = [_Values(self._graph, row) for row in rows]
        for values in opened:
            if self._is_first and not values.reason:
                values.read()
        self._call(opened)
        return [self._row(values) for values in opened]

    def _call(self, opened: "Sequence[_Values]") -> None:
        """Adds the node's value to those of each item."""
        calls = [
            (values, arguments) for values in opened if not values.reason for arguments in self._calls(values)
        ]
        calls = [(values, arguments) for values, arguments in calls if not values.reason]
        for begin in range(0, len(calls), self._max_size):
            batch = calls[begin : begin + self._max_size]
            results = self._runner.run([arguments for _, arguments in batch])
            for (values, _), result in zip(batch, results, strict=True):
                if isinstance(result, CallFailure):
                    values.reason = values.reason or result.reason
                else:
                    values.results.append(result.value)
        for values in opened:
            if not values.reason and not values.is_skipped:
                values[self._node.name] = values.results if self._node.each else values.results[0]

    def _calls(self, values: "_Values") -> Iterator[Arguments]:
        """The calls of one item."""
        node = self._node
        try:
            if node.condition is not None and not look_up(node.condition[0], values):
                values.is_skipped = True
                values[node.name] = look_up(node.condition[1], values)
                return
            arguments = [look_up(value, values) for value in node.arguments]
            if node.each:
                yield from [(one, *arguments[1:]) for one in arguments[0]]
            else:
                yield tuple(arguments)
        except Exception as error:
            values.reason = reason_of_failure(node.loaded.name, error)

    def _row(self, values: "_Values") -> Row:
        columns: Row = dict.fromkeys(self.added())
        if not values.reason:
            try:
                columns |= {
                    name: values.row[name] if name in self._graph.inputs else pickle.dumps(values[name], 5)
                    for name in columns
                    if name in self.kept
                }
                if self._is_last:
                    for output, value in self._graph.outputs.items():
                        suffix, data = encode_result(look_up(value, values))
                        columns |= {data_column(output): data, suffix_column(output): suffix}
            except ItemFailed as error:
                values.reason = str(error)
            except Exception as error:
                where = "the output" if self._is_last else self._node.loaded.name
                values.reason = reason_of_failure(where, error)
        if values.reason:
            columns = dict.fromkeys(columns)
        return {FAILED: values.reason, **columns}


class _Values(dict[str, Any]):
    """Values of one item, opened when they are looked up."""

    def __init__(self, graph: Graph, row: Row) -> None:
        super().__init__()
        self._graph, self.row = graph, dict(row)
        self.reason: str = row[FAILED]
        self.results: list[Any] = []
        self.is_skipped = False

    def __missing__(self, name: str) -> Any:
        data = self.row[name]
        kind = self._graph.inputs.get(name)
        if kind is None:
            self[name] = pickle.loads(data)  # noqa: S301 - written by an earlier step
        else:
            self[name] = decode_named(name, kind, bytes(data))
        return self[name]

    def read(self) -> None:
        """Reads the item where it lies, and checks its inputs as the serial run does."""
        item = SourceItem(self.row[NAME], Path(self.row[PLACE]), self.row[LINE])
        try:
            self.row |= item.read([*self._graph.inputs])
            for name in self._graph.inputs:
                _ = self[name]
        except ItemFailed as error:
            self.reason = str(error)


def outputs_of(row: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, tuple[str, bytes]]:
    """Suffix and bytes of each output of an item that is done."""
    return {name: (row[suffix_column(name)], row[data_column(name)]) for name in outputs}
