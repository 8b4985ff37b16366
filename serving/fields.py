"""Typed fields out of parsed JSON: every refusal names the field and says what it should be."""

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

Word = TypeVar("Word", bound=StrEnum)


class ProtocolError(ValueError):
    """A heartbeat, a report or a command line that cannot be what was meant; the text names the field."""


class Fields:
    """The fields of one object. Every method raises ProtocolError for what is missing or wrong."""

    def __init__(self, data: object, what: str) -> None:
        if not isinstance(data, Mapping):
            raise ProtocolError(f"{what} must be an object")
        self.data = data

    def take(self, key: str, kind: type | tuple[type, ...], words: str) -> Any:
        if key not in self.data:
            raise ProtocolError(f"{key} is missing")
        value = self.data[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ProtocolError(f"{key} must be {words}")
        return value

    def text(
        self,
        key: str,
        *,
        pattern: re.Pattern[str] | None = None,
        default: str | None = None,
        longest: int = 400,
    ) -> str:
        if default is not None and key not in self.data:
            return default
        value: str = self.take(key, str, "text")
        if len(value) > longest:
            raise ProtocolError(f"{key} must have at most {longest} characters")
        if pattern is not None and not pattern.fullmatch(value):
            raise ProtocolError(f"{key} must match {pattern.pattern}")
        return value

    def whole(self, key: str, *, low: int = 0, high: int = 2**53) -> int:
        value: int = self.take(key, int, "a whole number")
        if not low <= value <= high:
            raise ProtocolError(f"{key} must be from {low} to {high}")
        return value

    def number(self, key: str, *, high: float = math.inf) -> float:
        value = float(self.take(key, (int, float), "a number"))
        if not (0 <= value <= high and math.isfinite(value)):
            raise ProtocolError(f"{key} must be from 0 to {high:g}")
        return value

    def word(self, key: str, words: type[Word]) -> Word:
        value = self.text(key)
        if value not in set(words):
            raise ProtocolError(f"{key} must be one of {', '.join(words)}")
        return words(value)

    def names(self, key: str, *, pattern: re.Pattern[str], most: int) -> tuple[str, ...]:
        values = self.take(key, list, "a list of text")
        if len(values) > most or not all(isinstance(one, str) and pattern.fullmatch(one) for one in values):
            raise ProtocolError(f"{key} must be at most {most} names that match {pattern.pattern}")
        return tuple(values)

    def counts(self, key: str, *, most: int) -> tuple[int, ...]:
        """Return the whole numbers of a list that may be left out."""
        values = self.take(key, list, "a list of whole numbers") if key in self.data else []
        if len(values) > most or not all(type(one) is int and 0 <= one <= 2**53 for one in values):
            raise ProtocolError(f"{key} must be at most {most} whole numbers from 0 on")
        return tuple(values)

    def items(self, key: str, *, most: int) -> list[Any]:
        found: list[Any] = self.take(key, list, "a list of objects")
        if len(found) > most:
            raise ProtocolError(f"{key} must have at most {most} entries, not {len(found)}")
        return found


def no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which JSON has not; for `json.loads(parse_constant=...)`."""
    raise ValueError(f"{name} is not a number of JSON")
