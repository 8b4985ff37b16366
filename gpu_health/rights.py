from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="fleet.events",
        label=_("report events of the machines' providers"),
        group=_("Fleet"),
        rank=120,
        roles=(Role.OPERATOR,),
        presets=("provider-events",),
    ),
)
