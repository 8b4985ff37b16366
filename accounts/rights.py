from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import AccountKind, RightSpec, Role

RIGHTS = (
    RightSpec(
        value="read",
        label=_("see this team's models, services and releases"),
        group=_("General"),
        rank=10,
        roles=(Role.VIEWER, Role.DEVELOPER, Role.APPROVER, Role.OPERATOR),
        presets=("read-only", "ci", "approver", "operator"),
        is_over_services=True,
    ),
    RightSpec(
        value="people.admin",
        label=_("manage people and roles"),
        group=_("Administration"),
        rank=140,
    ),
    RightSpec(
        value="people.provision",
        label=_("provision people and groups by SCIM"),
        group=_("Administration"),
        rank=150,
        kinds=(AccountKind.DIRECTORY,),
        presets=("scim",),
    ),
    RightSpec(
        value="audit.read",
        label=_("read the audit log"),
        group=_("Administration"),
        rank=160,
        roles=(Role.APPROVER, Role.OPERATOR),
    ),
    RightSpec(
        value="webhooks.write",
        label=_("see and change webhooks"),
        group=_("Administration"),
        rank=190,
    ),
)
