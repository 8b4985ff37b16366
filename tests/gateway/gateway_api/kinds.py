"""The kinds of the Gateway API as the fake API server knows them.

Of their definitions (1.6, standard channel) the parts that Slipway meets, with the defaults and limits that a
real API server was recorded to fill in.
"""

from kube.fake.kinds import STATUS, Kind
from kube.fake.schema import from_openapi

GROUP = "gateway.networking.k8s.io"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def _object(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


def _atomic(items: object, **limits: object) -> dict[str, object]:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic", **limits}


def _text(default: str) -> dict[str, object]:
    return {"type": "string", "default": default}


_CONDITIONS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": _object(
        type=TEXT,
        status=TEXT,
        reason=TEXT,
        message=TEXT,
        observedGeneration=NUMBER,
        lastTransitionTime=TEXT,
    ),
}
_PARENT = _object(
    group=_text(GROUP), kind=_text("Gateway"), name=TEXT, namespace=TEXT, sectionName=TEXT, port=NUMBER
)
_HEADERS = _atomic(_object(name=TEXT, value=TEXT))
_BACKEND = {"group": _text(""), "kind": _text("Service"), "name": TEXT, "namespace": TEXT, "port": NUMBER}
_MODIFIER = _object(set=_HEADERS, add=_HEADERS, remove=_atomic(TEXT))
_FILTER = _object(
    type={
        "type": "string",
        "enum": ["RequestHeaderModifier", "RequestMirror", "URLRewrite", "ResponseHeaderModifier"],
    },
    requestHeaderModifier=_MODIFIER,
    responseHeaderModifier=_MODIFIER,
    requestMirror=_object(backendRef=_object(**_BACKEND), percent=NUMBER),
    urlRewrite=_object(hostname=TEXT, path=_object(type=TEXT, replacePrefixMatch=TEXT)),
)
_WEIGHT = {"type": "integer", "default": 1, "minimum": 0, "maximum": 1_000_000}
_PATH = {
    **_object(type=_text("PathPrefix"), value=_text("/")),
    "default": {"type": "PathPrefix", "value": "/"},
}
_MATCH = _object(
    path=_PATH, headers=_atomic(_object(type=_text("Exact"), name=TEXT, value=TEXT)), method=TEXT
)


def _rule(*, keeps_names: bool) -> dict[str, object]:
    name = {"name": TEXT} if keeps_names else {}
    return _object(
        **name,
        matches=_atomic(_MATCH, maxItems=64, default=[{"path": {"type": "PathPrefix", "value": "/"}}]),
        filters=_atomic(_FILTER, maxItems=16),
        backendRefs=_atomic(_object(**_BACKEND, weight=_WEIGHT, filters=_atomic(_FILTER)), maxItems=16),
        timeouts=_object(request=TEXT, backendRequest=TEXT),
    )


def kinds(*, keeps_names: bool = True) -> tuple[Kind, ...]:
    """`keeps_names`: of rules; a Gateway API before 1.4 prunes them."""
    route = _object(
        spec=_object(
            parentRefs=_atomic(_PARENT, maxItems=32),
            hostnames=_atomic(TEXT, maxItems=16),
            rules=_atomic(
                _rule(keeps_names=keeps_names),
                minItems=1,
                maxItems=16,
                default=[{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}]}],
            ),
        ),
        status=_object(
            parents=_atomic(_object(parentRef=_PARENT, controllerName=TEXT, conditions=_CONDITIONS))
        ),
    )
    gateway = _object(
        spec=_object(
            gatewayClassName=TEXT, listeners=_atomic(_object(name=TEXT, port=NUMBER, protocol=TEXT))
        ),
        status=_object(conditions=_CONDITIONS, listeners=_atomic(_object(name=TEXT, conditions=_CONDITIONS))),
    )
    gateway_class = _object(
        spec=_object(controllerName=TEXT),
        status=_object(conditions=_CONDITIONS, supportedFeatures=_atomic(_object(name=TEXT))),
    )
    return (
        _kind("HTTPRoute", "httproutes", route),
        _kind("Gateway", "gateways", gateway),
        _kind("GatewayClass", "gatewayclasses", gateway_class, is_namespaced=False),
    )


def _kind(kind: str, plural: str, openapi: dict[str, object], *, is_namespaced: bool = True) -> Kind:
    return Kind(
        GROUP,
        "v1",
        kind,
        plural,
        is_namespaced=is_namespaced,
        shape=from_openapi(openapi),
        subresources=STATUS,
        has_generation=True,
        is_custom=True,
        openapi=openapi,
    )
