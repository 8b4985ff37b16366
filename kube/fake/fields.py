"""Sets of fields: which a value has, in which two values differ, how managedFields write them.

A path is a tuple of elements as FieldsV1 writes them: `f:spec`, `k:{"name":"server"}` of a list with keys,
`v:"slipway.io/hold"` of a set. Follows sigs.k8s.io/structured-merge-diff.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kube.fake.schema import ANY, KEY_DEFAULTS, FieldSchema

Path = tuple[str, ...]
Fields = frozenset[Path]
ABSENT: Any = object()
NOTHING: Fields = frozenset()


def element_of(item: Any, shape: FieldSchema) -> str:
    """Return the path element of an item in a list that has keys or is a set."""
    if shape.is_set:
        return "v:" + json.dumps(item)
    item = item if isinstance(item, dict) else {}
    keys = {key: item.get(key, KEY_DEFAULTS.get(key)) for key in sorted(shape.keys)}
    return "k:" + json.dumps(
        {key: value for key, value in keys.items() if value is not None}, separators=(",", ":")
    )


def children_of(value: Any, shape: FieldSchema) -> Iterator[tuple[str, Any, FieldSchema]]:
    """Element, value and shape of what a map, struct or list with keys holds."""
    if shape.kind == "list":
        for item in value or ():
            yield element_of(item, shape), item, shape.item or ANY
    else:
        for key, inner in (value or {}).items():
            yield "f:" + key, inner, shape.child(key) or ANY


def fields_of(value: Any, shape: FieldSchema, path: Path = ()) -> Iterator[Path]:
    """Return the fields that whoever applies this value owns."""
    if shape.is_leaf or not value:
        if shape.is_leaf or shape.kind != "list":
            yield path
        return
    for element, inner, inner_shape in children_of(value, shape):
        below = (*path, element)
        if shape.kind == "list":
            yield below
            if shape.is_set or inner_shape.is_leaf:
                continue
        yield from fields_of(inner, inner_shape, below)


@dataclass
class FieldDifference:
    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    @property
    def set(self) -> Fields:
        return frozenset(self.added | self.modified)


def compare(
    old: Any, new: Any, shape: FieldSchema, path: Path = (), found: FieldDifference | None = None
) -> FieldDifference:
    """Compare two values; ABSENT has no fields. A map, struct or list item that is wholly new or gone counts
    itself.
    """
    found = found if found is not None else FieldDifference()
    if old is ABSENT or new is ABSENT:
        (found.added if old is ABSENT else found.removed).add(path)
        if shape.is_leaf or old is new:
            return found
    elif shape.is_leaf:
        if old != new:
            found.modified.add(path)
        return found
    before = {} if old is ABSENT else {e: (v, s) for e, v, s in children_of(old, shape)}
    after = {} if new is ABSENT else {e: (v, s) for e, v, s in children_of(new, shape)}
    for element in before.keys() | after.keys():
        was, inner = before.get(element, (ABSENT, ANY))
        now, inner = after.get(element, (ABSENT, inner))
        compare(was, now, ANY if shape.is_set else inner, (*path, element), found)
    return found


def with_named_parents(fields: Iterable[Path]) -> Fields:
    """And every struct and map on the way to them: not list items, which are members themselves."""
    return frozenset(
        path[:end]
        for path in fields
        for end in range(1, len(path) + 1)
        if end == len(path) or path[end - 1].startswith("f:")
    )


def without(value: Any, shape: FieldSchema, removed: Fields, path: Path = ()) -> Any:
    """The value less these fields, with all that is below them; None when nothing of it is left."""
    if shape.is_leaf or not value:
        return value
    kept = []
    for element, inner, inner_shape in children_of(value, shape):
        below = (*path, element)
        if below in removed:
            continue
        kept.append((element[2:], without(inner, inner_shape, removed, below)))
    if not kept:
        return None
    return [inner for _, inner in kept] if shape.kind == "list" else dict(kept)


def encoded(fields: Iterable[Path]) -> dict[str, Any]:
    """FieldsV1."""
    tree: dict[str, Any] = {}
    members = set(fields)
    for path in members:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    for path in members:
        node = tree
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return _sorted(tree)


def _sorted(tree: dict[str, Any]) -> dict[str, Any]:
    return {key: _sorted(tree[key]) for key in sorted(tree)}


def decoded(tree: dict[str, Any], path: Path = ()) -> Iterator[Path]:
    for element, below in tree.items():
        if element == ".":
            yield path
        elif below:
            yield from decoded(below, (*path, element))
        else:
            yield (*path, element)


def written(path: Path) -> str:
    """Write a path as conflicts name it: `.spec.containers[name="server"].image`."""
    text = ""
    for element in path:
        if element.startswith("f:"):
            text += "." + element[2:]
        elif element.startswith("k:"):
            keys = json.loads(element[2:])
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"
        else:
            text += f"[={element[2:]}]"
    return text
