from django.utils.translation import gettext_lazy as _

from accounts.team_rows import TeamRowFilter
from common import filters
from graphs.states import GraphState


class GraphFilter(TeamRowFilter):
    state = filters.choice(_("State"), "State of the graph.", GraphState.choices, "state")
