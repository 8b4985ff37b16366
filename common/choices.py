"""Choices of rows and documents, and where people meet them."""

from dataclasses import dataclass
from typing import Any

from drf_spectacular.settings import spectacular_settings


@dataclass(frozen=True, slots=True)
class ChoiceSet:
    """Choices as the manifest of an app names them: every `TextChoices` of its `states.py` is there."""

    of: Any
    """A `TextChoices`, or a sequence of values or of (value, label)."""
    badges: str = ""
    """Badges by which pages show them; empty: pages say them in words."""
    schema: str = ""
    """Component of the REST API's schema; empty: the name that drf-spectacular finds."""


_choices: list[ChoiceSet] = []


def offer(choices: ChoiceSet) -> None:
    """Raises ValueError when another set has the name in the schema already."""
    if choices.schema:
        if choices.schema in spectacular_settings.ENUM_NAME_OVERRIDES:
            raise ValueError(f"The choices {choices.schema!r} of the schema are named twice.")
        spectacular_settings.ENUM_NAME_OVERRIDES[choices.schema] = choices.of
    _choices.append(choices)


def all_choices() -> tuple[ChoiceSet, ...]:
    return tuple(_choices)
