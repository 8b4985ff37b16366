from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="services.write",
        label=_("create and change services"),
        group=_("Services and releases"),
        rank=50,
        roles=(Role.DEVELOPER, Role.APPROVER),
        is_over_services=True,
    ),
    RightSpec(
        value="releases.start",
        label=_("start releases"),
        group=_("Services and releases"),
        rank=60,
        roles=(Role.DEVELOPER, Role.APPROVER),
        presets=("ci",),
        is_over_services=True,
    ),
    RightSpec(
        value="releases.approve",
        label=_("approve or reject releases"),
        group=_("Services and releases"),
        rank=70,
        roles=(Role.APPROVER,),
        presets=("approver",),
        is_over_services=True,
    ),
    RightSpec(
        value="releases.operate",
        label=_("pause, resume, abort or roll back releases"),
        group=_("Services and releases"),
        rank=80,
        roles=(Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("operator",),
        is_over_services=True,
    ),
    RightSpec(
        value="releases.bypass",
        label=_("bypass or lower the release policy"),
        group=_("Services and releases"),
        rank=90,
    ),
    RightSpec(
        value="releases.override",
        label=_("release in spite of a freeze"),
        group=_("Services and releases"),
        rank=93,
        is_over_services=True,
    ),
)
