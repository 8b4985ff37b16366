"""Models of tasks, laid out in the directory of the version that holds the graph's code."""

from graphs.models import TaskModel
from models_registry.companions import CompanionSource
from models_registry.models import Version
from models_registry.states import VersionState
from serving.graphs.description import task_model_path


def _of(code: int) -> dict[str, Version]:
    rows = TaskModel.objects.filter(code=code).select_related("version__model")
    return {task_model_path(str(one.version)): one.version for one in rows}


def _holders() -> set[int]:
    return set(TaskModel.objects.exclude(code__state=VersionState.DELETED).values_list("code", flat=True))


TASK_MODELS = CompanionSource(_of, _holders)
