"""Plans in words: for the strip of steps, for the review of a change."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel

from releases.plans.plan import Plan
from releases.plans.steps import Approval, Deploy, Hold, Judge, Promote, Scan, SmokeTest, Step, Weight


@dataclass(frozen=True, slots=True)
class StripCell:
    """One cell of the strip: a step, or a weight with the hold that follows it."""

    first: int
    last: int
    """Indices of its steps in the plan, both included."""
    label: str


def summary(step: Step) -> str:
    """One step in a few words: "5 %", "60 s", "approval by an approver"."""
    match step:
        case Scan():
            return _("scan the files")
        case Deploy():
            return _deploy(step)
        case SmokeTest():
            return _smoke_test(step)
        case Weight():
            return f"{step.percent} %"
        case Hold():
            return duration(step.seconds)
        case Judge():
            return _judge(step)
        case Approval():
            return _approval(step)
        case Promote():
            return _("promote")


def strip(plan: Plan) -> tuple[StripCell, ...]:
    """The plan as cells from left to right; a weight and its hold share one: "5 % for 60 s"."""
    cells: list[StripCell] = []
    for index, step in enumerate(plan.steps):
        before = plan.steps[index - 1] if index else None
        if isinstance(step, Hold) and isinstance(before, Weight):
            words = {"percent": before.percent, "duration": duration(step.seconds)}
            cells[-1] = StripCell(index - 1, index, _("%(percent)s %% for %(duration)s") % words)
        elif isinstance(step, Hold):
            cells.append(StripCell(index, index, _spoken(step)))
        else:
            cells.append(StripCell(index, index, summary(step)))
    return tuple(cells)


def duration(seconds: int) -> str:
    """Whole seconds as people say them: "60 s", "5 min", "1 h 30 min", "2 days"."""
    if seconds < 120:
        return _("%(number)s s") % {"number": seconds}
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = (
        (days, ngettext("%(number)s day", "%(number)s days", days)),
        (hours, _("%(number)s h")),
        (minutes, _("%(number)s min")),
        (rest, _("%(number)s s")),
    )
    return " ".join(words % {"number": number} for number, words in parts if number)


def diff(before: Plan, after: Plan) -> tuple[str, ...]:
    """What changed, one sentence each, in the order of the plan; empty for equal plans."""
    told = [
        _("%(field)s: %(new)s instead of %(old)s")
        % {"field": field, "new": _value(getattr(after, field)), "old": _value(getattr(before, field))}
        for field in ("name", "description", "bake_seconds")
        if getattr(before, field) != getattr(after, field)
    ]
    told += _changed_steps(before.steps, after.steps)
    told += [
        _("judge: %(field)s %(new)s instead of %(old)s") % change.words
        for change in _changes(before.judge, after.judge)
    ]
    return tuple(told)


@dataclass(frozen=True, slots=True)
class _Change:
    field: str
    """By its keys in the document."""
    new: str
    old: str

    @property
    def words(self) -> dict[str, str]:
        return {"field": self.field, "new": self.new, "old": self.old}


def _changed_steps(before: Sequence[Step], after: Sequence[Step]) -> list[str]:
    told: list[str] = []
    # Aligned by kind, so that a step with another figure is told as changed, not as removed and added.
    matcher = difflib.SequenceMatcher(None, [s.kind for s in before], [s.kind for s in after], autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            for old, new, number in zip(
                before[old_start:old_end],
                after[new_start:new_end],
                range(new_start + 1, new_end + 1),
                strict=True,
            ):
                told += [
                    _("step %(number)s (%(kind)s): %(field)s %(new)s instead of %(old)s")
                    % {"number": number, "kind": new.kind, **change.words}
                    for change in _changes(old, new)
                ]
            continue
        told += [
            _("removed step %(number)s: %(step)s") % {"number": i + 1, "step": _spoken(before[i])}
            for i in range(old_start, old_end)
        ]
        told += [
            _("added step %(number)s: %(step)s") % {"number": i + 1, "step": _spoken(after[i])}
            for i in range(new_start, new_end)
        ]
    return told


def _changes(before: BaseModel, after: BaseModel, prefix: str = "") -> Iterator[_Change]:
    for field in type(after).model_fields:
        old, new = getattr(before, field), getattr(after, field)
        if old == new:
            continue
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from _changes(old, new, f"{prefix}{field} ")
        elif isinstance(old, BaseModel) or isinstance(new, BaseModel):
            on, off = _("on"), _("off")
            yield _Change(f"{prefix}{field}", off if new is None else on, off if old is None else on)
        else:
            yield _Change(f"{prefix}{field}", _value(new), _value(old))


def _spoken(step: Step) -> str:
    """One step where nothing beside it says of which kind it is."""
    if isinstance(step, Weight):
        return _("weight %(percent)s %%") % {"percent": step.percent}
    if isinstance(step, Hold):
        return _("hold for %(duration)s") % {"duration": duration(step.seconds)}
    return summary(step)


def _value(value: Any) -> str:
    match value:
        case None:
            return _("none")
        case bool():
            return _("yes") if value else _("no")
        case float():
            return f"{value:g}"
    text = str(value)
    return f'"{text}"' if not text or " " in text else text


def _deploy(step: Deploy) -> str:
    if step.replicas is not None:
        words = ngettext("deploy %(number)s worker", "deploy %(number)s workers", step.replicas)
        return words % {"number": f"{step.replicas:,}"}
    if step.share_percent == 100:
        return _("deploy as many workers as stable")
    return _("deploy %(percent)s %% of the workers") % {"percent": step.share_percent}


def _smoke_test(step: SmokeTest) -> str:
    if step.max_latency_ms is None:
        words = ngettext("smoke test: %(number)s request", "smoke test: %(number)s requests", step.requests)
    else:
        words = ngettext(
            "smoke test: %(number)s request under %(limit)s ms",
            "smoke test: %(number)s requests under %(limit)s ms",
            step.requests,
        )
    return words % {"number": f"{step.requests:,}", "limit": step.max_latency_ms}


def _judge(step: Judge) -> str:
    within = {"duration": duration(step.at_most_seconds)}
    match step.on_insufficient:
        case "wait":
            return _("analysis until passed")
        case "ask":
            return _("analysis for at most %(duration)s; if inconclusive: require approval") % within
        case "promote":
            return _("analysis for at most %(duration)s; if inconclusive: continue") % within
        case "roll_back":
            return _("analysis for at most %(duration)s; if inconclusive: roll back") % within


def _approval(step: Approval) -> str:
    if step.when == "always":
        return _("approval by an admin") if step.role == "admin" else _("approval by an approver")
    if step.role == "admin":
        return _("approval by an admin, unless passed")
    return _("approval by an approver, unless passed")
