"""A plain kind of row of a team, said once: its columns, its writes, what narrows its lists."""

from typing import ClassVar, TypeVar

from django.db import IntegrityError, models, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.filters import team
from accounts.services.rights import require
from accounts.states import Right
from common import audit, clock, filters
from common.actor import Actor
from common.errors import Conflict
from common.filters import ListFilter


class TeamRow(models.Model):
    """A kind adds its `state`, if it has one, and `objects = TeamOwned[...].as_manager()`."""

    team = models.ForeignKey("accounts.Team", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=63)
    description = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200, editable=False)

    class Meta:
        abstract = True
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "name"], name="%(class)s_once_in_team")
        ]

    def __str__(self) -> str:
        return self.name


Row = TypeVar("Row", bound=TeamRow)


def create(row: Row, *, actor: Actor, right: Right) -> Row:
    """Save a new row. Raises NotAllowed, Conflict when its team has one of the name."""
    require(actor, right, row.team)
    row.created_by = actor.name
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit.record(actor, f"{row._meta.model_name}.create", subject=row, team_id=row.team.pk)
    except IntegrityError:
        raise Conflict(_("The name %(name)s is taken.") % {"name": row.name}) from None
    return row


def move(row: Row, *, actor: Actor, right: Right, verb: str, since: str, to: str, reason: str = "") -> None:
    """Take a row from the state `since` to another, in the caller's transaction.

    Raises NotAllowed, Conflict when it is not in that state any more.
    """
    require(actor, right, row.team)
    if not type(row)._default_manager.filter(pk=row.pk, state=since).update(state=to):
        raise Conflict(_("%(row)s is not %(state)s any more.") % {"row": row, "state": since})
    audit.record(actor, f"{row._meta.model_name}.{verb}", subject=row, reason=reason, team_id=row.team.pk)
    row.refresh_from_db()


class TeamRowFilter(ListFilter):
    q = filters.search(
        "Words that must occur in the name or the description.",
        gettext_lazy("Name"),
        ("name", "description"),
    )
    team = team("Owner.", "team")
