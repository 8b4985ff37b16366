from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="freezes.write",
        label=_("create, change and remove freeze windows"),
        group=_("Services and releases"),
        rank=91,
        roles=(Role.APPROVER,),
    ),
    RightSpec(
        value="freezes.stop",
        label=_("stop the line or end a stop"),
        group=_("Services and releases"),
        rank=92,
        roles=(Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("operator",),
    ),
)
