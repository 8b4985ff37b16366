"""Named reads. Nothing here asks a backend: rows say what it last showed, heartbeats lie in Redis."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.actors import grants_of
from accounts.states import Right
from clusters import heartbeat_records
from clusters.capacities import ClusterCapacity as ClusterCapacity
from clusters.capacities import capacity as capacity
from clusters.errors import ClusterMissing, DeploymentMissing
from clusters.fleet import (
    ClusterRow,
    DeploymentRow,
    DeploymentSnapshot,
    FleetRows,
    FleetSnapshot,
    LastHeartbeat,
    fleet_of,
    narrowed,
)
from clusters.fleet_rows import DEPLOYMENT_COLUMNS, fleet_rows, worker_rows
from clusters.models import Cluster, Deployment, Worker
from clusters.states import GONE, DeploymentState, WorkerState
from common import clock
from common.actor import Actor
from common.live.board import EVERYONE, PUBLIC, Audience
from images.models import RuntimeImage
from models_registry.models import Version
from models_registry.references import VersionReferences
from models_registry.states import VersionState
from serving.protocol import ENGINES_WITH_ROUTES


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    name: str
    state: str
    address: str
    port: int | None
    restarts: int
    reason: str
    alert: str


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    deployment_id: int
    name: str
    state: str
    """A `DeploymentState`, or one that only a newer release of Slipway knows."""
    reason: str
    """Why it is not ready, in words; empty when it is."""
    wanted: int
    ready: int
    workers: Sequence[WorkerStatus]
    restarts: int
    """Since it was created, over all workers that it has ever had."""
    log_tail: str
    """The last lines of the worst worker's last end; empty when none has ended by itself."""
    observed_at: datetime | None
    """None: never yet."""
    is_stuck: bool
    """The kernel has given up on it: a person has to look."""
    is_applied: bool
    """The cluster has been told all of the wish, and has what it needs for it."""
    fetches: Sequence[Mapping[str, Any]]
    """How far its files have come; see `clusters.file_fetches`."""
    image_reference: str
    image_reason: str
    """What its workers run, and why that; see `models.Deployment`."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Endpoints that requests may be sent to, in a stable order; `observed_at` orders two of them.

    spare: of workers that are offline, for requests that the others refuse.
    """

    cluster_id: int
    addresses: tuple[tuple[str, int], ...]
    observed_at: datetime
    spare: tuple[tuple[str, int], ...] = ()


def cluster(name: str) -> Cluster:
    """Raises ClusterMissing."""
    found = Cluster.objects.present().filter(name=name).first()
    if found is None:
        raise ClusterMissing(_("There is no cluster %(name)s.") % {"name": name})
    return found


def deployment(name: str) -> Deployment:
    """Raises DeploymentMissing."""
    found = Deployment.objects.select_related("cluster").filter(name=name).first()
    if found is None:
        raise DeploymentMissing(_("There is no deployment %(name)s.") % {"name": name})
    return found


def deployment_name(deployment_id: int) -> str:
    """Raises DeploymentMissing."""
    name = Deployment.objects.filter(pk=deployment_id).values_list("name", flat=True).first()
    if name is None:
        raise DeploymentMissing(
            _("There is no deployment %(deployment_id)s.") % {"deployment_id": deployment_id}
        )
    return name


def cluster_of(deployment_id: int) -> QuerySet[Cluster]:
    return Cluster.objects.filter(pk__in=Deployment.objects.filter(pk=deployment_id).values("cluster"))


def image_of(deployment_name: str) -> RuntimeImage | None:
    """Return the image of its workers; None where they need none, or there is no such deployment."""
    found = Deployment.objects.select_related("image").filter(name=deployment_name).first()
    return found.image if found else None


def deployments_of(service: str) -> QuerySet[Deployment]:
    """Return the deployments of a service that have, or may have, workers; oldest first."""
    found = Deployment.objects.filter(service=service).exclude(state=DeploymentState.REMOVED)
    return found.select_related("cluster", "version").order_by("created_at", "pk")


def services_with_routes() -> set[str]:
    """Names of the services whose workers run a team's own code, with its routes."""
    rows = Deployment.objects.filter(engine__in=ENGINES_WITH_ROUTES).exclude(state=DeploymentState.REMOVED)
    return set(rows.values_list("service", flat=True))


def deployment_status(name: str) -> DeploymentStatus:
    """Return its state and its workers, by two queries. Raises DeploymentMissing."""
    row = deployment(name)
    workers = list(Worker.objects.filter(deployment=row).order_by("name"))
    return DeploymentStatus(
        deployment_id=row.pk,
        name=row.name,
        state=row.state,
        reason=row.reason if row.stuck_at is None else row.last_error,
        wanted=row.wanted_replicas,
        ready=sum(worker.state == WorkerState.READY for worker in workers),
        workers=[
            WorkerStatus(
                name=worker.name,
                state=worker.state,
                address=worker.address,
                port=worker.port,
                restarts=worker.restarts,
                reason=worker.reason,
                alert=worker.alert,
            )
            for worker in workers
        ],
        restarts=row.lost_restarts + sum(worker.restarts for worker in workers),
        log_tail=row.log_tail,
        observed_at=row.observed_at,
        is_stuck=row.stuck_at is not None,
        is_applied=row.applied_generation == row.generation,
        fetches=row.fetches,
        image_reference=row.image_reference,
        image_reason=row.image_reason,
    )


def deployment_state(name: str) -> tuple[str, str]:
    """Its state, and why it is not ready. One small query. Raises DeploymentMissing."""
    columns = ("state", "reason", "stuck_at", "last_error")
    found = Deployment.objects.filter(name=name).values_list(*columns).order_by().first()
    if found is None:
        raise DeploymentMissing(_("There is no deployment %(name)s.") % {"name": name})
    state, reason, stuck_at, last_error = found
    return state, reason if stuck_at is None else last_error


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a deployment can answer, as it was seen last."""

    state: str
    reason: str
    """Why it is not ready, in words."""
    ready: int
    """Workers that may be sent requests."""
    observed_at: datetime | None


def readiness(names: Iterable[str]) -> dict[str, Readiness]:
    """Return the readiness of existing deployments by name. One query."""
    ready = Count("workers", filter=Q(workers__state=WorkerState.READY))
    rows = Deployment.objects.filter(name__in=list(names)).annotate(ready=ready).order_by()
    columns = ("name", "state", "reason", "stuck_at", "last_error", "ready", "observed_at")
    return {
        name: Readiness(state, reason if stuck_at is None else last_error, ready, observed_at)
        for name, state, reason, stuck_at, last_error, ready, observed_at in rows.values_list(*columns)
    }


def slots_of(name: str) -> int:
    """Requests that all workers of a deployment work on at the same time; 0: there is no such deployment."""
    found = Deployment.objects.filter(name=name).values_list("replicas", "slots").order_by().first()
    return found[0] * found[1] if found else 0


def endpoints(name: str) -> Endpoints:
    """The ready workers that may be sent requests; none as soon as the removal was asked for.

    Those that leave their machine are left out while there are others; those that are offline are spare.
    Raises DeploymentMissing.
    """
    row = deployment(name)
    moments = (row.observed_at, row.redirected_at, row.removal_asked_at, row.created_at)
    observed_at = max(moment for moment in moments if moment is not None)
    if row.state in GONE:
        return Endpoints(row.cluster_id, (), observed_at)
    ready = Worker.objects.filter(deployment=row, state=WorkerState.READY, port__isnull=False)
    columns = ("address", "port", "leaves_with", "offline_since")
    found = list(ready.order_by("name").values_list(*columns))
    stays = [one for one in found if one[2] is None] or found
    online = [one for one in stays if one[3] is None] or stays
    addresses, spare = (
        tuple((address, port) for address, port, *_ in some if port)
        for some in (online, [one for one in stays if one not in online])
    )
    return Endpoints(row.cluster_id, addresses, observed_at, spare)


def heartbeats_by_service(services: Iterable[str]) -> dict[str, list[LastHeartbeat]]:
    """Return the last heartbeats of the workers that serve, by their service; empty where there is none."""
    rows = Worker.objects.filter(deployment__service__in=list(services), state=WorkerState.READY)
    named = dict(rows.values_list("uid", "deployment__service"))
    found: dict[str, list[LastHeartbeat]] = {}
    for uid, heartbeat in sorted((heartbeat_records.latest(list(named)) or {}).items() if named else ()):
        found.setdefault(named[uid], []).append(heartbeat)
    return found


def listening_workers(service: str) -> dict[str, list[tuple[str, int]]]:
    """Return the addresses of the workers of each of the service's deployments, ready or not, by its name."""
    found: dict[str, list[tuple[str, int]]] = {row.name: [] for row in deployments_of(service)}
    rows = Worker.objects.filter(deployment__name__in=found, port__isnull=False).exclude(address="")
    for name, address, port in rows.order_by("name").values_list("deployment__name", "address", "port"):
        found[name].append((address, port or 0))
    return found


def ready_workers(service: str) -> dict[str, int]:
    """Return the number of ready workers of each of the service's deployments, by its name. One query."""
    ready = Count("workers", filter=Q(workers__state=WorkerState.READY))
    return dict(deployments_of(service).annotate(ready=ready).values_list("name", "ready"))


def offline_workers(deployment: str) -> set[str]:
    """Return the ids of the workers that get no requests because they work off jobs."""
    rows = Worker.objects.filter(deployment__name=deployment, offline_since__isnull=False)
    return set(rows.values_list("uid", flat=True))


@dataclass(frozen=True, slots=True)
class RegisteredAbilities:
    """Abilities that the workers of a deployment register."""

    team_id: int
    abilities: frozenset[str] | None
    """None: none of its ready workers has reported lately."""
    slots: int
    """Of each of its workers."""


def registered_abilities(deployments: Iterable[str]) -> dict[str, RegisteredAbilities]:
    """Return the abilities by the name of the deployment; of one that has ready workers. One query."""
    rows = Worker.objects.filter(deployment__name__in=list(deployments), state=WorkerState.READY)
    columns = rows.order_by().values_list("uid", "deployment__name", "deployment__team_id")
    workers = list(columns)
    heard = heartbeat_records.latest([uid for uid, _name, _team in workers]) if workers else {}
    found: dict[str, RegisteredAbilities] = {}
    for uid, name, team_id in workers:
        last = (heard or {}).get(uid)
        if last is not None:
            found[name] = RegisteredAbilities(team_id, frozenset(last.abilities), last.slots)
        else:
            found.setdefault(name, RegisteredAbilities(team_id, None, 1))
    return found


VERSIONS_IN_USE = VersionReferences(
    Deployment.objects.exclude(state=DeploymentState.REMOVED),
    "version",
    "version__model",
    gettext_noop("deployment {} of service {}"),
    ("name", "service"),
)


def digests_needed_on(cluster: Cluster) -> set[str]:
    """Return the digests of versions whose files are kept there: deployments need them, or they are not
    retired.
    """
    living = Deployment.objects.filter(cluster=cluster).exclude(state=DeploymentState.REMOVED)
    wanted = Q(state=VersionState.READY) | Q(pk__in=living.values("version"))
    return {digest for digest in Version.objects.filter(wanted).values_list("digest", flat=True) if digest}


def deployments_running(actor: Actor, image: RuntimeImage) -> list[str]:
    """Return the deployments that run the image and that the actor may see, in words."""
    rows = Deployment.objects.for_actor(actor).filter(image=image).exclude(state=DeploymentState.REMOVED)
    found = rows.order_by("name").values_list("name", "service")
    return [_("deployment {} of service {}").format(name, service) for name, service in found]


def whole_fleet() -> FleetSnapshot:
    """Return the fleet of all teams at this moment, by four queries."""
    heartbeats = heartbeat_records.latest()
    return fleet_of(
        fleet_rows(),
        heartbeats or {},
        agents=heartbeat_records.agents(),
        now=clock.now(),
        is_live=heartbeats is not None,
    )


def deployments_now(names: Iterable[str]) -> dict[str, DeploymentSnapshot]:
    """Return the existing ones of these deployments, by name: two queries."""
    rows = Deployment.objects.filter(name__in={name for name in names if name})
    deployments = [DeploymentRow(*row) for row in rows.values_list(*DEPLOYMENT_COLUMNS)]
    found = Worker.objects.filter(deployment__in=[row.pk for row in deployments])
    workers = worker_rows(found)
    heartbeats = heartbeat_records.latest([row.uid for row in workers]) if workers else {}
    clusters = [ClusterRow(pk, "", None, "") for pk in {row.cluster_id for row in deployments}]
    seen = fleet_of(
        FleetRows(clusters=clusters, deployments=deployments, workers=workers),
        heartbeats or {},
        agents=heartbeat_records.agents(sorted({row.agent for row in workers if row.agent})),
        now=clock.now(),
        is_live=heartbeats is not None,
    )
    return {one.row.name: one for cluster in seen.clusters for one in cluster.deployments}


def fleet(actor: Actor) -> FleetSnapshot:
    """Return the fleet as far as the actor may see it. Five queries."""
    return narrowed(whole_fleet(), audience_of(actor))


def audience_of(actor: Actor) -> Audience:
    """Return the actor's audience: shared clusters, and what belongs to their teams."""
    grants = grants_of(actor)
    if Right.READ in grants.everywhere:
        return EVERYONE
    if not grants.may(Right.READ):
        return frozenset()
    return frozenset({PUBLIC, *grants.team_ids(Right.READ)})


def visible_deployment(actor: Actor, name: str) -> Deployment | None:
    """Removed ones too; None when the actor may not know of it."""
    rows = Deployment.objects.for_actor(actor).select_related("cluster", "team", "version__model", "image")
    return rows.filter(name=name).first()
