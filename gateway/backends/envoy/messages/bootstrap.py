"""Messages of Envoy's bootstrap."""

from typing import TypedDict

from gateway.backends.envoy.messages.base import ConfigSource, EnvoyAddress, Extension, StringMatcher
from gateway.backends.envoy.messages.clusters import EnvoyCluster
from gateway.backends.envoy.messages.listener import EnvoyListener


class EnvoyNode(TypedDict):
    id: str
    cluster: str


class EnvoyAdmin(TypedDict):
    address: EnvoyAddress
    ignore_global_conn_limit: bool
    allow_paths: list[StringMatcher]


class DynamicResources(TypedDict):
    lds_config: ConfigSource
    cds_config: ConfigSource


class StaticResources(TypedDict):
    listeners: list[EnvoyListener]
    clusters: list[EnvoyCluster]


class HistogramBuckets(TypedDict):
    match: StringMatcher
    buckets: list[float]


class RegexMatcher(TypedDict):
    regex: str


class StatsInclusion(TypedDict):
    safe_regex: RegexMatcher


class StatsInclusionList(TypedDict):
    patterns: list[StatsInclusion]


class StatsMatcher(TypedDict):
    inclusion_list: StatsInclusionList


class StatsConfig(TypedDict):
    stats_matcher: StatsMatcher
    histogram_bucket_settings: list[HistogramBuckets]


class OverloadManager(TypedDict):
    resource_monitors: list[Extension]


class Bootstrap(TypedDict, total=False):
    node: EnvoyNode
    admin: EnvoyAdmin
    dynamic_resources: DynamicResources
    static_resources: StaticResources
    stats_config: StatsConfig
    stats_flush_interval: str
    overload_manager: OverloadManager
