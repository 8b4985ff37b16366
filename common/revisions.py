from typing import Any

from django.db import models
from django.db.models import F
from django.utils.translation import gettext as _

from common.errors import Stale


class Revised(models.Model):
    """A row that is changed by compare-and-set: `revision` counts the changes, and the ETag carries it."""

    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        abstract = True

    def change(self, *, expected: int | None = None, **values: Any) -> None:
        """Write `values` and count the change, if the row still has the `expected` revision (None: any).

        Raises Stale when it has another one or is gone. Inside a transaction the row stays locked until the
        commit, so that whatever is read afterwards still holds when it ends.
        """
        rows = type(self)._default_manager.filter(pk=self.pk)
        if expected is not None:
            rows = rows.filter(revision=expected)
        if not rows.update(revision=F("revision") + 1, **values):
            raise Stale(
                _("%(self)s was changed by someone else meanwhile. Read it again, then repeat the change.")
                % {"self": self}
            )
        self.refresh_from_db(fields=["revision", *values])
