"""Named reads of the LoRA adapters of services."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from clusters import adapters as fleet
from clusters.backends.kinds import abilities_of
from clusters.models import Deployment
from common.actor import Actor
from models_registry.models import Version
from models_registry.references import VersionReferences
from models_registry.states import VersionState
from releases.models import Release, Service, ServiceAdapter
from serving.engines.registry import ENGINES
from serving.engines.spec import ENABLE_LORA

ADAPTER_VERSIONS = VersionReferences(
    ServiceAdapter.objects.all(), "version", "version__model", gettext_noop("service {} (adapter)"),
    ("service__name",),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShownAdapter:
    """An adapter and how it stands with the workers."""

    row: ServiceAdapter
    standing: fleet.AdapterStanding


def adapters_of(service: Service) -> Sequence[ShownAdapter]:
    """Return the adapters of a service by name."""
    rows = list(ServiceAdapter.objects.filter(service=service).select_related("version__model"))
    found = fleet.standings({row.name: row.version_label for row in rows}, service=service.name)
    return [ShownAdapter(row, found[row.name]) for row in rows]


def wanted_adapters(service: Service) -> dict[str, Any]:
    """Return them as a deployment's row has them."""
    rows = ServiceAdapter.objects.filter(service=service)
    return {row.name: {"version": row.version_id, "label": row.version_label} for row in rows}


def loadable_versions(actor: Actor) -> QuerySet[Version]:
    """The newest ready versions that the actor sees whose files are a LoRA adapter."""
    rows = Version.objects.for_actor(actor).filter(
        state=VersionState.READY, files__path="adapter_config.json"
    )
    return rows.select_related("model").defer("config", "scan").order_by("-pk")[:100]


def adapter_standings(release: Release) -> dict[str, fleet.AdapterStanding]:
    """Return how the adapters of its service stand with its candidate's workers, by name."""
    labels = {name: one["label"] for name, one in wanted_adapters(release.service).items()}
    return fleet.standings(labels, deployment=release.candidate_deployment)


def why_no_adapters(service: Service) -> str:
    """Return why its workers cannot load adapters while they run; empty: they can."""
    if not ENGINES[service.engine].loads_adapters:
        able = ", ".join(name for name, spec in ENGINES.items() if spec.loads_adapters)
        return _("The engine %(engine)s loads no adapters while it runs; %(able)s do.") % {
            "engine": service.engine,
            "able": able,
        }
    stable = Deployment.objects.filter(name=service.stable_deployment).first()
    running = stable or service
    settings = running.settings
    if not ENGINES[service.engine].is_ready_for_adapters(settings):
        return _(
            "Its workers were started without LoRA: set %(setting)s in the engine's settings and release."
        ) % {"setting": ENABLE_LORA}
    if abilities_of(service.cluster.kind).has_pods:
        return fleet.why_not_in_pods(service.cluster, service.engine, running.pod)
    return ""
