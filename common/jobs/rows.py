"""The columns of a row that jobs work for."""

from collections.abc import Mapping
from typing import Any

from django.db import models

NO_JOB: Mapping[str, Any] = {"job": "", "job_host": ""}
NEVER_LAUNCHED: Mapping[str, Any] = {**NO_JOB, "launches": 0, "launched_at": None}


class RunsJob(models.Model):
    """Mixed into a `Reconciled` model whose steps run jobs."""

    job = models.CharField(max_length=63, blank=True, default="", editable=False)
    """Name of the job that is waited for; empty: none was started, or the next one is due."""
    job_host = models.CharField(max_length=255, blank=True, default="", editable=False)
    """Where that one runs; see `JobRunner.host`."""
    launches = models.PositiveIntegerField(default=0, editable=False)
    """How many jobs were started for what is being done, as the one before had died."""
    launched_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        abstract = True
