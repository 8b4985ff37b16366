"""The parts of Envoy's v3 API that we write, as types: a misspelt field is an error of the type checker.

Field meanings: the `.proto` files under `api/envoy/` of Envoy 1.40. Durations are text such as `"1.5s"`.
"""

from typing import Any, Literal, TypedDict

TYPE_URL = "type.googleapis.com/"

Typed = dict[str, Any]
"""A message with its `@type`; made by `typed` alone."""


def typed(message: str, body: object) -> Typed:
    if not isinstance(body, dict):
        raise TypeError(f"{message} is written as an object, not as {type(body).__name__}.")
    return {"@type": TYPE_URL + message, **body}


class Extension(TypedDict):
    name: str
    typed_config: Typed


def extension(name: str, message: str, body: object = None) -> Extension:
    return {"name": name, "typed_config": typed(message, body or {})}


class SocketAddress(TypedDict):
    address: str
    port_value: int


class Address(TypedDict):
    socket_address: SocketAddress


class WatchedDirectory(TypedDict):
    path: str


class PathConfigSource(TypedDict):
    path: str
    watched_directory: WatchedDirectory


class ConfigSource(TypedDict):
    path_config_source: PathConfigSource
    resource_api_version: Literal["V3"]


class DiscoveryResponse(TypedDict):
    """One file."""

    version_info: str
    resources: list[Typed]


# Headers


class HeaderValue(TypedDict):
    key: str
    value: str


class HeaderValueOption(TypedDict):
    header: HeaderValue
    append_action: Literal["OVERWRITE_IF_EXISTS_OR_ADD"]


class StringMatcher(TypedDict, total=False):
    exact: str
    prefix: str


class HeaderMatcher(TypedDict):
    name: str
    string_match: StringMatcher


# Routes


class RouteMatch(TypedDict, total=False):
    prefix: str
    path: str
    headers: list[HeaderMatcher]


class ClusterWeight(TypedDict):
    name: str
    weight: int
    response_headers_to_add: list[HeaderValueOption]


class WeightedClusters(TypedDict):
    clusters: list[ClusterWeight]


class RetryBackOff(TypedDict):
    base_interval: str
    max_interval: str


class RetryPolicy(TypedDict):
    retry_on: str
    num_retries: int
    retry_host_predicate: list[Extension]
    host_selection_retry_max_attempts: int
    retry_back_off: RetryBackOff


class RouteAction(TypedDict, total=False):
    cluster: str
    weighted_clusters: WeightedClusters
    prefix_rewrite: str
    timeout: str
    idle_timeout: str
    retry_policy: RetryPolicy


class DirectResponse(TypedDict):
    status: int


class Route(TypedDict, total=False):
    name: str
    match: RouteMatch
    route: RouteAction
    direct_response: DirectResponse
    response_headers_to_add: list[HeaderValueOption]


class VirtualHost(TypedDict):
    name: str
    response_headers_to_remove: list[str]
    domains: list[str]
    routes: list[Route]


class RouteConfiguration(TypedDict):
    name: str
    validate_clusters: bool
    virtual_hosts: list[VirtualHost]


# Clusters and their endpoints


class EdsClusterConfig(TypedDict):
    eds_config: ConfigSource


class HttpHealthCheck(TypedDict):
    path: str


class HealthCheck(TypedDict):
    timeout: str
    interval: str
    interval_jitter: str
    no_traffic_interval: str
    unhealthy_interval: str
    unhealthy_threshold: int
    healthy_threshold: int
    http_health_check: HttpHealthCheck


class OutlierDetection(TypedDict):
    interval: str
    base_ejection_time: str
    max_ejection_time: str
    max_ejection_percent: int
    split_external_local_origin_errors: bool
    consecutive_local_origin_failure: int
    consecutive_5xx: int
    enforcing_consecutive_5xx: int
    enforcing_success_rate: int
    enforcing_local_origin_success_rate: int
    successful_active_health_check_uneject_host: bool


class Percent(TypedDict):
    value: float


class CommonLbConfig(TypedDict):
    healthy_panic_threshold: Percent
    ignore_new_hosts_until_first_hc: bool
    update_merge_window: str


class LoadBalancingEntry(TypedDict):
    typed_extension_config: Extension


class LoadBalancingPolicy(TypedDict):
    policies: list[LoadBalancingEntry]


class Thresholds(TypedDict):
    max_connections: int
    max_pending_requests: int
    max_requests: int
    max_retries: int


class CircuitBreakers(TypedDict):
    thresholds: list[Thresholds]


class TcpKeepalive(TypedDict):
    keepalive_probes: int
    keepalive_time: int
    keepalive_interval: int


class UpstreamConnectionOptions(TypedDict):
    tcp_keepalive: TcpKeepalive


class Cluster(TypedDict):
    name: str
    type: Literal["EDS"]
    eds_cluster_config: EdsClusterConfig
    connect_timeout: str
    ignore_health_on_host_removal: bool
    health_checks: list[HealthCheck]
    outlier_detection: OutlierDetection
    common_lb_config: CommonLbConfig
    load_balancing_policy: LoadBalancingPolicy
    circuit_breakers: CircuitBreakers
    upstream_connection_options: UpstreamConnectionOptions
    typed_extension_protocol_options: dict[str, Typed]


class LbAddress(TypedDict):
    address: Address


class LbEndpoint(TypedDict):
    endpoint: LbAddress


class LocalityLbEndpoints(TypedDict):
    lb_endpoints: list[LbEndpoint]


class ClusterLoadAssignment(TypedDict):
    cluster_name: str
    endpoints: list[LocalityLbEndpoints]


# Access logs and what is counted from them


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


class CounterStat(TypedDict):
    stat: Stat
    value_fixed: int


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


# The listener


class ReplyFormat(TypedDict):
    json_format: dict[str, str]
    content_type: str


class ReplyMapper(TypedDict, total=False):
    filter: dict[str, Any]
    status_code: int
    headers_to_add: list[HeaderValueOption]
    body_format_override: ReplyFormat


class LocalReplyConfig(TypedDict):
    mappers: list[ReplyMapper]
    body_format: ReplyFormat


class Rds(TypedDict):
    route_config_name: str
    config_source: ConfigSource


class AccessLogOptions(TypedDict):
    flush_access_log_on_new_request: bool


class CidrRange(TypedDict):
    address_prefix: str
    prefix_len: int


class InternalAddresses(TypedDict):
    cidr_ranges: list[CidrRange]


class HttpConnectionManager(TypedDict, total=False):
    stat_prefix: str
    server_name: str
    rds: Rds
    route_config: RouteConfiguration
    http_filters: list[Extension]
    access_log: list[AccessLog]
    access_log_options: AccessLogOptions
    local_reply_config: LocalReplyConfig
    use_remote_address: bool
    internal_address_config: InternalAddresses
    stream_idle_timeout: str
    request_headers_timeout: str
    normalize_path: bool
    path_with_escaped_slashes_action: Literal["KEEP_UNCHANGED"]
    preserve_external_request_id: bool
    always_set_request_id_in_response: bool


class FilterChain(TypedDict):
    filters: list[Extension]


class Listener(TypedDict):
    name: str
    address: Address
    enable_reuse_port: bool
    filter_chains: list[FilterChain]


# The bootstrap


class Node(TypedDict):
    id: str
    cluster: str


class Admin(TypedDict):
    address: Address
    ignore_global_conn_limit: bool
    allow_paths: list[StringMatcher]


class DynamicResources(TypedDict):
    lds_config: ConfigSource
    cds_config: ConfigSource


class StaticResources(TypedDict):
    listeners: list[Listener]
    clusters: list[Cluster]


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
    node: Node
    admin: Admin
    dynamic_resources: DynamicResources
    static_resources: StaticResources
    stats_config: StatsConfig
    stats_flush_interval: str
    overload_manager: OverloadManager
