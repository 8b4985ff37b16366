"""The merge of an apply's body into an object (structured-merge-diff)."""

from typing import Any

from kube.fake.fields import element_of
from kube.fake.schema import ANY, FieldSchema


def merged(live: Any, wish: Any, shape: FieldSchema) -> Any:
    if wish is None or shape.is_leaf or live is None:
        return wish
    if shape.kind == "list":
        return _merged_list(live, wish, shape)
    result = dict(live)
    for key, value in wish.items():
        result[key] = merged(live.get(key), value, shape.child(key) or ANY)
    return result


def _merged_list(live: list[Any], wish: list[Any], shape: FieldSchema) -> list[Any]:
    """Merge lists in the order of the patch; other items keep their place as far as possible."""
    inner = ANY if shape.is_set else shape.item or ANY
    mine = [element_of(item, shape) for item in wish]
    theirs = [element_of(item, shape) for item in live]
    old = dict(zip(theirs, live, strict=True))
    shared = [element for element in mine if element in old]
    result: list[Any] = []
    done: set[str] = set()
    at_live = at_wish = 0
    while at_live < len(live) or at_wish < len(wish):
        if at_live < len(live):
            element = theirs[at_live]
            if at_wish < len(wish) and element == mine[at_wish]:
                result.append(merged(live[at_live], wish[at_wish], inner))
                done.add(element)
                at_live, at_wish = at_live + 1, at_wish + 1
                shared = shared[1:]
                continue
            if at_wish < len(wish) and element in mine and shared and shared[0] != element:
                at_live += 1
                continue
            if element not in mine:
                result.append(live[at_live])
                at_live += 1
                continue
            if element in done:
                at_live += 1
        if at_wish < len(wish):
            element = mine[at_wish]
            result.append(merged(old.get(element), wish[at_wish], inner))
            done.add(element)
            at_wish += 1
            if shared and shared[0] == element:
                shared = shared[1:]
    return result
