from django.db import models

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from common.reconcile import Singleton
from jobs.states import ServiceJobState


class ServiceJobRows(TeamOwned["ServiceJob"]):
    team_path = "team"


class ServiceJob(TeamRow):
    """A copy of a job in the queue, which decides. `name` is its id there, `description` its path; nobody is
    named in `created_by`, for clients submit jobs through the gateway."""

    service = models.ForeignKey("releases.Service", on_delete=models.CASCADE, related_name="+")
    target = models.CharField(max_length=128)
    """Deployment whose workers may take it."""
    version = models.CharField(max_length=400)
    state = models.CharField(max_length=20, choices=ServiceJobState.choices)
    progress = models.FloatField(default=0)
    message = models.CharField(max_length=500, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    worker = models.CharField(max_length=128, blank=True)
    on_release = models.CharField(max_length=10)
    status = models.PositiveSmallIntegerField(null=True)
    error = models.CharField(max_length=2_000, blank=True)
    deadline = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    forgotten_at = models.DateTimeField(null=True)
    """When the queue forgets it, and this row goes."""

    objects = ServiceJobRows.as_manager()

    class Meta(TeamRow.Meta):
        indexes = (models.Index(fields=["target", "state"], name="jobs_by_target"),)

    @property
    def percent(self) -> str:
        return f"{self.progress:.0%}" + (f" · {self.message}" if self.message else "")


class JobMirror(Singleton):
    """Follows the queue of jobs. `cursor`: the number of the last change that rows show."""

    cursor = models.PositiveBigIntegerField(default=0)

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "mirror of jobs"
