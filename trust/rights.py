from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import RightSpec

RIGHTS = (
    RightSpec(
        value="signatures.admin",
        label=_("manage trusted signing keys and the signature policy"),
        group=_("Models"),
        rank=180,
    ),
)
