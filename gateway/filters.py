from django.utils.translation import gettext_lazy as _

from accounts.states import TokenState
from accounts.team_rows import TeamRowFilter
from common import filters
from gateway.states import AbilityState


class AbilityFilter(TeamRowFilter):
    state = filters.choice(_("State"), "State of the address.", AbilityState.choices, "state")
    ability = filters.text(_("Ability"), "As workers register it.", "ability")


class ClientKeyFilter(TeamRowFilter):
    state = filters.choice(_("State"), "State of the key.", TokenState.choices, "state")
