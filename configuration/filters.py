from django.utils.translation import gettext_lazy as _

from accounts.filters import team
from common import filters
from common.filters import ListFilter


class AppliedDocumentFilter(ListFilter):
    team = team("Owner of the set.", "team")
    file_set = filters.text(_("Set"), "Name of the set.", "file_set")
    kind = filters.text(_("Kind"), "Kind of the object.", "kind")
