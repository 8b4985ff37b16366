"""What configuration as files adds to the whole."""

from django.utils.translation import gettext_lazy as _

from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.search import SearchDestination
from common.pages.shell import Tab
from common.pages.subjects import Subject
from configuration.states import AppliedAction

MANIFEST = AppManifest(
    subjects=(Subject("configuration.applieddocument", _("Configuration file"), "/settings/configuration/"),),
    choices=(ChoiceSet(AppliedAction, schema="AppliedAction"),),
    tabs=(
        Tab(
            under="/settings/",
            name=_("Configuration files"),
            path="/settings/configuration/",
            icon="file-text",
            rank=64,
        ),
    ),
    destinations=(
        SearchDestination(
            title=_("Configuration files"),
            url="/settings/configuration/",
            icon="file-text",
            words="yaml gitops apply export drift",
        ),
    ),
)
