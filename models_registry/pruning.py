"""What of the registry's history is deleted once it has been kept for long enough.

Versions, and the moves of versions and aliases, stay for good.
"""

from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from common.reconcile.pruning import PruningRule, at_rest
from models_registry.models import Upload
from models_registry.states import LIVE_UPLOADS, UploadState


def _uploads(before: datetime) -> QuerySet[Upload]:
    """Return uploads that made no version: one that did is a version's source."""
    rows = Upload.objects.filter(ended_at__lt=before, is_held=False)
    return at_rest(rows.exclude(state__in={*LIVE_UPLOADS, UploadState.DONE})).order_by("pk")


RULES = (
    PruningRule(
        Upload,
        _("Uploads"),
        "SLIPWAY_KEEP_UPLOADS_DAYS",
        _uploads,
        kept=_("Uploads of which a version was made stay."),
    ),
)
