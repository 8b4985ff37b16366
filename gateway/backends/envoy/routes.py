"""Routes, rendered from the state. Pure."""

from collections.abc import Mapping, Sequence

from gateway.backends.envoy.abilities import METADATA, ability_route, as_route, shares
from gateway.backends.envoy.clusters import HEALTH_PATH
from gateway.backends.envoy.layout import ROUTES
from gateway.backends.envoy.messages.base import Typed, extension, typed
from gateway.backends.envoy.messages.routes import (
    ClusterWeight,
    EnvoyRoute,
    FractionalPercent,
    HeaderValueOption,
    RetryPolicy,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
    WeightedClusters,
)
from gateway.backends.state import GatewayState
from gateway.cohorts import cookie_pattern
from gateway.routes import AbilitySpec, Cohort, RouteSpec, RouteTarget, Side
from serving.protocol import CHOSEN_BY_HEADER, KEEP_HEADER, OVERFLOW_HEADER, PREFIX_HEADER

API_PREFIX = "/v1"
"""Of a worker only what lies under it answers through the gateway, unless its service has its own routes."""
SIDE_HEADER, KEY_HEADER = "x-release", "x-release-key"
UNKNOWN_SERVICE = "-"
"""Name of the route that answers 404; no service can be called so."""
OUTSIDE_API = "-/outside-api"
"""The same for a path of a known service that is no part of the model's API."""
STREAM_IDLE_SECONDS = 900
"""A stream on which nothing moves in either direction is given up. A long answer that is not streamed, or a
long prefill, moves nothing until it is done: so minutes, and no limit at all on the whole answer."""
RETRIES = 3
METRICS_PATH = "/metrics"


def forced(route: str) -> str:
    """Name under which requests with `x-release` are counted; a service's name holds no slash."""
    return f"{route}/forced"


def render_routes(state: GatewayState) -> RouteConfiguration:
    routes = [route for _, spec in sorted(state.routes.items()) for route in _routes_of(spec)]
    for _, ability in sorted(state.abilities.items()):
        routes += _routes_of_ability(ability, state.routes)
    unknown: EnvoyRoute = {
        "name": UNKNOWN_SERVICE,
        "match": {"prefix": "/"},
        "direct_response": {"status": 404},
    }
    return {
        "name": ROUTES,
        # Without it a route to a cluster that does not exist is taken, and answers 503.
        "validate_clusters": True,
        "virtual_hosts": [
            {
                "name": "services",
                "domains": ["*"],
                "routes": [*routes, unknown],
                "response_headers_to_remove": ["x-envoy-upstream-service-time"],
                "request_headers_to_remove": [SIDE_HEADER, KEY_HEADER],
                "include_request_attempt_count": True,
            }
        ],
    }


def route_messages(state: GatewayState) -> list[Typed]:
    return [typed("envoy.config.route.v3.RouteConfiguration", render_routes(state))]


def _routes_of(spec: RouteSpec) -> list[EnvoyRoute]:
    sides: list[tuple[Side, RouteTarget]] = [("stable", spec.stable)]
    if spec.candidate is not None:
        sides.insert(0, ("canary", spec.candidate))
    routes: list[EnvoyRoute] = []
    for side, target in sides if _may_force(spec) else []:
        match = _paths_of(spec)
        match["headers"] = [{"name": SIDE_HEADER, "string_match": {"exact": side}}]
        if spec.release_header == "secret":
            match["headers"].append({"name": KEY_HEADER, "string_match": {"exact": spec.release_key}})
        routes.append(
            {
                "name": forced(spec.name),
                "match": match,
                "route": {"cluster": target.name, **_action(spec)},
                "response_headers_to_add": _version_header(target),
                "request_headers_to_remove": [OVERFLOW_HEADER],
                "request_headers_to_add": [_header(CHOSEN_BY_HEADER, "client"), *_prefix_header(spec)],
            }
        )
    if spec.cohort is not None and spec.candidate is not None:
        routes.append(_cohort_route(spec, spec.cohort, spec.candidate))
    unforced: RouteAction = {"weighted_clusters": {"clusters": _weights(_shares(spec))}, **_action(spec)}
    if spec.candidate is not None and spec.mirror_percent:
        share: FractionalPercent = {"numerator": spec.mirror_percent, "denominator": "HUNDRED"}
        unforced["request_mirror_policies"] = [
            {"cluster": spec.candidate.name, "runtime_fraction": {"default_value": share}}
        ]
    by_weight: EnvoyRoute = {
        "name": spec.name,
        "match": _paths_of(spec),
        "route": unforced,
        # Only the gateway says so.
        "request_headers_to_remove": [CHOSEN_BY_HEADER, OVERFLOW_HEADER, KEEP_HEADER],
        "request_headers_to_add": [
            *([_header(KEEP_HEADER, spec.answers_key)] if spec.answers_key else []),
            *_prefix_header(spec),
        ],
    }
    return [*_private(spec), *routes, by_weight, _outside(spec)]


def _outside(spec: RouteSpec) -> EnvoyRoute:
    return {
        "name": OUTSIDE_API,
        "match": {"path_separated_prefix": f"/{spec.name}"},
        "direct_response": {"status": 404},
    }


def _routes_of_ability(ability: AbilitySpec, services: Mapping[str, RouteSpec]) -> list[EnvoyRoute]:
    spec = as_route(ability, services)
    action = _plain_action(spec)
    # A worker without a free slot refuses what it has not begun: slots are taken by several gateways, and
    # weights alone do not find those that are free (ADR 134).
    _retry_refused(action["retry_policy"])
    weights: list[ClusterWeight] = [
        {
            "name": target.name,
            "weight": weight,
            "response_headers_to_add": _version_header(target)
            if target.version
            else [_header("x-slipway-version", f"%UPSTREAM_METADATA({METADATA}:version)%")],
        }
        for target, weight in shares(ability, services).items()
    ]
    route: EnvoyRoute = {
        "name": ability_route(ability.name),
        "match": _paths_of(spec),
        "route": {"weighted_clusters": {"clusters": weights}, **action},
        "request_headers_to_remove": [CHOSEN_BY_HEADER],
        "request_headers_to_add": [_header(OVERFLOW_HEADER, str(RETRIES + 1)), *_prefix_header(spec)],
    }
    return [*_private(spec), route, _outside(spec)]


def _private(spec: RouteSpec) -> list[EnvoyRoute]:
    """Pages of the worker itself, where every other path is passed on."""
    paths = (HEALTH_PATH, METRICS_PATH) if spec.all_paths else ()
    return [
        {
            "name": OUTSIDE_API,
            "match": {"path_separated_prefix": f"/{spec.name}{path}"},
            "direct_response": {"status": 404},
        }
        for path in paths
    ]


def _cohort_route(spec: RouteSpec, cohort: Cohort, candidate: RouteTarget) -> EnvoyRoute:
    match = _paths_of(spec)
    action: RouteAction = {"cluster": candidate.name, **_action(spec)}
    route: EnvoyRoute = {
        "name": forced(spec.name),
        "match": match,
        "route": action,
        "request_headers_to_remove": [OVERFLOW_HEADER],
        "request_headers_to_add": [_header(CHOSEN_BY_HEADER, "client"), *_prefix_header(spec)],
    }
    if cohort.percent:
        match["headers"] = [{"name": cohort.header, "present_match": True}]
        shares = [(spec.stable, 100 - cohort.percent), (candidate, cohort.percent)]
        weights: WeightedClusters = {"clusters": _weights(shares), "use_hash_policy": True}
        route["route"] = {
            "weighted_clusters": weights,
            "hash_policy": [{"header": {"header_name": cohort.header}}],
            **_action(spec),
        }
        return route
    match["headers"] = [
        {"name": "cookie", "string_match": {"safe_regex": {"regex": cookie_pattern(cohort)}}}
        if cohort.cookie
        else {"name": cohort.header, "string_match": {"exact": cohort.value}}
    ]
    route["response_headers_to_add"] = _version_header(candidate)
    return route


def _may_force(spec: RouteSpec) -> bool:
    return spec.release_header == "open" or (spec.release_header == "secret" and bool(spec.release_key))


def _paths_of(spec: RouteSpec) -> RouteMatch:
    # Separated: /chat/v1 must take neither /chat/v10 nor, as a service, /chat-large.
    return (
        {"prefix": f"/{spec.name}/"}
        if spec.all_paths
        else {"path_separated_prefix": f"/{spec.name}{API_PREFIX}"}
    )


def _prefix_header(spec: RouteSpec) -> list[HeaderValueOption]:
    return [_header(PREFIX_HEADER, f"/{spec.name}")] if spec.all_paths else []


def _shares(spec: RouteSpec) -> list[tuple[RouteTarget, int]]:
    shares = [(spec.stable, 100 - spec.candidate_percent)]
    if spec.candidate is not None:
        shares.append((spec.candidate, spec.candidate_percent))
    return shares


def _weights(shares: Sequence[tuple[RouteTarget, int]]) -> list[ClusterWeight]:
    return [
        {"name": target.name, "weight": percent, "response_headers_to_add": _version_header(target)}
        for target, percent in shares
    ]


def _version_header(target: RouteTarget) -> list[HeaderValueOption]:
    # A percent sign begins a command in Envoy's header values.
    value = target.version.replace("%", "%%")
    return [_header("x-slipway-version", value)]


def _header(name: str, value: str) -> HeaderValueOption:
    return {"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def _retry_refused(policy: RetryPolicy) -> None:
    policy["retry_on"] += ",retriable-headers"
    policy["retriable_headers"] = [{"name": OVERFLOW_HEADER, "present_match": True}]


def _action(spec: RouteSpec) -> RouteAction:
    action = _plain_action(spec)
    if spec.all_paths:
        # Services of a team's own code may have groups: what an online worker refuses goes to an offline one.
        _retry_refused(action["retry_policy"])
        action["retry_policy"]["retry_priority"] = extension(
            "envoy.retry_priorities.previous_priorities",
            "envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig",
            {"update_frequency": 1},
        )
    return action


def _plain_action(spec: RouteSpec) -> RouteAction:
    return {
        "prefix_rewrite": "/" if spec.all_paths else API_PREFIX,
        "timeout": "0s",
        "idle_timeout": f"{STREAM_IDLE_SECONDS}s",
        "retry_policy": {
            # A worker that begins to work on a request says so (100 Continue: `serving.begun`), and Envoy
            # then retries no more. So only what no worker has begun goes to another one, also what waited in
            # the queue of one that died: a generation must not run twice.
            "retry_on": "connect-failure,refused-stream,reset",
            "num_retries": RETRIES,
            "retry_host_predicate": [
                extension(
                    "envoy.retry_host_predicates.previous_hosts",
                    "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
                )
            ],
            "host_selection_retry_max_attempts": 5,
            "retry_back_off": {"base_interval": "0.010s", "max_interval": "0.100s"},
        },
    }
