from django.utils.translation import gettext_lazy as _

from accounts.filters import team
from common import filters
from common.filters import ListFilter
from freezes.states import FreezeEffect


class FreezeFilter(ListFilter):
    team = team("Owner; `null`: freezes of all teams.", "team", shared=_("The whole installation"))
    effect = filters.choice(_("Effect"), "What holds inside its times.", FreezeEffect.choices, "effect")
