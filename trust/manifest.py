"""What trusted keys and signature policies add to the whole."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.subjects import Subject
from trust import states
from trust.badges import BADGES

SUBJECTS = (
    Subject("trust.trustedkey", _("Trusted key"), "/settings/teams/{team__name}/signatures/"),
    Subject("trust.signaturepolicy", _("Signature policy"), "/settings/teams/{team__name}/signatures/"),
)
CHOICES = (
    ChoiceSet(states.SignatureDemand),
    ChoiceSet(states.SignatureVerdict),
)
MANIFEST = AppManifest(
    choices=CHOICES,
    subjects=SUBJECTS,
    badges=BADGES,
    nouns={
        "keys": lambda count: ngettext("key", "keys", count),
    },
)
