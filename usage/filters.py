from django.utils.translation import gettext_lazy as _

from accounts.team_rows import TeamRowFilter
from common import filters
from usage.states import BudgetState


class BudgetFilter(TeamRowFilter):
    state = filters.choice(_("State"), "State of the budget.", BudgetState.choices, "state")
