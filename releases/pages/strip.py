"""A release, or a plan, as a strip of steps."""

from collections.abc import Mapping, Sequence
from typing import Any

from common.pages import formats
from common.pages.steps import StepView
from releases import plans
from releases.models import Release, ReleaseStep
from releases.states import ReleaseState, StepState

NAMES = {
    "scan": "Scan",
    "deploy": "Deploy",
    "smoke_test": "Smoke test",
    "hold": "Hold",
    "judge": "Judge",
    "approval": "Approval",
    "promote": "Promote",
}


def strip_of_plan(plan: plans.Plan) -> list[StepView]:
    """The plan before anything has happened."""
    return [
        StepView(step.kind, _name(step), "pending", _wish(plan, cell))
        for cell in plans.strip(plan)
        for step in [plan.steps[cell.first]]
    ]


def strip_of(release: Release, plan: plans.Plan, rows: Sequence[ReleaseStep]) -> list[StepView]:
    """The release's plan as it went so far. `rows`: its steps, in order."""
    return [
        _cell(release, plan, cell, rows[cell.first : cell.last + 1])
        for cell in plans.strip(plan)
        if cell.last < len(rows)
    ]


def _cell(release: Release, plan: plans.Plan, cell: plans.StripCell, rows: Sequence[ReleaseStep]) -> StepView:
    step = plan.steps[cell.first]
    last = rows[-1]
    state = _state(release, rows)
    return StepView(
        kind=step.kind,
        name=_name(step),
        state=state,
        detail=_wish(plan, cell) if state == "pending" else _told(release, step, rows, state),
        began_at=rows[0].started_at,
        ended_at=last.ended_at if state in (StepState.DONE, StepState.FAILED, StepState.SKIPPED) else None,
        actor=last.actor if step.kind == "approval" and state != StepState.SKIPPED else "",
    )


def _state(release: Release, rows: Sequence[ReleaseStep]) -> str:
    states = {row.state for row in rows}
    if StepState.FAILED in states:
        return StepState.FAILED
    if states <= {StepState.DONE}:
        return StepState.DONE
    if StepState.SKIPPED in states:
        return StepState.SKIPPED
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
    return f"{step.percent}%" if isinstance(step, plans.Weight) else NAMES[step.kind]


def _wish(plan: plans.Plan, cell: plans.StripCell) -> str:
    """What a step that has not begun will do, in a few words."""
    step = plan.steps[cell.first]
    match step:
        case plans.Scan():
            return "files and formats"
        case plans.Deploy(replicas=int(replicas)):
            return f"{replicas} worker{'' if replicas == 1 else 's'}"
        case plans.Deploy(share_percent=int(percent)):
            return "as many as stable" if percent == 100 else f"{percent}% of stable's workers"
        case plans.SmokeTest(requests=requests):
            return f"{requests} request{'' if requests == 1 else 's'}"
        case plans.Weight():
            hold = plan.steps[cell.last]
            return (
                f"hold {plans.duration(hold.seconds)}" if isinstance(hold, plans.Hold) else "of the traffic"
            )
        case plans.Hold(seconds=seconds):
            return plans.duration(seconds)
        case plans.Judge(on_insufficient="wait"):
            return "until certified"
        case plans.Judge(at_most_seconds=seconds):
            return f"at most {plans.duration(seconds)}"
        case plans.Approval(role=role, when="always"):
            return f"by an {role}"
        case plans.Approval(role=role):
            return f"by an {role}, unless certified"
        case plans.Promote():
            return "all traffic"
        case _:
            return ""


def _told(release: Release, step: plans.Step, rows: Sequence[ReleaseStep], state: str) -> str:
    """What a step that has begun did, or does, in a few words."""
    if state == StepState.SKIPPED:
        return ""
    is_over = state in (StepState.DONE, StepState.FAILED)
    known: Mapping[str, Any] = rows[-1].detail if is_over else release.progress
    match step:
        case plans.Scan():
            return f"{formats.count(release.version.file_count)} files" if is_over else ""
        case plans.Deploy() if "wanted" in known:
            return f"{known.get('ready', 0)} of {known['wanted']} ready"
        case plans.SmokeTest(requests=requests):
            good = sum(not probe["fault"] for probe in known.get("probes", []))
            return f"{good} of {requests} answered"
        case plans.Weight() | plans.Hold():
            observed = known.get("observed_percent")
            return f"{observed:.1f}% observed" if observed is not None else "not measured yet"
        case plans.Judge():
            decision = known.get("verdict", {}).get("decision")
            return {"promote": "certified", "insufficient": "not sure yet", "roll_back": "worse"}.get(
                decision, ""
            )
        case plans.Approval() if state == "waiting":
            return f"by an {step.role}"
        case _:
            return ""
