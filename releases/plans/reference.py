"""The reference of plans (docs/PLANS.md), made of what the kinds of steps say of themselves."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils import translation

from releases.plans.builtin import builtin_plans
from releases.plans.plan import plan_schema
from releases.plans.step import kinds
from releases.plans.words import strip

HEAD = """\
# Release plans

Written by `manage.py plans_reference` from `releases/steps/`, a file for each kind of step. A plan is JSON:
`steps` in their order, `bake_seconds`, and `judge` for rules other than the default;
`GET /api/v1/plans/schema/` gives its JSON schema. Durations are whole seconds, shares whole percents. A field
without a default is required.

"""
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
JUDGES = {
    "judge": ("JudgeRules", ""),
    "judge.errors, judge.slow": ("IndicatorRules", ""),
    "judge.indicators.NAME": ("DeclaredRules", "indicators"),
    "judge.latencies.ROUTE": ("LatencyRules", "latencies"),
}


def reference() -> str:
    """The whole of docs/PLANS.md."""
    with translation.override("en"):
        schema = plan_schema()
        definitions = schema["$defs"]
        parts = [HEAD, "## Kinds of steps\n\n"]
        for kind, spec in kinds().items():
            fields = definitions[spec.__name__]["properties"]
            parts += [f"### `{kind}`\n\n{spec.about}\n\n", _table(fields)]
        parts.append("## Rules of the analysis\n\n")
        for path, (name, field) in JUDGES.items():
            about = definitions["JudgeRules"]["properties"][field]["description"] + "\n\n" if field else ""
            parts += [f"### `{path}`\n\n{about}", _table(definitions[name]["properties"])]
        parts.append("## Built-in plans\n\n")
        for name, plan in builtin_plans().items():
            cells = "; ".join(cell.label for cell in strip(plan))
            parts.append(f"- `{name}`: {plan.description} *{cells}.*\n")
    return "".join(parts)


def _table(fields: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        f"| `{key}` | {_values(field)} | {_default(field)} | {field.get('description', '')} |\n"
        for key, field in fields.items()
        if key != "kind" and "$ref" not in json.dumps(field)
    ]
    if not rows:
        return "No fields.\n\n"
    return "| field | values | default | meaning |\n|---|---|---|---|\n" + "".join(rows) + "\n"


def _values(field: Mapping[str, Any]) -> str:
    options = field.get("anyOf", [field])
    return " or ".join(_one(option) for option in options)


def _one(option: Mapping[str, Any]) -> str:
    if "enum" in option:
        return ", ".join(f"`{value}`" for value in option["enum"])
    bounds = [f"{sign} {option[key]:.10g}" for key, sign in BOUNDS.items() if key in option]
    return " ".join([option["type"], *bounds])


def _default(field: Mapping[str, Any]) -> str:
    return f"`{json.dumps(field['default'])}`" if "default" in field else ""
