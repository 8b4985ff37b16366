"""Features of a GatewayClass, and what follows for routes. Pure."""

from collections.abc import Mapping
from typing import Any

from gateway.errors import InvalidRoute

REWRITE = "HTTPRoutePathRewrite"
TIMEOUT = "HTTPRouteRequestTimeout"
HTTP_ROUTE = "HTTPRoute"
MIRROR = "HTTPRouteRequestMirror"
MIRROR_PERCENT = "HTTPRouteRequestPercentageMirror"
HEADER_PATTERN = "HeaderRegularExpression"
"""Ours: Gateway API has no name for header matches by regular expression, which are left to each class."""
NEEDED = (HTTP_ROUTE, REWRITE)
"""Weights, headers of a match and changes of request headers are the core that `HTTPRoute` stands for."""


def features_of(gateway_class: Mapping[str, Any]) -> frozenset[str]:
    """Names, or objects with a name, by the version of the API."""
    said = (gateway_class.get("status") or {}).get("supportedFeatures") or ()
    return frozenset(one["name"] if isinstance(one, Mapping) else str(one) for one in said)


def lacking(class_name: str, features: frozenset[str] | None) -> str:
    """Why no route of ours can be had from a class with these; empty: one can. None: it could not be read."""
    if features is None:
        return (
            f"What the gateway class {class_name} supports may not be read: allow Slipway to get "
            "gatewayclasses, or name its features in the setting assume_features."
        )
    missing = [one for one in NEEDED if one not in features]
    if not missing:
        return ""
    if not features:
        return (
            f"The gateway class {class_name} does not say what it supports. If its manual says that it has "
            f"{' and '.join(NEEDED)}, name them in the setting assume_features."
        )
    return (
        f"The gateway class {class_name} does not support {' and '.join(missing)}, which routes of Slipway "
        "need. Choose a Gateway of another class."
    )


def refuse_lacking(class_name: str, features: frozenset[str] | None) -> None:
    """Raises InvalidRoute."""
    if why := lacking(class_name, features):
        raise InvalidRoute(why)


def cannot(class_name: str, features: frozenset[str] | None) -> dict[str, str]:
    """Return what it cannot, as `TrafficBackend.cannot`; features that may not be read count as absent."""
    needs = {"mirror": (MIRROR,), "mirror_percent": (MIRROR, MIRROR_PERCENT)}
    found = {}
    for name, wanted in needs.items():
        missing = [one for one in wanted if one not in (features or frozenset())]
        if missing:
            found[name] = (
                f"The gateway class {class_name} does not say that it supports {' and '.join(missing)}. If "
                "its manual does, name them in the setting assume_features."
            )
    if HEADER_PATTERN not in (features or frozenset()):
        found["cohort_cookie"] = (
            f"Whether the gateway class {class_name} matches headers by regular expressions, which a cookie "
            f"needs, nobody says. If its manual does, name {HEADER_PATTERN} in the setting assume_features."
        )
    found["cohort_percent"] = (
        "HTTPRoutes cannot choose a share of a header's values; name one value, which clients send."
    )
    return found
