"""Every write of jobs: wishes go to the queue, and rows follow it."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import httpx2
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from capacity.services import ask_for_worker
from common import audit, clock
from common.actor import Actor
from common.errors import Conflict, Invalid, Unavailable
from common.job_queue import ask_queue
from common.live.touch import touch
from gateway import selectors as gateway
from jobs.models import ServiceJob
from releases.models import Service
from serving.jobs.job import QueuedJob

ACCEPTED_WITHIN_SECONDS = 15.0
_MIRRORED = (
    *("target", "version", "state", "progress", "message", "attempts", "worker", "on_release", "status"),
    *("error", "deadline", "ended_at", "forgotten_at"),
)


def submit_job(*, actor: Actor, service: Service, path: str, body: str = "") -> ServiceJob:
    """Send a request to a job's route of the service, through its gateway, as any client does.

    Raises NotAllowed; Invalid where the service does not take it; Unavailable.
    """
    require(actor, Right.JOBS_WRITE, service.team)
    if not path.startswith("/"):
        raise Invalid(fields={"path": [_("A path begins with a slash, for example /render.")]})
    row = gateway.gateway_of(service.cluster)
    url = gateway.public_url(row) if row else ""
    if not url:
        raise Unavailable(_("The cluster of this service has no gateway that can be reached."))
    try:
        answer = httpx2.post(
            f"{url}/{service.name}{path}",
            content=body.encode(),
            headers={"content-type": "application/json"},
            timeout=ACCEPTED_WITHIN_SECONDS,
        )
    except httpx2.HTTPError:
        raise Unavailable(_("The gateway of this service does not answer.")) from None
    if answer.status_code == 503 and ask_for_worker(service.name):
        raise Unavailable(
            _("No worker of %(service)s runs; one is asked for. Try again shortly.") % {"service": service}
        )
    if answer.status_code >= 500:
        raise Unavailable(_("The service answered %(status)d.") % {"status": answer.status_code})
    if answer.status_code != 202:
        refused = _("The service answered %(status)d: %(text)s")
        raise Invalid(fields={"path": [refused % {"status": answer.status_code, "text": answer.text[:300]}]})
    job_id = str(answer.json()["id"])
    made = _mirrored_now(job_id)
    with transaction.atomic():
        audit.record(actor, "job.submit", subject=made, detail={"path": path}, team_id=made.team_id)
    return made


def cancel_job(row: ServiceJob, *, actor: Actor, reason: str = "") -> ServiceJob:
    """Cancel the job. Raises NotAllowed, Conflict when it is over, Missing, Unavailable."""
    require(actor, Right.JOBS_WRITE, row.team)
    job = ask_queue(lambda queue, _: queue.cancel(row.name))
    if job.is_over and job.state != "cancelled":
        raise Conflict(_("The job is over: %(state)s.") % {"state": job.state})
    return _done(row, job, actor, "job.cancel", reason)


def retry_job(row: ServiceJob, *, actor: Actor, reason: str = "") -> ServiceJob:
    """Queue the job again, on the stable version. Raises NotAllowed, Conflict, Missing, Unavailable."""
    require(actor, Right.JOBS_WRITE, row.team)
    service = row.service
    if not service.stable_deployment:
        raise Conflict(_("%(service)s has no stable version.") % {"service": service})
    place = {"target": service.stable_deployment, "version": str(service.stable_version)}
    job = ask_queue(lambda queue, _: queue.retry(row.name, **place))
    return _done(row, job, actor, "job.retry", reason)


def mirror(jobs: Iterable[QueuedJob]) -> None:
    """Make or update the rows of these jobs, except of those whose service is gone."""
    jobs = list(jobs)
    services = {one.name: one for one in Service.objects.filter(name__in={job.service for job in jobs})}
    rows = [_row(job, services[job.service]) for job in jobs if job.service in services]
    ServiceJob.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["team", "name"], update_fields=list(_MIRRORED)
    )
    if rows:
        touch("changes", "jobs")
        for row in rows:
            touch("job", row.name)


def forget_jobs() -> None:
    """Delete rows of jobs that the queue has forgotten."""
    due = ServiceJob.objects.filter(forgotten_at__lte=clock.now()).values_list("pk", flat=True)[:1_000]
    ServiceJob.objects.filter(pk__in=list(due)).delete()


def _done(row: ServiceJob, job: QueuedJob, actor: Actor, action: str, reason: str) -> ServiceJob:
    with transaction.atomic():
        mirror([job])
        audit.record(actor, action, subject=row, reason=reason, team_id=row.team_id)
    row.refresh_from_db()
    return row


def _mirrored_now(job_id: str) -> ServiceJob:
    mirror([ask_queue(lambda queue, _: queue.get(job_id))])
    return ServiceJob.objects.select_related("team", "service").get(name=job_id)


def _row(job: QueuedJob, service: Service) -> ServiceJob:
    ended_at = None if job.ended_at is None else _moment(job.ended_at)
    return ServiceJob(
        team_id=service.team_id,
        service=service,
        name=job.id,
        description=job.path,
        created_at=_moment(job.created_at),
        target=job.target,
        version=job.version,
        state=str(job.state),
        progress=job.progress,
        message=job.message[:500],
        attempts=job.attempts,
        worker=job.worker,
        on_release=job.policy.on_release,
        status=job.status,
        error=_in_words(job.error)[:2_000],
        deadline=_moment(job.deadline),
        ended_at=ended_at,
        forgotten_at=ended_at + timedelta(seconds=job.policy.keep_seconds) if ended_at else None,
    )


def _in_words(error: str) -> str:
    """Return a problem document as one line, and any other text as it is."""
    try:
        problem = json.loads(error)
        return f"{problem['title']}: {problem['detail']}" if problem.get("detail") else str(problem["title"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return error


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
