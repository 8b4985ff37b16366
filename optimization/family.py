"""The versions that descend from one by recipes: a tree with what was judged, and which of them are best."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from common.actor import Actor
from models_registry.models import Version
from models_registry.states import VersionState
from optimization.items import is_higher_better
from optimization.models import AccuracyVerdict, OptimizationRun
from optimization.states import OptimizationState

MOST_VERSIONS = 200
COST_FIGURES = ("output_rate", "picture_rate")


@dataclass(slots=True)
class FamilyMember:
    """A version of the tree; `run` made it, unless it is the root. `cost` is per token, the root's is 1."""

    version: Version
    depth: int
    run: OptimizationRun | None = None
    metric: str = ""
    value: float | None = None
    cost: float | None = None
    cost_low: float | None = None
    cost_high: float | None = None
    is_best: bool = False
    """No other member is both cheaper and more accurate."""

    @property
    def has_passed(self) -> bool:
        return self.run is None or self.run.state == OptimizationState.PASSED


def family_of(actor: Actor, version: Version, *, test_sha256: str) -> list[FamilyMember]:
    """Return the tree around a version, each parent before its children, judged on one test set.

    Versions that the actor may not read are left out with all that descends from them.
    """
    visible = Version.objects.for_actor(actor).select_related("model")
    root = _root(version, visible)
    children = _children(root, visible)
    runs = OptimizationRun.objects.for_actor(actor).filter(child__in=_ids(root, children))
    made = {run.child_id: run for run in runs}
    verdicts = {
        one.check_of.run_id: one
        for one in AccuracyVerdict.objects.filter(
            check_of__run__in=made.values(), check_of__run__test__sha256=test_sha256
        ).select_related("check_of")
    }
    members = list(_walk(root, children, made, verdicts))
    _mark_best(members)
    return members


def _walk(
    root: Version,
    children: Mapping[int, Sequence[Version]],
    made: Mapping[int | None, OptimizationRun],
    verdicts: Mapping[int, AccuracyVerdict],
) -> Iterator[FamilyMember]:
    first = FamilyMember(root, 0, cost=1.0)
    waiting = [first]
    while waiting:
        member = waiting.pop()
        yield member
        for child in reversed(children.get(member.version.pk, ())):
            run = made.get(child.pk)
            found = FamilyMember(child, member.depth + 1, run)
            if run is not None:
                _judge(found, run, member, verdicts.get(run.pk))
            waiting.append(found)


def _judge(
    found: FamilyMember, run: OptimizationRun, parent: FamilyMember, verdict: AccuracyVerdict | None
) -> None:
    if verdict is not None:
        found.metric, found.value = verdict.metric, verdict.child_value
        if parent.value is None:
            parent.metric, parent.value = verdict.metric, verdict.parent_value
    rates = [
        one
        for one in run.speed
        if one["name"] in COST_FIGURES and one.get("compared_with", "parent") == "parent"
    ]
    if not rates or parent.cost is None:
        return
    fastest = max(rates, key=lambda one: float(one["rate"]))
    found.cost = parent.cost / fastest["ratio"]
    if fastest["low"] and fastest["high"]:
        found.cost_low, found.cost_high = parent.cost / fastest["high"], parent.cost / fastest["low"]


def _mark_best(members: Sequence[FamilyMember]) -> None:
    """Mark the Pareto front of accuracy against cost over what passed."""
    counted = [one for one in members if one.has_passed and one.value is not None and one.cost is not None]
    for one in counted:
        one.is_best = not any(_dominates(other, one) for other in counted)


def _dominates(one: FamilyMember, other: FamilyMember) -> bool:
    if one.metric != other.metric:
        return False
    sign = 1 if is_higher_better(one.metric) else -1
    assert None not in (one.value, other.value, one.cost, other.cost)  # noqa: S101 (as counted)
    gain, saving = sign * (one.value - other.value), other.cost - one.cost  # type: ignore[operator]
    return gain >= 0 and saving >= 0 and (gain > 0 or saving > 0)


def _root(version: Version, visible: QuerySet[Version]) -> Version:
    seen = {version.pk}
    while version.parent_id and version.parent_id not in seen:
        parent = visible.filter(pk=version.parent_id).first()
        if parent is None:
            break
        version = parent
        seen.add(version.pk)
    return version


def _children(root: Version, visible: QuerySet[Version]) -> dict[int, list[Version]]:
    """Return the descendants that are there, by parent, level by level."""
    found: dict[int, list[Version]] = {}
    level, count = [root.pk], 0
    while level and count < MOST_VERSIONS:
        rows = visible.exclude(state__in=(VersionState.DELETED, VersionState.FAILED))
        rows = rows.filter(parent__in=level).order_by("number")[:MOST_VERSIONS]
        level = []
        for row in rows:
            found.setdefault(row.parent_id or 0, []).append(row)
            level.append(row.pk)
        count += len(level)
    return found


def _ids(root: Version, children: Mapping[int, Sequence[Version]]) -> list[int]:
    return [root.pk, *(one.pk for some in children.values() for one in some)]
