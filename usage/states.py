from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class UsageMeasure(TextChoices):
    """What a budget limits."""

    REQUESTS = "requests", _("Requests")
    TOKENS = "tokens", _("Tokens")
    GPU_HOURS = "gpu_hours", _("GPU hours")
    COST = "cost", _("Cost")


class BudgetState(TextChoices):
    WITHIN = "within", _("Within budget")
    NEAR = "near", _("Nearly spent")
    SPENT = "spent", _("Spent")


class UsageGroup(TextChoices):
    """What a report has a row for."""

    DAY = "day", _("Day")
    TEAM = "team", _("Team")
    SERVICE = "service", _("Service")
    VERSION = "version", _("Version")
    KEY = "key", _("Client key")
