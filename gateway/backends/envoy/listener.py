"""The listener: what Envoy counts, logs and answers by itself. Pure."""

from typing import Any

from gateway.backends.envoy.abilities import COUNTED_AS, METADATA, ability_route
from gateway.backends.envoy.client_access import NAMESPACE, discovered_filters
from gateway.backends.envoy.clusters import file_source
from gateway.backends.envoy.layout import LISTENER, ROUTES, EnvoyFileLayout
from gateway.backends.envoy.messages.access_log import AccessLog, CounterStat, Stat, StatsAccessLog
from gateway.backends.envoy.messages.base import Typed, extension, typed
from gateway.backends.envoy.messages.listener import (
    CidrRange,
    EnvoyListener,
    HttpConnectionManager,
    LocalReplyConfig,
    ReplyFormat,
    ReplyMapper,
)
from gateway.backends.envoy.messages.routes import RouteConfiguration
from gateway.backends.envoy.routes import API_PREFIX, OUTSIDE_API, STREAM_IDLE_SECONDS
from gateway.backends.envoy.tracing import tracing

STATS_PREFIX = "slipway"
CUT_OFF = ["UC", "UPE", "UR", "LR"]
"""Response flags of an answer that broke off: the worker closed, broke the protocol, or was reset."""
SILENT = ["SI", "UT", "UMSDR", "DPE"]


def render_listener(layout: EnvoyFileLayout, *, routes: RouteConfiguration | None = None) -> EnvoyListener:
    """`routes` makes them part of it, for Envoy to judge both together; otherwise they are watched as a
    file."""
    manager: HttpConnectionManager = {
        "stat_prefix": STATS_PREFIX,
        "server_name": "slipway",
        "http_filters": [
            # Their files are ours and data alone: routes are judged without them.
            *(discovered_filters(layout) if routes is None else ()),
            extension("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router"),
        ],
        "access_log": _access_logs(layout),
        # Counts a request when it arrives as well.
        "access_log_options": {"flush_access_log_on_new_request": True},
        "local_reply_config": _local_replies(),
        # Clients are strangers, those on this machine too, which by default are not: their x-envoy-* headers,
        # which can shorten timeouts and ask for retries, and their x-forwarded-for are not believed.
        "use_remote_address": True,
        "internal_address_config": {"cidr_ranges": [_NOBODY]},
        "stream_idle_timeout": f"{STREAM_IDLE_SECONDS}s",
        "request_headers_timeout": f"{layout.header_seconds}s",
        "request_timeout": f"{layout.request_seconds}s",
        # Of connections on which no request is under way; an answer may take as long as it moves.
        "common_http_protocol_options": {"idle_timeout": f"{layout.idle_seconds}s"},
        "normalize_path": True,
        # Model ids such as org%2Fname stand in paths.
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "preserve_external_request_id": True,
        "always_set_request_id_in_response": True,
    }
    if layout.otlp:
        manager["tracing"] = tracing(layout.otlp)
    if routes is None:
        source = file_source(str(layout.routes), str(layout.routes.parent))
        manager["rds"] = {"route_config_name": ROUTES, "config_source": source}
    else:
        manager["route_config"] = routes
    return {
        "name": LISTENER,
        "address": {"socket_address": {"address": layout.bind, "port_value": layout.port}},
        # A second gateway on the same port must fail, not take half of the connections.
        "enable_reuse_port": False,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": typed(
                            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                            manager,
                        ),
                    }
                ]
            }
        ],
    }


_NOBODY: CidrRange = {"address_prefix": "255.255.255.255", "prefix_len": 32}


def listener_messages(layout: EnvoyFileLayout) -> list[Typed]:
    return [typed("envoy.config.listener.v3.Listener", render_listener(layout))]


def _access_logs(layout: EnvoyFileLayout) -> list[AccessLog]:
    ended = _all(_log_type("DownstreamEnd"), _REFUSED_NOT)
    return [
        _stats(_TAGS, _log_type("DownstreamStart"), counters=["routed"]),
        _stats(_TAGS, _all(_log_type("DownstreamEnd"), _REFUSED), counters=["turned_away"]),
        *_stats_of_ended(_TAGS, ended),
        *_stats_of_ended(_ABILITY_TAGS, ended, _BY_ABILITY),
        *_stats_of_clients(ended),
        {
            "name": "envoy.access_loggers.file",
            "filter": _log_type("DownstreamEnd"),
            "typed_config": typed(
                "envoy.extensions.access_loggers.file.v3.FileAccessLog",
                {"path": str(layout.access_log), "log_format": {"json_format": _LINE}},
            ),
        },
    ]


_LINE = {
    "at": "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ)%",
    "route": "%ROUTE_NAME%",
    "key": f"%DYNAMIC_METADATA({NAMESPACE}:key)%",
    "target": "%UPSTREAM_CLUSTER%",
    "worker": "%UPSTREAM_HOST%",
    "version": "%RESP(X-SLIPWAY-VERSION)%",
    "status": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "received_bytes": "%BYTES_RECEIVED%",
    "sent_bytes": "%BYTES_SENT%",
    "duration_ms": "%DURATION%",
    "first_byte_ms": "%RESPONSE_DURATION%",
}
"""Without the query, which may carry what is nobody's business."""

StatTags = list[tuple[str, str]]
_TAGS: StatTags = [("target", "%UPSTREAM_CLUSTER_RAW%"), ("route", "%ROUTE_NAME%")]
_ABILITY_TAGS: StatTags = [("target", f"%UPSTREAM_METADATA({METADATA}:target)%"), ("route", COUNTED_AS)]
"""The cluster of an ability holds workers of several deployments."""


def _stats_of_ended(tags: StatTags, *which: dict[str, Any]) -> list[AccessLog]:
    return [
        _stats(tags, _all(*which), counters=["ended"]),
        _stats(tags, _all(*which, _status("EQ", 0)), counters=["abandoned"]),
        _stats(tags, _all(*which, _FAILED), counters=["errors"]),
        _stats(tags, _all(*which, _flags(CUT_OFF), _status("LE", 499)), counters=["broken"]),
        _stats(
            tags,
            _all(*which, _WHOLE_AND_GOOD),
            # From the request's first byte to the answer's last, and to the first that the worker sent.
            histograms={
                "latency_us": "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)%",
                "first_byte_us": "%COMMON_DURATION(DS_RX_BEG:US_RX_BEG:us)%",
            },
        ),
    ]


def _stats_of_clients(ended: dict[str, Any]) -> list[AccessLog]:
    """Count requests by the key that they came with; `-` stands for the target of one that no worker got."""
    by_service = [("key", f"%DYNAMIC_METADATA({NAMESPACE}:key)%"), ("target", "%UPSTREAM_CLUSTER_RAW%")]
    by_ability = [by_service[0], _ABILITY_TAGS[0]]
    tokens = {
        name: f"%DYNAMIC_METADATA({NAMESPACE}:{name})%" for name in ("prompt_tokens", "completion_tokens")
    }
    refused = _all(_log_type("DownstreamEnd"), _REFUSED)
    logs = [_stats(by_service, refused, counters=["client_refused"])]
    for tags, which in ((by_service, _BY_SERVICE), (by_ability, _BY_ABILITY)):
        logs += [
            _stats(tags, _all(ended, which), counters=["client_requests"], sums=tokens),
            _stats(tags, _all(ended, which, _FAILED), counters=["client_errors"]),
        ]
    return logs


def _stats(
    tags: StatTags,
    when: dict[str, Any],
    *,
    counters: list[str] | None = None,
    sums: dict[str, str] | None = None,
    histograms: dict[str, str] | None = None,
) -> AccessLog:
    def stat(name: str) -> Stat:
        return {"name": name, "tags": [{"name": tag, "value_format": value} for tag, value in tags]}

    counted: list[CounterStat] = [{"stat": stat(name), "value_fixed": 1} for name in counters or []]
    counted += [{"stat": stat(name), "value_format": value} for name, value in (sums or {}).items()]
    body: StatsAccessLog = {
        "stats_scope": {"prefix": STATS_PREFIX},
        "counters": counted,
        "histograms": [
            {"stat": stat(name), "unit": "Microseconds", "value_format": value}
            for name, value in (histograms or {}).items()
        ],
    }
    return {
        "name": "envoy.access_loggers.stats",
        "filter": when,
        "typed_config": typed("envoy.extensions.access_loggers.stats.v3.Config", body),
    }


def _log_type(name: str) -> dict[str, Any]:
    return {"log_type_filter": {"types": [name]}}


def _status(op: str, value: int) -> dict[str, Any]:
    comparison = {"op": op, "value": {"default_value": value, "runtime_key": "slipway.none"}}
    return {"status_code_filter": {"comparison": comparison}}


def _flags(flags: list[str]) -> dict[str, Any]:
    return {"response_flag_filter": {"flags": flags}}


def _all(*filters: dict[str, Any]) -> dict[str, Any]:
    if len(filters) == 1:
        return filters[0]
    return {"and_filter": {"filters": list(filters)}}


def _any(*filters: dict[str, Any]) -> dict[str, Any]:
    return {"or_filter": {"filters": list(filters)}}


def _expression(text: str) -> dict[str, Any]:
    """`text` in CEL."""
    return {
        "extension_filter": extension(
            "envoy.access_loggers.extension_filters.cel",
            "envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
            {"expression": text},
        )
    }


_BY_ABILITY = _expression(f"xds.route_name.endsWith('{ability_route('')}')")
_BY_SERVICE = _expression(
    f"!xds.route_name.endsWith('{ability_route('')}') && !xds.route_name.startsWith('-')"
)
_FAILED = _any(_status("GE", 500), _flags(CUT_OFF))


def _refused(value: str) -> dict[str, Any]:
    matcher = {
        "filter": NAMESPACE,
        "path": [{"key": "refused"}],
        "value": {"string_match": {"exact": value}},
    }
    return {"metadata_filter": {"matcher": matcher, "match_if_key_not_found": value == "0"}}


_REFUSED, _REFUSED_NOT = _refused("1"), _refused("0")
"""For want of a key, or for its limit: no version has to do with such requests."""
# The details change when either side broke off; only whole answers have both ends of a duration.
_WHOLE_AND_GOOD = _expression("response.code_details == 'via_upstream' && response.code < 400")


def _local_replies() -> LocalReplyConfig:
    """Problem documents (RFC 9457) for all that Envoy answers in a worker's stead."""

    def reply(when: dict[str, Any], status: int, title: str, detail: str) -> ReplyMapper:
        mapper: ReplyMapper = {
            "filter": when,
            "status_code": status,
            "body_format_override": _problem(title, detail),
        }
        if status == 503:
            mapper["headers_to_add"] = [
                {
                    "header": {"key": "retry-after", "value": "1"},
                    "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                }
            ]
        return mapper

    return {
        "mappers": [
            reply(
                _all(_status("EQ", 404), _expression(f"xds.route_name == '{OUTSIDE_API}'")),
                404,
                "Not part of the model's API",
                f"Through the gateway a model answers under /<service>{API_PREFIX}/ only, for example "
                f"/chat{API_PREFIX}/models. A worker's health and metrics are asked of the worker itself.",
            ),
            reply(
                _status("EQ", 404),
                404,
                "No such service",
                "No service answers to this path. Paths read /<service>/..., for example /chat/v1/models.",
            ),
            reply(
                _status("EQ", 429),
                429,
                "The limit of this key is reached",
                "The key may be used for so many requests and tokens a minute only. x-ratelimit-reset says "
                "after how many seconds to try again.",
            ),
            reply(_status("EQ", 401), 401, "A key is needed", "%LOCAL_REPLY_BODY%"),
            reply(_status("EQ", 403), 403, "This key may not use the service", "%LOCAL_REPLY_BODY%"),
            reply(
                _flags(["UH", "NC"]),
                503,
                "No worker is ready",
                "This service has no worker that can take a request now. Try again shortly.",
            ),
            reply(
                _flags(["UF"]),
                503,
                "No worker could be reached",
                "The workers of this service refuse connections. Try again shortly.",
            ),
            reply(
                _flags(CUT_OFF),
                502,
                "The worker broke off",
                "The worker ended the connection before it answered.",
            ),
            reply(
                _flags(SILENT),
                504,
                "The worker was silent for too long",
                f"Nothing moved on this request for {STREAM_IDLE_SECONDS} s.",
            ),
        ],
        "body_format": _problem("The gateway cannot take this request", "%LOCAL_REPLY_BODY%"),
    }


def _problem(title: str, detail: str) -> ReplyFormat:
    return {
        "json_format": {
            "type": "about:blank",
            "title": title,
            "status": "%RESPONSE_CODE%",
            "detail": detail,
        },
        "content_type": "application/problem+json",
    }
