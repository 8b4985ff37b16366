"""HTTPRoutes as Envoy takes them, in files that it watches. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Object = dict[str, Any]
TYPES = "type.googleapis.com/"
ROUTES = "routes"
ORDINARY_TIMEOUT = "15s"
"""Of a whole answer, where a rule names none: as many gateways have it."""
IDLE_SECONDS = 4
"""An idle connection to a pod is closed before the pod closes it (uvicorn: after 5 s)."""


class Backend(NamedTuple):
    """A port of a Service."""

    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}/{self.port}"


Places = Mapping[Backend, tuple[tuple[str, int], ...]]
"""Address and port of the pods behind each, that are ready and do not end."""


def bootstrap(directory: Path, *, bind: str, port: int, admin_port: int) -> Object:
    manager = {
        "@type": f"{TYPES}envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "rds": {"route_config_name": ROUTES, "config_source": _watched(directory / "rds" / "routes.json")},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{TYPES}envoy.extensions.filters.http.router.v3.Router"},
            }
        ],
    }
    return {
        "node": {"id": "fake-gateway", "cluster": "fake"},
        "admin": {"address": _address("127.0.0.1", admin_port)},
        "dynamic_resources": {"cds_config": _watched(directory / "cds" / "clusters.json")},
        "static_resources": {
            "listeners": [
                {
                    "name": "web",
                    "address": _address(bind, port),
                    "enable_reuse_port": False,
                    "filter_chains": [
                        {"filters": [{"name": "http", "typed_config": manager}]},
                    ],
                }
            ]
        },
    }


def answer(resources: Iterable[Object]) -> Object:
    """Return the resources as an Envoy file whose version is the digest of its content."""
    listed = list(resources)
    digest = hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()[:16]
    return {"version_info": digest, "resources": listed}


def clusters(backends: Iterable[Backend], directory: Path) -> list[Object]:
    protocol = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return [
        {
            "@type": f"{TYPES}envoy.config.cluster.v3.Cluster",
            "name": str(backend),
            "type": "EDS",
            "connect_timeout": "2s",
            "eds_cluster_config": {"eds_config": _watched(endpoints_file(directory, backend))},
            "typed_extension_protocol_options": {
                protocol: {
                    "@type": f"{TYPES}{protocol}",
                    "common_http_protocol_options": {"idle_timeout": f"{IDLE_SECONDS}s"},
                    "explicit_http_config": {"http_protocol_options": {}},
                }
            },
        }
        for backend in sorted(backends)
    ]


def endpoints(backend: Backend, pods: Iterable[tuple[str, int]]) -> Object:
    return {
        "@type": f"{TYPES}envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": str(backend),
        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(*pod)}} for pod in sorted(pods)]}],
    }


def endpoints_file(directory: Path, backend: Backend) -> Path:
    """Return the file in a directory of its own, so that its change wakes nobody else."""
    return directory / "eds" / str(backend).replace("/", "_") / "endpoints.json"


def backends_of(routes: Iterable[Object]) -> set[Backend]:
    found = set()
    for route in routes:
        for rule in route["spec"].get("rules") or ():
            refs = [*(rule.get("backendRefs") or ()), *(_mirror(one) for one in _mirrors(rule))]
            found |= {_backend(ref, route) for ref in refs}
    return found


def routes(attached: Iterable[Object]) -> Object:
    """Return the routes of all HTTPRoutes: the longest path first, then more headers, then the oldest."""
    by_host: dict[str, list[tuple[tuple[int, int], Object]]] = {}
    for route in attached:
        for host in route["spec"].get("hostnames") or ("*",):
            for rule in route["spec"].get("rules") or ():
                for match in rule.get("matches") or ({"path": {"type": "PathPrefix", "value": "/"}},):
                    rank = (-len(match["path"]["value"]), -len(match.get("headers") or ()))
                    by_host.setdefault(host, []).append((rank, _route(match, rule, route)))
    return {
        "@type": f"{TYPES}envoy.config.route.v3.RouteConfiguration",
        "name": ROUTES,
        "virtual_hosts": [
            {
                "name": host,
                "domains": ["*"] if host == "*" else [host, f"{host}:*"],
                "routes": [one for _, one in sorted(ranked, key=lambda pair: pair[0])],
            }
            for host, ranked in sorted(by_host.items())
        ],
    }


def _route(match: Object, rule: Object, route: Object) -> Object:
    made: Object = {"name": rule.get("name", ""), "match": _match(match)}
    weights = [
        {"name": str(_backend(ref, route)), "weight": ref.get("weight", 1)}
        for ref in rule.get("backendRefs") or ()
        if ref.get("weight", 1)
    ]
    if not weights:
        return made | {"direct_response": {"status": 500}}
    action: Object = {
        "weighted_clusters": {"clusters": weights},
        "timeout": (rule.get("timeouts") or {}).get("request", ORDINARY_TIMEOUT),
        "retry_policy": {"retry_on": "connect-failure,refused-stream", "num_retries": 2},
    }
    for one in rule.get("filters") or ():
        if one["type"] == "URLRewrite":
            action |= _rewrite(one["urlRewrite"])
        elif one["type"] == "RequestHeaderModifier":
            made |= _header_changes("request", one["requestHeaderModifier"])
        elif one["type"] == "ResponseHeaderModifier":
            made |= _header_changes("response", one["responseHeaderModifier"])
    if mirrors := _mirrors(rule):
        action["request_mirror_policies"] = [
            {
                "cluster": str(_backend(_mirror(one), route)),
                "runtime_fraction": {"default_value": _share(one)},
            }
            for one in mirrors
        ]
    return made | {"route": action}


def _match(match: Object) -> Object:
    kind, value = match["path"].get("type", "PathPrefix"), match["path"]["value"]
    made: Object
    if kind == "Exact":
        made = {"path": value}
    elif kind == "RegularExpression":
        made = {"safe_regex": {"regex": value}}
    elif value.rstrip("/"):
        made = {"path_separated_prefix": value.rstrip("/")}
    else:
        made = {"prefix": "/"}
    headers = [
        {"name": one["name"], "string_match": {"exact": one["value"]}} for one in match.get("headers") or ()
    ]
    return made | ({"headers": headers} if headers else {})


def _rewrite(wish: Object) -> Object:
    path = wish.get("path") or {}
    made: Object = {}
    if "replacePrefixMatch" in path:
        made["prefix_rewrite"] = path["replacePrefixMatch"]
    elif "replaceFullPath" in path:
        made["regex_rewrite"] = {"pattern": {"regex": "^.*$"}, "substitution": path["replaceFullPath"]}
    return made | ({"host_rewrite_literal": wish["hostname"]} if "hostname" in wish else {})


def _header_changes(of: str, wish: Object) -> Object:
    added = [
        {"header": {"key": one["name"], "value": one["value"]}, "append_action": action}
        for verb, action in (("set", "OVERWRITE_IF_EXISTS_OR_ADD"), ("add", "APPEND_IF_EXISTS_OR_ADD"))
        for one in wish.get(verb) or ()
    ]
    made: Object = {f"{of}_headers_to_add": added} if added else {}
    return made | ({f"{of}_headers_to_remove": list(wish["remove"])} if wish.get("remove") else {})


def _mirrors(rule: Object) -> list[Object]:
    return [one for one in rule.get("filters") or () if one["type"] == "RequestMirror"]


def _mirror(one: Object) -> Object:
    ref: Object = one["requestMirror"]["backendRef"]
    return ref


def _share(one: Object) -> Object:
    wish = one["requestMirror"]
    if fraction := wish.get("fraction"):
        millionths = fraction["numerator"] * 1_000_000 // fraction.get("denominator", 100)
        return {"numerator": millionths, "denominator": "MILLION"}
    return {"numerator": wish.get("percent", 100), "denominator": "HUNDRED"}


def _backend(ref: Object, route: Object) -> Backend:
    return Backend(ref.get("namespace", route["metadata"]["namespace"]), ref["name"], ref["port"])


def _address(host: str, port: int) -> Object:
    return {"socket_address": {"address": host, "port_value": port}}


def _watched(file: Path) -> Object:
    return {
        "path_config_source": {"path": str(file), "watched_directory": {"path": str(file.parent)}},
        "resource_api_version": "V3",
    }
