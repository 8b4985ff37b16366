"""Runs model workers on this machine, as programs of the embedded stack's supervisord."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

from clusters.backends.abilities import BackendAbilities
from clusters.backends.base import (
    CannotRun,
    ClusterHealth,
    ClusterUnreachable,
    DeploymentSpec,
    ModelVersion,
    ObservedNode,
    ObservedState,
    ObservedWorker,
    StaleDeploymentFence,
    UnknownWorker,
)
from clusters.backends.checks import ClusterCheck
from clusters.backends.embedded.abilities import ABILITIES
from clusters.backends.embedded.checks import checks as machine_checks
from clusters.backends.embedded.desired import DesiredDeployment, DesiredStore
from clusters.backends.embedded.health_probes import WorkerHealthReply, ask_all
from clusters.backends.embedded.machine import machine_id, machine_name, this_machine
from clusters.backends.embedded.node_operations import EmbeddedNodeOperations, MarksFile
from clusters.backends.embedded.placing import check_placement
from clusters.backends.embedded.slots import SlotAllocator
from clusters.backends.embedded.worker_names import parted, slot_of, workers_of
from clusters.backends.embedded.workloads import EmbeddedWorkloads
from clusters.backends.observed_pods import ObservedPods
from clusters.backends.supervisor_rpc import (
    ALIVE,
    ObservedProcess,
    ProcessState,
    SupervisedProgram,
    Supervisor,
    SupervisorFault,
    SupervisorUnreachable,
)
from common import files
from common.fence import Fence
from common.jobs.runners.base import JobRunner
from common.jobs.runners.subprocess import local_runner
from serving.engines.registry import ENGINES
from serving.protocol import AGENT_SOCKET
from serving.worker_command import EXIT_PORT_TAKEN, WORKER_ENVIRONMENT, WorkerCommand

PRIORITY = 300
"""Workers stop after the parts that act (400) and before the gateway (200) that leads to them."""
SETTLE_SECONDS = 2.0
"""Longer than the gateway takes to see by its own health checks that a worker drains."""
HEALTHY_AFTER_SECONDS = 60
"""A worker that ends sooner is started again with a growing delay: most of this time it loads its model."""
FAILED_AFTER_STARTS = 3
KILL_AFTER_SECONDS = 5
"""Beyond the time that a worker gives itself to drain."""
LOG_TAIL_BYTES = 256 * 1024

GIVEN_UP = (ProcessState.STOPPED, ProcessState.FATAL)
"""Not started again by itself; one that EXITED is, in a moment."""

Argv = Callable[[WorkerCommand], list[str]]
BringFiles = Callable[[ModelVersion], Path]
"""Makes the files of a version a directory of this machine. Raises FilesPending, CannotRun."""


ENVIRONMENTS = "environments"
"""In the home: Python environments of engines that are not installed with the worker."""


class EmbeddedCluster:
    """A ClusterBackend. What is desired lies in files under `run_dir`: they know the last fence."""

    abilities: ClassVar[BackendAbilities] = ABILITIES

    def __init__(
        self,
        *,
        run_dir: Path,
        log_dir: Path,
        ports: tuple[int, int],
        directory: Path,
        bring_files: BringFiles | None = None,
        argv: Argv = lambda command: command.argv(sys.executable),
        job_runner: Callable[[], JobRunner] = local_runner,
        environments: Path | None = None,
    ) -> None:
        """`ports`: first and last that workers may get. `directory`: where they run, and find `serving`.
        `environments`: where engines that are not installed get environments of their own.

        `bring_files`: None where nothing is applied, only restored.
        """
        self._programs_dir = run_dir / "supervisor.d"
        self._desired = DesiredStore(run_dir / "deployments")
        self._supervisor = Supervisor(run_dir / "data.sock", self._programs_dir)
        self._adapters_dir = run_dir / "adapters"
        self._log_dir = log_dir / "workers"
        self._slots = SlotAllocator(self._desired, ports)
        self._directory = directory
        self._agent_socket = run_dir / AGENT_SOCKET
        self._bring_files = bring_files
        self._marks = MarksFile(run_dir / "node.json")
        self.node_operations = EmbeddedNodeOperations(
            self._marks, self._desired, self._supervisor, job_runner
        )
        self.workloads = EmbeddedWorkloads(run_dir / "workloads", job_runner)
        self._argv = argv
        self._environments = environments

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        self._guard(spec.name, fence)
        check_placement(spec, this_machine)
        assert self._bring_files is not None  # noqa: S101
        model_dir = self._bring_files(spec.version)
        adapters = {
            name: {"version": version.label, "directory": str(self._bring_files(version))}
            for name, version in spec.adapters.items()
        }
        with self._desired.lock():
            before = self._guard(spec.name, fence)
            desired = DesiredDeployment(spec, fence, before.slots if before else {}, model_dir=model_dir)
            alive = {name: process.state in ALIVE for name, process in self._processes().items()}
            desired = replace(desired, slots=self._slots.slots_for(desired, alive))
            programs = self._programs(desired, desired.ordinals)
            self._desired.save(desired)
            self._tell_adapters(spec, adapters)
            self._carry_out(desired, programs)

    def files_reason(self, spec: DeploymentSpec) -> str:
        return ""

    def remove(self, deployment: str, *, fence: Fence) -> None:
        with self._desired.lock():
            desired = self._guard(deployment, fence)
            if desired is None:
                return
            removed_at = time.time() if desired.removed_at is None else desired.removed_at
            desired = replace(desired, fence=fence, removed_at=removed_at)
            self._desired.save(desired)
            self._carry_out(desired, {})
            self._adapters_file(deployment).unlink(missing_ok=True)

    def restore(self, running: Iterable[str] = ()) -> list[str]:
        """Put what is desired where supervisord finds it when it starts. Returns what cannot run now.

        `running`: the programs whose processes outlived the last one. Workers among them keep their slots,
        and those that should not be there are given to it too: `settle` ends them.
        """
        problems = []
        alive = dict.fromkeys(running, True)
        with self._desired.lock():
            self._programs_dir.mkdir(parents=True, exist_ok=True)
            for stale in self._programs_dir.iterdir():
                stale.unlink()
            self._desired.forget_old(now=time.time())
            for desired in self._desired.load_all():
                try:
                    complete = replace(desired, slots=self._slots.slots_for(desired, alive))
                    programs = self._programs(complete, complete.slots)
                except CannotRun as error:
                    problems.append(str(error))
                    continue
                self._desired.save(complete)
                for program in programs.values():
                    self._supervisor.write(program)
        return problems

    def settle(self) -> None:
        """Once supervisord has taken over what outlived the last one: end the workers that should not be."""
        with self._desired.lock():
            wanted = {
                f"{desired.spec.name}-{ordinal}"
                for desired in self._desired.load_all()
                for ordinal in desired.ordinals
            }
            try:
                for name in self._supervisor.processes():
                    if slot_of(name) and name not in wanted:
                        self._supervisor.remove(name)
            except (SupervisorUnreachable, SupervisorFault) as error:
                raise ClusterUnreachable(str(error)) from None

    def observe(self, deployment: str) -> tuple[ObservedWorker, ...]:
        processes = {
            name: process
            for name, process in self._processes().items()
            if (slot := slot_of(name)) and slot[0] == deployment and not _is_no_more(process)
        }
        desired = self._desired.load(deployment) if processes else None
        slots = desired.slots if desired else {}
        ports = {name: slots[one].port for name in processes if (one := parted(name)[1]) in slots}
        answers = ask_all({name: port for name, port in ports.items() if processes[name].state in ALIVE})
        found = [self._observed_worker(processes[name], ports[name], answers.get(name)) for name in ports]
        return tuple(sorted(found, key=lambda worker: parted(worker.id)[1]))

    def logs(self, worker: str, *, lines: int) -> str:
        path = self._log(worker)
        if slot_of(worker) is None or not path.is_file():
            raise UnknownWorker(f"There is no log of a worker {worker}.")
        older = path.with_name(f"{path.name}.1")
        text = _tail(path)
        if text.count("\n") < lines and older.is_file():
            text = _tail(older) + text
        return "\n".join(text.splitlines()[-lines:])

    def nodes(self) -> tuple[ObservedNode, ...]:
        return (self._marks.read().on(this_machine()),)

    def pods(self) -> ObservedPods:
        return ObservedPods(self.node_operations.pods(machine_id()))

    def health(self) -> ClusterHealth:
        try:
            workers = sum(slot_of(name) is not None for name in self._processes())
        except ClusterUnreachable as error:
            return ClusterHealth(False, str(error))
        return ClusterHealth(True, f"supervisord runs {workers} workers.")

    def checks(self) -> tuple[ClusterCheck, ...]:
        return machine_checks(self.health(), this_machine())

    def _guard(self, deployment: str, fence: Fence) -> DesiredDeployment | None:
        """Return the deployment as desired so far. Raises StaleDeploymentFence when a later writer made
        it.
        """
        desired = self._desired.load(deployment)
        if desired is not None and fence < desired.fence:
            raise StaleDeploymentFence(
                f"{deployment} was set by {desired.fence}, which is later than {fence}."
            )
        return desired

    def _programs(self, desired: DesiredDeployment, ordinals: Iterable[int]) -> dict[str, SupervisedProgram]:
        """The programs of these workers, by name. Raises CannotRun."""
        self._log_dir.mkdir(parents=True, exist_ok=True)
        try:
            return {
                program.name: program
                for ordinal in ordinals
                for program in (self._program(desired, ordinal),)
            }
        except ValueError as error:  # ProtocolError is one
            raise CannotRun(f"{desired.spec.name} cannot run: {error}.") from None

    def _program(self, desired: DesiredDeployment, ordinal: int) -> SupervisedProgram:
        spec, slot = desired.spec, desired.slots[ordinal]
        name = f"{spec.name}-{ordinal}"
        command = WorkerCommand(
            model_dir=desired.model_dir,
            name=name,
            deployment=spec.name,
            service=spec.service,
            version_label=spec.version.label,
            engine=spec.engine,
            port=slot.port,
            machine=machine_name(),
            slots=spec.slots,
            device=spec.device,
            settings=spec.settings,
            heartbeat_url=f"unix:{self._agent_socket}",
            settle_seconds=SETTLE_SECONDS,
            grace_seconds=spec.grace_seconds,
            environments=self._environments if ENGINES[spec.engine].has_environments else None,
            adapters_file=self._adapters_file(spec.name)
            if ENGINES[spec.engine].is_ready_for_adapters(spec.settings)
            else None,
        )
        environment = dict(WORKER_ENVIRONMENT)
        if slot.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in slot.gpus)
        return SupervisedProgram(
            name=name,
            command=tuple(self._argv(command)),
            directory=self._directory,
            log=self._log(name),
            priority=PRIORITY,
            healthy_after_seconds=HEALTHY_AFTER_SECONDS,
            stop_within_seconds=ceil(SETTLE_SECONDS + spec.grace_seconds) + KILL_AFTER_SECONDS,
            environment=environment,
        )

    def _carry_out(self, desired: DesiredDeployment, programs: Mapping[str, SupervisedProgram]) -> None:
        """Start what is missing; end what is surplus or not as its program says now."""
        processes = self._processes()
        missing = []
        try:
            for name, program in programs.items():
                process = processes.get(name)
                if process is None or (process.state in GIVEN_UP and self._supervisor.remove(name)):
                    missing.append(program)
                elif not self._supervisor.runs(program):
                    self._supervisor.remove(name)
            for name in workers_of(desired.spec.name, processes):
                if name not in programs:
                    self._supervisor.remove(name)
            if missing and (closed := self._marks.read().why_closed_to(desired.spec)):
                raise CannotRun(closed)
            if missing:
                self._supervisor.add(missing)
        except SupervisorFault as fault:
            raise CannotRun(f"supervisord refuses: {fault}") from None
        except SupervisorUnreachable as error:
            raise ClusterUnreachable(str(error)) from None

    def _processes(self) -> dict[str, ObservedProcess]:
        try:
            return self._supervisor.processes()
        except (SupervisorUnreachable, SupervisorFault) as error:
            raise ClusterUnreachable(str(error)) from None

    def _observed_worker(
        self, process: ObservedProcess, port: int, answer: WorkerHealthReply | None
    ) -> ObservedWorker:
        state, reason = (
            (answer.state, answer.reason) if answer else (ObservedState.STARTING, "It has no process.")
        )
        if process.state == ProcessState.STOPPING:
            state = ObservedState.DRAINING
        elif state == ObservedState.STARTING and process.last_exit:
            # A process that answers has begun its log anew.
            last_line = "" if answer else self._last_line(process.name)
            reason = f"{reason.rstrip('.')}. Its last process ended: {process.last_exit}. {last_line}".strip()
            if process.failed_starts >= FAILED_AFTER_STARTS or process.state == ProcessState.FATAL:
                state = ObservedState.FAILED
        return ObservedWorker(
            id=process.name,
            name=process.name,
            node=machine_name(),
            address="127.0.0.1",
            port=port,
            pid=process.pid,
            state=state,
            since=process.since,
            restarts=process.restarts,
            reason=reason,
        )

    def _last_line(self, worker: str) -> str:
        """The last thing that it wrote; empty when it wrote nothing."""
        try:
            lines = self.logs(worker, lines=1)
        except UnknownWorker:
            return ""
        return lines.strip()[-500:]

    def _tell_adapters(self, spec: DeploymentSpec, adapters: Mapping[str, Any]) -> None:
        if not ENGINES[spec.engine].is_ready_for_adapters(spec.settings):
            return
        path, text = self._adapters_file(spec.name), json.dumps(adapters).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != text:
            files.replace(path, text)

    def _adapters_file(self, deployment: str) -> Path:
        """Its workers follow it (`serving.adapters`)."""
        return self._adapters_dir / f"{deployment}.json"

    def _log(self, worker: str) -> Path:
        return self._log_dir / f"{worker}.log"


def _is_no_more(process: ObservedProcess) -> bool:
    """STOPPED: it ended because it was asked to, and is only not forgotten yet.

    One whose port another program took has lost its slot: whoever misses it applies again, and it gets
    another.
    """
    lost_its_port = process.last_exit == f"exit status {EXIT_PORT_TAKEN}"
    return process.state == ProcessState.STOPPED or (lost_its_port and process.state not in ALIVE)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")
