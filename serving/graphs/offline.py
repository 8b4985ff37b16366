"""A graph over the files of a directory or a bucket, or over the lines of a JSON Lines file."""

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

from serving.graphs.counters import GraphCounters
from serving.graphs.encoding import LARGEST_INPUT_BYTES, decode_named, encode_output
from serving.graphs.errors import GraphError, ItemFailed
from serving.graphs.executor import GraphExecutor
from serving.graphs.item_records import Outputs
from serving.graphs.places import Place, reached
from serving.graphs.plan import GraphPlan
from serving.graphs.program import Graph
from serving.graphs.serial import SerialRun

Encoded = Mapping[str, bytes]
"""Inputs of an item by name, as bytes."""
FAILED_FILE = "failed.jsonl"


@dataclass(frozen=True)
class SourceItem:
    """An item that has not been read yet. `name`: of its results, unique in the source."""

    name: str
    place: Place
    line: bytes = b""

    def read(self, inputs: Sequence[str]) -> Encoded:
        """`inputs`: names of the graph's. Raises ItemFailed."""
        if not self.line:
            try:
                with reached(self.place):
                    size = self.place.stat().st_size
                    if size > LARGEST_INPUT_BYTES:
                        raise ItemFailed(f"it has {size} bytes, more than {LARGEST_INPUT_BYTES}")
                    return {inputs[0]: self.place.read_bytes()}
            except OSError as error:
                raise ItemFailed(f"it cannot be read: {error.strerror}") from None
        try:
            document = json.loads(self.line)
        except ValueError as error:
            raise ItemFailed(f"it is no JSON: {error}") from None
        if len(inputs) == 1 and not isinstance(document, dict):
            document = {inputs[0]: document}
        if not isinstance(document, dict) or document.keys() != set(inputs):
            raise ItemFailed(f"it must be an object with {', '.join(inputs)}")
        return {name: encode_output(value)[1] for name, value in document.items()}


def items_of(source: Place, inputs: Sequence[str]) -> Iterator[SourceItem]:
    """The items of a directory or of a `.jsonl` file, in order. Raises GraphError, OSError."""
    with reached(source):
        yield from _items_of(source, inputs)


def _items_of(source: Place, inputs: Sequence[str]) -> Iterator[SourceItem]:
    if source.is_dir():
        if len(inputs) > 1:
            raise GraphError(f"it has {len(inputs)} inputs: give a .jsonl file with an object a line")
        found = (path for path in source.iterdir() if not path.name.startswith(".") and path.is_file())
        files = sorted(found, key=lambda path: path.name)
        stems = [path.stem for path in files]
        for path in files:
            yield SourceItem(path.stem if stems.count(path.stem) == 1 else path.name, path)
        return
    if source.suffix != ".jsonl":
        raise GraphError(f"{source} is neither a directory nor a .jsonl file")
    with source.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield SourceItem(f"{number:06d}", source, line)


class ResultFiles:
    """The place of the results: a file per output, and `failed.jsonl` with a reason per failed item.

    A bucket has that file when this is closed.
    """

    def __init__(self, directory: Place) -> None:
        """Raises OSError."""
        self.directory = directory
        self.failed_file = directory / FAILED_FILE
        with reached(directory):
            directory.mkdir(parents=True, exist_ok=True)
            self.failed_file.unlink(missing_ok=True)
        self._reasons: TextIO | None = None
        self.done = self.failed = 0

    def write(self, item: str, outputs: Mapping[str, tuple[str, bytes]]) -> None:
        for name, (suffix, data) in outputs.items():
            self._write(".".join([item, *([name] if name else []), suffix]), data)
        self.done += 1

    def _write(self, name: str, data: bytes) -> None:
        """Readers see a file as a whole or not at all; buckets see to that themselves."""
        if isinstance(self.directory, Path):
            part = self.directory / f".{name}.part"
            part.write_bytes(data)
            part.replace(self.directory / name)
            return
        with reached(self.directory):
            (self.directory / name).write_bytes(data)

    def fail(self, item: str, reason: str) -> None:
        with reached(self.directory):
            if self._reasons is None:
                self._reasons = cast("TextIO", self.failed_file.open("w", buffering=1))
            self._reasons.write(json.dumps({"item": item, "reason": reason}, ensure_ascii=False) + "\n")
        self.failed += 1

    def close(self) -> None:
        """Raises OSError."""
        if self._reasons is not None:
            with reached(self.directory):
                self._reasons.close()


async def run_pipelined(
    file: Path, plan: GraphPlan | Mapping[str, Any] | None, source: Place, results: ResultFiles
) -> GraphCounters:
    """Runs the graph by a plan over all items; results are written in their order, whoever is done first.
    Raises GraphError or ProtocolError."""
    executor = GraphExecutor(file, plan)
    await executor.start()
    pending: deque[tuple[str, asyncio.Future[Outputs]]] = deque()
    try:
        names = [one.name for one in executor.graph.inputs]
        for item in items_of(source, names):
            await executor.room()
            while pending and (pending[0][1].done() or len(pending) > 2 * executor.plan.entry.items):
                await _write_next(pending, results)
            try:
                _, outcome = executor.submit(await asyncio.to_thread(item.read, names))
            except ItemFailed as error:
                outcome = asyncio.get_running_loop().create_future()
                outcome.set_exception(error)
            pending.append((item.name, outcome))
        while pending:
            await _write_next(pending, results)
        return executor.counters()
    finally:
        await executor.stop()


async def _write_next(pending: "deque[tuple[str, asyncio.Future[Outputs]]]", results: ResultFiles) -> None:
    name, outcome = pending.popleft()
    try:
        results.write(name, await outcome)
    except ItemFailed as error:
        results.fail(name, str(error))


def run_serially(graph: Graph, directory: Path, source: Place, results: ResultFiles) -> None:
    """`directory`: of the graph's files. Raises GraphError, and whatever `load` raises."""
    names = list(graph.inputs)
    items = items_of(source, names)
    serial = SerialRun(graph, directory)
    for item in items:
        try:
            encoded = item.read(names)
            outputs = serial.run(
                {name: decode_named(name, kind, encoded[name]) for name, kind in graph.inputs.items()}
            )
            results.write(item.name, {name: encode_result(value) for name, value in outputs.items()})
        except ItemFailed as error:
            results.fail(item.name, str(error))


def encode_result(value: Any) -> tuple[str, bytes]:
    """Raises ItemFailed."""
    try:
        return encode_output(value)
    except (TypeError, ValueError) as error:
        raise ItemFailed(f"the output cannot be written: {error}") from None
