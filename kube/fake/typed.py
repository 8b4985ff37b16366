"""Whether a body has the fields and types that its kind has."""

import json
from collections.abc import Iterator
from typing import Any

from kube.fake.fields import element_of, written
from kube.fake.schema import FieldSchema

_WORD = {dict: "object", list: "array", str: "string", bool: "bool"}
SCALARS = {"string", "time", "integer", "number", "boolean", "quantity"}


def _fits(value: Any, kind: str) -> bool:
    if (
        kind in ("integer", "number", "quantity")
        and isinstance(value, int | float)
        and not isinstance(value, bool)
    ):
        return kind != "integer" or isinstance(value, int)
    if kind in ("string", "time", "quantity"):
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    return kind not in ("integer", "number")


def unknown_fields(value: Any, shape: FieldSchema, path: str = "") -> Iterator[str]:
    """Return unknown fields as warnings name them: `spec.template.spec.containers[0].imagee`."""
    if shape.kind == "struct" and isinstance(value, dict):
        for key, inner in value.items():
            below = f"{path}.{key}" if path else key
            child = shape.child(key)
            if child is None:
                yield below
            else:
                yield from unknown_fields(inner, child, below)
    elif shape.kind == "list" and isinstance(value, list) and shape.item:
        for index, inner in enumerate(value):
            yield from unknown_fields(inner, shape.item, f"{path}[{index}]")
    elif shape.kind == "map" and isinstance(value, dict) and shape.item:
        for key, inner in value.items():
            yield from unknown_fields(inner, shape.item, f"{path}.{key}")


def decoding_fault(value: Any, shape: FieldSchema, place: str) -> str:
    """Describe JSON that Go cannot read into the type; `place` as Go names it: `ConfigMap.data`. Empty:
    none.
    """
    if value is None or shape.kind == "any":
        return ""
    if shape.kind in SCALARS:
        if _fits(value, shape.kind):
            return ""
        go = {"integer": "int32", "boolean": "bool", "number": "float64"}.get(shape.kind, "string")
        return f"json: cannot unmarshal {_json_word(value)} into Go struct field {place} of type {go}"
    if not isinstance(value, list if shape.kind == "list" else dict):
        go = "[]" if shape.kind == "list" else "map[string]string" if shape.kind == "map" else "struct"
        return f"json: cannot unmarshal {_json_word(value)} into Go struct field {place} of type {go}"
    inner: list[tuple[Any, FieldSchema | None, str]]
    if isinstance(value, list):
        inner = [(item, shape.item, place) for item in value]
    else:
        is_map = shape.kind == "map"
        inner = [
            (item, shape.child(key), place if is_map else f"{place}.{key}") for key, item in value.items()
        ]
    faults = (decoding_fault(item, child, where) for item, child, where in inner if child)
    return next((fault for fault in faults if fault), "")


def _json_word(value: Any) -> str:
    return _WORD.get(type(value), "number")


def apply_fault(value: Any, shape: FieldSchema, path: tuple[str, ...] = ()) -> str:
    """Why an apply's body is no value of its type, as structured-merge-diff says it. Empty: none."""
    if value is None or shape.kind == "any":
        return ""
    place = written(path)
    if shape.kind in SCALARS:
        if _fits(value, shape.kind):
            return ""
        if shape.kind in ("integer", "number"):
            return f"{place}: expected numeric (int or float), got {_go_word(value)}"
        expected = {"boolean": "boolean"}.get(shape.kind, "string")
        return f"{place}: expected {expected}, got &value.valueUnstructured{{Value:{_go_value(value)}}}"
    if shape.kind == "list":
        if not isinstance(value, list):
            return f"{place}: expected list, got &{{{_go_value(value)}}}"
        return _list_fault(value, shape, path)
    if not isinstance(value, dict):
        return f"{place}: expected map, got &{{{_go_value(value)}}}"
    for key, inner in value.items():
        child = shape.child(key)
        below = (*path, "f:" + key)
        if child is None:
            return f"{written(below)}: field not declared in schema"
        if fault := apply_fault(inner, child, below):
            return fault
    return ""


def _list_fault(value: list[Any], shape: FieldSchema, path: tuple[str, ...]) -> str:
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = element_of(item, shape) if shape.keys or shape.is_set else f"i:{index}"
        if element in seen:
            kind = "keys" if shape.is_set else "key"
            return f"{written(path)}: duplicate entries for {kind} {written((element,))}"
        seen.add(element)
        if shape.item and (fault := apply_fault(item, shape.item, (*path, element))):
            return fault
    return ""


def _go_word(value: Any) -> str:
    return {str: "string", bool: "bool", dict: "map", list: "list"}.get(type(value), "number")


def _go_value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str | bool) else str(value)
