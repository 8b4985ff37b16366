from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import AccountKind, RightSpec, Role

RIGHTS = (
    RightSpec(
        value="fleet.operate",
        label=_("operate the fleet"),
        group=_("Fleet"),
        rank=100,
        roles=(Role.OPERATOR,),
        presets=("operator",),
    ),
    RightSpec(
        value="fleet.report",
        label=_("report heartbeats for workers"),
        group=_("Fleet"),
        rank=110,
        roles=(Role.OPERATOR,),
        kinds=(AccountKind.MACHINE,),
        presets=("heartbeats",),
    ),
    RightSpec(
        value="fleet.fetch",
        label=_("fetch model files for workers"),
        group=_("Fleet"),
        rank=130,
        kinds=(AccountKind.MACHINE,),
    ),
)
