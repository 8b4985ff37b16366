from django.utils.translation import gettext_lazy as _

from accounts.team_rows import TeamRowFilter
from benchmarks.states import BenchmarkState
from common import filters


class BenchmarkFilter(TeamRowFilter):
    state = filters.choice(_("State"), "State of the benchmark.", BenchmarkState.choices, "state")
