from django.db import models
from django.utils.translation import gettext_lazy as _


class AppliedAction(models.TextChoices):
    CREATED = "created", _("Created")
    CHANGED = "changed", _("Changed")
    UNCHANGED = "unchanged", _("Unchanged")
    LEFT = "left", _("No longer in the files")
    REMOVED = "removed", _("Removed")
    RELEASED = "released", _("No longer managed")
