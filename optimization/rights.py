from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import AccountKind, RightSpec, Role

RIGHTS = (
    RightSpec(
        value="optimizations.write",
        label=_("make and cancel optimised versions"),
        group=_("Optimised versions"),
        rank=118,
        roles=(Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("ci",),
    ),
    RightSpec(
        value="optimizations.run",
        label=_("run the job of an optimised version"),
        group=_("Optimised versions"),
        rank=132,
        kinds=(AccountKind.MACHINE,),
    ),
)
