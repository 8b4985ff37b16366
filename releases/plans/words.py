"""Plans in words: durations, the cells of a strip, what a change of a plan changes."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel

from releases.plans.plan import PlanSpec
from releases.plans.step import StepSpec


@dataclass(frozen=True, slots=True)
class StripCell:
    """A cell of the strip: a step, or two that belong together."""

    first: int
    last: int
    """Indices of its steps in the plan, both included."""
    label: str
    detail: str
    """What it will do, below its name."""


def strip(plan: PlanSpec) -> tuple[StripCell, ...]:
    """The plan as cells from left to right; a weight and its hold share one: "5 % for 60 s"."""
    cells: list[StripCell] = []
    for index, step in enumerate(plan.steps):
        joined = step.joined(plan.steps[index - 1]) if index else None
        if joined is None:
            cells.append(StripCell(index, index, step.spoken(), step.planned()))
        else:
            cells[-1] = StripCell(index - 1, index, *joined)
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


def diff(before: PlanSpec, after: PlanSpec) -> tuple[str, ...]:
    """Say what changed, one sentence each, in the order of the plan; empty for equal plans."""
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
class _PlanChange:
    field: str
    """By its keys in the document."""
    new: str
    old: str

    @property
    def words(self) -> dict[str, str]:
        return {"field": self.field, "new": self.new, "old": self.old}


def _changed_steps(before: Sequence[StepSpec], after: Sequence[StepSpec]) -> list[str]:
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
            _("removed step %(number)s: %(step)s") % {"number": i + 1, "step": before[i].spoken()}
            for i in range(old_start, old_end)
        ]
        told += [
            _("added step %(number)s: %(step)s") % {"number": i + 1, "step": after[i].spoken()}
            for i in range(new_start, new_end)
        ]
    return told


def _changes(before: BaseModel, after: BaseModel, prefix: str = "") -> Iterator[_PlanChange]:
    for field in type(after).model_fields:
        old, new = getattr(before, field), getattr(after, field)
        if old == new:
            continue
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from _changes(old, new, f"{prefix}{field} ")
        elif isinstance(old, BaseModel) or isinstance(new, BaseModel):
            on, off = _("on"), _("off")
            yield _PlanChange(f"{prefix}{field}", off if new is None else on, off if old is None else on)
        else:
            yield _PlanChange(f"{prefix}{field}", _value(new), _value(old))


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
