"""The foreground process of `bin/up`: checks, prepares, supervises, waits, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from clusters.backends.embedded import EmbeddedCluster
from clusters.backends.supervisor_rpc import Program, Supervisor, SupervisorUnreachable
from controlplane.embedded.home import Home, HomeLock, Refusal, check_ports
from controlplane.embedded.prepared import is_prepared, note_prepared
from controlplane.embedded.processes import Family, Signals, die_with, say
from controlplane.embedded.programs import gateway_layout, parts, supervisord_conf
from controlplane.env import PROJECT, Environment, misspelt_settings
from gateway.backends.envoy import write_bootstrap
from gateway.errors import GatewayError

PREPARE = ("-m", "controlplane.embedded.prepare")
READY_WITHIN_SECONDS = 180.0
HOPELESS_AFTER_RESTARTS = 3
STOP_WITHIN_SECONDS = 25.0
"""More than any part takes (programs.py): after it everything left is killed."""


class Stopped(Exception):
    """A signal asked us to stop."""


class PartFailed(Exception):
    """One line: something we started ended or never became healthy."""


class Launcher:
    def __init__(
        self,
        env: Environment,
        *,
        programs: Sequence[Program] | None = None,
        prepare: tuple[str, ...] = PREPARE,
        after_ready: Sequence[str] = (),
    ) -> None:
        """What to run: `programs` (default: all parts), before them Python with the arguments `prepare`.

        `after_ready`: arguments of a `manage.py` that runs once, on our terminal, when every part is healthy.
        """
        self._env = env
        self._home = Home(env.home)
        self._programs = programs
        self._prepare_arguments = prepare
        self._after_ready = after_ready
        self._errand = 0
        self._address = env.public_url or env.local_url(env.port)
        self._environ = os.environ | {
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
            "PYTHONDONTWRITEBYTECODE": "",  # kept byte code is what makes the second start quick
        }

    def run(self) -> int:
        """Exit status: 0 stopped as asked, 1 a part failed, 2 refused to start."""
        try:
            self._home.make()
            lock = HomeLock(self._home)
            lock.take(self._address)
            check_ports(self._env)
            self._parts = parts(self._env, self._home) if self._programs is None else list(self._programs)
        except (Refusal, GatewayError) as refusal:
            sys.stderr.write(f"bin/up: {refusal}\n")
            return 2
        for hint in misspelt_settings():
            say(hint)
        self._signals, self._family = Signals(), Family()
        supervisord = 0
        try:
            self._prepare()
            supervisord = self._start_supervisord(lock)
            self._wait_until_ready(supervisord)
            self._welcome()
            self._watch(supervisord)
        except Stopped:
            say(f"Stopping ({self._signals.asked[0].name}); once more to kill.")
        except PartFailed as failure:
            say(f"bin/up: {failure}")
            return 1
        finally:
            self._stop(supervisord)
        return 0

    def _spawn(self, *arguments: str, dies_by: signal.Signals = signal.SIGKILL, **options: Any) -> int:
        """Start this Python, in a session of its own: the terminal's signals are ours alone."""
        own_pid = os.getpid()
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=PROJECT,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: die_with(own_pid, dies_by),  # safe: we have one thread
            **options,
        )
        child.returncode = 0  # the Family reaps; without a code Popen would try to, when it is collected
        return child.pid

    def _wait(self, until: Callable[[], bool], *, seconds: float, every: float = 0.1) -> bool:
        """Raises Stopped as soon as a signal asks for it."""
        deadline = time.monotonic() + seconds
        while not until():
            if self._signals.asked:
                raise Stopped
            if time.monotonic() >= deadline:
                return False
            self._signals.wait(every)
        return True

    def _prepare(self) -> None:
        try:
            write_bootstrap(gateway_layout(self._env, self._home))
        except GatewayError as error:
            raise PartFailed(str(error)) from None
        if self._prepare_arguments == PREPARE and is_prepared(self._env, self._home):
            return
        say("Preparing the database and the files.")
        log = self._home.logs / "prepare.log"
        with log.open("wb") as output:
            pid = self._spawn(*self._prepare_arguments, stdout=output, stderr=output)
        self._wait(lambda: self._family.exit_code(pid) is not None, seconds=float("inf"), every=1)
        if self._family.exit_code(pid):
            raise PartFailed(f"the preparation failed. {_tail(log)}")
        if words := _tail(log):
            say(words)
        note_prepared(self._env, self._home)

    def _start_supervisord(self, lock: HomeLock) -> int:
        cluster = EmbeddedCluster(
            run_dir=self._home.run,
            log_dir=self._home.logs,
            ports=self._env.worker_port_range,
            directory=PROJECT,
        )
        for problem in cluster.restore():
            say(f"A deployment is not started again. {problem}")
        self._home.supervisor_conf.write_text(supervisord_conf(self._parts, self._home))
        self._home.supervisor_socket.unlink(missing_ok=True)
        with (self._home.logs / "supervisord.out").open("wb") as output:
            return self._spawn(
                *("-m", "controlplane.embedded.supervisord", "-c", str(self._home.supervisor_conf)),
                dies_by=signal.SIGTERM,  # it then stops its parts in order
                stdout=output,
                stderr=output,
                pass_fds=(lock.fd,),
            )

    def _wait_until_ready(self, supervisord: int) -> None:
        say("Starting the parts.")
        report: Mapping[str, Any] = {}

        def healthy() -> bool:
            nonlocal report
            self._check(supervisord)
            self._check_parts()
            report = self._readiness()
            return bool(report.get("healthy"))

        if not self._wait(healthy, seconds=READY_WITHIN_SECONDS, every=0.2):
            raise PartFailed(
                f"not ready after {READY_WITHIN_SECONDS:.0f} s: {_faults(report)}. See {self._home.logs}"
            )

    def _readiness(self) -> Mapping[str, Any]:
        """The answer of `/readyz`, whatever its status; empty while nobody answers."""
        url = f"{self._env.local_url(self._env.port)}/readyz"
        try:
            try:
                with urllib.request.urlopen(url, timeout=3) as answer:  # noqa: S310  # our own address
                    body = answer.read()
            except urllib.error.HTTPError as error:
                body = error.read()
            parsed = orjson.loads(body)
        except (OSError, ValueError):
            return {}
        return parsed if isinstance(parsed, dict) else {}

    def _check_parts(self) -> None:
        """Raises PartFailed for a part that does not come up at all."""
        try:
            seen = Supervisor(self._home.supervisor_socket, self._home.programs).processes()
        except SupervisorUnreachable:
            return
        for part in self._parts:
            if part.name in seen and seen[part.name].restarts >= HOPELESS_AFTER_RESTARTS:
                last = seen[part.name].last_exit
                raise PartFailed(f"{part.name} does not start ({last}); {part.log} ends:\n{_tail(part.log)}")

    def _welcome(self) -> None:
        say(f"Slipway is ready: {self._address}")
        say(f"  gateway         {self._env.gateway_url or self._env.local_url(self._env.gateway_port)}")
        for what, file in (("admin password", "admin-password"), ("admin token", "admin-token")):
            if (self._home.path / file).exists():
                say(f"  {what:15} {self._home.path / file}")
        say(f"  logs            {self._home.logs}")
        say("Ctrl-C stops everything.")

    def _watch(self, supervisord: int) -> None:
        if self._after_ready:
            self._errand = self._spawn("manage.py", *self._after_ready)
        while True:
            self._wait(lambda: False, seconds=5, every=5)
            self._check(supervisord)
            if self._errand and (code := self._family.exit_code(self._errand)) is not None:
                self._errand = 0
                if code:
                    say(f"bin/up: {' '.join(self._after_ready)} failed (exit {code}). The stack goes on.")

    def _check(self, supervisord: int) -> None:
        code = self._family.exit_code(supervisord)
        if code is not None:
            out = _tail(self._home.logs / "supervisord.out")
            raise PartFailed(
                f"supervisord ended ({_ending(code)}); all its parts are stopped. {out}".rstrip()
            )

    def _stop(self, supervisord: int) -> None:
        """supervisord stops its parts in order; after the time, or a second signal, everything is killed."""
        if self._errand and self._family.exit_code(self._errand) is None:
            os.kill(self._errand, signal.SIGKILL)  # before what it talks to goes away
        asked = len(self._signals.asked)
        if supervisord and self._family.exit_code(supervisord) is None:
            os.kill(supervisord, signal.SIGTERM)
            deadline = time.monotonic() + STOP_WITHIN_SECONDS
            while self._family.exit_code(supervisord) is None:
                if time.monotonic() > deadline or len(self._signals.asked) > asked:
                    break
                self._signals.wait(0.2)
        self._family.kill()


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _faults(report: Mapping[str, Any]) -> str:
    faults = [
        f"{name}: {part.get('detail')}"
        for name, part in report.get("parts", {}).items()
        if not part.get("ok")
    ]
    return "; ".join(faults) or "the web process does not answer"


def _tail(log: Path, lines: int = 15) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
