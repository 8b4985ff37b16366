from django.utils.translation import gettext_lazy as _

from accounts.team_rows import TeamRowFilter
from common import filters


class ObjectiveFilter(TeamRowFilter):
    service = filters.text(_("Service"), "Name of the service.", "service__name")
