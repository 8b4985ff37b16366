"""A release, or a plan, as a strip of steps."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.pages import formats
from common.pages.badges import badge_of
from common.pages.steps import StepView
from releases import plans, selectors
from releases.models import Release, ReleaseStep
from releases.states import ReleaseState, StepState

NAMES: Mapping[str, Any] = {
    "scan": gettext_lazy("Scan"),
    "deploy": gettext_lazy("Deploy"),
    "smoke_test": gettext_lazy("Smoke test"),
    "hold": gettext_lazy("Hold"),
    "judge": gettext_lazy("Analysis"),
    "approval": gettext_lazy("Approval"),
    "promote": gettext_lazy("Promote"),
}
CUT_SHORT = (StepState.FAILED, StepState.ABORTED, StepState.REJECTED)


def strip_of_plan(plan: plans.Plan) -> list[StepView]:
    """The plan before anything has happened."""
    return [
        StepView(step.kind, _name(step), "pending", _planned(plan, cell))
        for cell in plans.strip(plan)
        for step in [plan.steps[cell.first]]
    ]


def strip_of(release: Release, plan: plans.Plan, rows: Sequence[ReleaseStep]) -> list[StepView]:
    """The release's plan as it went so far. `rows`: its steps, in order."""
    return [_cell(release, plan, cell, rows) for cell in plans.strip(plan) if cell.last < len(rows)]


def _cell(
    release: Release, plan: plans.Plan, cell: plans.StripCell, all_rows: Sequence[ReleaseStep]
) -> StepView:
    step = plan.steps[cell.first]
    rows = all_rows[cell.first : cell.last + 1]
    state = _state(release, rows)
    began_at, ended_at = rows[0].started_at, None
    if state == StepState.DONE or state in CUT_SHORT:
        ended_at = max((row.ended_at for row in rows if row.ended_at), default=release.ended_at)
    return StepView(
        kind=step.kind,
        name=_name(step),
        state=state,
        detail=_planned(plan, cell) if state == "pending" else _found(release, plan, cell, all_rows, state),
        began_at=began_at,
        ended_at=ended_at,
        actor=rows[-1].actor if step.kind == "approval" and ended_at else "",
    )


def _state(release: Release, rows: Sequence[ReleaseStep]) -> str:
    states = {row.state for row in rows}
    for cut_short in CUT_SHORT:
        if cut_short in states:
            return cut_short
    if states <= {StepState.DONE}:
        return StepState.DONE
    if StepState.NOT_RUN in states:
        return StepState.NOT_RUN
    if states <= {StepState.PENDING}:
        return StepState.PENDING
    # Under way: how, only the release itself knows.
    if release.state == ReleaseState.STUCK:
        return "stuck"
    if release.paused_at is not None or release.state == ReleaseState.PAUSED:
        return "paused"
    if release.state == ReleaseState.WAITING_APPROVAL and not release.halt:
        return "waiting"
    return StepState.RUNNING


def _name(step: plans.Step) -> str:
    return f"{step.percent}%" if isinstance(step, plans.Weight) else str(NAMES[step.kind])


def _planned(plan: plans.Plan, cell: plans.StripCell) -> str:
    """What a step that has not begun will do, in a few words."""
    step = plan.steps[cell.first]
    match step:
        case plans.Scan():
            return _("files and formats")
        case plans.Deploy(replicas=int(replicas)):
            return ngettext("%(number)s worker", "%(number)s workers", replicas) % {"number": replicas}
        case plans.Deploy(share_percent=100):
            return _("as many as stable")
        case plans.Deploy(share_percent=int(percent)):
            return _("%(percent)s%% of stable's workers") % {"percent": percent}
        case plans.SmokeTest(requests=requests):
            return ngettext("%(number)s request", "%(number)s requests", requests) % {"number": requests}
        case plans.Weight():
            hold = plan.steps[cell.last]
            if isinstance(hold, plans.Hold):
                return _("hold %(duration)s") % {"duration": plans.duration(hold.seconds)}
            return _("of the traffic")
        case plans.Hold(seconds=seconds):
            return plans.duration(seconds)
        case plans.Judge(on_insufficient="wait"):
            return _("until passed")
        case plans.Judge(at_most_seconds=seconds):
            return _("at most %(duration)s") % {"duration": plans.duration(seconds)}
        case plans.Approval(when="always"):
            return _by_role(step)
        case plans.Approval():
            return _("%(by)s, unless passed") % {"by": _by_role(step)}
        case plans.Promote():
            return _("all traffic")
        case _:
            return ""


def _by_role(step: plans.Approval) -> str:
    return _("by an admin") if step.role == "admin" else _("by an approver")


def _found(
    release: Release,
    plan: plans.Plan,
    cell: plans.StripCell,
    rows: Sequence[ReleaseStep],
    state: str,
) -> str:
    """What a step that has begun did, or does, in a few words."""
    if state == StepState.NOT_RUN:
        return ""
    step = plan.steps[cell.first]
    is_over = state == StepState.DONE or state in CUT_SHORT
    known: Mapping[str, Any] = rows[cell.last].detail if is_over else release.progress
    match step:
        case plans.Scan():
            return (
                ngettext("%(number)s file", "%(number)s files", release.version.file_count)
                % {"number": formats.count(release.version.file_count)}
                if is_over
                else ""
            )
        case plans.Deploy() if "wanted" in known:
            return _("%(ready)s of %(wanted)s ready") % {
                "ready": known.get("ready", 0),
                "wanted": known["wanted"],
            }
        case plans.SmokeTest(requests=requests):
            good = sum(not probe["fault"] for probe in known.get("probes", []))
            return _("%(good)s of %(requests)s answered") % {"good": good, "requests": requests}
        case plans.Weight(percent=percent):
            return _observed(release, plan, rows, cell.first, percent)
        case plans.Judge() if verdict := selectors.verdict_of(release):
            # Judging goes on after the step: the strip says what the verdict says now, as the page does.
            return str(badge_of("verdict", verdict.decision).word).lower()
        case plans.Approval() if state == "waiting":
            return _by_role(step)
        case _:
            return ""


def _observed(
    release: Release, plan: plans.Plan, rows: Sequence[ReleaseStep], first: int, percent: int
) -> str:
    """The split as last measured at this weight, in whichever step that was: a hold or an analysis."""
    later = [i for i in range(first + 1, len(rows)) if isinstance(plan.steps[i], plans.Weight)]
    last = min(later, default=len(rows)) - 1
    measures = [row.detail for row in rows[first : last + 1]]
    if first <= release.step_index <= last:
        measures.append(release.progress)
    for measure in reversed(measures):
        if selectors.is_measured_at(measure, percent) and measure.get("observed_percent") is not None:
            return _("%(percent)s%% observed") % {"percent": f"{measure['observed_percent']:.1f}"}
    is_at_hand = release.in_motion and first <= release.step_index <= last
    return _("not measured yet") if is_at_hand else _("no requests to measure")
