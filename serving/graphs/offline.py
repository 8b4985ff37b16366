"""A graph over a directory of files, or over the lines of a JSON Lines file."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.graphs.encoding import LARGEST_INPUT_BYTES, decode_input, encode_output
from serving.graphs.errors import GraphError, ItemFailed
from serving.graphs.program import Graph
from serving.graphs.serial import SerialRun

Encoded = Mapping[str, bytes]
"""Inputs of an item by name, as bytes."""
FAILED_FILE = "failed.jsonl"


@dataclass(frozen=True)
class SourceItem:
    """An item that has not been read yet. `name`: of its results, unique in the source."""

    name: str
    place: Path
    line: bytes = b""

    def read(self, graph: Graph) -> Encoded:
        """Raises ItemFailed."""
        if not self.line:
            try:
                size = self.place.stat().st_size
                if size > LARGEST_INPUT_BYTES:
                    raise ItemFailed(f"it has {size} bytes, more than {LARGEST_INPUT_BYTES}")
                return {next(iter(graph.inputs)): self.place.read_bytes()}
            except OSError as error:
                raise ItemFailed(f"it cannot be read: {error.strerror}") from None
        try:
            document = json.loads(self.line)
        except ValueError as error:
            raise ItemFailed(f"it is no JSON: {error}") from None
        if len(graph.inputs) == 1 and not isinstance(document, dict):
            document = {next(iter(graph.inputs)): document}
        if not isinstance(document, dict) or document.keys() != graph.inputs.keys():
            raise ItemFailed(f"it must be an object with {', '.join(graph.inputs)}")
        return {name: encode_output(value)[1] for name, value in document.items()}


def items_of(source: Path, graph: Graph) -> Iterator[SourceItem]:
    """The items of a directory or of a `.jsonl` file, in order. Raises GraphError."""
    if source.is_dir():
        if len(graph.inputs) > 1:
            raise GraphError(
                f"{graph.name} has {len(graph.inputs)} inputs: give a .jsonl file with an object a line"
            )
        files = sorted(path for path in source.iterdir() if path.is_file() and not path.name.startswith("."))
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


def decode_inputs(graph: Graph, encoded: Encoded) -> dict[str, Any]:
    """Raises ItemFailed."""
    return {name: decode_named(name, kind, encoded[name]) for name, kind in graph.inputs.items()}


def decode_named(name: str, kind: Any, data: bytes) -> Any:
    """An input, or ItemFailed with its name."""
    try:
        return decode_input(kind, data)
    except ItemFailed as error:
        raise ItemFailed(f"input {name}: {error}") from None


class ResultFiles:
    """The directory of the results: a file per output, and `failed.jsonl` with a reason per failed item."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        (directory / FAILED_FILE).unlink(missing_ok=True)
        self.done = self.failed = 0

    def write(self, item: str, outputs: Mapping[str, tuple[str, bytes]]) -> None:
        for name, (suffix, data) in outputs.items():
            file = self._directory / ".".join([item, *([name] if name else []), suffix])
            part = file.with_name(f".{file.name}.part")
            part.write_bytes(data)
            part.replace(file)
        self.done += 1

    def fail(self, item: str, reason: str) -> None:
        with (self._directory / FAILED_FILE).open("a") as file:
            file.write(json.dumps({"item": item, "reason": reason}, ensure_ascii=False) + "\n")
        self.failed += 1


def run_serially(graph: Graph, directory: Path, source: Path, results: ResultFiles) -> None:
    """`directory`: of the graph's files. Raises GraphError, and whatever `load` raises."""
    items = items_of(source, graph)
    serial = SerialRun(graph, directory)
    for item in items:
        try:
            outputs = serial.run(decode_inputs(graph, item.read(graph)))
            results.write(item.name, {name: encode_result(value) for name, value in outputs.items()})
        except ItemFailed as error:
            results.fail(item.name, str(error))


def encode_result(value: Any) -> tuple[str, bytes]:
    """Raises ItemFailed."""
    try:
        return encode_output(value)
    except (TypeError, ValueError) as error:
        raise ItemFailed(f"the output cannot be written: {error}") from None
