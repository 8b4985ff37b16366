"""The plan editor: a plan as a form and back, with every problem at the field that it belongs to. Pure.

The fields come from the plan's JSON schema, so that the form can say all that a plan can, and nothing else.
Names of fields are paths in the plan: `steps.2.percent`, `judge.slow.promote_below_ratio`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from django.utils.translation import gettext as _

from releases.errors import InvalidPlan, PlanProblem
from releases.pages.plan_document import MOST_STEPS, OBJECTIVE, OF_SERVICE, document_of
from releases.pages.plan_fields import PlanFieldSchema, definitions, shapes_in, shapes_of
from releases.plans.plan import PlanSpec, parse_plan, plan_schema
from releases.plans.step import kinds, kinds_with


@dataclass(frozen=True, slots=True)
class FormField:
    """A shape at its place, with what was typed there and what is wrong with that."""

    path: str
    shape: PlanFieldSchema
    value: Any
    problems: Sequence[str]
    rules: str = ""
    """Of a list of names: the rules of each, as JSON."""

    @property
    def id(self) -> str:
        return self.path.replace(".", "-").replace("_", "-")

    @property
    def label(self) -> str:
        return _(self.shape.label)

    @property
    def help(self) -> str:
        return _(self.shape.help) if self.shape.help else ""

    @property
    def words(self) -> str:
        """The value as a page without a form says it."""
        match self.value:
            case bool():
                return _("yes") if self.value else _("no")
            case str() if self.shape.kind == "choice":
                return _(self.shape.choices.get(self.value, self.value))
            case _:
                return str(self.value)

    @property
    def choices(self) -> list[tuple[str, str]]:
        return [(choice, _(label)) for choice, label in self.shape.choices.items()]


@dataclass(frozen=True, slots=True)
class FormStep:
    index: int
    kind: str
    fields: Sequence[FormField]
    problems: Sequence[str]
    """Of the step as a whole: those that name no field."""
    is_last: bool

    @property
    def number(self) -> int:
        return self.index + 1

    @property
    def anchor(self) -> str:
        return f"step-{self.index}"

    @property
    def up(self) -> str:
        return f"up-{self.index}"

    @property
    def down(self) -> str:
        return f"down-{self.index}"

    @property
    def name(self) -> str:
        return _(kinds()[self.kind].label) if self.kind in kinds() else self.kind

    @property
    def icon(self) -> str:
        return kinds()[self.kind].icon if self.kind in kinds() else "circle-dot"

    @property
    def help(self) -> str:
        return kinds()[self.kind].about if self.kind in kinds() else ""


@dataclass(frozen=True)
class PlanDraft:
    """A plan under someone's hands: it need not be a plan yet."""

    document: dict[str, Any]
    problems: tuple[PlanProblem, ...] = ()
    plan: PlanSpec | None = None
    focus: str = ""
    """Id of the control that has the focus after a change of the form's shape."""
    text: str = field(default="", repr=False)
    """What was typed as JSON, as it was typed."""

    @classmethod
    def of_document(cls, document: dict[str, Any], *, focus: str = "", text: str = "") -> Self:
        try:
            return cls(document, plan=parse_plan(document), focus=focus, text=text)
        except InvalidPlan as error:
            return cls(document, problems=error.problems, focus=focus, text=text)

    @classmethod
    def of_form(cls, given: Mapping[str, str], *, name: str) -> Self:
        """Read a form and apply the wish that its button names: `up:2`, `down:2`, `remove:2`, `add`."""
        document = document_of(given, name=name)
        focus = _change(document["steps"], given)
        return cls.of_document(document, focus=focus)

    @classmethod
    def of_text(cls, text: str, *, name: str) -> Self:
        """Read what was typed as JSON. The name is not for the text to choose."""
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            message = _("line %(lineno)s, column %(colno)s: %(msg)s") % {
                "lineno": error.lineno,
                "colno": error.colno,
                "msg": error.msg,
            }
            return cls({"name": name, "steps": []}, problems=(PlanProblem("", message),), text=text)
        if not isinstance(document, dict):
            problem = PlanProblem("", _("a plan is a JSON object with the key steps"))
            return cls({"name": name, "steps": []}, problems=(problem,), text=text)
        return cls.of_document({**document, "name": name}, text=text)

    @property
    def description(self) -> FormField:
        shape = PlanFieldSchema(
            "description", _("Description"), _("When to use it."), "text", True, None, None, {}, ""
        )
        return self._field("description", shape, self.document)

    @property
    def bake(self) -> FormField:
        told = plan_schema()["properties"]["bake_seconds"]
        label = _("Bake time (s)")
        limits = told["minimum"], told["maximum"]
        shape = PlanFieldSchema("bake_seconds", label, told["description"], "integer", False, *limits, {}, 0)
        return self._field("bake_seconds", shape, self.document)

    @property
    def objective(self) -> list[FormField]:
        """Return the fields of what is watched while the promoted version bakes."""
        found = []
        for key, label in OBJECTIVE.items():
            told = plan_schema()["properties"][key]
            is_optional = told["default"] is None
            shape = PlanFieldSchema(
                key, label, told["description"], "number", is_optional, None, None, {}, told["default"]
            )
            found.append(self._field(key, shape, self.document))
        return found

    @property
    def steps(self) -> list[FormStep]:
        found = []
        steps = [step for step in self.document.get("steps", []) if isinstance(step, dict)]
        for index, step in enumerate(steps):
            kind = str(step.get("kind", ""))
            shapes = shapes_of(kind) if kind in kinds() else ()
            path = f"steps.{index}"
            fields = [self._field(f"{path}.{shape.key}", shape, step) for shape in shapes]
            known = {one.path for one in fields}
            whole = [
                problem.message
                for problem in self.problems
                if (problem.path == path or problem.path.startswith(f"{path}.")) and problem.path not in known
            ]
            found.append(FormStep(index, kind, fields, whole, is_last=index == len(steps) - 1))
        return found

    @property
    def judge(self) -> list[FormField]:
        return self._judge_fields("JudgeRules", "judge")

    @property
    def errors(self) -> list[FormField]:
        return self._judge_fields("IndicatorRules", "judge.errors")

    @property
    def slow(self) -> list[FormField]:
        return self._judge_fields("IndicatorRules", "judge.slow")

    @property
    def of_service(self) -> list[FormField]:
        """Return what else is judged, by name; rules other than the default are kept, written as JSON."""
        found = []
        for key, label in OF_SERVICE.items():
            told = definitions()["JudgeRules"]["properties"][key]
            shape = PlanFieldSchema(key, label, told["description"], "text", True, None, None, {}, "")
            rules = _at(self.document, f"judge.{key}")
            field = self._field(f"judge.{key}", shape, {})
            problems = [
                _short(problem.message)
                for problem in self.problems
                if problem.path.startswith(f"judge.{key}")
            ]
            held = rules if isinstance(rules, dict) else {}
            found.append(replace(field, value=", ".join(held), rules=json.dumps(held), problems=problems))
        return found

    @property
    def judges_slow(self) -> bool:
        return _at(self.document, "judge.slow") is not None

    @property
    def as_text(self) -> str:
        """The plan as JSON, for those who like it so; without its name, which its address says."""
        if self.text:
            return self.text
        return json.dumps({key: self.document[key] for key in self.document if key != "name"}, indent=2)

    @property
    def all_fields(self) -> list[FormField]:
        of_steps = [one for step in self.steps for one in step.fields]
        slow = self.slow if self.judges_slow else []
        return [
            self.description,
            self.bake,
            *self.objective,
            *of_steps,
            *self.judge,
            *self.errors,
            *slow,
            *self.of_service,
        ]

    def _judge_fields(self, definition: str, path: str) -> list[FormField]:
        values = _at(self.document, path)
        held = values if isinstance(values, dict) else {}
        return [self._field(f"{path}.{shape.key}", shape, held) for shape in shapes_in(definition)]

    def _field(self, path: str, shape: PlanFieldSchema, values: Mapping[str, Any]) -> FormField:
        problems = [_short(problem.message) for problem in self.problems if problem.path == path]
        return FormField(path, shape, values.get(shape.key, shape.default), problems)


def _short(message: str) -> str:
    """Without the place, which the eye is on: `step 4 (weight): percent: ...`."""
    for _turn in range(2):
        head, colon, rest = message.partition(": ")
        if colon and rest and (head.startswith("step ") or head.replace("_", "").replace(".", "").isalpha()):
            message = rest
    return message[0].upper() + message[1:]


def _change(steps: list[dict[str, Any]], given: Mapping[str, str]) -> str:
    """Carry out the wish of the pressed button; the id of what is to have the focus then."""
    wish, _, where = given.get("do", "").partition(":")
    index = int(where) if where.isascii() and where.isdigit() else -1
    if wish == "add":
        kind = given.get("add_kind", "")
        if kind in kinds() and len(steps) < MOST_STEPS:
            defaults = {shape.key: shape.default for shape in shapes_of(kind)}
            ends = bool(steps) and steps[-1]["kind"] in kinds_with("ends_plan")
            place = len(steps) - 1 if ends else len(steps)
            steps.insert(place, {"kind": kind, **defaults, **kinds()[kind].start})
            return f"step-{place}"
    elif not 0 <= index < len(steps):
        return ""
    elif wish == "remove":
        del steps[index]
        return f"step-{min(index, len(steps) - 1)}" if steps else "add-kind"
    elif wish in ("up", "down"):
        place = index - 1 if wish == "up" else index + 1
        if 0 <= place < len(steps):
            steps[index], steps[place] = steps[place], steps[index]
        return f"{wish}-{place}"
    return ""


def _at(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
