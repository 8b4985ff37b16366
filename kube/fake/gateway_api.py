"""GatewayClass, Gateway, HTTPRoute and ReferenceGrant: schemas after the standard channel of Gateway API 1.6.

Fields, defaults and limits are those that Slipway writes or reads. Of the rules in CEL the fake knows those
that a mistake of ours would meet; the others pass.
"""

import json
from typing import Any

from kube.fake.causes import StatusCause
from kube.fake.kinds import ObjectKind
from kube.fake.schema import of_definition

Schema = dict[str, Any]
Object = dict[str, Any]
GROUP = "gateway.networking.k8s.io"
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 253}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
HOSTNAME: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 253,
    "pattern": r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
DOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
DURATION: Schema = {"type": "string", "pattern": r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"}
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]
PENDING = {
    "lastTransitionTime": "1970-01-01T00:00:00Z",
    "message": "Waiting for controller",
    "reason": "Pending",
}
FROM = ["All", "Selector", "Same", "None"]
PORTLESS = "Must have port for Service reference"
RELATIVE = "value must be an absolute path and start with '/' when type one of ['Exact', 'PathPrefix']"


def struct(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def with_default(schema: Schema, default: Any) -> Schema:
    return schema | {"default": default}


def many(item: Schema, *, by: str = "", most: int | None = None, least: int | None = None) -> Schema:
    """A list; with a key, one that is merged by it."""
    schema: Schema = {"type": "array", "items": item, "x-kubernetes-list-type": "atomic"}
    if by:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [by]}
    return schema | ({"maxItems": most} if most else {}) | ({"minItems": least} if least else {})


CONDITION = struct(
    ("lastTransitionTime", "message", "reason", "status", "type"),
    lastTransitionTime=TEXT,
    message=TEXT,
    observedGeneration=NUMBER,
    reason={"type": "string", "minLength": 1},
    status={"type": "string", "enum": ["True", "False", "Unknown"]},
    type=TEXT,
)
CONDITIONS = many(CONDITION, by="type", most=8)
PARENT = struct(
    ("name",),
    group=with_default(TEXT, GROUP),
    kind=with_default(TEXT, "Gateway"),
    name=NAME,
    namespace=TEXT,
    port=PORT,
    sectionName=TEXT,
)
PATH = {"type": "PathPrefix", "value": "/"}
HEADER = struct(
    ("name", "value"),
    name=NAME,
    type=with_default({"type": "string", "enum": ["Exact", "RegularExpression"]}, "Exact"),
    value={"type": "string", "minLength": 1, "maxLength": 4096},
)
MATCH = struct(
    (),
    headers=many(HEADER, by="name", most=16),
    queryParams=many(HEADER, by="name", most=16),
    method={"type": "string", "enum": METHODS},
    path=with_default(
        struct(
            (),
            type=with_default(
                {"type": "string", "enum": ["Exact", "PathPrefix", "RegularExpression"]}, "PathPrefix"
            ),
            value=with_default({"type": "string", "maxLength": 1024}, "/"),
        ),
        PATH,
    ),
)
TARGET = struct(
    ("name",),
    group=with_default({"type": "string", "maxLength": 253}, ""),
    kind=with_default(TEXT, "Service"),
    name=NAME,
    namespace=TEXT,
    port=PORT,
)
MIRROR = struct(
    ("backendRef",),
    backendRef=TARGET,
    fraction=struct(("numerator",), denominator=with_default(NUMBER, 100), numerator=NUMBER),
    percent={"type": "integer", "minimum": 0, "maximum": 100},
)
FILTER = struct(
    ("type",),
    type=TEXT,
    cors=struct((), maxAge=with_default(NUMBER, 5)) | {"x-kubernetes-preserve-unknown-fields": True},
    extensionRef=ANYTHING,
    requestHeaderModifier=ANYTHING,
    requestMirror=MIRROR,
    requestRedirect=ANYTHING,
    responseHeaderModifier=ANYTHING,
    urlRewrite=ANYTHING,
)
BACKEND = struct(
    ("name",),
    filters=many(FILTER, most=16),
    group=with_default({"type": "string", "maxLength": 253}, ""),
    kind=with_default(TEXT, "Service"),
    name=NAME,
    namespace=TEXT,
    port=PORT,
    weight=with_default({"type": "integer", "minimum": 0, "maximum": 1_000_000}, 1),
)


def _route(*, rules_have_names: bool = True) -> Schema:
    rule = struct(
        (),
        **({"name": TEXT} if rules_have_names else {}),
        backendRefs=many(BACKEND, most=16),
        filters=many(FILTER, most=16),
        matches=with_default(many(MATCH, most=64), [{"path": PATH}]),
        timeouts=struct((), request=DURATION, backendRequest=DURATION),
    )
    return struct(
        ("spec",),
        spec=struct(
            (),
            hostnames=many(HOSTNAME, most=16),
            parentRefs=many(PARENT, most=32),
            rules=with_default(many(rule, most=16, least=1), [{"matches": [{"path": PATH}]}]),
        ),
        status=struct(
            ("parents",),
            parents=many(
                struct(
                    ("conditions", "controllerName", "parentRef"),
                    conditions=many(CONDITION, by="type", most=8, least=1),
                    controllerName=TEXT,
                    parentRef=PARENT,
                ),
                most=32,
            ),
        ),
    )


LISTENER = struct(
    ("name", "port", "protocol"),
    name=NAME,
    port=PORT,
    protocol=TEXT,
    hostname=HOSTNAME,
    tls=struct(
        (),
        mode=with_default({"type": "string", "enum": ["Terminate", "Passthrough"]}, "Terminate"),
        certificateRefs=many(
            struct(
                ("name",),
                group=with_default(TEXT, ""),
                kind=with_default(TEXT, "Secret"),
                name=NAME,
                namespace=TEXT,
            ),
            most=64,
        ),
        options=ANYTHING,
    ),
    allowedRoutes=with_default(
        struct(
            (),
            kinds=many(ANYTHING),
            namespaces=with_default(
                struct(
                    (),
                    **{"from": with_default({"type": "string", "enum": FROM}, "Same")},
                    selector=ANYTHING,
                ),
                {"from": "Same"},
            ),
        ),
        {"namespaces": {"from": "Same"}},
    ),
)
GATEWAY = struct(
    ("spec",),
    spec=struct(
        ("gatewayClassName", "listeners"),
        gatewayClassName=NAME,
        listeners=many(LISTENER, by="name", most=64, least=1),
        addresses=many(ANYTHING),
        infrastructure=ANYTHING,
    ),
    status=with_default(
        struct(
            (),
            addresses=many(ANYTHING),
            attachedListenerSets=NUMBER,
            conditions=with_default(
                CONDITIONS,
                [PENDING | {"status": "Unknown", "type": one} for one in ("Accepted", "Programmed")],
            ),
            listeners=many(
                struct(
                    ("attachedRoutes", "conditions", "name"),
                    attachedRoutes=NUMBER,
                    conditions=CONDITIONS,
                    name=NAME,
                    supportedKinds=many(ANYTHING),
                ),
                by="name",
            ),
        ),
        {"conditions": [PENDING | {"status": "Unknown", "type": one} for one in ("Accepted", "Programmed")]},
    ),
)
CLASS = struct(
    ("spec",),
    spec=struct(
        ("controllerName",),
        controllerName={
            "type": "string",
            "minLength": 1,
            "maxLength": 253,
            "pattern": DOMAIN + r"\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
        },
        description=TEXT,
        parametersRef=ANYTHING,
    ),
    status=with_default(
        struct(
            (),
            conditions=with_default(CONDITIONS, [PENDING | {"status": "Unknown", "type": "Accepted"}]),
            supportedFeatures=many(struct(("name",), name=TEXT), by="name", most=128),
        ),
        {"conditions": [PENDING | {"status": "Unknown", "type": "Accepted"}]},
    ),
)
GRANT = struct((), spec=struct(("from", "to"), to=many(ANYTHING), **{"from": many(ANYTHING)}))


def _route_rules(item: Object, _: Object | None) -> list[StatusCause]:
    faults = []
    for index, rule in enumerate(item["spec"].get("rules") or ()):
        place = f"spec.rules[{index}]"
        for number, backend in enumerate(rule.get("backendRefs") or ()):
            is_service = backend.get("group", "") == "" and backend.get("kind") == "Service"
            if is_service and "port" not in backend:
                faults.append(_broken(f"{place}.backendRefs[{number}]", PORTLESS))
        for number, match in enumerate(rule.get("matches") or ()):
            path = match.get("path") or PATH
            if path["type"] in ("Exact", "PathPrefix") and not path["value"].startswith("/"):
                faults.append(_broken(f"{place}.matches[{number}].path", RELATIVE))
    return faults


def _class_rules(item: Object, old: Object | None) -> list[StatusCause]:
    if old is None or item["spec"].get("controllerName") == old["spec"].get("controllerName"):
        return []
    return [_broken("spec.controllerName", "Value is immutable")]


def _broken(place: str, why: str) -> StatusCause:
    """Return the cause of a broken CEL rule, which has a message alone."""
    return StatusCause("FieldValueInvalid", f"Invalid value: {why}", place)


def _kind(name: str, plural: str, schema: Schema, **more: Any) -> ObjectKind:
    whole = json.loads(json.dumps(schema))
    return ObjectKind(
        GROUP,
        "v1",
        name,
        plural,
        shape=of_definition(whole),
        subresources=frozenset({"status"} if "status" in schema["properties"] else ()),
        has_generation=True,
        is_custom=True,
        openapi=whole,
        also_served=frozenset({"v1beta1"}),
        **more,
    )


def gateway_api(*, rules_have_names: bool = True) -> tuple[ObjectKind, ...]:
    """`rules_have_names`: a Gateway API before 1.4 prunes them."""
    route = _route(rules_have_names=rules_have_names)
    return (
        _kind("GatewayClass", "gatewayclasses", CLASS, is_namespaced=False, rules=_class_rules),
        _kind("Gateway", "gateways", GATEWAY),
        _kind("HTTPRoute", "httproutes", route, rules=_route_rules),
        _kind("ReferenceGrant", "referencegrants", GRANT),
    )
