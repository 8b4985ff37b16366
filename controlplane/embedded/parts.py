"""How the parts of the embedded stack fare, as the supervisord of each plane sees them: for the Home page."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from clusters.backends.supervisor_rpc import (
    ALIVE,
    ObservedProcess,
    ProcessState,
    Supervisor,
    SupervisorFault,
    SupervisorUnreachable,
)
from controlplane.embedded.running import CONTROL, DATA

TITLES = {
    "valkey": _("Message broker (Valkey)"),
    "gateway": _("Gateway"),
    "node-agent": _("Node agent"),
    "sample-cluster": _("Kubernetes cluster of the sample"),
    "sample-gateway": _("Gateway of the sample's cluster"),
    "web": _("Console and API"),
    "worker": _("Celery worker"),
    "sweeper": _("Sweeper"),
}
WORDS = {
    ProcessState.STARTING: "starting",
    ProcessState.RUNNING: "running",
    ProcessState.BACKOFF: "restarting",
    ProcessState.STOPPING: "stopping",
    ProcessState.STOPPED: "stopped",
    ProcessState.EXITED: "restarting",
    ProcessState.FATAL: "failed",
    ProcessState.UNKNOWN: "failed",
}


@dataclass(frozen=True, slots=True)
class PartStatus:
    name: str
    title: str | Promise
    state: str
    """starting, running, restarting, stopping, stopped or failed."""
    pid: int | None
    since: datetime
    up_for: timedelta | None
    """How long the process has lived; None when there is none."""
    restarts: int
    """Since the stack was started."""
    last_exit: str
    """How its last process ended, in supervisord's words; empty when none has."""
    log: Path


@dataclass(frozen=True, slots=True)
class PartsReport:
    parts: tuple[PartStatus, ...]
    problem: str
    """Why there are no parts to show, in words; empty when all is well."""


def parts_status() -> PartsReport:
    """The parts that supervisord runs, in the order of starting. Never raises, answers within 4 s."""
    run: Path = settings.SLIPWAY_RUN_DIR
    seen: dict[str, ObservedProcess] = {}
    try:
        for plane in (CONTROL, DATA):
            supervisor = Supervisor(run / f"{plane}.sock", run / "supervisor.d", timeout_seconds=2)
            seen |= supervisor.processes()
    except (SupervisorUnreachable, SupervisorFault) as error:
        return PartsReport((), str(error))
    now = timezone.now()
    return PartsReport(
        tuple(
            PartStatus(
                name=name,
                title=title,
                state=WORDS[part.state],
                pid=part.pid,
                since=part.since,
                up_for=now - part.since if part.state in ALIVE else None,
                restarts=part.restarts,
                last_exit=part.last_exit,
                log=part.log,
            )
            for name, title in TITLES.items()
            if (part := seen.get(name)) is not None
        ),
        "",
    )
