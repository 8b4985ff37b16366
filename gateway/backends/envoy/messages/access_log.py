"""Access logs, and what is counted from them."""

from typing import Any, Literal, TypedDict

from gateway.backends.envoy.messages.base import Typed


class AccessLog(TypedDict, total=False):
    name: str
    filter: dict[str, Any]
    typed_config: Typed


class StatTag(TypedDict):
    name: str
    value_format: str


class Stat(TypedDict):
    name: str
    tags: list[StatTag]


class CounterStat(TypedDict, total=False):
    stat: Stat
    value_fixed: int
    value_format: str


class HistogramStat(TypedDict):
    stat: Stat
    unit: Literal["Microseconds"]
    value_format: str


class StatsScope(TypedDict):
    prefix: str


class StatsAccessLog(TypedDict, total=False):
    stats_scope: StatsScope
    counters: list[CounterStat]
    histograms: list[HistogramStat]


class LogFormat(TypedDict):
    json_format: dict[str, str]


class FileAccessLog(TypedDict):
    path: str
    log_format: LogFormat
