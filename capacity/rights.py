from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="capacity.write",
        label=_("create and change pools"),
        group=_("Capacity"),
        rank=116,
        roles=(Role.DEVELOPER, Role.APPROVER),
    ),
    RightSpec(
        value="capacity.apply",
        label=_("apply, undo and stop capacity plans"),
        group=_("Capacity"),
        rank=117,
        roles=(Role.APPROVER,),
    ),
)
