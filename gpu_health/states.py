"""Words for the database and for pages; the judge and the rules have the same ones without Django."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class FindingState(TextChoices):
    OPEN = "open", _("Open")
    CLEARED = "cleared", _("Cleared")
    """Its source has taken it back."""
    CLOSED = "closed", _("Closed")
    """A person has said that it is dealt with."""


class FindingOutcome(TextChoices):
    ACT = "act", _("Would act")
    PROPOSE = "propose", _("Proposes")
    RECORD = "record", _("Records")
    ALERT = "alert", _("Alerts")


class FindingSeverity(TextChoices):
    FATAL = "fatal", _("Fatal")
    CRITICAL = "critical", _("Critical")
    WARNING = "warning", _("Warning")
    INFO = "info", _("Info")


class RuleMode(TextChoices):
    OFF = "off", _("Off")
    RECORD = "record", _("Record only")
    PROPOSE = "propose", _("Propose, a person approves")
    ACT = "act", _("Act")


class DrainScope(TextChoices):
    NONE = "none", _("Nobody")
    GPU = "gpu", _("The pods of the GPU")
    NODE = "node", _("The pods of the machine")


class RuleVerification(TextChoices):
    NONE = "none", _("None")
    DCGM_DIAGNOSTIC = "dcgm_diagnostic", _("dcgmi diag -r 2")
    CHECK_JOB = "check_job", _("Check job")
    NCCL_BANDWIDTH = "nccl_bandwidth", _("NCCL bandwidth")
    PERSON = "person", _("A person")
