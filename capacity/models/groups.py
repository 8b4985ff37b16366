"""Online and offline groups of a service's workers: rows."""

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext as _

from accounts.querysets import TeamOwned
from capacity.models.pools import PoolMember
from common import clock
from common.reconcile import Reconciled

LONGEST_BOUND_MS = 600_000
LONGEST_WAIT_SECONDS = 3_600


class GroupRows(TeamOwned["ServiceGroups"]):
    team_path = "member__pool__team"


class ServiceGroups(Reconciled):
    """One set of loaded workers that serves requests and works off jobs: as many are online as requests need,
    the others take jobs of the service's queue."""

    member = models.OneToOneField(PoolMember, on_delete=models.CASCADE, related_name="groups")
    least_online = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1)])
    wait_seconds = models.PositiveIntegerField(
        default=5, validators=[MaxValueValidator(LONGEST_WAIT_SECONDS)]
    )
    """For which a job that runs may go on before its worker goes online; then it goes back into the queue."""
    latency_bound_ms = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(LONGEST_BOUND_MS)]
    )
    """P95 to the first byte beyond which all workers go online at once; None: no bound."""
    target = models.CharField(max_length=63, blank=True, editable=False)
    """Deployment whose workers have groups at present."""
    wanted_offline = models.JSONField(default=list, editable=False)
    """Ids of the workers that are to be offline."""
    at_once = models.BooleanField(default=False, editable=False)
    """The last decision waits for no job."""
    switch_seconds = models.FloatField(null=True, editable=False)
    """From a decision until all of its workers have changed, over the last decisions; None: not measured."""
    memory = models.JSONField(default=dict, editable=False)
    """Kept between two looks: `capacity.group_looks.GroupMemory`."""
    look = models.JSONField(null=True, editable=False)
    """Figures of the last look: `capacity.group_looks.GroupLook`; None: there was none yet."""

    objects = GroupRows.as_manager()

    class Meta(Reconciled.Meta):
        pass

    def __str__(self) -> str:
        return _("Groups of %(service)s") % {"service": self.member.service}


class GroupSwitch(models.Model):
    """A decision on groups: the figures that led to it, the options that were rejected, and how long it
    took."""

    groups = models.ForeignKey(ServiceGroups, on_delete=models.CASCADE, related_name="switches")
    at = models.DateTimeField(default=clock.now)
    online_before = models.PositiveSmallIntegerField()
    online_after = models.PositiveSmallIntegerField()
    why = models.CharField(max_length=40)
    """Code of `capacity.reasons`: of the law, or of the guard that bound it."""
    inputs = models.JSONField(default=dict)
    """The look: `capacity.group_looks.GroupLook`."""
    rejected = models.JSONField(default=list)
    """`{online, why}` of the options that a guard or a limit outranked."""
    ended_at = models.DateTimeField(null=True)
    seconds = models.FloatField(null=True)
    """Until all of its workers had changed; None: not yet, or a later decision came first."""

    class Meta:
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [models.Index(fields=["at"], name="group_switch_by_age")]

    def __str__(self) -> str:
        return f"{self.online_before} → {self.online_after}"
