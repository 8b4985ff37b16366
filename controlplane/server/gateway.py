"""`slipway-server gateway`: Envoy, and who looks after it. A restart of this role refuses no client.

Envoy has a session of its own. SIGUSR1, and a death of this process, leave it running, and the next one takes
it over; other signals end it.
"""

import fcntl
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise

import psutil

from common.logs.context import act_as
from controlplane.embedded import running
from controlplane.embedded.processes import HAND_OVER, Signals, say
from controlplane.env import refuse
from controlplane.garbage import set_up_django
from gateway.backends.envoy.bootstrap import command, renew_bootstrap, write_bootstrap
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.errors import GatewayError

LOOK_EVERY_SECONDS = 0.5
STOPS_WITHIN_SECONDS = 5.0
FORMER_ENDS_WITHIN_SECONDS = 5.0


def run_gateway(*, cluster: str) -> None:
    """Run the gateway until a signal. No cluster: that of this machine.

    Exit status: 0 stopped or handed over as asked, 1 Envoy has ended, 2 refused to start.
    """
    act_as("gateway")
    set_up_django()
    from gateway.backends.configured import envoy_layout_of
    from gateway.backends.envoy.configured import own_layout

    signals = Signals()
    try:
        layout = envoy_layout_of(cluster) if cluster else own_layout()
        for directory in (layout.run_dir, layout.log_dir):
            directory.mkdir(parents=True, exist_ok=True)
        with (layout.run_dir / "role.lock").open("w") as lock:
            _take(lock.fileno())
            envoy = _adopted(layout) or _started(layout)
            sys.exit(_watch(envoy, signals))
    except (GatewayError, OSError) as error:
        raise refuse(f"The gateway cannot start: {error}") from None


def _take(lock: int) -> None:
    """Raises GatewayError when another process has it, and does not end."""
    deadline = time.monotonic() + FORMER_ENDS_WITHIN_SECONDS
    while True:
        with suppress(BlockingIOError):
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.monotonic() > deadline:
            raise GatewayError("It runs already. SIGUSR1 to that process hands Envoy over to the next.")
        time.sleep(0.05)


def _adopted(layout: EnvoyFileLayout) -> psutil.Process | None:
    """The Envoy that runs with our files; None: there is none, or it is to listen elsewhere and was ended."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            is_ours = ("--config-path", str(layout.bootstrap)) in pairwise(words)
            if not is_ours or not running.lives(process):
                continue
            if renew_bootstrap(layout):
                say(f"Taking over the Envoy that runs, process {process.pid}.")
                return process
            say("Its addresses have changed: Envoy is started anew.")
            running.end(process, within_seconds=STOPS_WITHIN_SECONDS)
    return None


def _started(layout: EnvoyFileLayout) -> psutil.Popen:
    write_bootstrap(layout)
    return psutil.Popen(command(layout), stdin=subprocess.DEVNULL, start_new_session=True)


def _watch(envoy: psutil.Process, signals: Signals) -> int:
    while not signals.asked:
        if not running.lives(envoy):
            say("Envoy has ended.")
            return 1
        signals.wait(LOOK_EVERY_SECONDS)
    if signals.asked[0] == HAND_OVER:
        say("Envoy goes on; the next one takes it over.")
        return 0
    say(f"Stopping Envoy ({signal.Signals(signals.asked[0]).name}).")
    running.end(envoy, within_seconds=STOPS_WITHIN_SECONDS)
    return 0
