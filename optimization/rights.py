from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="optimizations.write",
        label=_("make and cancel optimised versions"),
        group=_("Optimised versions"),
        rank=118,
        roles=(Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("ci",),
    ),
)
