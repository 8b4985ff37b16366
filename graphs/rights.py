from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="graphs.write",
        label=_("push, profile and plan task graphs"),
        group=_("Task graphs"),
        rank=119,
        roles=(Role.DEVELOPER, Role.APPROVER),
    ),
)
