"""An app as its CPU processes serve it, and what they tell the front of it."""

from collections.abc import Mapping
from pathlib import Path

from serving.runtime.frames import Meta
from serving.runtime.gpu_model import GpuModel
from serving.runtime.handlers import RouteHandler, openapi, warm_up_body
from serving.runtime.loading import load_app


class LoadedApp:
    """The app of a file with its handlers. `description`: what the front serves by: processes, routes and
    their limits, the OpenAPI document, what to warm up with."""

    def __init__(self, file: Path) -> None:
        """Raises AppError, or what the file raises."""
        self.app, models = load_app(file)
        self.handlers = [RouteHandler(route) for route in self.app.routes]
        self.description = self._described(models, file.stem)

    def _described(self, models: Mapping[str, type[GpuModel]], title: str) -> Meta:
        app = self.app
        kinds = {one.kind for one in app.routes}
        return {
            "processes": app.processes,
            "job_processes": app.job_processes if kinds & {"job", "control"} else 0,
            "abilities": app.abilities,
            "memory_mb": app.memory_mb,
            "own": [(one.name, one.count, one.load_seconds) for one in app.own_processes],
            "indicators": [(one.name, one.help, one.lower_is_better) for one in app.indicators.values()],
            "models": [
                {
                    "name": name,
                    "processes": one.processes,
                    "timeout_seconds": one.timeout_seconds,
                    "load_timeout_seconds": one.load_timeout_seconds,
                    "memory_mb": one.memory_mb,
                }
                for name, one in sorted(models.items())
            ],
            "routes": [
                {
                    "kind": one.kind,
                    "method": one.method,
                    "path": one.path,
                    "max_bytes": one.max_bytes,
                    "timeout_seconds": one.timeout_seconds or app.timeout_seconds,
                    "job": dict(one.job),
                }
                for one in app.routes
            ],
            "warm_up": [
                (number, warm_up_body(one).decode("latin-1"))
                for number, one in enumerate(app.routes)
                if one.warm_up is not None
            ],
            "openapi": openapi(app, self.handlers, title),
        }
