"""The one stretch of time that all charts of a page show, as its address says."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from common import clock

LENGTHS: Mapping[str, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
"""What Slipway keeps itself."""
LONG_LENGTHS: Mapping[str, timedelta] = {"90d": timedelta(days=90), "1y": timedelta(days=365)}
"""What a Prometheus may have beyond."""
DEFAULT = "1h"
_STEPS = (
    (timedelta(minutes=15), timedelta(seconds=5)),
    (timedelta(hours=2), timedelta(minutes=1)),
    (timedelta(hours=12), timedelta(minutes=5)),
    (timedelta(days=2), timedelta(minutes=15)),
    (timedelta(days=7), timedelta(hours=1)),
    (timedelta(days=100), timedelta(hours=6)),
)
COARSEST = timedelta(days=1)


def lengths() -> Mapping[str, timedelta]:
    """Return how long charts may be, by name."""
    return {**LENGTHS, **LONG_LENGTHS} if settings.SLIPWAY_PROMETHEUS_URL else LENGTHS


@dataclass(frozen=True, slots=True)
class ChartTimes:
    since: datetime
    until: datetime
    name: str = ""
    """Of `lengths`, up to now; empty: a stretch of the past."""
    problem: str = ""
    """Why the address was not understood; empty: it was."""

    @property
    def step(self) -> timedelta:
        length = self.until - self.since
        return next((step for longest, step in _STEPS if length <= longest), COARSEST)

    @property
    def is_long_past(self) -> bool:
        """Whether it reaches back further than what Slipway keeps."""
        return clock.now() - self.since > LENGTHS["30d"] + timedelta(hours=1)

    @property
    def query(self) -> str:
        """Return the query of the address that shows the same."""
        if self.name:
            return urlencode({"range": self.name})
        return urlencode({"from": self.since.isoformat(), "to": self.until.isoformat()})


def times_of(query: Mapping[str, str], *, now: datetime) -> ChartTimes:
    """Read `?range=6h`, or `?from=` and `?to=` in ISO 8601, no longer ago than the longest range."""
    known = lengths()
    given = query.get("range") or DEFAULT
    name = given if given in known else DEFAULT
    usual = ChartTimes(now - known[name], now, name)
    if "from" not in query and "to" not in query:
        if given == name:
            return usual
        wrong = _("There is no such time range: choose one of %(ranges)s.") % {"ranges": ", ".join(known)}
        return ChartTimes(usual.since, now, name, wrong)
    since, until = _moment(query.get("from", "")), _moment(query.get("to", "")) or now
    if since is None or not since < until <= now + timedelta(minutes=1):
        wrong = _("Write from and to as 2026-11-27T10:00, the earlier one first and none in the future.")
        return ChartTimes(usual.since, now, usual.name, wrong)
    return ChartTimes(max(since, now - max(known.values())), until)


def _moment(text: str) -> datetime | None:
    try:
        found = parse_datetime(text.replace(" ", "+"))
    except ValueError:
        return None
    return timezone.make_aware(found) if found and timezone.is_naive(found) else found
