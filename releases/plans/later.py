"""Plans that a newer release of Slipway wrote, read by this one while both run: what it does not know is left
to processes that do.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from django.utils.translation import gettext as _
from pydantic import ConfigDict, ValidationError

from common.reconcile import NotKnownHere
from releases.errors import InvalidPlan, PlanProblem
from releases.judge.rules import JudgeRules
from releases.plans.plan import PlanSpec, parse_plan
from releases.plans.step import StepSpec, kinds


class LaterStep(StepSpec):
    """A step of a kind, or with a field, that this release does not know."""

    model_config = ConfigDict(frozen=True, extra="allow")

    label = ""

    def name(self) -> str:
        return self.kind

    def summary(self) -> str:
        return _("%(kind)s, of a newer release of Slipway") % {"kind": self.kind}

    def executor(self) -> NoReturn:
        raise NotKnownHere.step(self.kind)


def stored_plan(document: Mapping[str, Any]) -> PlanSpec:
    """Return a plan that was checked when it was stored. Steps that are not known here are `LaterStep`s: all
    of them, when what is said beside the steps is not known.
    """
    try:
        return parse_plan(document)
    except InvalidPlan:
        beside = {key: value for key, value in document.items() if key not in ("steps", "judge")}
        try:
            judge, is_known = JudgeRules.model_validate(document.get("judge", {})), True
        except ValidationError:
            judge, is_known = JudgeRules(), False
        is_known = is_known and beside.keys() <= PlanSpec.model_fields.keys()
        steps = [_step(one) if is_known else LaterStep(**one) for one in document["steps"]]
        shown = {key: value for key, value in beside.items() if key in PlanSpec.model_fields}
        return PlanSpec.model_construct(**shown, judge=judge, steps=tuple(steps))


def refuse_later(plan: PlanSpec) -> None:
    """Refuse it before a release begins with it. Raises InvalidPlan."""
    later = [step for step in plan.steps if isinstance(step, LaterStep)]
    if later:
        words = _(
            "The plan has steps of a newer release of Slipway (%(kinds)s), which this process does not know. "
            "Try again when the upgrade is over."
        )
        kinds = ", ".join(dict.fromkeys(step.kind for step in later))
        raise InvalidPlan((PlanProblem("steps", words % {"kinds": kinds}),))


def _step(document: Mapping[str, Any]) -> StepSpec:
    known = kinds().get(document["kind"])
    try:
        return known.model_validate(document) if known else LaterStep(**document)
    except ValidationError:
        return LaterStep(**document)
