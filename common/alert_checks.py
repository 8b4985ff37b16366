"""Checks that the control plane makes itself, without Prometheus: apps give them in their manifests."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from prometheus_client.metrics_core import Metric

from common.languages import Text

Severity = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True)
class AlertFinding:
    """Something that a check finds wrong at this moment."""

    labels: Mapping[str, str]
    """Names such as `cluster`, `service`, `worker`: they tell it from the check's other findings."""
    value: float = 1.0
    address: str = ""
    """Page of what it is about; empty: that of its service or cluster, if a label names one."""
    team_id: int | None = None
    """Owner; None: that of its service or cluster, or else the installation."""
    summary: str = ""
    """Words of an outside system, untranslated."""


@dataclass(frozen=True, slots=True)
class MetricCondition:
    """The condition of a check over our exported metrics, from which its rule for Prometheus is written."""

    expr: str
    by: tuple[str, ...] = ()
    """Labels that tell its alerts apart."""


def beyond(
    name: str, limit: float = 0.0, *, by: tuple[str, ...] = (), is_below: bool = False, **where: str
) -> MetricCondition:
    """Return the condition that the metric `slipway_<name>` is above the limit (`is_below`: below it).

    Every web tells what describes the installation: the largest of their values counts.
    """
    chosen = ",".join(f'{label}="{value}"' for label, value in where.items())
    series = f"slipway_{name}{{{chosen}}}" if chosen else f"slipway_{name}"
    grouped = f"max by ({', '.join(by)}) " if by else "max"  # untranslated
    return MetricCondition(f"{grouped}({series}) {'<' if is_below else '>'} {limit:g}", by)


@dataclass(frozen=True, slots=True)
class MetricFinder:
    """Finds the samples of a metric that are beyond its limit: made by `measured`."""

    read: Callable[[], Iterable[Metric]]
    name: str
    limit: float
    address: str
    is_below: bool
    where: Mapping[str, str]
    condition: MetricCondition

    def __call__(self) -> Iterator[AlertFinding]:
        for metric in self.read():
            if metric.name != f"slipway_{self.name}":
                continue
            for sample in metric.samples:
                is_meant = all(sample.labels.get(label) == value for label, value in self.where.items())
                if is_meant and (sample.value < self.limit if self.is_below else sample.value > self.limit):
                    labels = {label: text for label, text in sample.labels.items() if label not in self.where}
                    yield AlertFinding(labels, sample.value, address=self.address)


def measured(
    read: Callable[[], Iterable[Metric]],
    name: str,
    limit: float = 0.0,
    *,
    by: tuple[str, ...] = (),
    address: str = "",
    is_below: bool = False,
    **where: str,
) -> MetricFinder:
    """Find the samples of the metric `slipway_<name>` above the limit (`is_below`: below it).

    `by`: labels by which Prometheus tells alerts apart. `where`: values of labels that a sample must have,
    which then say nothing more about it.
    """
    condition = beyond(name, limit, by=by, is_below=is_below, **where)
    return MetricFinder(read, name, limit, address, is_below, where, condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCheck:
    """A check, stated once: `manage.py alert_rules` writes a rule for Prometheus from it where a metric shows
    the same."""

    name: str
    """`SlipwayWorkersLost`, as the rule for Prometheus is called."""
    title: Text
    severity: Severity
    find: Callable[[], Iterable[AlertFinding]]
    """Reads rows; takes a second at most."""
    metric: MetricCondition | None = None
    """The same over metrics, where `find` reads rows: as coarse as they are."""
    lasts: timedelta = field(default=timedelta(0))
    """How long it must hold before it fires."""
    note: Text = ""
    """What it means, or what to do."""

    @property
    def condition(self) -> MetricCondition | None:
        return self.find.condition if isinstance(self.find, MetricFinder) else self.metric
