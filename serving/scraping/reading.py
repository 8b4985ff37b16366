"""The metrics of a server at one moment, in our words, by the names that its engine has for them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serving.engines.spec import MetricNames, terms
from serving.protocol import Counters
from serving.scraping.exposition import Histogram, MetricSamples

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(?:="((?:[^"\\]|\\.)*)")?')


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counters and histograms count since the server's start."""

    waiting: int
    """Requests in its queue."""
    counters: Counters
    running: int | None = None
    """Requests that it works on; None: it does not say, and `worked_seconds` does."""
    worked_seconds: float | None = None
    """Time that requests were worked on, summed over requests."""
    kv_used: float | None = None
    """Share of the key-value cache, 0 to 1; None: it does not say."""
    ttft: Histogram | None = None
    """Seconds to the first token; None: it does not say."""
    tpot: Histogram | None = None
    """Seconds between tokens; None: it does not say."""
    started_at: float | None = None
    """Seconds since 1970; None: it does not say."""


def own_names(names: Mapping[str, str]) -> MetricNames:
    """Names that a service gives, by `relay_protocol.METRICS`. The gauge of running requests is always there;
    others are from their first value on."""
    present = (_bare(names["running"]),) if "running" in names else ()
    own: dict[str, Any] = {told: (series,) for told, series in names.items()}
    return MetricNames(present=present, **own)


def read(samples: MetricSamples, names: MetricNames) -> Reading | None:
    """Read the samples; None: these are not the metrics of a server with these names."""
    if not samples or (names.present and not any(name in samples for name in names.present)):
        return None

    def count(series: Sequence[str]) -> int:
        return round(_value(samples, series) or 0.0)

    return Reading(
        running=count(names.running) if names.running else None,
        worked_seconds=None
        if names.running
        else (_value(samples, names.worked_seconds) or 0.0) * names.worked_unit,
        waiting=count(names.waiting),
        kv_used=_value(samples, names.kv_used),
        counters=Counters(
            requests=count(names.requests),
            errors=count(names.errors),
            refused=count(names.refused),
            prompt_tokens=count(names.prompt_tokens),
            completion_tokens=count(names.completion_tokens),
        ),
        ttft=samples.histogram(*map(_bare, names.ttft)),
        tpot=samples.histogram(*map(_bare, names.tpot)),
        started_at=samples.total("process_start_time_seconds") or None,
    )


def _value(samples: MetricSamples, expressions: Sequence[str]) -> float | None:
    """Return the value of the first expression whose series are there; None: there is none."""
    for expression in expressions:
        series = terms(expression)
        if any(_bare(name) in samples for _, name in series):
            return sum(sign * _total(samples, name) for sign, name in series)
    return None


def _bare(name: str) -> str:
    return name.partition("{")[0]


def _total(samples: MetricSamples, name: str) -> float:
    """`requests_total{code="200"}`; a label without a value is there, with any."""
    bare, _, labels = name.partition("{")
    wanted = dict(_LABEL.findall(labels))
    exact = {label: value for label, value in wanted.items() if value}
    return samples.total(bare, needed=wanted.keys() - exact.keys(), **exact)
