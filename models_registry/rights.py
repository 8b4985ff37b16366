from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="models.write",
        label=_("create and change models, versions and aliases"),
        group=_("Models"),
        rank=20,
        roles=(Role.DEVELOPER, Role.APPROVER),
        presets=("ci",),
    ),
    RightSpec(
        value="aliases.protected",
        label=_("protect aliases, or move protected ones"),
        group=_("Models"),
        rank=40,
        roles=(Role.APPROVER,),
    ),
    RightSpec(
        value="code.exempt",
        label=_("exempt models from the custom-code policy"),
        group=_("Models"),
        rank=170,
    ),
)
