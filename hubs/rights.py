from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec, Role

RIGHTS = (
    RightSpec(
        value="models.export",
        label=_("export versions"),
        group=_("Models"),
        rank=30,
        roles=(Role.APPROVER,),
    ),
)
