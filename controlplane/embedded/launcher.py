"""The foreground process of `bin/up`: checks, prepares, starts or takes over, waits, and stops.

Asked to stop, it leaves nothing behind. When it dies, or is asked to hand over, the data plane goes on and
the next one takes it over.
"""

import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from clusters.backends.base import ClusterUnreachable
from clusters.backends.embedded.backend import ENVIRONMENTS, EmbeddedCluster
from clusters.backends.supervisor_rpc import Supervisor, SupervisorUnreachable
from common.disk import DiskReserve, DiskState
from controlplane.embedded import preloaded, running, sample_cluster
from controlplane.embedded.home import PORTS_OF, Home, HomeUnusable, check_ports, secret_of
from controlplane.embedded.lock import HomeLock
from controlplane.embedded.planes import Spawner, Supervisord, tail
from controlplane.embedded.prepared import is_prepared, note_prepared
from controlplane.embedded.processes import HAND_OVER, PartFailed, ProcessFamily, Signals, say
from controlplane.embedded.programs import AGENT_NAME, GATEWAY_NAME, Programs, gateway_layout, programs
from controlplane.env import misspelt_settings
from controlplane.environment import PROJECT, Environment
from controlplane.readiness_key import HEADER, readiness_key
from gateway.backends.envoy.bootstrap import renew_bootstrap, write_bootstrap
from gateway.errors import GatewayError
from serving.worker_command import GATEWAY_URL, JOBS_URL

PREPARE = ("-m", "controlplane.server", "prepare")
READY_WITHIN_SECONDS = 180.0
MAY_BE_ELSEWHERE = {"clusters", "gateway"}
"""Parts of the report that other machines have a share in."""
ELSEWHERE_WITHIN_SECONDS = 30.0
HOPELESS_AFTER_RESTARTS = 3
STOP_WITHIN_SECONDS = 25.0
"""More than any part takes (programs.py): after it everything left is killed."""
GATEWAY_STOPS_WITHIN_SECONDS = AGENT_STOPS_WITHIN_SECONDS = 5.0


DISK_WORDS = {
    DiskState.OK: "The disk of %s has room again.",
    DiskState.LOW: "The disk of %s is almost full: free space soon.",
    DiskState.FULL: "The disk of %s is full: nothing new is written; model traffic goes on.",
}


class StopRequested(Exception):
    """A signal asked us to stop."""


class Launcher:
    def __init__(
        self,
        env: Environment,
        *,
        what: Callable[[Environment, Home], Programs] = programs,
        prepare: tuple[str, ...] = PREPARE,
        after_ready: Sequence[str] = (),
        replace: bool = False,
        with_sample_cluster: bool = False,
    ) -> None:
        """`what` runs, and before it Python with the arguments `prepare`.

        `after_ready`: arguments of a `manage.py` that runs once, on our terminal, when every part is healthy.
        `replace`: take the place of a launcher that runs on this home.
        `with_sample_cluster`: from now on this home runs the sample's Kubernetes cluster.
        """
        self._env = env
        self._home = Home(env.home)
        self._what = what
        self._prepare_arguments = prepare
        self._after_ready = after_ready
        self._replace = replace
        self._with_sample_cluster = with_sample_cluster
        self._reserve = DiskReserve(env.home, env.disk_reserve_mib, env.disk_warn_percent)
        self._disk = DiskState.OK
        self._errand = 0
        self._address = env.public_url or env.local_url(env.port)
        self._keeps_data = False
        """Whether the data plane goes on when we fail: it answered before us, or has been ready under us."""
        environ = os.environ | {
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
            "PYTHONDONTWRITEBYTECODE": "",  # kept byte code is what makes the second start quick
            running.MARK: preloaded.ROOM_FOR_MARK,
            # Model workers and agent read no `.env`.
            "SLIPWAY_LOG_FORMAT": env.log_format,
            GATEWAY_URL: env.gateway_url or env.local_url(env.gateway_port),
            JOBS_URL: env.jobs_url or env.redis_url or f"unix://{self._home.valkey_socket}",
        }
        self._spawner = Spawner(environ)
        self._cluster = EmbeddedCluster(
            run_dir=self._home.run,
            log_dir=self._home.logs,
            ports=env.worker_port_range,
            directory=PROJECT,
            environments=self._home.path / ENVIRONMENTS,
        )

    def run(self) -> int:
        """Exit status: 0 stopped as asked, 1 a part failed, 2 refused to start."""
        os.umask(0o077)
        try:
            said = self._home.make()
            if self._with_sample_cluster:
                sample_cluster.want(self._home)
            lock = HomeLock(self._home)
            if lock.take(self._address, replace=self._replace):
                said.append("The stack that ran here has handed over. The gateway and the workers go on.")
            self._programs = self._what(self._env, self._home)
            self._take_stock()
        except (HomeUnusable, GatewayError) as refusal:
            goes_on = " What answers model traffic goes on." if self._keeps_data else ""
            os.write(2, f"bin/up: {refusal}{goes_on}\n".encode())
            return 2
        for line in (*said, *misspelt_settings()):
            say(line)
        self._signals, self._family = Signals(), ProcessFamily()
        self._control = self._supervisord("control", dies_by=signal.SIGTERM, pass_fds=(lock.fd,))
        self._data = self._supervisord("data", dies_by=None)
        try:
            self._prepare()
            self._start()
            self._wait_until_ready()
            self._keeps_data = True
            self._welcome()
            self._watch()
        except StopRequested:
            self._keeps_data = HAND_OVER in self._signals.asked
            if self._keeps_data:
                say("Another bin/up takes over. The gateway and the workers go on.")
            else:
                say(f"Stopping ({self._signals.asked[0].name}); once more to kill.")
        except PartFailed as failure:
            say(f"bin/up: {failure}")
            if self._keeps_data:
                say("The gateway and the workers go on; bin/up takes them over.")
            return 1
        finally:
            self._stop()
        return 0

    def _supervisord(self, plane: str, **options: Any) -> Supervisord:
        titles = {"control": "the control plane", "data": "the gateway and the workers"}
        return Supervisord(
            getattr(self._home, plane),
            family=self._family,
            spawner=self._spawner,
            title=titles[plane],
            **options,
        )

    def _take_stock(self) -> None:
        """Find what runs here already and may go on. Raises HomeUnusable, GatewayError."""
        running.kill(running.descendants(self._home.control.socket))
        self._there = running.programs(self._home.data.socket)
        if agent := self._there.pop(AGENT_NAME, None):
            # It holds nothing: the next one has our code and our address.
            running.kill(running.supervisords(self._home.data.conf))
            running.end(agent, within_seconds=AGENT_STOPS_WITHIN_SECONDS)
        self._keeps_data = bool(self._there)
        gateway = self._there.get(GATEWAY_NAME)
        if gateway and not renew_bootstrap(gateway_layout(self._env, self._home)):
            say("The gateway is to listen elsewhere: it starts anew.")
            running.kill(running.supervisords(self._home.data.conf))
            running.end(gateway, within_seconds=GATEWAY_STOPS_WITHIN_SECONDS)
            del self._there[GATEWAY_NAME]
        check_ports(
            self._env,
            held={port for name in self._there for port in PORTS_OF.get(name, ())},
            sample=sample_cluster.is_wanted(self._home),
        )

    def _wait(self, until: Callable[[], bool], *, seconds: float, every: float = 0.1) -> bool:
        """Raises StopRequested as soon as a signal asks for it."""
        deadline = time.monotonic() + seconds
        while not until():
            if self._signals.asked:
                raise StopRequested
            if time.monotonic() >= deadline:
                return False
            self._signals.wait(every)
        return True

    def _prepare(self) -> None:
        try:
            if GATEWAY_NAME not in self._there:
                write_bootstrap(gateway_layout(self._env, self._home))
        except GatewayError as error:
            raise PartFailed(str(error)) from None
        if self._prepare_arguments == PREPARE and is_prepared(self._env, self._home):
            return
        say("Preparing the database and the files.")
        log = self._home.logs / "prepare.log"
        with log.open("wb") as output:
            pid = self._spawner.spawn(*self._prepare_arguments, stdout=output, stderr=output)
        self._wait(lambda: self._family.exit_code(pid) is not None, seconds=float("inf"), every=1)
        if self._family.exit_code(pid):
            raise PartFailed(f"the preparation failed. {tail(log)}")
        if words := tail(log):
            say(words)
        note_prepared(self._env, self._home)

    def _start(self) -> None:
        for problem in self._cluster.restore(self._there):
            say(f"A deployment is not started again. {problem}")
        try:
            self._data.configure(self._programs.data, include=f"{self._home.programs.name}/*.conf")
            self._control.configure(self._programs.control)
        except OSError as error:
            raise PartFailed(f"{self._home.run} cannot be written: {error.strerror}.") from None
        self._data.start()
        self._control.start()

    def _keep_up(self) -> None:
        self._data.keep_up()
        self._control.keep_up()

    def _wait_until_ready(self) -> None:
        workers = self._there.keys() - {part.name for part in self._programs.data}
        if self._there:
            say(f"Taking over what answers model traffic; processes: {len(self._there)}.")
        say("Starting the parts.")
        report: Mapping[str, Any] = {}
        is_settled = not workers
        began = time.monotonic()

        def healthy() -> bool:
            nonlocal report, is_settled
            self._keep_up()
            self._check_parts()
            is_settled = is_settled or self._settle()
            report = self._readiness()
            return is_settled and may_go_on(report, seconds=time.monotonic() - began)

        if not self._wait(healthy, seconds=READY_WITHIN_SECONDS, every=0.2):
            raise PartFailed(
                f"not ready after {READY_WITHIN_SECONDS:.0f} s: {_faults(report)}. See {self._home.logs}"
            )
        if not report.get("healthy"):
            say(f"Not all is well: {_faults(report)}.")

    def _settle(self) -> bool:
        try:
            self._cluster.settle()
        except ClusterUnreachable:
            return False
        return True

    def _readiness(self) -> Mapping[str, Any]:
        """The answer of `/readyz`, whatever its status; empty while nobody answers."""
        url = f"{self._env.local_url(self._env.port)}/readyz"
        key = readiness_key(self._env.secret_key or secret_of(self._home))
        request = urllib.request.Request(url, headers={HEADER: key})  # noqa: S310  # our own address
        try:
            try:
                with urllib.request.urlopen(request, timeout=3) as answer:  # noqa: S310
                    body = answer.read()
            except urllib.error.HTTPError as error:
                body = error.read()
            parsed = orjson.loads(body)
        except (OSError, ValueError):
            return {}
        return parsed if isinstance(parsed, dict) else {}

    def _check_parts(self) -> None:
        """Raises PartFailed for a part that does not come up at all."""
        for plane, parts in (
            (self._home.control, self._programs.control),
            (self._home.data, self._programs.data),
        ):
            try:
                seen = Supervisor(plane.socket, self._home.programs).processes()
            except SupervisorUnreachable:
                continue
            for part in parts:
                if part.name in seen and seen[part.name].restarts >= HOPELESS_AFTER_RESTARTS:
                    last = seen[part.name].last_exit
                    raise PartFailed(
                        f"{part.name} does not start ({last}); {part.log} ends:\n{tail(part.log)}"
                    )

    def _welcome(self) -> None:
        say(f"Slipway is ready: {self._address}")
        say(f"  gateway         {self._env.gateway_url or self._env.local_url(self._env.gateway_port)}")
        for what, file in (("admin password", "admin-password"), ("admin token", "admin-token")):
            if (self._home.path / file).exists():
                say(f"  {what:15} {self._home.path / file}")
        if sample_cluster.is_wanted(self._home):
            say(f"  sample cluster  {sample_cluster.kubeconfig(self._home.path)}")
        say(f"  logs            {self._home.logs}")
        say("Ctrl-C stops everything.")

    def _watch(self) -> None:
        if self._after_ready:
            self._errand = self._spawner.spawn("manage.py", *self._after_ready)
        while True:
            self._wait(lambda: self._data.has_ended or self._control.has_ended, seconds=1, every=1)
            self._keep_up()
            self._look_after_the_disk()
            if self._errand and (code := self._family.exit_code(self._errand)) is not None:
                self._errand = 0
                if code:
                    say(f"bin/up: {' '.join(self._after_ready)} failed (exit {code}). The stack goes on.")

    def _look_after_the_disk(self) -> None:
        try:
            state = self._reserve.keep().state
        except OSError:
            return
        if state is not self._disk:
            say(DISK_WORDS[state] % self._home.path)
        self._disk = state

    def _stop(self) -> None:
        """Each supervisord stops its parts in order; after the time, or a second signal, all are killed."""
        if self._errand and self._family.exit_code(self._errand) is None:
            os.kill(self._errand, signal.SIGKILL)  # before what it talks to goes away
        asked = len(self._signals.asked)
        deadline = time.monotonic() + STOP_WITHIN_SECONDS

        def no_longer() -> bool:
            self._signals.wait(0.2)
            return time.monotonic() > deadline or len(self._signals.asked) > asked

        self._control.stop(no_longer)
        if not self._keeps_data:
            self._data.stop(no_longer)
        self._family.kill(but=self._spared)
        self._control.kill_the_rest()
        if not self._keeps_data:
            self._data.kill_the_rest()

    def _spared(self) -> list[int]:
        if not self._keeps_data:
            return []
        data = self._home.data
        return [one.pid for one in (*running.supervisords(data.conf), *running.descendants(data.socket))]


def may_go_on(report: Mapping[str, Any], *, seconds: float) -> bool:
    """`report`: of `/readyz`. `seconds`: since the start.

    A cluster or gateway elsewhere may be away for days, or have let its credential expire: where that is
    mended is here, once this runs.
    """
    if report.get("healthy"):
        return True
    sick = {name for name, part in report.get("parts", {}).items() if not part.get("ok")}
    return bool(report.get("ready")) and sick <= MAY_BE_ELSEWHERE and seconds >= ELSEWHERE_WITHIN_SECONDS


def _faults(report: Mapping[str, Any]) -> str:
    faults = [
        f"{name}: {part.get('detail')}"
        for name, part in report.get("parts", {}).items()
        if not part.get("ok")
    ]
    return "; ".join(faults) or "the web process does not answer"
