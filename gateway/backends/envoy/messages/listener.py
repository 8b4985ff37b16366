"""The listener, and how it speaks HTTP."""

from typing import Any, Literal, TypedDict

from gateway.backends.envoy.messages.access_log import AccessLog
from gateway.backends.envoy.messages.base import ConfigSource, EnvoyAddress, Extension
from gateway.backends.envoy.messages.routes import HeaderValueOption, RouteConfiguration


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


class CommonHttpProtocolOptions(TypedDict):
    idle_timeout: str


class HttpConnectionManager(TypedDict, total=False):
    stat_prefix: str
    server_name: str
    rds: Rds
    route_config: RouteConfiguration
    http_filters: list[Extension]
    access_log: list[AccessLog]
    access_log_options: AccessLogOptions
    local_reply_config: LocalReplyConfig
    tracing: dict[str, Any]
    use_remote_address: bool
    internal_address_config: InternalAddresses
    stream_idle_timeout: str
    request_headers_timeout: str
    request_timeout: str
    common_http_protocol_options: CommonHttpProtocolOptions
    normalize_path: bool
    path_with_escaped_slashes_action: Literal["KEEP_UNCHANGED"]
    preserve_external_request_id: bool
    always_set_request_id_in_response: bool


class FilterChain(TypedDict):
    filters: list[Extension]


class EnvoyListener(TypedDict):
    name: str
    address: EnvoyAddress
    enable_reuse_port: bool
    filter_chains: list[FilterChain]
