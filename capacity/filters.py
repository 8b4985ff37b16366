from django.utils.translation import gettext_lazy as _

from accounts.team_rows import TeamRowFilter
from capacity.states import CapacityPlanKind, CapacityPlanState, PoolKind, PoolMode, WorkloadState
from common import filters
from common.filters import ListFilter


class PoolFilter(TeamRowFilter):
    mode = filters.choice(_("Mode"), "How far the pool goes by itself.", PoolMode.choices, "state")
    kind = filters.choice(_("Kind"), "Work that the pool is for.", PoolKind.choices, "kind")


class PolicyFilter(ListFilter):
    service = filters.text(_("Service"), "Name of the service.", "member__service")


class PlanFilter(ListFilter):
    state = filters.choice(_("State"), "State of the plan.", CapacityPlanState.choices, "state")
    kind = filters.choice(_("Kind"), "Things that the plan moves.", CapacityPlanKind.choices, "kind")
    pool = filters.text(_("Pool"), "Name of the pool.", "pool__name")


class WorkloadFilter(TeamRowFilter):
    state = filters.choice(_("State"), "State of the workload.", WorkloadState.choices, "state")
    pool = filters.text(_("Pool"), "Name of the pool.", "pool__name")


class SwitchTimeFilter(ListFilter):
    model = filters.text(_("Model"), "Name of the model.", "model__name")
