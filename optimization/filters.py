from django.utils.translation import gettext_lazy as _

from accounts.team_rows import TeamRowFilter
from common import filters
from optimization.states import OptimizationState


class OptimizationRunFilter(TeamRowFilter):
    batch = filters.text(_("Batch"), "Runs that were ordered together: the name of the batch.", "batch")
    state = filters.choice(_("State"), "State of the run.", OptimizationState.choices, "state")
