"""Files of the model versions that tasks name, beside the graph's own."""

from collections.abc import Mapping
from pathlib import Path

from serving.graphs.description import task_model_path
from serving.graphs.errors import GraphError, refused
from serving.protocol import LABEL
from serving.runtime.gpu_model import Files


def check_model(task: str, model: str, *, is_class: bool) -> None:
    """Raises GraphError."""
    if not is_class:
        raise refused(f"{task} is a function, which loads no model: make it a class with load and run")
    if not LABEL.fullmatch(model):
        raise refused(f"{task}: model must be MODEL:VERSION, not {model!r}")


def files_of_model(files: Mapping[str, Path], task: str, model: str) -> Mapping[str, Path]:
    """Return the files of the model's version. Raises GraphError where they are not there."""
    assert isinstance(files, Files)  # noqa: S101 - whatever runs a graph has its directory
    directory = files.directory / (place := task_model_path(model))
    if not directory.is_dir():
        raise GraphError(
            f"{task} loads {model}, whose files are not in {place} beside the graph's file: push the graph "
            "before its version is deployed; on a machine of your own put the files there"
        )
    return Files(directory)
