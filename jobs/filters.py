from django.utils.translation import gettext_lazy as _

from accounts.team_rows import TeamRowFilter
from common import filters
from jobs.states import ServiceJobState


class ServiceJobFilter(TeamRowFilter):
    state = filters.choice(_("State"), "State of the job.", ServiceJobState.choices, "state")
    service = filters.text(_("Service"), "Name of the service.", "service__name")
