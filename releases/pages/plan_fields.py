"""Fields of the steps and of the judge of a plan, as its JSON schema describes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from releases.plans.plan import plan_schema
from releases.plans.step import kinds

FieldKind = Literal["integer", "number", "flag", "choice", "text"]
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class PlanFieldSchema:
    """A field of the schema."""

    key: str
    label: str
    help: str
    kind: FieldKind
    is_optional: bool
    """May be left empty, which is null."""
    least: float | None
    most: float | None
    choices: Mapping[str, str]
    """Their labels, by value."""
    default: Any


@cache
def definitions() -> dict[str, Any]:
    found: dict[str, Any] = plan_schema()["$defs"]
    return found


def shapes_of(kind: str) -> tuple[PlanFieldSchema, ...]:
    spec = kinds()[kind]
    return shapes_in(spec.__name__, choices=spec.choices, helps=spec.helps)


def shapes_in(
    definition: str, *, choices: Mapping[str, str] = NOTHING, helps: Mapping[str, str] = NOTHING
) -> tuple[PlanFieldSchema, ...]:
    """The plain fields of a definition, in its order; nested rules have forms of their own."""
    found = []
    for key, told in definitions()[definition]["properties"].items():
        options = [told, *told.get("anyOf", ())]
        plain = next((option for option in options if option.get("type") not in (None, "null")), None)
        if key == "kind" or plain is None or plain["type"] == "object":
            continue
        values = plain.get("enum", ())
        types: Mapping[str, FieldKind] = {"integer": "integer", "number": "number", "boolean": "flag"}
        found.append(
            PlanFieldSchema(
                key=key,
                label=told["title"],
                help=helps.get(key, told.get("description", "")),
                kind="choice" if values else types.get(plain["type"], "text"),
                is_optional=told.get("default") == "" or any(one.get("type") == "null" for one in options),
                least=plain.get("minimum", plain.get("exclusiveMinimum")),
                most=plain.get("maximum", plain.get("exclusiveMaximum", plain.get("maxLength"))),
                choices={value: choices.get(value, value) for value in values},
                default=told.get("default"),
            )
        )
    return tuple(found)
