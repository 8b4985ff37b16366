"""What somebody asks of the statistics, by the parameters of an address."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _

from common import clock
from gpu_health.errors import InvalidQuestion
from gpu_health.incident_statistics import LAST, StatisticsQuery
from gpu_health.statistics.cases import StatisticsWindow

FARTHEST = timedelta(days=3_650)


def question_of(chosen: Mapping[str, Any]) -> StatisticsQuery:
    """Read the cleaned values of `StatisticsFilter`. Raises InvalidQuestion."""
    now = clock.now()
    until = min(chosen.get("until") or now, now)
    span = chosen.get("span")
    since = chosen.get("since") or until - (timedelta(days=int(span.removesuffix("d"))) if span else LAST)
    since = max(since, now - FARTHEST)
    if since >= until:
        raise InvalidQuestion(fields={"since": [_("The time must begin before it ends, and before now.")]})
    return StatisticsQuery(
        StatisticsWindow(since, until),
        **{name: str(chosen.get(name) or "").strip() for name in ("cluster", "gpu_model", "fault")},
    )
