from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.querysets import TeamOwned
from common import clock
from releases.states import PatchState


class PodPatchQuerySet(TeamOwned["PodPatch"]):
    team_path = "service__team"


class PodPatch(models.Model):
    """A change of the pod template of a service's workers, which somebody else than its proposer approves.

    The approved one is part of what the next release deploys; an empty one takes the former away.
    """

    service = models.ForeignKey("releases.Service", on_delete=models.CASCADE, related_name="pod_patches")
    patch = models.JSONField()
    """As `clusters.backends.kubernetes.template_patch` takes it."""
    state = models.CharField(max_length=10, choices=PatchState.choices, default=PatchState.PROPOSED)
    reason = models.TextField()
    proposed_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, null=True, related_name="+")
    proposer = models.CharField(max_length=200)
    proposed_at = models.DateTimeField(default=clock.now)
    decided_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, null=True, related_name="+")
    decider = models.CharField(max_length=200, blank=True)
    decided_at = models.DateTimeField(null=True)
    decision_reason = models.TextField(blank=True)

    objects = PodPatchQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["service"], condition=Q(state=PatchState.PROPOSED), name="one_patch_proposed"
            ),
            models.UniqueConstraint(
                fields=["service"], condition=Q(state=PatchState.APPROVED), name="one_patch_approved"
            ),
            models.CheckConstraint(
                condition=~Q(state=PatchState.APPROVED) | ~Q(decided_by=F("proposed_by")),
                name="patch_approver_is_not_proposer",
            ),
        ]

    def __str__(self) -> str:
        return f"pod patch {self.pk} of {self.service}"
