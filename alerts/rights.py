from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="alerts.write",
        label=_("acknowledge and silence alerts, and send them from other systems"),
        group=_("Fleet"),
        rank=96,
        roles=(Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("operator",),
    ),
)
