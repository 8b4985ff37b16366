from django.db.models import QuerySet

from accounts.states import Right
from common.actor import Actor
from releases.models import PodPatch
from releases.states import PatchState


def patches_waiting_for(actor: Actor) -> QuerySet[PodPatch]:
    """Proposed ones that the actor may approve: not their own."""
    rows = PodPatch.objects.for_actor(actor, Right.RELEASES_APPROVE).filter(state=PatchState.PROPOSED)
    if actor.user_id is None:
        return rows.none()
    return rows.exclude(proposed_by_id=actor.user_id).select_related("service__team").order_by("proposed_at")
