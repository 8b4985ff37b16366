"""The engine `app`: a version whose files are a service of the team's own, with routes of its own."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from serving.app import health_document, identity_headers
from serving.desk import Desk
from serving.engines.base import EngineError
from serving.faults import FaultInjection
from serving.jobs.queue import JobQueue
from serving.jobs.redis_store import RedisJobStore
from serving.jobs.store import MemoryJobStore
from serving.metrics import WorkerMetrics
from serving.protocol import ABILITY
from serving.runtime.errors import Problem
from serving.runtime.front import Front
from serving.runtime.isolation import Limits
from serving.runtime.processes import Processes
from serving.runtime.service_metrics import ServiceMetrics
from serving.settings import Range, SettingsError, VersionSettings, read_settings
from serving.worker_command import JOBS_URL, WorkerCommand

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class AppSettings:
    """`file`: of the version, with the `serve.App`. `processes`: CPU processes; 0: as many as the App says.
    `arena_mb`: shared memory between a CPU process and a model's, each way; it takes only what is used.
    `limit_...`: of the kernel, see `isolation.Limits`."""

    file: str = "app.py"
    processes: Annotated[int, Range(0, 512)] = 0
    arena_mb: Annotated[int, Range(0, 65_536)] = 64
    limit_memory_mb: Annotated[int, Range(0, 16_777_216)] = 0
    limit_processes: Annotated[int, Range(0, 1_048_576)] = 4_096
    limit_files: Annotated[int, Range(0, 1_048_576)] = 65_536


def read_app_settings(command: WorkerCommand, version_file: VersionSettings) -> AppSettings:
    """Raises SettingsError."""
    given: Mapping[str, Any] = dict(version_file.engines.get("app", {})) | dict(command.settings)
    settings = read_settings(AppSettings, given, where="settings of the app engine")
    file = command.model_dir / settings.file
    if not file.resolve().is_relative_to(command.model_dir.resolve()):
        raise SettingsError(f"settings of the app engine: file {settings.file!r} lies outside of the version")
    return settings


class AppService:
    """The processes of the service and the front before them, with the life of an engine."""

    def __init__(self, command: WorkerCommand, settings: AppSettings) -> None:
        self._command = command
        self._processes = Processes(
            command.model_dir / settings.file,
            processes=settings.processes,
            arena_bytes=settings.arena_mb << 20,
            environments=command.environments,
            limits=Limits(settings.limit_memory_mb, settings.limit_processes, settings.limit_files),
        )
        url = os.environ.pop(JOBS_URL, "")
        self._jobs = JobQueue(RedisJobStore.at(url) if url else MemoryJobStore())
        self._desk: Desk | None = None
        self._front: Front | None = None
        self._metrics: ServiceMetrics | None = None

    @property
    def device(self) -> str:
        return self._processes.device

    @property
    def code_runs(self) -> str:
        """Return as which user code runs, or why as no other than the worker's; empty before it starts."""
        return self._processes.isolation.words

    @property
    def abilities(self) -> tuple[str, ...]:
        """Return the abilities that the app names."""
        return tuple(self._processes.description.get("abilities", ()))

    @property
    def group(self) -> str:
        """Return `online` or `offline`; empty: its pool has no groups."""
        return str((self._front and self._front.job_runner.group) or "")

    @property
    def jobs_running(self) -> int:
        return self._front.job_runner.running if self._front else 0

    def application(self, desk: Desk, faults: FaultInjection) -> Front:
        """The ASGI application."""
        worker = WorkerMetrics(desk, self._command)
        self._desk = desk
        self._metrics = ServiceMetrics(worker, worker.registry)
        self._front = Front(
            processes=self._processes,
            desk=desk,
            metrics=self._metrics,
            faults=faults,
            identity=lambda: identity_headers(self._command, desk),
            health=lambda: (
                health_document(self._command, desk)
                | {"processes": self._shown(), "code_runs": self._processes.isolation.words}
            ),
            expose=worker.expose,
            jobs=self._jobs,
            place=self._command,
        )
        return self._front

    def _shown(self) -> list[dict[str, Any]]:
        return [
            {
                "name": child.order.name,
                "pid": child.pid,
                "state": "ready" if child.is_ready.is_set() else "starting",
                "starts": child.starts,
            }
            for child in self._processes.all
        ]

    async def start(self) -> None:
        """Returns when every process is ready and the warm-up requests are answered. Raises EngineError."""
        # `application` comes first.
        assert self._front and self._desk and self._metrics  # noqa: S101, PT018
        await self._processes.start()
        if wrong := [one for one in self.abilities if not ABILITY.fullmatch(one)]:
            raise EngineError(f"the ability {wrong[0]!r} must match {ABILITY.pattern}")
        self._desk.resize(len(self._processes.cpu))
        try:
            await self._front.warm_up()
        except (Problem, TimeoutError) as problem:
            raise EngineError(str(problem) or "a warm-up request was not answered in time") from None
        self._metrics.declare(self._processes.description["indicators"])
        self._front.open()

    async def died(self) -> str:
        return await self._processes.died()

    async def stop(self) -> None:
        if self._front is not None:
            await self._front.job_runner.drain(self._command.grace_seconds)
        await self._processes.stop()
        await self._jobs.store.close()
