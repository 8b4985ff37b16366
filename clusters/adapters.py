"""LoRA adapters as the workers of a service report them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from clusters import heartbeat_records
from clusters.backends.kubernetes.settings import fetches_from_us
from clusters.backends.pod_settings import PodSettings
from clusters.models import Cluster, Worker
from clusters.states import WorkerState
from serving.protocol import LOST_AFTER_SECONDS


@dataclass(frozen=True, slots=True)
class AdapterStanding:
    """State of an adapter over the workers that are ready."""

    workers: int
    loaded: int = 0
    problem: str = ""
    """Why a worker has refused it; empty: none has."""

    @property
    def is_pending(self) -> bool:
        return not self.problem and self.loaded < self.workers


def why_not_in_pods(cluster: Cluster, engine: str, pod: Mapping[str, Any]) -> str:
    """Return why pods there load no adapters of the registry; empty: they do."""
    if not fetches_from_us(
        cluster.settings.get("model_files", "auto"), cluster.settings.get("store_url", "")
    ):
        return _(
            "Pods in cluster %(cluster)s cannot fetch adapters: its settings need store_url, and model_files "
            "other than claim. They load those in the folder adapters of the model's version."
        ) % {"cluster": cluster.name}
    settings = PodSettings.read(pod)
    if settings.server_of(engine) is not None or settings.nodes_per_replica > 1:
        return _("In pods only workers of Slipway's own image load adapters, each on one machine.")
    return ""


def standings(
    labels: Mapping[str, str], *, service: str = "", deployment: str = ""
) -> dict[str, AdapterStanding]:
    """Return the standing of each of the adapters, given by name with the label of its version."""
    if not labels:
        return {}
    workers = Worker.objects.filter(state=WorkerState.READY, deployment__removal_asked_at=None)
    one = {"deployment__name": deployment} if deployment else {"deployment__service": service}
    workers = workers.filter(**one)
    uids = list(workers.values_list("uid", flat=True))
    heard = (heartbeat_records.latest(uids) or {}) if uids else {}
    found = {name: AdapterStanding(len(uids)) for name in labels}
    for heartbeat in heard.values():
        if heartbeat.age_seconds > LOST_AFTER_SECONDS:
            continue
        for report in heartbeat.adapters:
            name, before = report["name"], found.get(report["name"])
            if before is None or labels[name] != report["version"]:
                continue
            found[name] = AdapterStanding(
                workers=before.workers,
                loaded=before.loaded + (not report["problem"]),
                problem=before.problem or report["problem"],
            )
    return found
