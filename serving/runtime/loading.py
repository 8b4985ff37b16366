"""The user's file as a module."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from serving.runtime.app import App, OwnProcess
from serving.runtime.errors import AppError
from serving.runtime.gpu_model import GpuModel
from serving.runtime.llm import LlmEngine


def load_module(file: Path) -> ModuleType:
    """The file, run. Raises AppError; what the file itself raises goes through."""
    if not file.is_file():
        raise AppError(f"there is no file {file}")
    name = file.stem if file.stem.isidentifier() and file.stem not in sys.modules else "slipway_app"
    sys.path.insert(0, str(file.parent))
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise AppError(f"{file.name} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # before it runs: what it defines is pickled by this name
    specification.loader.exec_module(module)
    return module


def load_app(file: Path) -> tuple[App, dict[str, type[GpuModel]]]:
    """The App of the file, and the models that it names at its top level; engines of `serve.llm` there are
    processes of the app. Raises AppError; what the file itself raises goes through."""
    module = load_module(file)
    apps = {id(value): value for value in vars(module).values() if isinstance(value, App)}
    if not apps and (graph_app := _app_of_graph(module, file)) is not None:
        return graph_app, {}
    if len(apps) != 1:
        raise AppError(f"{file.name} must have one serve.App at its top level; it has {len(apps) or 'none'}")
    models = {
        value.__name__: value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, GpuModel)
        and value is not GpuModel
        # A base class of others is no model of its own.
        and not any(value in other.__bases__ for other in vars(module).values() if isinstance(other, type))
    }
    app = next(iter(apps.values()))
    for variable, value in vars(module).items():
        if isinstance(value, LlmEngine):
            value.bind(variable)
            app.own_processes.append(OwnProcess(variable, value))
    return app, models


def _app_of_graph(module: ModuleType, file: Path) -> App | None:
    """The app of a file that has a task graph instead. Raises AppError."""
    if "serving.graphs.program" not in sys.modules:
        return None
    from serving.graphs.errors import GraphError
    from serving.graphs.loading import graph_of
    from serving.graphs.program import Graph
    from serving.graphs.service import app_of

    if not any(isinstance(value, Graph) for value in vars(module).values()):
        return None
    try:
        return app_of(graph_of(module, file), file)
    except GraphError as error:
        raise AppError(str(error)) from None
