"""Plans in words: for the strip of steps, for the review of a change."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
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
            return _("deploy %(step)s") % {"step": _workers(step)}
        case SmokeTest():
            within = (
                _(" under %(max_latency_ms)s ms") % {"max_latency_ms": step.max_latency_ms}
                if step.max_latency_ms is not None
                else ""
            )
            return _("smoke test: %(request)s%(within)s") % {
                "request": _count(step.requests, "request"),
                "within": within,
            }
        case Weight():
            return f"{step.percent} %"
        case Hold():
            return duration(step.seconds)
        case Judge():
            return f"judge, {_judge_limit(step)}"
        case Approval():
            return _("approval by %(role)s%(rest)s") % {
                "role": _article(step.role),
                "rest": ", unless certified" if step.when != "always" else "",
            }
        case Promote():
            return "promote"


def strip(plan: Plan) -> tuple[StripCell, ...]:
    """The plan as cells from left to right; a weight and its hold share one: "5 % for 60 s"."""
    cells: list[StripCell] = []
    for index, step in enumerate(plan.steps):
        before = plan.steps[index - 1] if index else None
        if isinstance(step, Hold) and isinstance(before, Weight):
            cells[-1] = StripCell(
                index - 1,
                index,
                _("%(before)s for %(step)s") % {"before": summary(before), "step": summary(step)},
            )
        elif isinstance(step, Hold):
            cells.append(StripCell(index, index, _("hold for %(step)s") % {"step": summary(step)}))
        else:
            cells.append(StripCell(index, index, summary(step)))
    return tuple(cells)


def duration(seconds: int) -> str:
    """Whole seconds as people say them: "60 s", "5 min", "1 h 30 min", "2 days"."""
    if seconds < 120:
        return f"{seconds} s"
    parts = []
    rest = seconds
    for size, one, many in ((86400, "day", "days"), (3600, "h", "h"), (60, "min", "min"), (1, "s", "s")):
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {one if number == 1 else many}")
    return " ".join(parts)


def diff(before: Plan, after: Plan) -> tuple[str, ...]:
    """What changed, one sentence each, in the order of the plan; empty for equal plans."""
    told = [
        _("%(field)s: %(field_2)s instead of %(field_3)s")
        % {
            "field": field,
            "field_2": _value(getattr(after, field)),
            "field_3": _value(getattr(before, field)),
        }
        for field in ("name", "description", "bake_seconds")
        if getattr(before, field) != getattr(after, field)
    ]
    told += _changed_steps(before.steps, after.steps)
    told += [f"judge: {change}" for change in _changed_fields(before.judge, after.judge)]
    return tuple(told)


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
                    _("step %(number)s (%(kind)s): %(change)s")
                    % {"number": number, "kind": new.kind, "change": change}
                    for change in _changed_fields(old, new)
                ]
            continue
        told += [
            _("removed step %(i)s: %(i_2)s") % {"i": i + 1, "i_2": _spoken(before[i])}
            for i in range(old_start, old_end)
        ]
        told += [
            _("added step %(i)s: %(i_2)s") % {"i": i + 1, "i_2": _spoken(after[i])}
            for i in range(new_start, new_end)
        ]
    return told


def _changed_fields(before: BaseModel | None, after: BaseModel | None, prefix: str = "") -> list[str]:
    if before is None or after is None:
        return [] if before is after else [f"{prefix}{'off' if after is None else 'on'}"]
    told = []
    for field in type(after).model_fields:
        old, new = getattr(before, field), getattr(after, field)
        if old == new:
            continue
        if isinstance(old, BaseModel) or isinstance(new, BaseModel):
            told += _changed_fields(old, new, f"{prefix}{field} ")
        else:
            told.append(
                _("%(prefix)s%(field)s %(new)s instead of %(old)s")
                % {"prefix": prefix, "field": field, "new": _value(new), "old": _value(old)}
            )
    return told


def _spoken(step: Step) -> str:
    words = summary(step)
    if isinstance(step, Weight):
        return _("weight %(words)s") % {"words": words}
    return _("hold for %(words)s") % {"words": words} if isinstance(step, Hold) else words


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f'"{value}"' if value == "" or " " in str(value) else str(value)


def _workers(step: Deploy) -> str:
    if step.replicas is not None:
        return _count(step.replicas, "worker")
    return (
        _("as many workers as stable")
        if step.share_percent == 100
        else _("%(share_percent)s %% of the workers") % {"share_percent": step.share_percent}
    )


def _judge_limit(step: Judge) -> str:
    if step.on_insufficient == "wait":
        return _("until certified")
    then = {"ask": "ask", "promote": _("go on"), "roll_back": _("roll back")}[step.on_insufficient]
    return _("at most %(at_most_seconds)s, else %(then)s") % {
        "at_most_seconds": duration(step.at_most_seconds),
        "then": then,
    }


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
