"""Examples in the schema: `@example(value)` above a serializer."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework.serializers import BaseSerializer

SUCCESS = ["200", "201", "202"]
S = TypeVar("S", bound=type[BaseSerializer[Any]])


def example(value: Mapping[str, Any], *, title: str = "Example") -> Callable[[S], S]:
    """Show this document wherever one of the serializer's is read or written."""
    return extend_schema_serializer(examples=[OpenApiExample(title, value=value, status_codes=SUCCESS)])
