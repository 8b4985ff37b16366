"""Code that a version carries or names: what loaders run when they are told `trust_remote_code`."""

from typing import Any

SUFFIX = ".py"
FORMAT = "python"
MAX_NAMED = 20
CARRIED = "Python code, which loaders run with trust_remote_code."


def named_in(value: Any) -> tuple[str, ...]:
    """Return the names in a config's `auto_map`, at any depth of the JSON value; sorted, at most 20."""
    found: set[str] = set()
    level = [value]
    while level:
        level = [item for item in level if isinstance(item, dict | list)]
        for item in level:
            if isinstance(item, dict):
                found |= _leaves(item.get("auto_map"))
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return tuple(sorted(found)[:MAX_NAMED])


def _leaves(named: Any) -> set[str]:
    if isinstance(named, dict | list):
        children = named.values() if isinstance(named, dict) else named
        return set().union(*(_leaves(child) for child in children))
    return {named[:200]} if isinstance(named, str) else set()
