"""Release plans as frozen data: parsed, checked, named by their content. Pure: no clock, no I/O.

Which kinds of steps there are say the files of `releases.steps`.
"""

import hashlib
import json
from typing import Annotated, Any, Literal, Self

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import ErrorDetails

from releases.errors import InvalidPlan, PlanProblem
from releases.judge.rules import JudgeRules
from releases.plans.sequence import sequence_problems
from releases.plans.step import AnyStep, StepSpec, kinds


class _Unworkable(ValueError):
    """Carries every problem of a sequence of steps through pydantic."""

    def __init__(self, problems: tuple[PlanProblem, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problem.message for problem in problems))


class PlanSpec(BaseModel):
    """Steps from nothing to all of the traffic; a release keeps the plan it began with."""

    # Built when the first plan is read: by then all kinds of steps are known.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    format: Literal[1] = Field(default=1, description=_("The version of this document's shape."))
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] = Field(
        description=_("Lower-case letters, digits and hyphens.")
    )
    description: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""
    steps: Annotated[tuple[Annotated[StepSpec, AnyStep], ...], Field(min_length=1, max_length=50)]
    bake_seconds: Annotated[int, Field(strict=True, ge=0, le=24 * 3600)] = Field(
        default=0,
        description=_(
            "How long the workers of the version before stay up after the promotion, without traffic: a "
            "rollback within it moves only the weight. 0 = they stop at once."
        ),
    )
    bake_objective_percent: Annotated[float, Field(ge=50, lt=100, allow_inf_nan=False)] | None = Field(
        default=None,
        description=_(
            "The service's objective: the share of answers that must be no 5xx. While the promoted version "
            "bakes, errors that use up the rest too fast roll it back. Empty: only people do."
        ),
    )
    bake_burn_rate: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = Field(
        default=14.4,
        description=_(
            "How many times as fast as allowed the error budget may be used, over five minutes and over the "
            "latest minute."
        ),
    )
    judge: JudgeRules = Field(
        default=JudgeRules(),
        description=(
            _(
                "Judging goes on from the first weight to the promotion, in holds and approvals too, "
                "so a plan has one set of rules."
            )
        ),
    )

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what plans of the release before do not know, so that their hashes stay."""
        document: dict[str, Any] = write(self)
        if self.bake_objective_percent is None:
            del document["bake_objective_percent"], document["bake_burn_rate"]
        return document

    @model_validator(mode="after")
    def _burns_within_a_bake(self) -> Self:
        if self.bake_objective_percent is not None and not self.bake_seconds:
            raise ValueError(
                gettext("bake_objective_percent needs bake_seconds: nothing is watched after it")
            )
        return self

    @model_validator(mode="after")
    def _steps_fit_together(self) -> Self:
        problems = sequence_problems(self.steps)
        if problems:
            raise _Unworkable(problems)
        return self


def parse_plan(document: object) -> PlanSpec:
    """The plan in `document`: a mapping as read from JSON, or JSON text.

    Raises InvalidPlan with every problem found and where it is.
    """
    try:
        if isinstance(document, str | bytes):
            return PlanSpec.model_validate_json(document)
        return PlanSpec.model_validate(document)
    except ValidationError as error:
        raise InvalidPlan(_problems(error)) from None


def canonical_json(plan: PlanSpec) -> str:
    """The one way to write this plan: every field, sorted keys, no spaces. Store this text beside its hash.

    Later software may know more fields: the stored text, not the plan parsed again, is what was hashed.
    """
    return json.dumps(plan.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def plan_hash(plan: PlanSpec) -> str:
    """Return the sha256 of the canonical JSON in hexadecimal: two plans with one hash do the same."""
    return hashlib.sha256(canonical_json(plan).encode()).hexdigest()


def plan_schema(*, ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
    """JSON Schema (2020-12) of a plan, for the browser's editor and, with its own `ref_template`, OpenAPI."""
    return PlanSpec.model_json_schema(ref_template=ref_template)


def _problems(error: ValidationError) -> tuple[PlanProblem, ...]:
    problems: list[PlanProblem] = []
    for detail in error.errors(include_url=False):
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, _Unworkable):
            problems.extend(cause.problems)
        elif detail["loc"] != ("steps",) or not detail["input"]:
            where = _where(detail["loc"])
            problems.append(PlanProblem(".".join(where), _spoken(where, detail["loc"], _message(detail))))
    return tuple(problems)


def _message(detail: ErrorDetails) -> str:
    if detail["type"] == "union_tag_invalid":
        return gettext("There is no such kind. Known: %(known)s.") % {"known": ", ".join(kinds())}
    if detail["type"] == "extra_forbidden" and (fields := _fields_beside(detail["loc"])):
        return gettext("There is no such field. Known: %(known)s.") % {"known": ", ".join(fields)}
    return detail["msg"].removeprefix("Value error, ")


def _fields_beside(location: tuple[int | str, ...]) -> list[str]:
    """Return the fields of the plan, or of the step, that the location is in; empty: it is in neither."""
    match location:
        case (_,):
            return list(PlanSpec.model_fields)
        case ("steps", int(), str() as kind, _) if kind in kinds():
            return list(kinds()[kind].model_fields)
    return []


def _where(location: tuple[int | str, ...]) -> tuple[str, ...]:
    """The path in the document: pydantic puts the kind of a step between its number and its field."""
    in_step = location[:1] == ("steps",) and len(location) > 2
    tagged = in_step and location[2] in kinds()
    return tuple(str(part) for i, part in enumerate(location) if not (tagged and i == 2))


def _spoken(where: tuple[str, ...], location: tuple[int | str, ...], message: str) -> str:
    is_step = where[:1] == ("steps",) and len(where) > 1
    field = ".".join(where[2:] if is_step else where)
    told = f"{field}: {message}" if field else message
    if not is_step:
        return told
    words = {"number": int(where[1]) + 1, "message": told}
    if len(location) > 2 and location[2] in kinds():
        return gettext("step %(number)s (%(kind)s): %(message)s") % {**words, "kind": location[2]}
    return gettext("step %(number)s: %(message)s") % words
