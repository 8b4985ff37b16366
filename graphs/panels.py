"""What the pages of a graph show: its picture, its curves, its plan in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.pages import formats
from common.pages.charts import Chart, Dash, Paint, Series
from graphs.differences import differences
from graphs.drawing import GraphDrawing, NodeFacts, draw
from graphs.models import Graph, TaskGraphPlan, TaskProfile
from graphs.orders import description_of
from serving.graphs.description import GraphDescription

CHANGES = {
    "added": gettext_lazy("added"),
    "removed": gettext_lazy("removed"),
    "changed": gettext_lazy("changed"),
}
STYLES: tuple[tuple[Paint, Dash], ...] = (("stable", "solid"), ("candidate", "dashed"), ("ink", "dotted"))


def picture(graph: Graph, plan: TaskGraphPlan | None) -> GraphDrawing:
    """The DAG; with a plan's replicas, batches and busy shares where there is one, and with those of now
    where workers run it."""
    description = description_of(graph)
    found: dict[str, NodeFacts] = {
        task.name: NodeFacts((task.model or task.kind, _("no plan"))) for task in description.tasks
    }
    if plan is not None and plan.digest == graph.digest:
        slow = _slow_tasks(plan.result["explanation"])
        for one in plan.result["plan"]["tasks"]:
            found[one["task"]] = NodeFacts(
                (
                    _("%(replicas)s x %(option)s, batch %(batch)s")
                    % {"replicas": one["replicas"], "option": one["option"], "batch": one["batch"]},
                    _("busy %(share)s") % {"share": formats.percent(one["busy"], 0)},
                ),
                is_bottleneck=one["task"] in slow,
                busy=one["busy"],
            )
    for name, one in graph.look.get("tasks", {}).items():
        if name not in found or not one["replicas"]:
            continue
        found[name] = NodeFacts(
            (
                _("%(rate)s/s, queue %(queued)s, busy %(busy)s")
                % {
                    "rate": formats.three_digits(one["rate"]),
                    "queued": one["queued"],
                    "busy": formats.percent(one["busy"], 0),
                },
                ngettext(
                    "%(replicas)s process, batch %(batch)s",
                    "%(replicas)s processes, batch %(batch)s",
                    one["replicas"],
                )
                % {"replicas": one["replicas"], "batch": formats.three_digits(one["batch"])},
            ),
            is_bottleneck=found[name].is_bottleneck,
            busy=one["busy"],
            is_live=True,
        )
    return draw(description, found)


def change_pictures(before: GraphDescription, after: GraphDescription) -> list[GraphDrawing]:
    """Two states of a graph, with what went and what came marked."""
    found = differences(before, after)
    marked = {}
    for one in found:
        parts = ", ".join(name for name, _was, _is in one.parts)
        marked[one.node] = NodeFacts((str(CHANGES[one.kind]), parts), mark=one.kind)
    return [draw(graph, marked) for graph in (before, after)]


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker that may run the graph, and what it runs."""

    name: str
    machine: str
    state: str
    problem: str


def worker_lines(graph: Graph) -> list[WorkerLine]:
    return [
        WorkerLine(one["name"], one["machine"], _state_of(one), one["problem"])
        for one in graph.look.get("workers", ())
    ]


def _state_of(worker: Mapping[str, Any]) -> str:
    if not worker["is_heard"]:
        return _("no answer")
    if not worker["is_current"]:
        return _("another graph")
    return _("taking over a plan") if worker["is_switching"] else _("running")


def _slow_tasks(explanation: Mapping[str, Any]) -> set[str]:
    return {one["name"] for one in explanation["bottlenecks"] if one["kind"] == "replicas"}


def profile_chart(profiles: list[TaskProfile]) -> Chart:
    """Seconds of a batch over its size, for each kind of machine, with the 95 % interval of the mean."""
    sizes = sorted({time["size"] for one in profiles for time in one.figures["times"]})
    series = []
    for one, (paint, dash) in zip(profiles, STYLES, strict=False):
        times = {time["size"]: time for time in one.figures["times"]}
        for name, sign in ((one.option, 0), (_("low"), -1), (_("high"), 1)):
            values = [
                times[size]["seconds"] + sign * times[size]["half_width"] if size in times else None
                for size in sizes
            ]
            label = name if not sign else f"{one.option}, {name}"
            series.append(Series(label, values, paint=paint, dash=dash if not sign else "dotted"))
    return Chart(
        title=profiles[0].task,
        moments=(),
        positions=sizes,
        axis=_("batch size"),
        series=series,
        unit="seconds",
        caption=_("seconds of a batch"),
        minimum=0,
    )


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A task of a plan beside what the active plan has."""

    task: str
    option: str
    replicas: int
    batch: int
    wait_ms: float
    busy: float
    bubbles: float
    latency: float
    before: str


@dataclass(frozen=True, slots=True)
class PlanPanel:
    """A plan with its explanation, in words."""

    lines: list[PlanLine]
    facts: list[tuple[str, str]]
    bottlenecks: list[str]
    what_if: list[tuple[str, str]]
    refusals: list[tuple[str, str, str]]
    shortages: list[tuple[str, str, str]]
    adaptation: list[tuple[str, str]]


def _adaptation(plan: TaskGraphPlan) -> list[tuple[str, str]]:
    """Measured times against planned ones, and the gain."""
    known = plan.adaptation
    if not known:
        return []
    rate = _("%(rate)s items/s")
    found = [(_("Active plan now"), rate % {"rate": formats.three_digits(known["before"])})]
    if "after" in known:
        found.append((_("This plan"), rate % {"rate": formats.three_digits(known["after"])}))
        found.append((_("Gain less its cost"), formats.percent(known["share"], 1)))
    measured = (
        ("factors", _("%(factor)s x the planned time")),
        ("visits", _("%(factor)s x the planned calls per item")),
        ("memory", _("%(factor)s x the planned memory")),
    )
    found += [
        (task, words % {"factor": formats.three_digits(factor)})
        for key, words in measured
        for task, factor in known.get(key, {}).items()
    ]
    return found


def plan_panel(plan: TaskGraphPlan, active: TaskGraphPlan | None) -> PlanPanel:
    result = plan.result
    if "plan" not in result:
        short = [_shortage(one) for one in result.get("shortages", ())]
        return PlanPanel([], [], [], [], [], short, _adaptation(plan))
    found, explained = result["plan"], result["explanation"]
    before = {}
    if active is not None and active.pk != plan.pk:
        before = {one["task"]: one for one in active.result["plan"]["tasks"]}
    lines = [
        PlanLine(
            one["task"],
            one["option"],
            one["replicas"],
            one["batch"],
            1000 * one["wait"],
            one["busy"],
            explained["bubbles"][one["task"]],
            one["latency"],
            _replicas(before[one["task"]]) if one["task"] in before else "",
        )
        for one in found["tasks"]
    ]
    gap = found["gap"]
    facts = [
        (_("Rate"), _("%(rate)s items/s") % {"rate": formats.three_digits(found["rate"])}),
        (_("Latency of the longest path"), formats.duration(found["latency"])),
        (_("Cost"), formats.three_digits(found["cost"])),
        (_("Found by"), _("integer program") if found["method"] == "milp" else _("greedy search")),
        (_("Gap to the bound"), formats.NO_VALUE if gap is None else formats.percent(gap, 1)),
    ]
    return PlanPanel(
        lines,
        facts,
        [_bottleneck(one) for one in explained["bottlenecks"]],
        [_what_if(one, found["objective"]) for one in explained["what_if"]],
        [_refusal(one) for one in explained["refusals"]],
        [],
        _adaptation(plan),
    )


def _replicas(one: Mapping[str, Any]) -> str:
    return f"{one['replicas']} x {one['option']}, {one['batch']}"


def _bottleneck(one: Mapping[str, Any]) -> str:
    said = {"share": formats.percent(one["share"], 0), "name": one["name"]}
    match one["kind"]:
        case "replicas":
            return _("Replicas of %(name)s are busy %(share)s of the time.") % said
        case "cores":
            return _("Cores of %(name)s are busy %(share)s of the time.") % said
        case "card time":
            return _("Card %(name)s is busy %(share)s of the time.") % said
        case "bandwidth":
            return _("Bandwidth of %(name)s is used to %(share)s.") % said
        case _:
            return _("Memory of %(name)s is used to %(share)s.") % said


def _what_if(one: Mapping[str, Any], objective: str) -> tuple[str, str]:
    kind, _space, card = one["more"].partition(" ")
    more = _("One more core") if kind == "core" else _("One more card %(kind)s") % {"kind": card}
    if not one["gain"]:
        return more, _("No gain.")
    value = formats.three_digits(one["value"])
    if objective == "throughput":
        value = _("%(rate)s items/s") % {"rate": value}
    return more, f"{value} (+{formats.percent(one['gain'], 1)})"


def _refusal(one: Mapping[str, Any]) -> tuple[str, str, str]:
    match one["reason"]:
        case "no_card":
            why = _("No machine has such a card.")
        case "too_large":
            why = _("It does not fit into any place.")
        case "close":
            share = formats.percent(one["gain"], 1)
            why = _("Not proven worse: at most %(share)s better.") % {"share": share}
        case _:
            share = formats.percent(-one["gain"], 1)
            why = _("At least %(share)s worse.") % {"share": share}
    return one["task"], one["option"], why


def _shortage(one: Mapping[str, Any]) -> tuple[str, str, str]:
    say = formats.memory_size if "memory" in one["resource"] else formats.three_digits
    return one["resource"], say(one["missing"]), say(one["available"])
