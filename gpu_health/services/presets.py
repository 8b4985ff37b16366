"""Which preset of rules the installation, or one of its clusters, starts from."""

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_everywhere
from accounts.states import Right
from clusters.models import Cluster
from common import audit
from common.actor import Actor
from gpu_health.errors import InvalidRule
from gpu_health.models import HealingPolicy
from gpu_health.policy.presets import PRESETS
from gpu_health.services.healing import stored_policy
from gpu_health.services.rules import judge_soon


def choose_preset(*, actor: Actor, preset: str, cluster: Cluster | None, reason: str) -> HealingPolicy:
    """Choose a preset; open findings are judged by it soon. No cluster: for all that have none of their
    own; an empty preset gives a cluster the installation's. Raises NotAllowed, InvalidRule, Stale.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    check_preset(preset, cluster)
    with transaction.atomic():
        row = stored_policy()
        if cluster is None:
            row.change(expected=None, preset=preset)
        else:
            chosen = {name: one for name, one in row.cluster_presets.items() if name != cluster.name}
            if preset:
                chosen[cluster.name] = preset
            row.change(expected=None, cluster_presets=chosen)
        detail = {"preset": preset, "cluster": cluster.name if cluster else ""}
        audit.record(actor, "gpu_rules.preset", subject=row, reason=reason, detail=detail)
        judge_soon()
    return row


def check_preset(preset: str, cluster: Cluster | None) -> None:
    """Raises InvalidRule."""
    known = [one.name for one in PRESETS]
    if preset not in known and (preset or cluster is None):
        raise InvalidRule(fields={"preset": [_("Choose one of: %(known)s.") % {"known": ", ".join(known)}]})
