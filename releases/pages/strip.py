"""A release, or a plan, as a strip of steps."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from common.pages.steps import StepView
from releases.judge.words import noun_of
from releases.models import Release, ReleaseStep
from releases.plans.plan import PlanSpec
from releases.plans.words import StripCell, strip
from releases.progress import StepProgress
from releases.selectors.releases import verdict_of
from releases.states import ReleaseState, StepState

CUT_SHORT = (StepState.FAILED, StepState.ABORTED, StepState.REJECTED)


def strip_of_plan(plan: PlanSpec) -> list[StepView]:
    """The plan before anything has happened."""
    return [
        StepView(step.icon, step.name(), "pending", cell.detail)
        for cell in strip(plan)
        for step in [plan.steps[cell.first]]
    ]


def strip_of(release: Release, plan: PlanSpec, rows: Sequence[ReleaseStep]) -> list[StepView]:
    """The release's plan as it went so far. `rows`: its steps, in order."""
    return [_cell(release, plan, cell, rows) for cell in strip(plan) if cell.last < len(rows)]


def _cell(release: Release, plan: PlanSpec, cell: StripCell, all_rows: Sequence[ReleaseStep]) -> StepView:
    step = plan.steps[cell.first]
    rows = all_rows[cell.first : cell.last + 1]
    state = _state(release, rows)
    is_over = state == StepState.DONE or state in CUT_SHORT
    known = rows[-1].detail if is_over else release.progress
    progress = StepProgress(release, plan, cell.first, all_rows, state, is_over, known)
    match state:
        case StepState.PENDING:
            detail = cell.detail
        case StepState.NOT_RUN:
            detail = ""
        case _ if state in CUT_SHORT and (why := cut_short_reason(release)):
            detail = why
        case _:
            detail = step.found(progress)
    ended_at = None
    if is_over:
        ended_at = max((row.ended_at for row in rows if row.ended_at), default=release.ended_at)
    return StepView(
        icon=step.icon,
        name=step.name(),
        state=state,
        detail=detail,
        began_at=rows[0].started_at,
        ended_at=ended_at,
        actor=rows[-1].actor if step.approval is not None and ended_at else "",
        note=str(rows[-1].told),
    )


def cut_short_reason(release: Release) -> str:
    """`5xx 30 / 100`, where the analysis has ended it; empty elsewhere: the step says how far it came."""
    verdict = verdict_of(release)
    if verdict is None or verdict.culprit is None:
        return ""
    bad = next(one.candidate for one in verdict.indicators if one.name == verdict.culprit)
    what = {"errors": _("5xx"), "slow": _("slow")}.get(verdict.culprit) or noun_of(verdict.culprit)
    return f"{what} {bad.bad:,} / {bad.requests:,}"


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
