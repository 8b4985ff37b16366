"""JSON patch (RFC 6902), merge patch (RFC 7396) and strategic merge patch."""

import copy
from typing import Any

from kube.fake.schema import ANY, FieldSchema


class PatchRefused(Exception):
    """A JSON patch that does not hold for the object."""


class NoMergeKey(Exception):
    """A strategic merge patch has a list item that cannot be matched."""


def merge_patch(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, inner in patch.items():
        if inner is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), inner)
    return result


def json_patch(value: Any, operations: list[dict[str, Any]]) -> Any:
    """Raises PatchRefused. As the API server's library, `replace` of a map's absent key adds it."""
    result = copy.deepcopy(value)
    for one in operations:
        op, path = one.get("op"), one.get("path")
        if op not in ("add", "remove", "replace", "test", "move", "copy") or not isinstance(path, str):
            raise PatchRefused
        if op == "test":
            if _at(result, path) != one.get("value"):
                raise PatchRefused
        elif op == "remove":
            _remove(result, path)
        elif op in ("move", "copy"):
            moved = copy.deepcopy(_at(result, one.get("from", "")))
            if op == "move":
                _remove(result, one["from"])
            _put(result, path, moved, is_insert=True)
        else:
            _put(result, path, one.get("value"), is_insert=op == "add")
    return result


def _keys(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise PatchRefused
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def _step(value: Any, key: str) -> Any:
    try:
        return value[int(key)] if isinstance(value, list) else value[key]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise PatchRefused from error


def _at(value: Any, path: str) -> Any:
    for key in _keys(path):
        value = _step(value, key)
    return value


def _parent(value: Any, path: str) -> tuple[Any, str]:
    *keys, last = _keys(path) or [""]
    for key in keys:
        value = _step(value, key)
    if not isinstance(value, dict | list):
        raise PatchRefused
    return value, last


def _remove(value: Any, path: str) -> None:
    parent, key = _parent(value, path)
    _step(parent, key)
    del parent[int(key) if isinstance(parent, list) else key]


def _put(value: Any, path: str, item: Any, *, is_insert: bool) -> None:
    parent, key = _parent(value, path)
    if isinstance(parent, dict):
        parent[key] = item
        return
    if key == "-":
        parent.append(item)
        return
    try:
        at = int(key)
    except ValueError as error:
        raise PatchRefused from error
    if not 0 <= at < len(parent) + is_insert:
        raise PatchRefused
    if is_insert:
        parent.insert(at, item)
    else:
        parent[at] = item


def strategic_merge(value: Any, patch: Any, shape: FieldSchema) -> Any:
    """Lists with a merge key are merged by it, a new item first; all others are replaced. Raises
    NoMergeKey.
    """
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: inner for key, inner in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return None
    result = dict(value) if isinstance(value, dict) else {}
    dropped = {
        key.removeprefix("$deleteFromPrimitiveList/"): inner for key, inner in patch.items() if key[0] == "$"
    }
    for key, inner in patch.items():
        if key.startswith("$"):
            continue
        child = shape.child(key) or ANY
        if inner is None:
            result.pop(key, None)
        elif isinstance(inner, list) and child.merge_key:
            result[key] = _merged_by_key(result.get(key) or [], inner, child)
        elif isinstance(inner, list) and child.is_set:
            old = result.get(key) or []
            result[key] = old + [item for item in inner if item not in old]
        elif isinstance(inner, dict) and isinstance(result.get(key), dict):
            result[key] = strategic_merge(result[key], inner, child)
        else:
            result[key] = _plain(inner)
    for key, gone in dropped.items():
        if isinstance(result.get(key), list):
            result[key] = [item for item in result[key] if item not in gone]
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _plain(inner)
            for key, inner in value.items()
            if inner is not None and not key.startswith("$")
        }
    return value


def _merged_by_key(old: list[Any], patch: list[Any], shape: FieldSchema) -> list[Any]:
    key, inner = shape.merge_key, shape.item or ANY
    if any(item.get("$patch") == "replace" for item in patch):
        return [_plain(item) for item in patch if "$patch" not in item]
    for item in patch:
        if key not in item:
            raise NoMergeKey(f"map: {_go_map(item)} does not contain declared merge key: {key}")
    by_key = {item.get(key): item for item in patch}
    kept = []
    for item in old:
        change = by_key.pop(item.get(key), None)
        if change is None:
            kept.append(item)
        elif change.get("$patch") != "delete":
            kept.append(strategic_merge(item, change, inner))
    new = [_plain(item) for item in by_key.values() if item.get("$patch") != "delete"]
    return new + kept


def _go_map(value: Any) -> str:
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_map(inner)}" for key, inner in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_map, value)) + "]"
    return str(value)
