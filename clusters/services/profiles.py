"""Profiles of workers while they serve: by py-spy of all their processes, by torch of those with models."""

import json
import shutil
import subprocess
import sys
import tempfile
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from clusters.backends.kinds import abilities_of
from clusters.errors import OperationNotAllowed, WorkerMissing
from clusters.models import Worker
from common import audit
from common.actor import Actor
from common.errors import Invalid, Unavailable
from common.hosts import this_host
from serving.protocol import ENGINES_WITH_ROUTES, PROFILE_PATH

SECONDS = (5, 10, 30)
SPARE_SECONDS = 20


def profile_worker(*, actor: Actor, worker: str, seconds: int, by: str = "py-spy") -> bytes:
    """Profile the worker and the processes below it for so long: by `py-spy` in the format of
    https://speedscope.app, by `torch` as a zip of traces for https://ui.perfetto.dev.
    Blocks for that time, and is recorded in the audit log.

    Raises NotAllowed, WorkerMissing, Invalid, OperationNotAllowed where it runs on no machine of this host,
    Unavailable with the profiler's words.
    """
    found = Worker.objects.for_actor(actor).select_related("deployment__cluster", "deployment__team")
    row = found.filter(name=worker).first()
    if row is None:
        raise WorkerMissing(_("There is no worker %(worker)s.") % {"worker": worker})
    deployment = row.deployment
    require(actor, Right.FLEET_OPERATE, deployment.team)
    if seconds not in SECONDS:
        raise Invalid(fields={"seconds": [_("Give 5, 10 or 30 seconds.")]})
    if by not in ("py-spy", "torch"):
        raise Invalid(fields={"by": [_("Give py-spy or torch.")]})
    if why := why_no_profile(row):
        raise OperationNotAllowed(why)
    with transaction.atomic():
        audit.record(
            actor,
            "worker.profile",
            subject=deployment,
            team_id=deployment.team_id,
            detail={"worker": row.name, "seconds": seconds, "by": by},
        )
    return _traced(row, seconds) if by == "torch" else _recorded(row, seconds)


def _traced(row: Worker, seconds: int) -> bytes:
    if row.deployment.engine not in ENGINES_WITH_ROUTES:
        raise OperationNotAllowed(_("Only workers of the engine app are profiled by torch."))
    connection = HTTPConnection(row.address, row.port, timeout=seconds + 2 * SPARE_SECONDS)
    try:
        connection.request("POST", f"{PROFILE_PATH}?seconds={seconds}")
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, HTTPException):
        raise Unavailable(_("The worker does not answer.")) from None
    finally:
        connection.close()
    if answer.status != 200:
        said = json.loads(body).get("detail", "") if body.startswith(b"{") else str(answer.status)
        raise Unavailable(_("torch's profiler failed: %(said)s") % {"said": said})
    return body


def why_no_profile(row: Worker) -> str:
    """Return why the worker cannot be profiled; empty: it can."""
    cluster = row.deployment.cluster
    if not abilities_of(cluster.kind).runs_on_host or cluster.host not in ("", this_host()):
        return _("Only workers on the same host as this web server can be profiled.")
    if row.pid is None or not _is_worker(row.pid, row.name):
        return _("The worker has no process at present.")
    return ""


def _is_worker(pid: int, name: str) -> bool:
    """Another process may have its number by now."""
    try:
        return f"--name={name}".encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _recorded(row: Worker, seconds: int) -> bytes:
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        raise Unavailable(_("Profiling needs py-spy, which is not installed here (pip install py-spy)."))
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "profile"
        try:
            done = subprocess.run(
                [
                    program, "record", f"--pid={row.pid}", "--subprocesses", "--threads", "--rate=50",
                    f"--duration={seconds}", "--format=speedscope", f"--output={target}",
                ],
                capture_output=True,
                text=True,
                timeout=seconds + SPARE_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unavailable(_("py-spy timed out.")) from None
        # It may complain of a process that ended meanwhile, and write what it has.
        if not target.exists():
            said = (done.stderr.strip().splitlines() or ["–"])[-1]
            raise Unavailable(_("py-spy failed: %(said)s") % {"said": said})
        return target.read_bytes()
