"""Fields of values."""

from collections.abc import Mapping, Sequence
from typing import Any


def follow(value: Any, path: Sequence[str | int]) -> Any:
    """The field of a value that a path leads to. Raises KeyError, AttributeError or IndexError."""
    for step in path:
        is_key = isinstance(step, int) or isinstance(value, Mapping)
        value = value[step] if is_key else getattr(value, str(step))
    return value
