"""`slipway-server node`: the supervisor of this machine's model workers, in the foreground."""

import os
import signal

from clusters.backends.base import ClusterUnreachable
from clusters.backends.embedded.backend import ENVIRONMENTS, EmbeddedCluster
from controlplane.embedded import running
from controlplane.embedded.home import Home, HomeUnusable
from controlplane.embedded.lock import HomeLock
from controlplane.embedded.planes import Spawner, Supervisord
from controlplane.embedded.processes import HAND_OVER, PartFailed, ProcessFamily, Signals, say
from controlplane.embedded.programs import agent_program
from controlplane.env import env, refuse
from controlplane.environment import PROJECT
from serving.worker_command import GATEWAY_URL, JOBS_URL

LOOK_EVERY_SECONDS = 1.0


def run_node() -> None:
    """Run until a signal. SIGUSR1 leaves the workers running for the next one; others stop them in order.

    Exit status: 0 stopped as asked, 1 the supervisor does not stay up, 2 refused to start.
    """
    os.umask(0o077)
    home = Home(env.home)
    try:
        for line in home.make():
            say(line)
        lock = HomeLock(home)
        lock.take(f"the node role on {home.path}")
    except HomeUnusable as refusal:
        raise refuse(str(refusal)) from None
    raise SystemExit(_Node(home).run(lock.fd))


class _Node:
    def __init__(self, home: Home) -> None:
        self._home = home
        self._signals, self._family = Signals(), ProcessFamily()
        self._cluster = EmbeddedCluster(
            run_dir=home.run,
            log_dir=home.logs,
            ports=env.worker_port_range,
            directory=PROJECT,
            environments=home.path / ENVIRONMENTS,
        )
        self._supervisord = Supervisord(
            home.data,
            family=self._family,
            # Model workers and agent read no `.env`.
            spawner=Spawner(
                os.environ
                | {
                    "PYTHONDONTWRITEBYTECODE": "",
                    "SLIPWAY_LOG_FORMAT": env.log_format,
                    GATEWAY_URL: env.gateway_url or env.local_url(env.gateway_port),
                    JOBS_URL: env.jobs_url or env.redis_url,
                }
            ),
            title="the workers",
            dies_by=None,
        )

    def run(self, lock: int) -> int:
        os.set_inheritable(lock, False)
        there = running.programs(self._home.data.socket)
        if there:
            say(f"Taking over what answers model traffic; processes: {len(there)}.")
        for problem in self._cluster.restore(there):
            say(f"A deployment is not started again. {problem}")
        try:
            self._supervisord.configure(
                [agent_program(env, self._home)], include=f"{self._home.programs.name}/*.conf"
            )
            self._supervisord.start()
            self._watch()
        except OSError as error:
            say(f"{self._home.run} cannot be written: {error.strerror}.")
            return 1
        except PartFailed as failure:
            say(str(failure))
            return 1
        return self._end()

    def _watch(self) -> None:
        is_settled = False
        while not self._signals.asked:
            self._signals.wait(LOOK_EVERY_SECONDS)
            self._supervisord.keep_up()
            is_settled = is_settled or self._settle()

    def _settle(self) -> bool:
        try:
            self._cluster.settle()
        except ClusterUnreachable:
            return False
        say("The node is ready.")
        return True

    def _end(self) -> int:
        if self._signals.asked[0] == HAND_OVER:
            say("The workers go on; the next one takes them over.")
            return 0
        asked = len(self._signals.asked)
        say(f"Stopping the workers ({signal.Signals(self._signals.asked[0]).name}); once more to kill.")

        def no_longer() -> bool:
            self._signals.wait(0.2)
            return len(self._signals.asked) > asked

        self._supervisord.stop(no_longer)
        self._family.kill()
        self._supervisord.kill_the_rest()
        return 0
