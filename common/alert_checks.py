"""Checks that the control plane makes itself, without Prometheus: apps give them in their manifests."""

from collections.abc import Callable, Iterable, Mapping
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCheck:
    name: str
    """That of the rule for Prometheus, where there is one: `SlipwayWorkersLost`."""
    title: Text
    severity: Severity
    find: Callable[[], Iterable[AlertFinding]]
    """Reads rows; takes a second at most."""
    lasts: timedelta = field(default=timedelta(0))
    """How long it must hold before it fires."""
    note: Text = ""
    """What it means, or what to do."""


def measured(
    read: Callable[[], Iterable[Metric]],
    name: str,
    limit: float = 0.0,
    *,
    address: str = "",
    is_below: bool = False,
    **where: str,
) -> Callable[[], Iterable[AlertFinding]]:
    """Find the samples of the metric `slipway_<name>` above the limit (`is_below`: below it).

    `where`: values of labels that a sample must have, which then say nothing more about it.
    """

    def find() -> Iterable[AlertFinding]:
        for metric in read():
            if metric.name != f"slipway_{name}":
                continue
            for sample in metric.samples:
                is_meant = all(sample.labels.get(label) == value for label, value in where.items())
                if is_meant and (sample.value < limit if is_below else sample.value > limit):
                    labels = {label: text for label, text in sample.labels.items() if label not in where}
                    yield AlertFinding(labels, sample.value, address=address)

    return find
