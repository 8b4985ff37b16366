"""supervisord as the embedded stack needs it: `python -m controlplane.embedded.supervisord -c FILE`.

What it adds to the package `supervisor`:
- The children of the one that is named `control` die with it (prctl(2), PR_SET_PDEATHSIG); its roles are
  forks of it, since all of them load the same (preloaded.py). Those of the one named `data` outlive it, and
  the next one takes them over (detached.py).
- With each child ends whatever is left of its process group; when supervisord ends, every descendant.
- Groups of equal priority stop together instead of one after the other.
- It remembers how often a program was started and how its last process ended, over XML-RPC (`slipway.*`).
- A log that cannot be written costs lines of that log and nothing else.
"""

import os
import signal
import time
from contextlib import suppress
from typing import Any

from supervisor import events, loggers
from supervisor.medusa.asyncore_25 import ExitNow
from supervisor.options import ServerOptions, decode_wait_status
from supervisor.rpcinterface import SupervisorNamespaceRPCInterface
from supervisor.states import ProcessStates, getProcessStateDescription
from supervisor.supervisord import Supervisor

from controlplane.embedded import preloaded, running
from controlplane.embedded.detached import AdoptedProcesses, DetachedConfig, trim_logs
from controlplane.embedded.processes import ProcessFamily, die_with

NAMESPACE_FACTORY = "controlplane.embedded.supervisord:make_namespace"


class SupervisordLog(loggers.RotatingFileHandler):  # type: ignore[misc]  # the package has no types
    """Log that a full disk does not stop: stock supervisord ends when its log cannot be written."""

    def emit(self, record: Any) -> None:
        try:
            super().emit(record)
        except (OSError, ValueError):  # the new file of a rotation could not be made
            with suppress(OSError):
                self.reopen()

    def handleError(self) -> None:
        """There is nowhere to tell it."""


class SupervisordOptions(ServerOptions):  # type: ignore[misc]
    """The system calls that supervisord makes, with ours around them."""

    def __init__(self) -> None:
        super().__init__()
        self.own_pid = os.getpid()
        self.adopted = AdoptedProcesses()
        self.last_ended: tuple[int, str] = (0, "")
        """Pid of the process that ended last, and how."""

    @property
    def are_detached(self) -> bool:
        """Whether the processes outlive us."""
        return bool(self.identifier == running.DATA)

    def processes_from_section(self, parser: Any, section: str, group: str, klass: Any = None) -> Any:
        if parser.saneget("supervisord", "identifier", "") == running.DATA:
            klass = DetachedConfig
        return super().processes_from_section(parser, section, group, klass)

    def setpgrp(self) -> None:
        """Give the child, before exec, a group of its own and the same end as ours."""
        os.setpgrp()
        if not self.are_detached:
            die_with(self.own_pid, signal.SIGKILL)

    def execve(self, filename: str, argv: list[str], env: dict[str, str]) -> None:
        name = env["SUPERVISOR_PROCESS_NAME"]
        env[running.MARK] = running.mark(os.getpid(), name, self.socket)
        if preloaded.is_preloaded(argv):
            preloaded.become(argv, env)
        super().execve(filename, argv, env)

    @property
    def socket(self) -> Any:
        return self.serverurl.removeprefix("unix://")

    def waitpid(self) -> tuple[int | None, int | None]:
        """Reap one child, after killing what is left of its process group.

        The group is killed while the child is still a zombie: until it is reaped nobody can get its number.
        Of a process that another supervisord had started it is known only that it ended.
        """
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(ended.si_pid, signal.SIGKILL)
                if self.are_detached and (process := self.pidhistory.get(ended.si_pid)):
                    # Its descendants have their mark from it: those that have left the group go, too.
                    of = running.descendants(self.socket, process.config.name)
                    running.kill([one for one in of if one.pid != ended.si_pid])
                pid, status = os.waitpid(ended.si_pid, 0)
                self.last_ended = (pid, decode_wait_status(status)[1])
                return pid, status
        if gone := self.adopted.one_that_ended():
            pid, name = gone
            running.kill(running.descendants(self.socket, name))
            self.last_ended = (pid, "unseen, under another supervisor than the one that started it")
            return pid, 0
        return None, None


class OrderedSupervisor(Supervisor):  # type: ignore[misc]
    def ordered_stop_groups_phase_1(self) -> None:
        """Stop all groups that share the highest priority left."""
        for group in self.stop_groups or ():
            if group.config.priority == self.stop_groups[-1].config.priority:
                group.stop_all()

    def ordered_stop_groups_phase_2(self) -> None:
        """Go on to the next priority as soon as all of this one have ended."""
        while self.stop_groups and not self.stop_groups[-1].get_unstopped_processes():
            self.stop_groups.pop()


class SlipwayNamespace:
    """XML-RPC methods `slipway.*`, and the memory behind them."""

    def __init__(self, supervisord: Any) -> None:
        self._supervisord = supervisord
        self._stock = SupervisorNamespaceRPCInterface(supervisord)
        self._born = int(time.time())
        events.subscribe(events.ProcessStateStartingEvent, self._count_start)
        for ending in (
            events.ProcessStateExitedEvent,
            events.ProcessStateBackoffEvent,
            events.ProcessStateStoppedEvent,
        ):
            events.subscribe(ending, self._note_end)
        events.subscribe(events.Tick5Event, lambda _: trim_logs(supervisord))

    def _count_start(self, event: Any) -> None:
        event.process.slipway_starts = getattr(event.process, "slipway_starts", 0) + 1

    def _note_end(self, event: Any) -> None:
        """Runs while the process is being reaped, before its pid is forgotten."""
        pid, how = self._supervisord.options.last_ended
        if event.process.pid and event.process.pid == pid:
            event.process.slipway_last_exit = how
        elif event.process.spawnerr:
            event.process.slipway_last_exit = event.process.spawnerr

    def getProcesses(self) -> list[dict[str, Any]]:
        """Every process: name, statename, pid (0: none), since, starts, failed_starts,
        last_exit, log."""
        self._stock._update("getProcesses")
        return [self._describe(process) for _, process in self._stock._getAllProcesses(lexical=True)]

    def _describe(self, process: Any) -> dict[str, Any]:
        state = process.get_state()
        alive = state in (ProcessStates.STARTING, ProcessStates.RUNNING, ProcessStates.STOPPING)
        return {
            "name": process.config.name,
            "statename": getProcessStateDescription(state),
            "pid": process.pid,
            "since": int(process.laststart if alive else process.laststop) or self._born,
            "failed_starts": process.backoff,
            "starts": getattr(process, "slipway_starts", 0),
            "last_exit": getattr(process, "slipway_last_exit", ""),
            "log": process.config.stdout_logfile or "",
        }


def make_namespace(supervisord: Any) -> SlipwayNamespace:
    return SlipwayNamespace(supervisord)


def main() -> None:
    family = ProcessFamily()
    loggers.RotatingFileHandler = SupervisordLog
    options = SupervisordOptions()
    options.realize()
    options.first, options.test = True, False
    if options.are_detached:
        wanted = {group.name for group in options.process_group_configs}
        strangers = options.adopted.find(options.socket, wanted)
        running.kill(strangers)
    elif any(
        preloaded.SERVER in one.command
        for group in options.process_group_configs
        for one in group.process_configs
    ):
        preloaded.preload()
    with suppress(ExitNow):
        OrderedSupervisor(options).main()
    family.kill()
    running.kill(running.descendants(options.socket))


if __name__ == "__main__":
    main()
