"""YAML from outside as maps, lists and texts: no alias, tag or date; numbers where they are asked for.

Aliases multiply: 499 bytes of them are a document of 100 MB. The client reads with this, too, so it
imports nothing of ours.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import yaml

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_EVENTS = 20_000
_PLAIN = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
"""Of scalars without quotes, the only ones that are no text."""
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,3})?")
"""As JSON has them."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadYaml(Exception):
    """The sentence repeats nothing of the document, which may be secret."""


def load(text: str, *, numbers: bool = False) -> Any:
    """Return the first document; `numbers`: scalars without quotes may be some. Raises BadYaml."""
    return next(load_all(text, numbers=numbers), None)


def load_all(text: str, *, numbers: bool = False) -> Iterator[Any]:
    """Yield the documents of a file. Raises BadYaml."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise BadYaml(f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        events = islice(yaml.parse(text, Loader=_LOADER), MAX_EVENTS)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                yield _node(_next(events), events, 0, numbers)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        raise BadYaml(f"it is no YAML in line {mark.line + 1}" if mark else "it is no YAML") from None


def _node(event: Any, events: Iterator[Any], depth: int, numbers: bool) -> Any:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise BadYaml(f"line {event.start_mark.line + 1} has an anchor or an alias: write it out")
    if isinstance(event, yaml.ScalarEvent):
        if not event.implicit[0]:
            return event.value
        if numbers and (found := _NUMBER.fullmatch(event.value)):
            return float(event.value) if found[2] or found[3] else int(event.value)
        return _PLAIN.get(event.value, event.value)
    if depth > MAX_DEPTH:
        raise BadYaml(f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(event, yaml.SequenceStartEvent):
        return [_node(item, events, depth + 1, numbers) for item in _until(yaml.SequenceEndEvent, events)]
    mapping: dict[str, Any] = {}
    for key_event in _until(yaml.MappingEndEvent, events):
        key = _node(key_event, events, depth + 1, False)
        value = _node(_next(events), events, depth + 1, numbers)
        if isinstance(key, str):
            mapping[key] = value
    return mapping


def _until(end: type[Any], events: Iterator[Any]) -> Iterator[Any]:
    while not isinstance(event := _next(events), end):
        yield event


def _next(events: Iterator[Any]) -> Any:
    event = next(events, None)
    if event is None:
        raise BadYaml(f"it has more than {MAX_EVENTS:,} parts")
    return event
