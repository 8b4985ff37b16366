"""Messages of routes: a virtual host, its routes, and where they lead."""

from typing import Literal, NotRequired, Required, TypedDict

from gateway.backends.envoy.messages.base import Extension, StringMatcher


class HeaderValue(TypedDict):
    key: str
    value: str


class HeaderValueOption(TypedDict):
    header: HeaderValue
    append_action: Literal["OVERWRITE_IF_EXISTS_OR_ADD"]


class HeaderMatcher(TypedDict, total=False):
    name: Required[str]
    string_match: StringMatcher
    present_match: bool


class RouteMatch(TypedDict, total=False):
    prefix: str
    path_separated_prefix: str
    headers: list[HeaderMatcher]


class ClusterWeight(TypedDict):
    name: str
    weight: int
    response_headers_to_add: list[HeaderValueOption]


class WeightedClusters(TypedDict, total=False):
    clusters: Required[list[ClusterWeight]]
    use_hash_policy: bool


class HeaderHash(TypedDict):
    header_name: str


class HashPolicy(TypedDict):
    header: HeaderHash


class RetryBackOff(TypedDict):
    base_interval: str
    max_interval: str


class RetryPolicy(TypedDict):
    retry_on: str
    retriable_headers: NotRequired[list[HeaderMatcher]]
    num_retries: int
    retry_priority: NotRequired[Extension]
    retry_host_predicate: list[Extension]
    host_selection_retry_max_attempts: int
    retry_back_off: RetryBackOff


class FractionalPercent(TypedDict):
    numerator: int
    denominator: Literal["HUNDRED"]


class RuntimeFraction(TypedDict):
    default_value: FractionalPercent


class RequestMirrorPolicy(TypedDict):
    cluster: str
    runtime_fraction: RuntimeFraction


class RouteAction(TypedDict, total=False):
    cluster: str
    weighted_clusters: WeightedClusters
    hash_policy: list[HashPolicy]
    request_mirror_policies: list[RequestMirrorPolicy]
    prefix_rewrite: str
    timeout: str
    idle_timeout: str
    retry_policy: RetryPolicy


class DirectResponse(TypedDict):
    status: int


class EnvoyRoute(TypedDict, total=False):
    name: str
    match: RouteMatch
    route: RouteAction
    direct_response: DirectResponse
    response_headers_to_add: list[HeaderValueOption]
    request_headers_to_add: list[HeaderValueOption]
    request_headers_to_remove: list[str]


class VirtualHost(TypedDict):
    name: str
    response_headers_to_remove: list[str]
    request_headers_to_remove: list[str]
    include_request_attempt_count: bool
    domains: list[str]
    routes: list[EnvoyRoute]


class RouteConfiguration(TypedDict):
    name: str
    validate_clusters: bool
    virtual_hosts: list[VirtualHost]
