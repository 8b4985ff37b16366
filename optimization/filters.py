from django.utils.translation import gettext_lazy as _

from accounts.team_rows import TeamRowFilter
from common import filters
from optimization.states import OptimizationState


class OptimizationRunFilter(TeamRowFilter):
    state = filters.choice(_("State"), "State of the run.", OptimizationState.choices, "state")
