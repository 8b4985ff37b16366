"""Custom resources: defaults and rules out of the OpenAPI schema of their definition."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kube.fake.causes import StatusCause
from kube.fake.fields import element_of
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import required, unsupported, wrong_value
from kube.fake.schema import from_openapi

Object = dict[str, Any]
SKIPPED = StatusCause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct "
    "the existing "
    "errors to complete validation",
    "<nil>",
)


def custom_defaults(kind: ObjectKind, item: Object) -> Object:
    """Unknown fields pruned, defaults put in."""
    schema = kind.openapi
    if not schema:
        return item
    meta = {key: item.get(key) for key in ("apiVersion", "kind", "metadata")}
    for name, inner in (schema.get("properties") or {}).items():
        if "default" in inner and item.get(name) is None:
            item[name] = json.loads(json.dumps(inner["default"]))
    body: Object = _completed({key: one for key, one in item.items() if key not in meta}, schema)
    metadata = {key: one for key, one in (meta["metadata"] or {}).items() if one is not None}
    return {"apiVersion": meta["apiVersion"], "kind": meta["kind"], "metadata": metadata} | body


def _completed(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        loose = schema.get("x-kubernetes-preserve-unknown-fields")
        result = {}
        for name, one in value.items():
            if name in known:
                if one is None and "default" in known[name]:
                    one = json.loads(json.dumps(known[name]["default"]))
                if one is not None or known[name].get("nullable"):
                    result[name] = _completed(one, known[name])
            elif loose:
                result[name] = one
        for name, one in known.items():
            if name not in result and "default" in one and name not in value:
                result[name] = _completed(json.loads(json.dumps(one["default"])), one)
        return result
    if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        return {key: _completed(one, schema["additionalProperties"]) for key, one in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [_completed(one, schema["items"]) for one in value]
    return value


def custom_faults(kind: ObjectKind, item: Object, old: Object | None) -> list[StatusCause]:
    """Structural faults first; the rules only for a body of the right shape."""
    schema = kind.openapi
    if not schema:
        return []
    faults = list(_faults(item, schema, ""))
    structural = [cause for cause, keeps in faults if keeps]
    if structural:
        return [cause for cause, _ in faults] + ([SKIPPED] if kind.rules else [])
    return [cause for cause, _ in faults] + (kind.rules(item, old) if kind.rules else [])


def _faults(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[StatusCause, bool]]:
    """Cause, and whether it keeps the rules from being looked at."""
    kind = schema.get("type")
    if kind and not _is_of(value, kind) and not schema.get("x-kubernetes-int-or-string"):
        found = {str: "string", bool: "boolean", list: "array", dict: "object", float: "number"}
        word = found.get(type(value), "integer")
        why = f"{path} in body must be of type {kind}: {json.dumps(word)}"
        yield StatusCause("FieldValueTypeInvalid", f"Invalid value: {json.dumps(word)}: {why}", path), True
        return
    yield from _scalar_faults(value, schema, path)
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                yield required(f"{path}.{name}" if path else name), True
        known = schema.get("properties") or {}
        for name, one in value.items():
            inner = known.get(name) or schema.get("additionalProperties")
            if isinstance(inner, Mapping) and not (not path and name == "metadata"):
                yield from _faults(one, inner, f"{path}.{name}" if path else name)
    if isinstance(value, list):
        yield from _list_faults(value, schema, path)


def _list_faults(
    value: list[Any], schema: Mapping[str, Any], path: str
) -> Iterator[tuple[StatusCause, bool]]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        yield (
            StatusCause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items", path),
            True,
        )
    if least is not None and len(value) < least:
        why = f"{path} in body should have at least {least} items"
        yield StatusCause("FieldValueInvalid", f"Invalid value: {len(value)}: {why}", path), False
    shape = from_openapi(schema)
    seen: set[str] = set()
    for index, one in enumerate(value):
        if shape.keys or shape.is_set:
            element = element_of(one, shape)
            if element in seen:
                shown = element[2:]
                yield (
                    StatusCause("FieldValueDuplicate", f"Duplicate value: {shown}", f"{path}[{index}]"),
                    False,
                )
            seen.add(element)
        yield from _faults(one, schema.get("items") or {}, f"{path}[{index}]")


def _is_of(value: Any, kind: str) -> bool:
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool}
    if kind in kinds:
        return isinstance(value, kinds[kind])
    return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)


def _scalar_faults(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[StatusCause, bool]]:
    shown = json.dumps(value)
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, shown, schema["enum"]), True
    if isinstance(value, str):
        most, least = schema.get("maxLength"), schema.get("minLength")
        if most is not None and len(value) > most:
            yield StatusCause("FieldValueTooLong", f"Too long: may not be more than {most} bytes", path), True
        if least is not None and len(value) < least:
            why = f"{path} in body should be at least {least} chars long"
            yield wrong_value(path, shown, why), False
        if "pattern" in schema and not re.search(schema["pattern"], value):
            why = f"{path} in body should match '{schema['pattern']}'"
            yield wrong_value(path, shown, why), False
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            why = f"{path} in body should be greater than or equal to {schema['minimum']}"
            yield wrong_value(path, str(value), why), False
        if "maximum" in schema and value > schema["maximum"]:
            why = f"{path} in body should be less than or equal to {schema['maximum']}"
            yield wrong_value(path, str(value), why), False
