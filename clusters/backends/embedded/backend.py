"""Runs model workers on this machine, as programs of the embedded stack's supervisord."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path

from clusters.backends.base import (
    CannotRun,
    ClusterUnreachable,
    DeploymentSpec,
    Fence,
    Health,
    NodeSeen,
    SeenState,
    StaleFence,
    UnknownWorker,
    WorkerSeen,
)
from clusters.backends.embedded.asking import Answer, ask_all
from clusters.backends.embedded.machine import gpus, machine_name, port_is_free, this_machine
from clusters.backends.embedded.wishes import Seat, Wish, Wishes
from clusters.backends.supervisor_rpc import (
    ALIVE,
    ProcessSeen,
    ProcessState,
    Program,
    Supervisor,
    SupervisorFault,
    SupervisorUnreachable,
)
from serving.protocol import EXIT_PORT_TAKEN, WORKER_ENVIRONMENT, WorkerCommand

PRIORITY = 300
"""Workers stop after the parts that act (400) and before the gateway (200) that leads to them."""
SETTLE_SECONDS = 1.0
HEALTHY_AFTER_SECONDS = 60
"""A worker that ends sooner is started again with a growing delay: most of this time it loads its model."""
FAILED_AFTER_STARTS = 3
KILL_AFTER_SECONDS = 5
"""Beyond the time that a worker gives itself to drain."""
LOG_TAIL_BYTES = 256 * 1024

GIVEN_UP = (ProcessState.STOPPED, ProcessState.FATAL)
"""Not started again by itself; one that EXITED is, in a moment."""

Argv = Callable[[WorkerCommand], list[str]]


class EmbeddedCluster:
    """A ClusterBackend. Wishes are files under `run_dir`: the resource itself knows the last fence."""

    def __init__(
        self,
        *,
        run_dir: Path,
        log_dir: Path,
        ports: tuple[int, int],
        directory: Path,
        argv: Argv = lambda command: command.argv(sys.executable),
    ) -> None:
        """`ports`: first and last that workers may get. `directory`: where they run, and find `serving`."""
        self._programs_dir = run_dir / "supervisor.d"
        self._wishes = Wishes(run_dir / "deployments")
        self._supervisor = Supervisor(run_dir / "data.sock", self._programs_dir)
        self._log_dir = log_dir / "workers"
        self._ports = ports
        self._directory = directory
        self._argv = argv

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        with self._wishes.lock():
            before = self._guard(spec.name, fence)
            wish = Wish(spec, fence, before.seats if before else {})
            alive = {name: process.state in ALIVE for name, process in self._processes().items()}
            wish = replace(wish, seats=self._seated(wish, alive))
            programs = self._programs(wish, wish.ordinals)
            self._wishes.save(wish)
            self._carry_out(wish, programs)

    def remove(self, deployment: str, *, fence: Fence) -> None:
        with self._wishes.lock():
            wish = self._guard(deployment, fence)
            if wish is None:
                return
            removed_at = time.time() if wish.removed_at is None else wish.removed_at
            wish = replace(wish, fence=fence, removed_at=removed_at)
            self._wishes.save(wish)
            self._carry_out(wish, {})

    def restore(self, running: Iterable[str] = ()) -> list[str]:
        """Before supervisord starts: put the wishes where it finds them. Returns what cannot run now.

        `running`: the programs whose processes outlived the last one. Workers among them keep their seats,
        and those that should not be there are given to it too: `settle` ends them.
        """
        problems = []
        alive = dict.fromkeys(running, True)
        with self._wishes.lock():
            self._programs_dir.mkdir(parents=True, exist_ok=True)
            for stale in self._programs_dir.iterdir():
                stale.unlink()
            self._wishes.forget_old(now=time.time())
            for wish in self._wishes.load_all():
                try:
                    seated = replace(wish, seats=self._seated(wish, alive))
                    programs = self._programs(seated, seated.seats)
                except CannotRun as error:
                    problems.append(str(error))
                    continue
                self._wishes.save(seated)
                for program in programs.values():
                    self._supervisor.write(program)
        return problems

    def settle(self) -> None:
        """Once supervisord has taken over what outlived the last one: end the workers that should not be."""
        with self._wishes.lock():
            wanted = {
                f"{wish.spec.name}-{ordinal}" for wish in self._wishes.load_all() for ordinal in wish.ordinals
            }
            try:
                for name in self._supervisor.processes():
                    if _seat_of(name) and name not in wanted:
                        self._supervisor.remove(name)
            except (SupervisorUnreachable, SupervisorFault) as error:
                raise ClusterUnreachable(str(error)) from None

    def observe(self, deployment: str) -> tuple[WorkerSeen, ...]:
        return self._observe(lambda name: name == deployment).get(deployment, ())

    def observe_all(self) -> Mapping[str, tuple[WorkerSeen, ...]]:
        return self._observe(lambda _: True)

    def logs(self, worker: str, *, lines: int) -> str:
        path = self._log(worker)
        if _seat_of(worker) is None or not path.is_file():
            raise UnknownWorker(f"There is no log of a worker {worker}.")
        older = path.with_name(f"{path.name}.1")
        text = _tail(path)
        if text.count("\n") < lines and older.is_file():
            text = _tail(older) + text
        return "\n".join(text.splitlines()[-lines:])

    def nodes(self) -> tuple[NodeSeen, ...]:
        return (this_machine(),)

    def health(self) -> Health:
        try:
            workers = sum(_seat_of(name) is not None for name in self._processes())
        except ClusterUnreachable as error:
            return Health(False, str(error))
        return Health(True, f"supervisord runs {workers} workers.")

    def _guard(self, deployment: str, fence: Fence) -> Wish | None:
        """The wish so far. Raises StaleFence when a later writer made it."""
        wish = self._wishes.load(deployment)
        if wish is not None and fence < wish.fence:
            raise StaleFence(f"{deployment} was set by {wish.fence}, which is later than {fence}.")
        return wish

    def _seated(self, wish: Wish, alive: Mapping[str, bool]) -> dict[int, Seat]:
        """A seat for every worker that there should be, and those of the ones that still run.

        `alive`: of every program that there is, whether it has a process. A worker that has none gets
        another port when somebody else has taken its own.
        """
        others = [
            other
            for other in self._wishes.load_all()
            if other.spec.name != wish.spec.name and other.removed_at is None
        ]
        taken = {seat.port for other in others for seat in other.seats.values()}
        seats: dict[int, Seat] = {}
        for ordinal in sorted({*wish.seats, *wish.ordinals}):
            name = f"{wish.spec.name}-{ordinal}"
            if name not in alive and ordinal not in wish.ordinals:
                continue
            seat = wish.seats.get(ordinal)
            if seat is None or not (alive.get(name) or (seat.port not in taken and port_is_free(seat.port))):
                held = {seat.port for seat in (*seats.values(), *wish.seats.values())}
                seat = Seat(self._free_port(taken | held), seat.gpus if seat else ())
            seats[ordinal] = seat
        return self._with_gpus(wish, seats, others)

    def _with_gpus(self, wish: Wish, seats: dict[int, Seat], others: list[Wish]) -> dict[int, Seat]:
        """The seats, those that have none with the GPUs that the fewest others use."""
        if wish.spec.device == "cpu" or all(seat.gpus for seat in seats.values()):
            return seats
        present = [gpu.index for gpu in gpus()]
        everyone = [*seats.values(), *(seat for other in others for seat in other.seats.values())]
        uses = Counter(gpu for seat in everyone for gpu in seat.gpus)
        for ordinal, seat in seats.items():
            if not seat.gpus:
                least_used = sorted(present, key=lambda gpu: (uses[gpu], gpu))[: wish.spec.gpus_per_worker]
                seats[ordinal] = replace(seat, gpus=tuple(sorted(least_used)))
                uses.update(least_used)
        return seats

    def _free_port(self, taken: set[int]) -> int:
        """The next free one after the one given out last: a gateway may still know what was behind a port."""
        first, last = self._ports
        count = last - first + 1
        begin = self._wishes.last_port() + 1 - first
        for step in range(count):
            port = first + (begin + step) % count
            if port not in taken and port_is_free(port):
                self._wishes.note_port(port)
                return port
        raise CannotRun(f"No port from {first} to {last} is free for a worker. Widen SLIPWAY_WORKER_PORTS.")

    def _programs(self, wish: Wish, ordinals: Iterable[int]) -> dict[str, Program]:
        """The programs of these workers, by name. Raises CannotRun."""
        self._log_dir.mkdir(parents=True, exist_ok=True)
        try:
            return {
                program.name: program
                for ordinal in ordinals
                for program in (self._program(wish.spec, ordinal, wish.seats[ordinal]),)
            }
        except ValueError as error:  # ProtocolError is one
            raise CannotRun(f"{wish.spec.name} cannot run: {error}.") from None

    def _program(self, spec: DeploymentSpec, ordinal: int, seat: Seat) -> Program:
        name = f"{spec.name}-{ordinal}"
        command = WorkerCommand(
            model_dir=spec.model_dir,
            name=name,
            deployment=spec.name,
            service=spec.service,
            version_label=spec.version_label,
            engine=spec.engine,
            port=seat.port,
            machine=machine_name(),
            slots=spec.slots,
            device=spec.device,
            settings=spec.settings,
            heartbeat_url=spec.heartbeat_url,
            heartbeat_token_file=spec.heartbeat_token_file,
            settle_seconds=SETTLE_SECONDS,
            grace_seconds=spec.grace_seconds,
        )
        environment = dict(WORKER_ENVIRONMENT)
        if seat.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in seat.gpus)
        return Program(
            name=name,
            command=tuple(self._argv(command)),
            directory=self._directory,
            log=self._log(name),
            priority=PRIORITY,
            healthy_after_seconds=HEALTHY_AFTER_SECONDS,
            stop_within_seconds=ceil(SETTLE_SECONDS + spec.grace_seconds) + KILL_AFTER_SECONDS,
            environment=environment,
        )

    def _carry_out(self, wish: Wish, programs: Mapping[str, Program]) -> None:
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
            for name in _workers_of(wish.spec.name, processes):
                if name not in programs:
                    self._supervisor.remove(name)
            if missing:
                self._supervisor.add(missing)
        except SupervisorFault as fault:
            raise CannotRun(f"supervisord refuses: {fault}") from None
        except SupervisorUnreachable as error:
            raise ClusterUnreachable(str(error)) from None

    def _processes(self) -> dict[str, ProcessSeen]:
        try:
            return self._supervisor.processes()
        except (SupervisorUnreachable, SupervisorFault) as error:
            raise ClusterUnreachable(str(error)) from None

    def _observe(self, wanted: Callable[[str], bool]) -> dict[str, tuple[WorkerSeen, ...]]:
        processes = {
            name: process
            for name, process in self._processes().items()
            if (seat := _seat_of(name)) and wanted(seat[0]) and not _is_no_more(process)
        }
        wishes = {wish.spec.name: wish for wish in self._wishes.load_all() if wanted(wish.spec.name)}
        ports = {}
        for name in processes:
            deployment, ordinal = _parted(name)
            if deployment in wishes and ordinal in wishes[deployment].seats:
                ports[name] = wishes[deployment].seats[ordinal].port
        asked = {name for name in ports if processes[name].state in ALIVE}
        answers = ask_all({name: ports[name] for name in asked})
        seen = defaultdict(list)
        for name, port in ports.items():
            seen[_parted(name)[0]].append(self._worker_seen(processes[name], port, answers.get(name)))
        return {
            deployment: tuple(sorted(workers, key=lambda worker: worker.ordinal))
            for deployment, workers in seen.items()
        }

    def _worker_seen(self, process: ProcessSeen, port: int, answer: Answer | None) -> WorkerSeen:
        state, reason = (
            (answer.state, answer.reason) if answer else (SeenState.STARTING, "It has no process.")
        )
        if process.state == ProcessState.STOPPING:
            state = SeenState.DRAINING
        elif state == SeenState.STARTING and process.last_exit:
            # A process that answers has begun its log anew.
            last_line = "" if answer else self._last_line(process.name)
            reason = f"{reason.rstrip('.')}. Its last process ended: {process.last_exit}. {last_line}".strip()
            if process.failed_starts >= FAILED_AFTER_STARTS or process.state == ProcessState.FATAL:
                state = SeenState.FAILED
        return WorkerSeen(
            name=process.name,
            ordinal=_parted(process.name)[1],
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

    def _log(self, worker: str) -> Path:
        return self._log_dir / f"{worker}.log"


def _is_no_more(process: ProcessSeen) -> bool:
    """STOPPED: it ended because it was asked to, and is only not forgotten yet.

    One whose port another program took has lost its seat: whoever misses it applies again, and it gets
    another.
    """
    lost_its_port = process.last_exit == f"exit status {EXIT_PORT_TAKEN}"
    return process.state == ProcessState.STOPPED or (lost_its_port and process.state not in ALIVE)


def _seat_of(program: str) -> tuple[str, int] | None:
    """(deployment, ordinal) of a worker's name; None for another part's."""
    deployment, dash, ordinal = program.rpartition("-")
    return (deployment, int(ordinal)) if dash and ordinal.isdecimal() else None


def _parted(worker: str) -> tuple[str, int]:
    deployment, _, ordinal = worker.rpartition("-")
    return deployment, int(ordinal)


def _workers_of(deployment: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if (seat := _seat_of(name)) and seat[0] == deployment]


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")
