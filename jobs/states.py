from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class ServiceJobState(TextChoices):
    """States of a job, as in `serving.jobs.job.QueuedJobState`."""

    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


UNFINISHED = (ServiceJobState.QUEUED, ServiceJobState.RUNNING)
RETRIABLE = (ServiceJobState.FAILED, ServiceJobState.CANCELLED)
