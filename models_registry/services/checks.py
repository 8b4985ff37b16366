"""What every write checks of the words it is given."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from django.utils.translation import gettext as _

from common.errors import Invalid
from common.texts import demanded_reason as demanded_reason
from common.texts import name as name
from common.texts import reason as reason
from common.texts import text as text
from trust.formats.summary import storable

MAX_LINEAGE_BYTES = 16_384


MAX_PATTERNS, MAX_PATTERN = 50, 200


MAX_DATA, MAX_ORIGIN = 100, 1_000


def patterns(field: str, given: Sequence[str]) -> list[str]:
    """Shell patterns over whole paths, without empty ones."""
    if len(given) > MAX_PATTERNS:
        raise Invalid(
            fields={field: [_("At most %(max_patterns)s patterns.") % {"max_patterns": MAX_PATTERNS}]}
        )
    checked = [text(field, pattern, limit=MAX_PATTERN) for pattern in given]
    return [pattern for pattern in checked if pattern]


def lineage(value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A JSON object of at most 16 KiB, without what databases choke on; `base_model` and `job` are words,
    `data` is a list of them, whatever else it holds is its author's.
    """
    if value is None:
        return {}
    try:
        size = len(orjson.dumps(value))
    except (orjson.JSONEncodeError, TypeError):
        raise Invalid(fields={"lineage": [_("It must be a JSON object.")]}) from None
    if size > MAX_LINEAGE_BYTES:
        raise Invalid(
            fields={
                "lineage": [
                    _("At most %(max_lineage_bytes)s bytes of JSON; it has %(size)s.")
                    % {"max_lineage_bytes": f"{MAX_LINEAGE_BYTES:,}", "size": f"{size:,}"}
                ]
            }
        )
    cleaned: dict[str, Any] = storable(value)
    for key in ("base_model", "job"):
        if key in cleaned:
            cleaned[key] = _origin(key, cleaned[key])
    if "data" in cleaned:
        listed = cleaned["data"]
        if not isinstance(listed, list) or len(listed) > MAX_DATA:
            raise Invalid(
                fields={
                    "lineage": [
                        _("`data` is a list of at most %(max_data)s names or addresses.")
                        % {"max_data": MAX_DATA}
                    ]
                }
            )
        cleaned["data"] = [_origin("data", one) for one in listed]
    return {key: item for key, item in cleaned.items() if item not in ("", [])}


def _origin(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid(
            fields={"lineage": [_("`%(key)s` is given as text: a name or an address.") % {"key": key}]}
        )
    if len(value) > MAX_ORIGIN:
        raise Invalid(
            fields={
                "lineage": [
                    _("`%(key)s` has at most %(max_origin)s characters.")
                    % {"key": key, "max_origin": f"{MAX_ORIGIN:,}"}
                ]
            }
        )
    return value.strip()
