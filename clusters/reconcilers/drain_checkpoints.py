"""Requests for checkpoints to webhooks before an eviction, and their audit."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from clusters.draining.checkpoint_webhook import AT_ONCE, CheckpointReply, ask
from clusters.draining.checkpoints import EvictionBatch, asked_again
from clusters.models import Drain
from common import audit
from common.actor import Actor

ACTOR = Actor.system("clusters")


def ask_webhooks(row: Drain, turn: EvictionBatch, at: datetime) -> dict[str, CheckpointReply]:
    """Ask webhooks, those not asked yet first, and return replies by uid of the pod. A repeated question is
    harmless.
    """
    new = [one for one in turn.ask if one.pod.checkpoint and one.pod.checkpoint.url]
    known = {one["uid"]: one.get("checkpoint_asked_at") for one in row.pods}
    found = {}
    for one in [*new, *asked_again(turn.wait, row.pods, at)][:AT_ONCE]:
        asked_at = known.get(one.pod.uid)
        begun = datetime.fromisoformat(asked_at) if asked_at else at
        deadline = begun + timedelta(seconds=row.wanted.checkpoint_seconds)
        found[one.pod.uid] = ask(row, one.pod, deadline=deadline)
    return found


def record_checkpoints(row: Drain, news: Sequence[tuple[str, str]]) -> None:
    """`news`: name of the pod and what became of its checkpoint."""
    for name, state in news:
        audit.record(
            ACTOR,
            f"node.drain.checkpoint_{state}",
            subject=row.node,
            reason=name,
            team_id=row.node.cluster.team_id,
        )
