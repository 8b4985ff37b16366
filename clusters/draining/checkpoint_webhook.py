"""A webhook that keeps the work of pods before a drain evicts them: asked again until it says `done`.

Signed as the product's webhooks are, and sent to addresses that these may go to. The same question has the
same `webhook-id`, however often it is asked.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils.translation import gettext as _

from clusters.backends.observed_pods import ObservedPod
from clusters.draining.options import DrainOptions
from clusters.models import Drain
from common.errors import Invalid
from common.webhooks.destination import AllowedHosts, parse
from common.webhooks.sending import OK, DeliveryResponse, post
from common.webhooks.signing import headers as signatures

WITHIN_SECONDS = 4.0
AT_ONCE = 3
"""So many questions in one step of the drain, which has 20 s."""
LONGEST_WORDS = 300
DONE, WAIT, AWAY = "done", "wait", "away"

Post = Callable[..., DeliveryResponse]


@dataclass(frozen=True, slots=True)
class CheckpointReply:
    said: str
    """`done`; `wait`: it is not written yet; `away`: no answer, or none that can be meant."""
    words: str = ""


def ask(drain: Drain, pod: ObservedPod, *, deadline: datetime, post: Post = post) -> CheckpointReply:
    """Posts `{action: checkpoint, drain, cluster, machine, reason, deadline, pod}`; is answered with `{state:
    done | wait, words}`, the words being optional."""
    assert pod.checkpoint is not None  # noqa: S101 - nobody else is asked
    message_id = f"drain-{drain.pk}.{pod.uid}"
    body = json.dumps(
        {
            "action": "checkpoint",
            "drain": drain.pk,
            "cluster": drain.node.cluster.name,
            "machine": drain.node.name,
            "reason": drain.reason,
            "deadline": deadline.isoformat(),
            "pod": {
                "uid": pod.uid,
                "namespace": pod.namespace,
                "name": pod.name,
                "owner": pod.owner,
                "deployment": pod.deployment,
                "gpus": pod.gpu_count,
            },
        }
    ).encode()
    headers = {"Content-Type": "application/json"}
    try:
        headers |= signatures(
            [settings.SLIPWAY_CHECKPOINT_WEBHOOK_SECRET],
            message_id=message_id,
            timestamp=int(time.time()),
            body=body,
        )
    except ValueError as error:
        return CheckpointReply(AWAY, f"Nothing is sent unsigned: {error}")
    answer = post(
        pod.checkpoint.url, body=body, headers=headers, allowed=_allowed(), within_seconds=WITHIN_SECONDS
    )
    if answer.error or answer.status not in OK:
        return CheckpointReply(AWAY, (answer.error or f"HTTP {answer.status}")[:LONGEST_WORDS])
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("state") not in (DONE, WAIT):
        return CheckpointReply(AWAY, 'It answers neither {"state": "done"} nor {"state": "wait"}.')
    return CheckpointReply(document["state"], str(document.get("words", ""))[:LONGEST_WORDS])


def webhook_faults(options: DrainOptions) -> dict[str, str]:
    """Addresses that cannot be asked, in words, for the field `namespaces`."""
    for name, one in options.namespaces.items():
        if not one.checkpoint_url:
            continue
        if not settings.SLIPWAY_CHECKPOINT_WEBHOOK_SECRET:
            return {
                "namespaces": _(
                    "Webhooks for checkpoints are signed: set SLIPWAY_CHECKPOINT_WEBHOOK_SECRET first."
                )
            }
        try:
            parse(one.checkpoint_url, _allowed())
        except Invalid as error:
            said = " ".join(map(str, (error.fields or {}).get("url", ())))
            return {"namespaces": f"{name}: {said}"}
    return {}


def _allowed() -> AllowedHosts:
    return AllowedHosts.of(settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS)
