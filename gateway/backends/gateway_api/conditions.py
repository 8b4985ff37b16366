"""The acceptance of a route by a Gateway and its controller. Pure.

Only what was said of this generation counts: a condition that was true of the route before says nothing of
the weights that were just written. A route has no condition `Programmed`; its Gateway and listener have.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.backends.gateway_api.documents import Document, is_parent
from gateway.backends.gateway_api.settings import GatewayApiSettings

_PASSING = frozenset({"Pending", "BackendNotFound", "NoMatchingParent"})
"""Reasons that end by themselves: what is missing may be on its way."""
_ADVICE: Mapping[str, str] = {
    "NotAllowedByListeners": "Its listener must allow routes of this namespace (allowedRoutes).",
    "NoMatchingListenerHostname": "None of the hostnames is one of the listener: fix the setting hostnames.",
    "NoMatchingParent": "There is no such Gateway or listener: fix the settings gateway and section.",
    "RefNotPermitted": "The namespace of the workers must allow it by a ReferenceGrant.",
    "BackendNotFound": "The Service of a version, or of a rule of others in this HTTPRoute, is missing.",
}


@dataclass(frozen=True, slots=True)
class RouteAcceptance:
    """`taken`: the gateway has it. `waiting`: not yet. `refused`: it will not, as it is."""

    what: Literal["taken", "waiting", "refused"]
    why: str = ""


TAKEN = RouteAcceptance("taken")


def said_of_route(
    route: Document, gateway: Document, settings: GatewayApiSettings, *, controller: str
) -> RouteAcceptance:
    """Return the acceptance by all parentRefs that name our Gateway. `controller`: the one that counts;
    empty: any.
    """
    namespace, generation = route["metadata"]["namespace"], route["metadata"].get("generation", 0)
    told = [
        entry
        for entry in (route.get("status") or {}).get("parents") or ()
        if is_parent(entry["parentRef"], namespace, settings)
        and controller in ("", entry.get("controllerName"))
    ]
    parents = [
        one
        for one in (route.get("spec") or {}).get("parentRefs") or ()
        if is_parent(one, namespace, settings)
    ]
    if len(told) < len(parents) or not parents:
        return RouteAcceptance(
            "waiting", f"No controller has looked at it for the Gateway {settings.gateway}."
        )
    for entry in told:
        said = _said(entry.get("conditions") or (), generation)
        if said != TAKEN:
            return said
    return said_of_gateway(gateway, settings)


def said_of_gateway(gateway: Document, settings: GatewayApiSettings) -> RouteAcceptance:
    """Whether it is programmed, and our listener, if we name one."""
    generation = gateway["metadata"].get("generation", 0)
    status = gateway.get("status") or {}
    own = [status.get("conditions") or ()]
    own += [
        one.get("conditions") or ()
        for one in status.get("listeners") or ()
        if settings.section and one["name"] == settings.section
    ]
    if settings.section and len(own) == 1:
        listeners = [one["name"] for one in (gateway.get("spec") or {}).get("listeners") or ()]
        if settings.section not in listeners:
            known = ", ".join(listeners)
            return RouteAcceptance("refused", f"The Gateway has no listener {settings.section}, but {known}.")
        return RouteAcceptance(
            "waiting", f"Its controller has not looked at the listener {settings.section}."
        )
    for conditions in own:
        found = _by_type(conditions).get("Programmed")
        if found is None or found.get("observedGeneration", 0) < generation or found["status"] == "Unknown":
            return RouteAcceptance("waiting", f"The Gateway {settings.gateway} is not programmed yet.")
        if found["status"] != "True":
            return RouteAcceptance(
                "waiting", f"The Gateway {settings.gateway} is not programmed: {_words(found)}"
            )
    return TAKEN


def _said(conditions: Iterable[Document], generation: int) -> RouteAcceptance:
    found = _by_type(conditions)
    for name in ("Accepted", "ResolvedRefs"):
        one = found.get(name)
        if one is None or one.get("observedGeneration", 0) < generation:
            return RouteAcceptance("waiting", f"Its controller has not said {name} of the latest change.")
        if one["status"] == "True":
            continue
        passes = one["status"] == "Unknown" or one.get("reason") in _PASSING
        return RouteAcceptance(
            "waiting" if passes else "refused", f"{name} is {one['status']}: {_words(one)}"
        )
    invalid = found.get("PartiallyInvalid")
    if invalid and invalid["status"] == "True" and invalid.get("observedGeneration", 0) >= generation:
        return RouteAcceptance("refused", f"A part of it is not taken: {_words(invalid)}")
    return TAKEN


def _by_type(conditions: Iterable[Document]) -> dict[str, Document]:
    return {one["type"]: one for one in conditions}


def _words(condition: Document) -> str:
    reason, message = condition.get("reason", ""), condition.get("message", "").strip()
    said = f"{reason}: {message}" if message else reason
    advice = _ADVICE.get(reason, "")
    return f"{said.rstrip('.')}. {advice}".strip()
