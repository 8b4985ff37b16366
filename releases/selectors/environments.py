"""What version is where, since when, what is ahead, and where an environment drifts."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from common.actor import Actor
from freezes.selectors import ActiveFreeze, has_freezes
from models_registry.models import Version
from models_registry.states import VersionState
from releases.environment_models import EnvironmentGraph, EnvironmentStage
from releases.freezing import freeze_of
from releases.models import Release, Service
from releases.selectors.services import releases_in_motion
from releases.states import ReleaseState

COMPARED = ("engine", "slots", "device", "resources", "pod", "settings", "image_id")
"""Settings of services that decide how a version behaves: a stage that has others drifts."""


@dataclass(frozen=True, slots=True)
class StageView:
    stage: EnvironmentStage
    depth: int
    """Longest way from a stage where versions start."""
    service: Service
    release: Release | None
    """The one in motion."""
    upstream: EnvironmentStage | None
    """The stage before it whose version is the newest; None: versions start here."""
    ahead: tuple[Version, ...]
    """Ready versions that are newer than its own, up to what the stages before it serve; the oldest first."""
    drift: tuple[str, ...]
    """Settings that are others than those of the stage before it."""
    frozen: ActiveFreeze | None
    """The freeze that keeps versions from being promoted to it."""
    is_foreign: bool
    """Its version never served in a stage before it."""

    @property
    def refusal(self) -> str:
        """Return why what is ahead was not promoted by itself; empty: nothing is ahead, or it was."""
        return self.stage.refusal if self.next_version else ""

    @property
    def next_version(self) -> Version | None:
        """Return what a promotion brings; None: nothing is ahead."""
        served = self.upstream.service.stable_version if self.upstream else None
        return served if served is not None and served.pk != self.service.stable_version_id else None

    @property
    def goes_back(self) -> bool:
        """Whether a promotion brings a version that is older than the one that serves."""
        brought, serving = self.next_version, self.service.stable_version
        return brought is not None and serving is not None and brought.number < serving.number


def environments_for(actor: Actor) -> QuerySet[EnvironmentGraph]:
    rows: QuerySet[EnvironmentGraph] = EnvironmentGraph.objects.for_actor(actor)
    return rows.select_related("team").order_by("team__name", "name")


def stages_of(graph: EnvironmentGraph) -> list[StageView]:
    """Return the stages in order; seven queries for any number, one more for each if the team has freezes."""
    rows = list(graph.stages.select_related("service__stable_version__model", "service__team"))
    by_name = {row.name: row for row in rows}
    moving = releases_in_motion([row.service for row in rows])
    served = _served(rows)
    versions = _versions(rows)
    may_be_frozen = has_freezes(graph.team_id)
    found: dict[str, StageView] = {}
    for row in rows:
        before = [by_name[name] for name in row.after if name in by_name]
        upstream = max(before, key=_number, default=None)
        own = row.service.stable_version_id
        found[row.name] = StageView(
            stage=row,
            depth=max((found[one.name].depth + 1 for one in before), default=0),
            service=row.service,
            release=moving.get(row.service_id),
            upstream=upstream,
            ahead=_between(versions, row, upstream) if upstream else (),
            drift=_drift(row, upstream) if upstream else (),
            frozen=freeze_of(row.service) if may_be_frozen else None,
            is_foreign=bool(before and own and not any((one.service_id, own) in served for one in before)),
        )
    return list(found.values())


def _number(stage: EnvironmentStage) -> int:
    version = stage.service.stable_version
    return version.number if version else 0


def _served(rows: Sequence[EnvironmentStage]) -> set[tuple[int, int]]:
    """Return service and version of every promotion."""
    promoted = Release.objects.filter(
        service__in=[row.service_id for row in rows], state=ReleaseState.PROMOTED
    )
    return set(promoted.values_list("service_id", "version_id").distinct())


def _versions(rows: Sequence[EnvironmentStage]) -> list[Version]:
    models = {row.service.model_id for row in rows}
    ready = Version.objects.filter(model__in=models, state=VersionState.READY)
    return list(ready.only("pk", "name", "number", "model_id").order_by("number"))


def _between(
    versions: Sequence[Version], row: EnvironmentStage, upstream: EnvironmentStage
) -> tuple[Version, ...]:
    own, most = _number(row), _number(upstream)
    return tuple(one for one in versions if one.model_id == row.service.model_id and own < one.number <= most)


def _drift(row: EnvironmentStage, upstream: EnvironmentStage) -> tuple[str, ...]:
    one, other = row.service, upstream.service
    return tuple(name.removesuffix("_id") for name in COMPARED if getattr(one, name) != getattr(other, name))
