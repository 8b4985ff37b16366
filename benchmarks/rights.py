from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import AccountKind, RightSpec, Role

RIGHTS = (
    RightSpec(
        value="benchmarks.write",
        label=_("run and cancel benchmarks"),
        group=_("Benchmarks"),
        rank=115,
        roles=(Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("ci",),
    ),
    RightSpec(
        value="benchmarks.load",
        label=_("load the servers of a benchmark run"),
        group=_("Benchmarks"),
        rank=131,
        kinds=(AccountKind.MACHINE,),
    ),
)
