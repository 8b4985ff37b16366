"""What a drill leaves behind: nothing that counts; and the real faults that go before it."""

from django.db.models import Q

from common import clock, events
from gpu_health.events import FindingEnded
from gpu_health.incident_facts import ACTIONABLE
from gpu_health.models import Drill, Finding
from gpu_health.services.incidents import consider
from gpu_health.services.readings import judge_node
from gpu_health.states import FindingState


def forget_drill(drill: Drill) -> None:
    """Nothing that it played counts any more; what was seen besides is judged anew. Inside the transaction
    in which the drill ends, after its `ended_at` was written.
    """
    why = [f"drill {drill.pk} is over"]
    for row in Finding.objects.filter(drill=drill, state=FindingState.OPEN):
        if Finding.objects.filter(pk=row.pk, state=FindingState.OPEN).update(
            state=FindingState.CLEARED, ended_at=clock.now(), reasons=why
        ):
            events.publish(FindingEnded(row.pk))
    judge_node(drill.node)
    consider(drill.node)


def real_fault(drill: Drill) -> str:
    """Say what is wrong with the machine besides the drill; empty: nothing to act on."""
    found = Finding.objects.filter(
        node_id=drill.node_id, state=FindingState.OPEN, outcome__in=ACTIONABLE
    ).filter(~Q(drill=drill) | Q(drill=None))
    row = found.first()
    return f"{row.title} was found, which nobody plays." if row is not None else ""
