"""What a chart shows, as data; the same in words for those who do not see it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from django.utils.translation import gettext as _

from common.pages import formats
from common.pages.badges import Tone

Paint = Tone | Literal["stable", "candidate", "earlier-1", "earlier-2", "ink"]
"""`stable` and `candidate` are the two sides of a release on every screen, `earlier-…` the versions before;
`ink` is the text's own colour."""

Dash = Literal["solid", "dashed", "dotted", "dash-dot"]
"""Tells lines apart without their colours."""

Unit = Literal["count", "percent", "way", "bytes", "memory", "byte_rate", "rate", "seconds", "plain"]

_SAY: dict[Unit, Callable[[float | None], str]] = {
    "count": formats.count,
    "percent": lambda value: formats.percent(value, 1),
    "way": formats.way,
    "bytes": formats.byte_size,
    "memory": formats.memory_size,
    "byte_rate": formats.byte_rate,
    "rate": formats.rate,
    "seconds": formats.duration,
    "plain": lambda value: formats.NO_VALUE if value is None else formats.three_digits(value),
}


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    values: Sequence[float | None]
    """One per moment of the chart; None where nothing was measured: the line breaks, it does not fall."""
    paint: Paint = "ink"
    dash: Dash = "solid"
    fill: bool = False
    stepped: bool = False
    """Holds its value until the next one, as a weight does."""
    tag: str = ""
    """Written beside each value, which then is a dot and no part of a line."""
    live: str = ""
    """Path in the page's live topic from which new values come while the page is open."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A horizontal line that means something when a series crosses it."""

    name: str
    value: float
    paint: Paint = "warn"


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line: something happened then."""

    name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over time, or over a quantity. Every series has as many values as there are `moments`, or
    `positions`."""

    title: str
    moments: Sequence[datetime]
    series: Sequence[Series]
    unit: Unit = "plain"
    caption: str = ""
    """What the vertical axis shows, where the title alone does not say."""
    limits: Sequence[Limit] = ()
    marks: Sequence[Mark] = ()
    minimum: float | None = None
    maximum: float | None = None
    top_at_least: float | None = None
    """Where the picture ends at the least, so that a trifle does not look like a mountain."""
    logarithmic: bool = False
    since: datetime | None = None
    until: datetime | None = None
    """The stretch of time that the picture covers at the least; None: from the first moment, to the last."""
    window_seconds: int = field(default=0)
    """How much of the past a live chart keeps; 0: all of it."""
    step_seconds: int = 0
    """Live values closer together than this replace the last one, so that old and new are equally fine."""
    join_seconds: float = 0.0
    """Live values further apart than this are no neighbours: the line breaks. 0: it never does."""
    positions: Sequence[float] = ()
    """On the horizontal axis, ascending, where that is no time; `moments` is empty then."""
    axis: str = ""
    """What `positions` are, with their unit."""

    def __post_init__(self) -> None:
        places, of = len(self.positions or self.moments), "positions" if self.positions else "moments"
        for series in self.series:
            if len(series.values) != places:
                raise ValueError(f"{series.name!r} has {len(series.values)} values for {places} {of}.")

    def say(self, value: float | None) -> str:
        return _SAY[self.unit](value)

    @property
    def is_empty(self) -> bool:
        return not any(value is not None for series in self.series for value in series.values)

    @property
    def rows(self) -> list[dict[str, str]]:
        """Last, lowest and highest value of each series: the table behind the picture."""
        table = []
        for series in self.series:
            known = [value for value in series.values if value is not None]
            table.append(
                {
                    "name": series.name,
                    "paint": series.paint,
                    "dash": series.dash,
                    "last": self.say(known[-1] if known else None),
                    "lowest": self.say(min(known, default=None)),
                    "highest": self.say(max(known, default=None)),
                }
            )
        return table

    @property
    def points(self) -> list[tuple[str, list[str]]]:
        """The table behind a picture over a quantity: each position and the value of each series there."""
        return [
            (formats.three_digits(position), [self.say(series.values[place]) for series in self.series])
            for place, position in enumerate(self.positions)
        ]

    @property
    def in_words(self) -> str:
        if self.is_empty:
            return _("%(title)s: nothing measured yet.") % {"title": self.title}
        parts = [
            _("%(row)s last %(last)s, between %(lowest)s and %(highest)s")
            % {"row": row["name"], "last": row["last"], "lowest": row["lowest"], "highest": row["highest"]}
            for row in self.rows
        ]
        parts += [
            _("limit %(limit)s at %(limit_2)s") % {"limit": limit.name, "limit_2": self.say(limit.value)}
            for limit in self.limits
        ]
        return f"{self.title}: {'; '.join(parts)}."

    @property
    def as_data(self) -> dict[str, Any]:
        """Return the data that `static/js/charts.js` reads; times in seconds since 1970."""
        return {
            "unit": self.unit,
            "x": list(self.positions) or [moment.timestamp() for moment in self.moments],
            "axis": self.axis,
            "series": [{**asdict(series), "values": list(series.values)} for series in self.series],
            "limits": [asdict(limit) for limit in self.limits],
            "marks": [{"name": mark.name, "at": mark.at.timestamp()} for mark in self.marks],
            "minimum": self.minimum,
            "maximum": self.maximum,
            "top_at_least": self.top_at_least,
            "logarithmic": self.logarithmic,
            "since": self.since and self.since.timestamp(),
            "until": self.until and self.until.timestamp(),
            "window": self.window_seconds,
            "step": self.step_seconds,
            "join": self.join_seconds,
        }


def sparkline(
    values: Sequence[float | None], *, width: int, height: int, top: float | None = None
) -> tuple[str, str]:
    """SVG path data of a line through `values` and of the area below it, from 0 to `top` (or the highest).

    Missing values break the line.
    """
    known = [value for value in values if value is not None]
    highest = top if top is not None else max(known, default=0.0)
    scale = (height - 2) / highest if highest > 0 else 0.0
    step = width / (len(values) - 1) if len(values) > 1 else 0.0
    line: list[str] = []
    area: list[str] = []
    run: list[tuple[float, float]] = []

    def finish() -> None:
        if run:
            points = " L".join(f"{x:.1f} {y:.1f}" for x, y in run)
            line.append(f"M{points}")
            area.append(f"M{run[0][0]:.1f} {height} L{points} L{run[-1][0]:.1f} {height} Z")
            run.clear()

    for index, value in enumerate(values):
        if value is None:
            finish()
        else:
            run.append((index * step, height - 1 - min(max(value, 0.0), highest) * scale))
    finish()
    return " ".join(line), " ".join(area)
