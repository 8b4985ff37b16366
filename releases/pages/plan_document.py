"""The document of a plan as its form has it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_noop

from releases.pages.plan_fields import PlanFieldSchema, shapes_in, shapes_of
from releases.plans.step import kinds

MOST_STEPS = 50


OF_SERVICE = {
    "indicators": gettext_noop("Indicators of the service"),
    "latencies": gettext_noop("Latency of routes"),
}


OBJECTIVE = {
    "bake_objective_percent": gettext_noop("Objective (% without 5xx)"),
    "bake_burn_rate": gettext_noop("Roll back above burn rate"),
}


def document_of(given: Mapping[str, str], *, name: str) -> dict[str, Any]:
    """The plan's document as the form has it; what cannot be read stays as it was typed, to be refused."""
    steps: list[dict[str, Any]] = []
    for index in range(MOST_STEPS + 1):
        kind = given.get(f"steps.{index}.kind")
        if kind is None:
            break
        if kind in kinds():
            read = _read(given, f"steps.{index}", shapes_of(kind))
            steps.append({"kind": kind, **read})
    judge = _read(given, "judge", shapes_in("JudgeRules"))
    judge["errors"] = _read(given, "judge.errors", shapes_in("IndicatorRules"))
    judge |= {key: _rules_of_service(given, key) for key in OF_SERVICE}
    judge["slow"] = (
        _read(given, "judge.slow", shapes_in("IndicatorRules")) if given.get("judge.slow") else None
    )
    return {
        "format": 1,
        "name": name,
        "description": given.get("description", ""),
        "bake_seconds": _whole(given.get("bake_seconds", "").strip()),
        **{key: _number(given[key].strip()) for key in OBJECTIVE if given.get(key, "").strip()},
        "steps": steps,
        "judge": judge,
    }


def _rules_of_service(given: Mapping[str, str], key: str) -> dict[str, Any]:
    try:
        held = json.loads(given.get(f"judge.{key}.rules") or "{}")
    except ValueError:
        held = {}
    names = [name.strip() for name in given.get(f"judge.{key}", "").split(",")]
    return {name: held.get(name, {}) if isinstance(held, dict) else {} for name in names if name}


def _number(text: str) -> float | str:
    """Return a number, or the text as it was typed, to be refused."""
    try:
        return float(text)
    except ValueError:
        return text


def _whole(text: str) -> int | str:
    """Return a number, or the text as it was typed, to be refused."""
    return int(text) if text.isascii() and text.isdigit() else text or 0


def _read(given: Mapping[str, str], path: str, shapes: Sequence[PlanFieldSchema]) -> dict[str, Any]:
    return {shape.key: _value(given, f"{path}.{shape.key}", shape) for shape in shapes}


def _value(given: Mapping[str, str], path: str, shape: PlanFieldSchema) -> Any:
    if shape.kind == "flag":
        return path in given
    text = given.get(path, "").strip()
    if shape.kind in ("integer", "number"):
        if not text:
            return None
        try:
            return int(text) if shape.kind == "integer" else float(text)
        except ValueError:
            return text
    return text
