from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="jobs.write",
        label=_("submit, cancel and retry jobs"),
        group=_("Jobs"),
        rank=95,
        roles=(Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("ci", "operator"),
    ),
)
