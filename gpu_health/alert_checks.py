"""Checks of GPU health."""

from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from common.alert_checks import AlertCheck, measured
from gpu_health import metrics

ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayGpuFindingFatal",
        title=_("Fatal faults of GPUs"),
        severity="warning",
        find=measured(metrics.findings, "gpu_findings", address="/gpu-health/", severity="fatal"),
        lasts=timedelta(minutes=1),
        note=_("GPU health shows the lines that say so."),
    ),
    AlertCheck(
        name="SlipwayGpuIncidentNeedsPerson",
        title=_("Machines out of service wait for a person"),
        severity="warning",
        find=measured(
            metrics.incidents, "gpu_incidents", address="/gpu-health/incidents/", state="needs_person"
        ),
        note=_("Their incidents say what was tried."),
    ),
    AlertCheck(
        name="SlipwayGpuHealingStopped",
        title=_("GPU healing is stopped"),
        severity="critical",
        find=measured(metrics.healing, "gpu_healing_stopped", address="/gpu-health/incidents/"),
        note=_("Somebody turned its kill switch on."),
    ),
    AlertCheck(
        name="SlipwayGpuBreakerOpen",
        title=_("Healing of a pool is halted"),
        severity="critical",
        find=measured(metrics.healing, "gpu_breakers_open", address="/gpu-health/incidents/"),
        note=_("Too many of its machines were cordoned at once: look for a common cause first."),
    ),
    AlertCheck(
        name="SlipwayGpuPoolHasNoRoom",
        title=_("Faulty machines are left in service"),
        severity="critical",
        find=measured(
            metrics.incidents, "gpu_incidents_held", address="/gpu-health/incidents/", guard="unhealthy"
        ),
        lasts=timedelta(minutes=1),
        note=_("As many others of their pool are out of service as its limits allow."),
    ),
)
