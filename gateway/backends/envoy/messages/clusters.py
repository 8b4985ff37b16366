"""Clusters and their endpoints."""

from typing import Literal, NotRequired, TypedDict

from gateway.backends.envoy.messages.base import ConfigSource, EnvoyAddress, Extension, Typed


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


class EnvoyCluster(TypedDict):
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
    address: EnvoyAddress


class EnvoyMetadata(TypedDict):
    filter_metadata: dict[str, dict[str, str]]


class LbEndpoint(TypedDict):
    endpoint: LbAddress
    load_balancing_weight: int
    metadata: EnvoyMetadata


class LocalityLbEndpoints(TypedDict):
    lb_endpoints: list[LbEndpoint]
    priority: NotRequired[int]


class ClusterLoadAssignment(TypedDict):
    cluster_name: str
    endpoints: list[LocalityLbEndpoints]
