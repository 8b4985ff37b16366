from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="benchmarks.write",
        label=_("run and cancel benchmarks"),
        group=_("Benchmarks"),
        rank=115,
        roles=(Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("ci",),
    ),
)
