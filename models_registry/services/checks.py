"""What every write checks of the words it is given."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from common.errors import Invalid
from models_registry.facts import storable

MAX_REASON = 2_000
MAX_LINEAGE_BYTES = 16_384
MAX_PATTERNS, MAX_PATTERN = 50, 200


def text(field: str, value: str, *, limit: int) -> str:
    """`value` without surrounding blanks; Invalid when it is too long or cannot be stored."""
    stripped = value.strip()
    if len(stripped) > limit:
        raise Invalid(fields={field: [f"At most {limit:,} characters; these are {len(stripped):,}."]})
    if storable(stripped) != stripped[:4_000] or "\x00" in stripped:
        raise Invalid(fields={field: ["It has characters that cannot be stored."]})
    return stripped


def patterns(field: str, given: Sequence[str]) -> list[str]:
    """Shell patterns over whole paths, without empty ones."""
    if len(given) > MAX_PATTERNS:
        raise Invalid(fields={field: [f"At most {MAX_PATTERNS} patterns."]})
    checked = [text(field, pattern, limit=MAX_PATTERN) for pattern in given]
    return [pattern for pattern in checked if pattern]


def lineage(value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A JSON object of at most 16 KiB, without what databases choke on."""
    if value is None:
        return {}
    try:
        size = len(orjson.dumps(value))
    except (orjson.JSONEncodeError, TypeError):
        raise Invalid(fields={"lineage": ["It must be a JSON object."]}) from None
    if size > MAX_LINEAGE_BYTES:
        raise Invalid(fields={"lineage": [f"At most {MAX_LINEAGE_BYTES:,} bytes of JSON; it has {size:,}."]})
    cleaned: dict[str, Any] = storable(value)
    return cleaned
