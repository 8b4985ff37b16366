"""What narrows the list of findings: over REST and on the page."""

from typing import ClassVar

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from common import filters
from common.filters import ListFilter
from gpu_health.states import (
    CheckLevel,
    CheckState,
    DrillState,
    FindingOutcome,
    FindingSeverity,
    FindingState,
    IncidentState,
)


class FindingFilter(ListFilter):
    further: ClassVar = ("node", "cluster")
    q = filters.search(
        "Words that must occur in machine, fault, device, UUID or the source's line.",
        _("Machine, fault, GPU, line"),
        ("node__name", "fault", "device", "gpu_uuid", "raw"),
    )
    state = filters.choice(_("State"), "State.", FindingState.choices, "state")
    severity = filters.choice(_("Severity"), "Severity.", FindingSeverity.choices, "severity")
    outcome = filters.choice(_("Verdict"), "What would be done.", FindingOutcome.choices, "outcome")
    node = filters.text(_("Machine"), "Name of the machine.", "node__name")
    cluster = filters.text(_("Cluster"), "Name of the cluster.", "node__cluster__name")


class IncidentFilter(ListFilter):
    further: ClassVar = ("node", "cluster")
    q = filters.search(
        "Words that must occur in machine, fault, GPU or the reason of the present state.",
        _("Machine, fault, GPU"),
        ("node__name", "fault", "device", "gpu_uuid", "reason"),
    )
    state = filters.choice(_("State"), "State.", IncidentState.choices, "state")
    severity = filters.choice(_("Severity"), "Severity.", FindingSeverity.choices, "severity")
    node = filters.text(_("Machine"), "Name of the machine.", "node__name")
    cluster = filters.text(_("Cluster"), "Name of the cluster.", "node__cluster__name")


_LEVELS = [(str(value), label) for value, label in CheckLevel.choices]


class CheckFilter(ListFilter):
    further: ClassVar = ("node", "cluster")
    q = filters.search(
        "Words that must occur in machine, reason or the check's last words.",
        _("Machine, reason"),
        ("node__name", "reason", "why"),
    )
    state = filters.choice(_("State"), "State.", CheckState.choices, "state")
    level = filters.choice(_("Level"), "Level.", _LEVELS, "level")
    node = filters.text(_("Machine"), "Name of the machine.", "node__name")
    cluster = filters.text(_("Cluster"), "Name of the cluster.", "node__cluster__name")


SPANS = (
    ("30d", _("30 days")),
    ("1d", _("24 hours")),
    ("7d", _("7 days")),
    ("90d", _("90 days")),
    ("365d", _("1 year")),
)


def _kept(_value: object) -> Q:
    """Statistics ask by what was chosen: see `gpu_health.statistics.questions`."""
    return Q()


class StatisticsFilter(ListFilter):
    further: ClassVar = ("since", "until")
    span = filters.choice(_("Period"), "How far back, where `since` is not given; `30d`.", SPANS, _kept)
    span.extra["empty_label"] = None
    cluster = filters.text(_("Cluster"), "Name of the cluster.", _kept)
    gpu_model = filters.text(_("GPU model"), "Part of its name; case-insensitive.", _kept, "H100")
    fault = filters.text(_("Fault"), "Such as xid.79.", _kept, "xid.79")
    since = filters.moment(_("Since"), "From this moment on.", _kept)
    until = filters.moment(_("Until"), "Before this moment; now.", _kept)


class DrillFilter(ListFilter):
    further: ClassVar = ("node", "cluster")
    q = filters.search(
        "Words that must occur in machine, scenario, reason or the last words.",
        _("Machine, scenario, reason"),
        ("node__name", "scenario", "reason", "why"),
    )
    state = filters.choice(_("State"), "State.", DrillState.choices, "state")
    node = filters.text(_("Machine"), "Name of the machine.", "node__name")
    cluster = filters.text(_("Cluster"), "Name of the cluster.", "node__cluster__name")
