"""Bodies are as strict as query parameters: a misspelt field must not look like one that was not given."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from rest_framework.serializers import BaseSerializer, DictField, ListField, ListSerializer, Serializer

MAX_NAMED = 20
_MAX_NAME = 100


def unknown_fields(serializer: BaseSerializer[Any] | None, body: Any) -> dict[str, list[str]]:
    """A sentence per field of the body, `files.0.path` where it is nested, that the serializer has not.

    At most 20. Fields that the serializer only shows are known. None: the body takes no fields.
    """
    return dict(islice(_unknown(serializer, body, ""), MAX_NAMED))


def _unknown(serializer: Any, body: Any, prefix: str) -> Iterator[tuple[str, list[str]]]:
    if isinstance(serializer, ListSerializer | ListField) and isinstance(body, list):
        for place, item in enumerate(body):
            yield from _unknown(serializer.child, item, f"{prefix}{place}.")
    elif isinstance(serializer, DictField) and isinstance(body, Mapping):
        for name, item in body.items():
            yield from _unknown(serializer.child, item, f"{prefix}{name}.")
    elif isinstance(serializer, Serializer | None) and isinstance(body, Mapping):
        fields = serializer.fields if serializer else {}
        for name, value in body.items():
            if name in fields:
                yield from _unknown(fields[name], value, f"{prefix}{name}.")
            else:
                hint = ", ".join(sorted(fields)) or "none"
                yield f"{prefix}{name[:_MAX_NAME]}", [f"There is no such field. Known: {hint}."]
