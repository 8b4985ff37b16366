"""Task files of lm-eval as test sets: what they may hold, checked before anything runs. Imports no Django.

A task file names data beside it and how questions are made of it by templates. Files that name code, other
sources of data or metrics that would be fetched are refused.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kube.untrusted_yaml import BadYaml, load
from optimization.items import MOST_BYTES, BadItems

SUFFIXES = (".yaml", ".yml")
METRICS: Mapping[str, frozenset[str]] = {
    "multiple_choice": frozenset({"acc", "acc_norm"}),
    "generate_until": frozenset({"exact_match"}),
    "loglikelihood_rolling": frozenset({"byte_perplexity"}),
}
"""Metrics by output type that have a value for each item and need no network."""
FIELDS = frozenset(
    {
        "task", "dataset_path", "dataset_kwargs", "test_split", "fewshot_split", "num_fewshot", "output_type",
        "description", "doc_to_text", "doc_to_target", "doc_to_choice", "target_delimiter",
        "fewshot_delimiter", "generation_kwargs", "metric_list", "metadata",
    }
)  # fmt: skip
LONGEST_NAME = 24


def is_task_file(path: str) -> bool:
    return path.endswith(SUFFIXES)


def read_task(path: Path, *, root: Path) -> dict[str, Any]:
    """Return the task, its data named by absolute paths below `root`. Raises BadItems, OSError."""
    name = path.name
    try:
        text = path.read_text()
        told = load(text, numbers=True)
    except (BadYaml, UnicodeDecodeError) as error:
        raise BadItems(f"{name} cannot be read: {error}.") from None
    if "!function" in text:
        raise BadItems(f"{name} names a function, which is code: write it as a template.")
    if not isinstance(told, dict):
        raise BadItems(f"{name} is no task file: give an object.")
    if unknown := sorted(map(str, set(told) - FIELDS)):
        raise BadItems(f"{name} has {unknown[0]}, which is not taken. Known: {', '.join(sorted(FIELDS))}.")
    task, kind = told.get("task"), str(told.get("output_type"))
    if not isinstance(task, str) or not 0 < len(task) <= LONGEST_NAME or ":" in task:
        raise BadItems(f"Give task in {name}: a name of at most {LONGEST_NAME} letters.")
    if told.get("dataset_path") != "json":
        raise BadItems(f"dataset_path in {name} must be json: data lies beside the task file.")
    if kind not in METRICS:
        raise BadItems(f"output_type in {name} must be one of {', '.join(sorted(METRICS))}.")
    metrics = told.get("metric_list") or []
    names = [one.get("metric") if isinstance(one, dict) else None for one in metrics]
    if not names or not all(one in METRICS[kind] for one in names):
        raise BadItems(f"metric_list in {name} must have some of {', '.join(sorted(METRICS[kind]))}.")
    data, split = (told.get("dataset_kwargs") or {}).get("data_files"), told.get("test_split")
    if not isinstance(data, dict) or split not in data:
        raise BadItems(f"Give dataset_kwargs.data_files and test_split in {name}: a file for each split.")
    files = {part: str(_file(file, path, root)) for part, file in data.items()}
    return {**told, "dataset_kwargs": {"data_files": files}}


def documents_of_test(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the documents of the split that is tested. Raises BadItems."""
    path = Path(task["dataset_kwargs"]["data_files"][task["test_split"]])
    if path.stat().st_size > MOST_BYTES:
        raise BadItems(f"{path.name} is larger than {MOST_BYTES // 2**20} MiB.")
    try:
        found = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except ValueError:
        found = [None]
    if not all(isinstance(one, dict) for one in found):
        raise BadItems(f"{path.name} must have one JSON object per line.")
    return found


def text_digests(documents: list[dict[str, Any]]) -> set[str]:
    """Return digests of all texts of the documents, as `items.EvalItem.digest` has them."""
    return {
        hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]
        for one in documents
        for text in _texts(one)
    }


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _file(file: object, task: Path, root: Path) -> Path:
    place = (task.parent / str(file)).resolve()
    # The root may hold links into the store: the name as it is written must lie below it.
    written = (task.parent / str(file)).absolute()
    is_below = root.absolute() in written.parents and ".." not in Path(str(file)).parts
    if not isinstance(file, str) or not is_below or not place.is_file():
        raise BadItems(f"{task.name} names the data file {file}, which its version does not have.")
    if written.suffix not in (".jsonl", ".json"):
        raise BadItems(f"{file} must be a .jsonl file.")
    return written
