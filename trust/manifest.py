"""What trusted keys and signature policies add to the whole."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.declared import Manifest
from common.pages.subjects import Subject
from trust.badges import BADGES

SUBJECTS = (
    Subject("trust.trustedkey", _("Trusted key"), "/settings/teams/{team__name}/signatures/"),
    Subject("trust.signaturepolicy", _("Signature policy"), "/settings/teams/{team__name}/signatures/"),
)
MANIFEST = Manifest(
    subjects=SUBJECTS,
    badges=BADGES,
    nouns={
        "keys": lambda count: ngettext("key", "keys", count),
    },
)
