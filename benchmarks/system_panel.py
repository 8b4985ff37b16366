"""System figures of a run as charts on one axis of time, with the beginnings of its windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from statistics import fmean
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from benchmarks.load.scenario import LoadScenario
from benchmarks.models import BenchmarkRun
from benchmarks.styles import STYLES, unit_of_rate
from common.pages.charts import Chart, Mark, Series, Unit

MOST_OF_ONE = len(STYLES)
"""Of more machines or GPUs, their mean, lowest and highest are shown."""


@dataclass(frozen=True, slots=True)
class SystemChart:
    title: Any
    unit: Unit
    figures: Mapping[str, Any]
    """Names of figures as the sampler has them, and in words."""
    maximum: float | None = None


CHARTS: Sequence[SystemChart] = (
    SystemChart(gettext_lazy("CPU"), "percent", {"cpu": gettext_lazy("machine")}, maximum=1),
    SystemChart(gettext_lazy("CPU of the workers, cores"), "plain", {"worker_cpu": gettext_lazy("workers")}),
    SystemChart(
        gettext_lazy("Memory"),
        "memory",
        {"memory": gettext_lazy("machine"), "worker_memory": gettext_lazy("workers")},
    ),
    SystemChart(
        gettext_lazy("Requests at the server"),
        "plain",
        {"running": gettext_lazy("running"), "waiting": gettext_lazy("waiting")},
    ),
    SystemChart(gettext_lazy("KV cache"), "percent", {"kv_cache": gettext_lazy("used")}, maximum=1),
    SystemChart(gettext_lazy("GPU use"), "percent", {"gpu_use": "GPU"}, maximum=1),
    SystemChart(gettext_lazy("GPU memory"), "memory", {"gpu_memory": "GPU"}),
    SystemChart(gettext_lazy("GPU power, W"), "plain", {"gpu_power": "GPU"}),
    SystemChart(gettext_lazy("GPU clock, MHz"), "plain", {"gpu_clock": "GPU"}),
    SystemChart(gettext_lazy("GPU temperature, °C"), "plain", {"gpu_temperature": "GPU"}),
)


def system_charts(run: BenchmarkRun, system: Mapping[str, Any], load: LoadScenario) -> list[Chart]:
    """Return a chart for each kind of figure that was sampled; all cover the same time."""
    if not system:
        return []
    began, step = system["began"], system["step"]
    count = max(len(values) for values in system["series"].values()) if system["series"] else 0
    moments = [datetime.fromtimestamp(began, UTC) + timedelta(seconds=step * place) for place in range(count)]
    marks = [
        Mark(f"{window['rate']:g} {unit_of_rate(load)}", datetime.fromtimestamp(window["began_at"], UTC))
        for window in run.environment.get("windows", ())
    ]
    found = []
    for chart in CHARTS:
        named = [
            (" ".join(filter(None, (str(words), of))), values)
            for figure, words in chart.figures.items()
            for of, values in _series(system["series"], figure)
        ]
        if named:
            found.append(
                Chart(
                    title=str(chart.title),
                    moments=moments,
                    series=[
                        Series(name, values, paint=paint, dash=dash)
                        for (name, values), (paint, dash) in zip(named, cycle(STYLES), strict=False)
                    ],
                    unit=chart.unit,
                    marks=marks,
                    minimum=0,
                    maximum=chart.maximum,
                    since=moments[0],
                    until=moments[-1],
                )
            )
    return found


def _series(
    series: Mapping[str, Sequence[float | None]], figure: str
) -> list[tuple[str, Sequence[float | None]]]:
    """Return the values of the figure by what they are of."""
    found = [
        (name.partition(" ")[2], values)
        for name, values in series.items()
        if name.partition(" ")[0] == figure
    ]
    if len(found) <= MOST_OF_ONE:
        return found
    moments = [
        [value for value in some if value is not None] for some in zip(*(v for _of, v in found), strict=True)
    ]
    return [
        (name, [summed(some) if some else None for some in moments])
        for name, summed in ((_("mean"), fmean), (_("lowest"), min), (_("highest"), max))
    ]
