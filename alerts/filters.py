from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.filters import team
from alerts.states import OPEN, AlertSeverity, AlertState
from common import filters
from common.filters import ListFilter


def _state(state: str) -> Q:
    return Q(state__in=OPEN) if state == "open" else Q(state=state)


STATES = (("open", _("Open")), *((state.value, state.label) for state in AlertState if state != "pending"))


class AlertFilter(ListFilter):
    q = filters.search(
        "Words that must occur in the name or the summary.", _("Alert"), ("check_name", "summary")
    )
    state = filters.choice(_("State"), "State; `open`: fires, whoever looks after it.", STATES, _state)
    severity = filters.choice(_("Severity"), "Severity of the alert.", AlertSeverity.choices, "severity")
    team = team("Owner; `null`: alerts of the installation.", "team", shared=_("The whole installation"))
    service = filters.text(_("Service"), "Name of the service.", "labels__service")
    cluster = filters.text(_("Cluster"), "Name of the cluster.", "labels__cluster")
    group = filters.number(_("Group"), "ID of the group, from `alert-groups/`.", "group_id")


class AlertGroupFilter(ListFilter):
    severity = filters.choice(_("Severity"), "Severity of the alerts.", AlertSeverity.choices, "severity")
    team = team("Owner; `null`: alerts of the installation.", "team", shared=_("The whole installation"))
    service = filters.text(_("Service"), "Name of the service.", "labels__service")
    cluster = filters.text(_("Cluster"), "Name of the cluster.", "labels__cluster")
