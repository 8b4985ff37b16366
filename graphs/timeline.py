"""Calls of tasks over time as bars: those of one item by node, those of the last seconds by process."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from common.pages import formats

LABEL, WIDTH, ROW = 190, 720, 24
PALETTE = 8
"""Colours of items, which repeat."""
TICKS = 6


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """A call. waited: width of the time before it in a queue. tone: number of its colour."""

    x: float
    width: float
    waited: float
    tone: int
    outcome: str
    title: str

    @property
    def queued_x(self) -> float:
        return round(self.x - self.waited, 1)


@dataclass(slots=True)
class TimelineRow:
    name: str
    y: int
    bars: list[TimelineBar] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture in pixels. ticks: place and seconds from its beginning."""

    rows: list[TimelineRow]
    ticks: list[tuple[float, str]]
    width: int = LABEL + WIDTH + 10
    label: int = LABEL

    @property
    def height(self) -> int:
        return 26 + ROW * len(self.rows)


Spans = Iterable[Mapping[str, Any]]


def of_item(spans: Spans) -> Timeline:
    """Calls of one item: a row for each node, the time in queues before them."""
    several = sorted(spans, key=lambda one: one["began"])
    if not several:
        return Timeline([], [])
    begin = min(one["queued"] for one in several)
    end = max(one["ended"] for one in several)
    return _drawn(several, begin, end, row=lambda one: str(one["node"]), with_waits=True)


def of_processes(spans: Spans, *, now: float, seconds: float) -> Timeline:
    """Calls of the last seconds: a row for each process; gaps are bubbles."""
    several = sorted(spans, key=lambda one: (one["task"], one["replica"], one["began"]))
    # Units of one batch are one bar.
    calls = {(one["task"], one["replica"], one["began"]): one for one in several}
    return _drawn(
        calls.values(),
        max(0.0, now - seconds),
        now,
        row=lambda one: f"{one['task']} #{one['replica']}",
        with_waits=False,
    )


def _drawn(spans: Spans, begin: float, end: float, *, row: Any, with_waits: bool) -> Timeline:
    scale = WIDTH / max(end - begin, 1e-6)
    rows: dict[str, TimelineRow] = {}
    for one in spans:
        name = row(one)
        line = rows.setdefault(name, TimelineRow(name, 22 + ROW * len(rows)))
        began = max(begin, one["began"])
        queued = max(begin, one["queued"]) if with_waits else began
        line.bars.append(
            TimelineBar(
                x=round(LABEL + (began - begin) * scale, 1),
                width=round(max(1.5, (one["ended"] - began) * scale), 1),
                waited=round(max(0.0, (began - queued) * scale), 1),
                tone=one["item"] % PALETTE,
                outcome=one["outcome"],
                title=f"{one['node']}: {1000 * (one['ended'] - one['began']):.1f} ms, #{one['item']}",
            )
        )
    steps = [number / TICKS for number in range(TICKS + 1)]
    ticks = [(round(LABEL + WIDTH * step, 1), formats.duration((end - begin) * step)) for step in steps]
    return Timeline(list(rows.values()), ticks)
