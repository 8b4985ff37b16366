"""How many lines of a log a request asks for."""

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from clusters.services.logs import LOG_LINES, MAX_LINES

LINES = OpenApiParameter(
    "lines", OpenApiTypes.INT, description=f"Maximum number of lines; default {LOG_LINES}."
)


def lines_of(request: Request) -> int:
    text = request.query_params.get("lines", str(LOG_LINES))
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_LINES:
        raise ValidationError(
            {"lines": [_("Give a number from 1 to %(max_lines)s.") % {"max_lines": MAX_LINES}]}
        )
    return int(text)
