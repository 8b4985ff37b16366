"""Types of edges: the hints of tasks, compared when a graph is built."""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints


class EncodedImage(bytes):
    """The bytes of a picture as it was sent: PNG, JPEG or WebP."""


INPUT_TYPES = (EncodedImage, bytes, str, dict, list, int, float, bool)
_LISTS = (list, Sequence, tuple, typing.Iterable)


def is_input(hint: Any) -> bool:
    return (get_origin(hint) or hint) in INPUT_TYPES


def name_of(hint: Any) -> str:
    """The type as documents write it."""
    if hint is Any:
        return "Any"
    if hint is EncodedImage:
        return "Image"
    if hint is None or hint is type(None):
        return "None"
    if arguments := get_args(hint):
        origin = get_origin(hint)
        inside = [name_of(one) if one is not Ellipsis else "..." for one in arguments]
        if origin in (Union, types.UnionType):
            return " | ".join(inside)
        if getattr(origin, "__module__", "") == "numpy":
            return "ndarray"
        return f"{getattr(origin, '__name__', origin)}[{', '.join(inside)}]"
    return getattr(hint, "__name__", str(hint))


def fits(made: Any, wanted: Any) -> bool:
    """Whether a value of the type `made` may be given where `wanted` is asked for."""
    if made is Any or wanted is Any or made == wanted:
        return True
    if get_origin(made) in (Union, types.UnionType):
        return all(fits(one, wanted) for one in get_args(made))
    if get_origin(wanted) in (Union, types.UnionType):
        return any(fits(made, one) for one in get_args(wanted))
    made_class, wanted_class = get_origin(made) or made, get_origin(wanted) or wanted
    if not isinstance(made_class, type) or not isinstance(wanted_class, type):
        return True
    if (made_class, wanted_class) in ((int, float), (bool, float)):
        return True
    if not issubclass(made_class, wanted_class):
        return False
    inside, asked = get_args(made), get_args(wanted)
    if wanted_class in _LISTS and len(inside) == len(asked) == 1:
        return fits(inside[0], asked[0])
    return True


def element(hint: Any) -> Any:
    """The type of a list's elements; None: it is no list."""
    if hint is Any or hint in _LISTS:
        return Any
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (list, Sequence) or (isinstance(origin, type) and issubclass(origin, list)):
        return arguments[0]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    return None


def field(hint: Any, name: str | int) -> Any:
    """The type of a field, a key or an element. Raises KeyError with the names there are."""
    if hint is Any:
        return Any
    if isinstance(name, int):
        inside = element(hint)
        if inside is None:
            raise KeyError("it is no list")
        return inside
    if get_origin(hint) in (dict, Mapping):
        return get_args(hint)[1]
    if not isinstance(hint, type) or hint is dict:
        return Any
    has_fields = dataclasses.is_dataclass(hint) or hasattr(hint, "__annotations__")
    if not has_fields:
        return Any if hasattr(hint, name) else _missing(hint, ())
    hints = get_type_hints(hint)
    if name in hints:
        return hints[name]
    return Any if hasattr(hint, name) else _missing(hint, hints)


def _missing(hint: type, hints: typing.Iterable[str]) -> Any:
    there = ", ".join(sorted(hints)) or "none"
    raise KeyError(f"{name_of(hint)} has no such field; there are: {there}")
