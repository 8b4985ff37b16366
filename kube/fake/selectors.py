"""Label and field selectors: those of requests, as text, and those of objects."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from kube.fake.kinds import ObjectKind
from kube.fake.refusals import bad_request

Matches = Callable[[dict[str, Any]], bool]
_TOKEN = re.compile(r"\s*(!=|==|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_EXPECTED = "in, notin, =, ==, !=, gt, lt"


def matches_labels(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector of an object; an empty one matches all, none matches nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(matches_expression(one, labels) for one in selector.get("matchExpressions") or ())


def matches_expression(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Evaluate one of `matchExpressions`; `Gt` and `Lt` exist for machines alone."""
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or ()
    found = labels.get(key)
    if operator in ("Gt", "Lt"):
        if not _is_number(found) or not values:
            return False
        return int(str(found)) > int(values[0]) if operator == "Gt" else int(str(found)) < int(values[0])
    return {
        "In": found in values,
        "NotIn": found not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[operator]


def written_selector(selector: Mapping[str, Any]) -> str:
    """Write the selector as the scale subresource does."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        listed = "(" + ",".join(one.get("values") or ()) + ")"
        parts.append(
            {
                "In": f"{one['key']} in {listed}",
                "NotIn": f"{one['key']} notin {listed}",
                "Exists": one["key"],
                "DoesNotExist": f"!{one['key']}",
            }[one["operator"]]
        )
    return ",".join(parts)


def label_selector(text: str) -> Matches:
    """Raises RequestRefused."""
    tests = [_requirement(part) for part in _parts(text)]
    return lambda item: all(test(item["metadata"].get("labels") or {}) for test in tests)


def _parts(text: str) -> list[list[str]]:
    tokens = _TOKEN.findall(text)
    parts: list[list[str]] = [[]]
    depth = 0
    for word in tokens:
        depth += (word == "(") - (word == ")")
        if word == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _requirement(tokens: list[str]) -> Callable[[Mapping[str, str]], bool]:
    first = tokens[0]
    if first == "!":
        key = tokens[1]
        return lambda labels: key not in labels
    if first in ("=", "==", "!=", "<", ">", "(", ")"):
        raise bad_request(f"found '{first}', expected: !, identifier, or 'end of string'")
    if len(tokens) == 1:
        return lambda labels: first in labels
    operator, rest = tokens[1], tokens[2:]
    if operator in ("in", "notin"):
        if not rest or rest[0] != "(":
            raise bad_request(f"unable to parse requirement: found '{rest[0] if rest else ''}' expected: '('")
        values = {word for word in rest[1:-1] if word != ","}
        return lambda labels: (labels.get(first) in values) == (operator == "in")
    if operator not in ("=", "==", "!=", "<", ">"):
        raise bad_request(f"unable to parse requirement: found '{operator}', expected: {_EXPECTED}")
    if len(rest) > 1:
        raise bad_request(f"found '{rest[1]}', expected: ',' or 'end of string'")
    value = rest[0] if rest else ""
    if operator in ("<", ">"):
        return lambda labels: (
            _is_number(labels.get(first))
            and (int(labels[first]) > int(value) if operator == ">" else int(labels[first]) < int(value))
        )
    return lambda labels: (labels.get(first) == value) == (operator != "!=")


def _is_number(value: str | None) -> bool:
    return value is not None and value.lstrip("-").isdigit()


def field_selector(kind: ObjectKind, text: str) -> Matches:
    """Raises RequestRefused."""
    tests = []
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", part)
        if not found:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path, operator, value = found.groups()
        if path not in kind.selectable and not _is_always_selectable(kind, path):
            raise bad_request(_refusal(kind, path))
        tests.append((path, value, operator != "!="))
    return lambda item: all((_text_at(item, path) == value) == wanted for path, value, wanted in tests)


def _is_always_selectable(kind: ObjectKind, path: str) -> bool:
    return path == "metadata.name" or (
        path == "metadata.namespace" and (kind.is_namespaced or not kind.is_custom)
    )


def _refusal(kind: ObjectKind, path: str) -> str:
    if kind.is_custom or kind.selectable:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _text_at(item: dict[str, Any], path: str) -> str:
    value: Any = item
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None and path in ("spec.unschedulable", "spec.hostNetwork"):
        return "false"
    return "" if value is None else str(value)
